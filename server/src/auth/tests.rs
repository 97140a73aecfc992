use linger::Linger;

use super::*;

const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
const ADD: Needs = Needs::One(&[Scope::Add], Of::Named);

fn with(key: &str) -> HeaderMap {
    [(AUTHORIZATION, format!("Bearer {key}").parse().unwrap())].into_iter().collect()
}

fn auth(change: impl FnOnce(&mut Config)) -> (Auth, Config) {
    let mut config = Config::defaults();
    change(&mut config);
    (Auth::new(&config), config)
}

fn new(scopes: &[Scope], topics: &[&str]) -> New {
    let topics: Vec<String> = topics.iter().map(|text| (*text).to_owned()).collect();
    New {
        name: "k".into(),
        scopes: scopes.iter().copied().collect(),
        topics: Topics::new(&topics).unwrap(),
        expires: None,
        rate: None,
    }
}

#[track_caller]
fn code(result: Result<Caller>) -> Code {
    result.map(|_| "let in").unwrap_err().code()
}

#[tokio::test]
async fn keys_are_asked_for_as_soon_as_there_is_one() {
    let (linger, (auth, config)) = (Linger::memory(), auth(|_| {}));
    let (store, none) = (&**linger.store(), HeaderMap::new());
    let admit = |headers: &HeaderMap| auth.admit(ADD, headers, HERE, &config.limits);
    assert_eq!(code(admit(&none)), Code::Unavailable, "it is not known yet whether there are any");
    auth.load(store).await.unwrap();
    assert!(admit(&none).unwrap().key().is_none());
    assert!(admit(&with("anything")).is_ok(), "without keys nobody looks");
    let refused = auth.add(store, new(&[Scope::Add], &["*"])).await.err().unwrap();
    assert_eq!(refused.at_field(), Some("scopes"), "nobody could make another");
    let (admin, text) = auth.add(store, new(&[Scope::Admin], &["*"])).await.unwrap();
    assert_eq!(code(admit(&none)), Code::Unauthorized);
    assert_eq!(code(admit(&with("anything"))), Code::Unauthorized);
    assert_eq!(admit(&with(&text)).unwrap().key().unwrap().id, admin.id);
    let (key, text) = auth.add(store, new(&[Scope::Add], &["a.*"])).await.unwrap();
    let caller = admit(&with(&text)).unwrap();
    assert!(caller.check_topic(&"a.b".parse().unwrap()).is_ok());
    assert_eq!(caller.check_topic(&"b".parse().unwrap()).unwrap_err().code(), Code::Forbidden);
    for needs in [
        Needs::One(&[Scope::Consume], Of::Named),
        Needs::One(&[Scope::Add], Of::All),
        table::UNKNOWN,
    ] {
        let refused = auth.admit(needs, &with(&text), HERE, &config.limits);
        assert_eq!(code(refused), Code::Forbidden, "{needs:?}");
    }
    assert!(auth.admit(Needs::AnyKey, &with(&text), HERE, &config.limits).is_ok());
    assert!(auth.admit(Needs::Nothing, &none, HERE, &config.limits).is_ok());

    // The last that may administer stays while there are others.
    let id = |key: &Key| key.id.unwrap().to_string();
    let refused = auth.revoke(store, &id(&admin)).await.err().unwrap();
    assert_eq!(refused.code(), Code::WrongState);
    auth.revoke(store, &id(&key)).await.unwrap();
    assert_eq!(code(admit(&with(&text))), Code::Unauthorized);
    caller.ended().await;
    auth.revoke(store, &id(&admin)).await.unwrap();
    assert!(admit(&none).is_ok(), "there is no key left");
}

#[tokio::test]
async fn where_others_reach_it_nobody_is_let_in_without_a_key() {
    let linger = Linger::memory();
    let (auth, config) = auth(|config| config.listen = "0.0.0.0:1".parse().unwrap());
    auth.load(&**linger.store()).await.unwrap();
    assert!(auth.asks() && !auth.has_keys());
    let refused = auth.admit(ADD, &HeaderMap::new(), HERE, &config.limits);
    assert_eq!(code(refused), Code::Unauthorized);
}

#[tokio::test]
async fn servers_that_share_a_store_hear_of_each_others_keys() {
    let linger = Linger::memory();
    let (store, (one, config), (other, _)) = (&**linger.store(), auth(|_| {}), auth(|_| {}));
    one.load(store).await.unwrap();
    other.load(store).await.unwrap();
    let (key, text) = one.add(store, new(&[Scope::Admin], &["*"])).await.unwrap();
    other.load(store).await.unwrap();
    let caller = other.admit(ADD, &with(&text), HERE, &config.limits).unwrap();
    assert_eq!(other.list().len(), 1);
    // What has not changed is the same as before, with what is counted of it.
    let live = || other.kept.load_full().unwrap()[&key.id.unwrap()].0.clone();
    let before = live();
    other.load(store).await.unwrap();
    assert!(Arc::ptr_eq(&before, &live()));
    one.revoke(store, &key.id.unwrap().to_string()).await.unwrap();
    other.load(store).await.unwrap();
    assert_eq!(caller.ended().await.code(), Code::Unauthorized);
    assert!(!other.has_keys());
}

#[tokio::test]
async fn a_key_ends_when_its_time_is_over_and_keys_are_still_asked_for() {
    let (linger, (auth, config)) = (Linger::memory(), auth(|_| {}));
    let store = &**linger.store();
    auth.load(store).await.unwrap();
    let over = Some(auth.clock.now().time());
    let expired = New { expires: over, ..new(&[Scope::Admin], &["*"]) };
    let (_, text) = auth.add(store, expired).await.unwrap();
    let admit = |headers: &HeaderMap| auth.admit(ADD, headers, HERE, &config.limits);
    assert_eq!(code(admit(&with(&text))), Code::Unauthorized);
    assert_eq!(code(admit(&HeaderMap::new())), Code::Unauthorized);
}

#[tokio::test]
async fn who_fails_too_often_is_told_so_and_cannot_guess_the_bootstrap_key() {
    let linger = Linger::memory();
    let (auth, config) = auth(|config| {
        config.bootstrap_key = Some("0123456789abcdef".parse().unwrap());
        config.limits.failed_keys = 3;
    });
    let store = &**linger.store();
    auth.load(store).await.unwrap();
    let admit = |key: &str, address| auth.admit(ADD, &with(key), address, &config.limits);
    let (_, made) = auth.add(store, new(&[Scope::Add], &["*"])).await.unwrap();
    assert!(admit("0123456789abcdef", HERE).is_ok());
    for _ in 0..3 {
        assert_eq!(code(admit("0123456789abcdeg", HERE)), Code::Unauthorized);
    }
    assert_eq!(code(admit("x", HERE)), Code::RateLimited);
    assert_eq!(code(admit("0123456789abcdef", HERE)), Code::RateLimited);
    assert!(admit(&made, HERE).is_ok(), "one that nobody can guess goes on");
    let there = "10.0.0.1".parse().unwrap();
    assert!(admit("0123456789abcdef", there).is_ok(), "others go on");
}

#[tokio::test]
async fn a_key_has_its_own_rate_or_that_of_all() {
    let (linger, (auth, mut config)) = (Linger::memory(), auth(|_| {}));
    let store = &**linger.store();
    auth.load(store).await.unwrap();
    let slow = "1/h".parse().unwrap();
    let own = New { rate: Some(slow), ..new(&[Scope::Admin], &["*"]) };
    let (_, own) = auth.add(store, own).await.unwrap();
    let (_, other) = auth.add(store, new(&[Scope::Add], &["*"])).await.unwrap();
    let admit = |key: &str, config: &Config| auth.admit(ADD, &with(key), HERE, &config.limits);
    assert!(admit(&own, &config).is_ok());
    assert_eq!(code(admit(&own, &config)), Code::RateLimited);
    assert!(admit(&other, &config).is_ok() && admit(&other, &config).is_ok());
    config.limits.key_rate = Some(slow);
    assert!(admit(&other, &config).is_ok());
    assert_eq!(code(admit(&other, &config)), Code::RateLimited);
}

#[test]
fn a_bearer_is_told_in_any_case() {
    for (text, key) in [
        ("Bearer a", Some("a")),
        ("bearer  a ", Some("a")),
        ("BEARER a", Some("a")),
        ("Basic a", None),
        ("Bearer", None),
        ("a", None),
        ("", None),
    ] {
        assert_eq!(bearer(text), key, "{text}");
    }
}
