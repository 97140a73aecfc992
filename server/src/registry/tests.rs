use std::time::Duration;

use linger::store::Options;
use linger::store::memory::Memory;
use linger::time::{Bell, Clock, MINUTE, SECOND, Tick, Wake};

use super::*;

/// A clock that a test moves. Nobody is woken: what a test asks for brings a store up to date.
struct Hand(Mutex<Now>);

impl Hand {
    fn new() -> Arc<Hand> {
        let now = Now { wall_us: 1_793_577_600_000_000, tick: Tick::default() };
        Arc::new(Hand(Mutex::new(now)))
    }

    fn advance(&self, by: Duration) {
        let mut now = self.0.lock().unwrap();
        let us = by.as_micros() as u64;
        *now = Now { wall_us: now.wall_us + us, tick: Tick::from_us(now.tick.as_us() + us) };
    }
}

impl Clock for Hand {
    fn now(&self) -> Now {
        *self.0.lock().unwrap()
    }

    fn park(&self, bell: &Arc<Bell>, _wake: Wake) {
        bell.wait(None);
    }
}

/// A store, and the clock it goes by.
fn store() -> (Arc<Memory>, Arc<Hand>) {
    let clock = Hand::new();
    let options = Options { clock: clock.clone(), ..Options::default() };
    (Arc::new(Memory::new(options)), clock)
}

fn registration(id: Option<&str>, url: &str) -> Registration {
    let id = id.map(|id| id.parse().unwrap());
    let (app, topics) = ("shop".parse().unwrap(), vec!["t".parse().unwrap()]);
    Registration::new(id, app, topics, url.parse().unwrap(), 30 * SECOND).unwrap()
}

fn id(text: &str) -> Id {
    text.parse().unwrap()
}

async fn stored(store: &Memory) -> Vec<(String, Said)> {
    let all = KvQuery::Prefix { prefix: PREFIX.into(), after: None, limit: PAGE_MAX };
    let all = store.kv_read(all).await.unwrap();
    all.iter()
        .map(|e| (e.key[PREFIX.len()..].to_owned(), Said::decode(&e.value).unwrap()))
        .collect()
}

fn names(registry: &Registry<Memory>) -> Vec<String> {
    let all = registry.list(&Filter::default(), None, 9);
    all.iter().map(|worker| worker.id.to_string()).collect()
}

#[tokio::test]
async fn what_is_registered_is_there_when_the_store_is_opened_again() {
    let (store, clock) = store();
    let registry = Registry::open(store.clone()).await.unwrap();
    let (a, how) = registry.register(registration(None, "http://a"), 9).await.unwrap();
    assert_eq!(how, Registered::New);
    registry.register(registration(Some("b"), "http://b"), 9).await.unwrap();
    registry.heartbeat(&id("b"), Some(State::Draining)).await.unwrap();
    clock.advance(20 * SECOND);

    let again = Registry::open(store).await.unwrap();
    let worker = again.get(&a.id).unwrap();
    assert_eq!(worker.said, a.said);
    let full = clock.now().time().saturating_add_ms(30_000);
    assert_eq!(worker.expires, full, "a full lease anew");
    assert_eq!(again.get(&id("b")).unwrap().said.state, State::Draining);
    assert_eq!(again.instances(None, &"t".parse().unwrap(), 9).len(), 1);
}

#[tokio::test]
async fn a_heartbeat_keeps_a_worker_here_and_in_the_store() {
    let (store, clock) = store();
    let registry = Registry::open(store.clone()).await.unwrap();
    registry.register(registration(Some("a"), "http://a"), 9).await.unwrap();
    registry.register(registration(Some("b"), "http://b"), 9).await.unwrap();
    clock.advance(20 * SECOND);
    registry.heartbeat(&id("a"), None).await.unwrap();
    clock.advance(20 * SECOND);
    assert_eq!(names(&registry), ["a"]);
    assert_eq!(stored(&store).await.len(), 1);
    let unknown = registry.heartbeat(&id("b"), None).await.unwrap_err();
    assert_eq!(unknown.code(), Code::NotFound);
    clock.advance(10 * SECOND);
    assert_eq!(registry.get(&id("a")).unwrap_err().code(), Code::NotFound);
    assert_eq!(stored(&store).await, []);
}

#[tokio::test]
async fn one_that_deregisters_or_is_replaced_leaves_nothing_behind() {
    let (store, _clock) = store();
    let registry = Registry::open(store.clone()).await.unwrap();
    registry.register(registration(Some("a"), "http://a"), 9).await.unwrap();
    let (_, how) = registry.register(registration(Some("b"), "http://a"), 9).await.unwrap();
    assert_eq!(how, Registered::Replaced);
    let (worker, how) = registry.register(registration(None, "http://a"), 9).await.unwrap();
    assert_eq!((worker.id, how), (id("b"), Registered::Replaced));
    assert_eq!(names(&registry), ["b"]);
    assert_eq!(stored(&store).await.len(), 1);
    assert_eq!(registry.deregister(&id("b")).await.unwrap().id, id("b"));
    assert_eq!(stored(&store).await, []);
    assert_eq!(registry.deregister(&id("b")).await.unwrap_err().code(), Code::NotFound);
}

#[tokio::test]
async fn one_too_many_is_refused_and_not_stored() {
    let (store, clock) = store();
    let registry = Registry::open(store.clone()).await.unwrap();
    registry.register(registration(Some("a"), "http://a"), 1).await.unwrap();
    let refused = registry.register(registration(Some("b"), "http://b"), 1).await.unwrap_err();
    assert_eq!(refused.code(), Code::Overloaded);
    assert_eq!(stored(&store).await.len(), 1);
    // One whose lease is over makes room.
    clock.advance(MINUTE);
    registry.register(registration(Some("b"), "http://b"), 1).await.unwrap();
    assert_eq!(names(&registry), ["b"]);
}

#[tokio::test]
async fn who_comes_to_life_is_told() {
    let (store, _clock) = store();
    let registry = Arc::new(Registry::open(store).await.unwrap());
    let mut changes = registry.changes();
    let job_to = |target: &str| Destination::of(&"t".parse().unwrap(), &target.parse().unwrap());
    registry.register(registration(Some("a"), "http://a"), 9).await.unwrap();
    assert_eq!(changes.next().await, [job_to("worker:"), job_to("worker:shop")]);
    // Neither a heartbeat nor the end of one is news; to be live again is.
    registry.heartbeat(&id("a"), None).await.unwrap();
    registry.heartbeat(&id("a"), Some(State::Draining)).await.unwrap();
    assert!(changes.came.is_empty());
    registry.heartbeat(&id("a"), Some(State::Live)).await.unwrap();
    assert_eq!(changes.next().await.len(), 2);
    assert!(changes.came.is_empty());
}

#[tokio::test]
async fn one_who_is_slow_to_ask_is_told_of_all_who_are_there() {
    let (store, _clock) = store();
    let registry = Arc::new(Registry::open(store).await.unwrap());
    let mut changes = registry.changes();
    let (worker, _) = registry.register(registration(Some("a"), "http://a"), 9).await.unwrap();
    for _ in 0..CAME_MAX {
        registry.tell(&worker, Arc::default());
    }
    let mut told = changes.next().await;
    told.sort();
    assert_eq!(
        told.iter().map(Destination::as_str).collect::<Vec<_>>(),
        ["worker:/t", "worker:shop/t"]
    );
}

#[tokio::test]
async fn a_call_that_is_dropped_has_failed() {
    let (store, _clock) = store();
    let registry = Arc::new(Registry::open(store).await.unwrap());
    registry.register(registration(Some("a"), "http://a"), 9).await.unwrap();
    let health = || registry.get(&id("a")).unwrap().health;
    let calling = registry.calling(&id("a"));
    assert_eq!(health().under_way, 1);
    calling.ended(Ended::Answered);
    assert_eq!((health().under_way, health().deliveries, health().failures), (0, 1, 0));
    drop(registry.calling(&id("a")));
    assert_eq!((health().under_way, health().deliveries, health().failures), (0, 2, 1));
    assert_eq!(health().last_error.as_deref(), Some("it did not answer in time"));
}

fn found(names: &[&str]) -> Vec<(Id, Registration)> {
    let one = |name: &&str| {
        let (url, app) = (format!("http://{name}"), "SHOP".parse().unwrap());
        let topics = vec!["t".parse().unwrap()];
        let new = Registration::new(None, app, topics, url.parse().unwrap(), LEASE_MAX);
        (id(name), new.unwrap())
    };
    names.iter().map(one).collect()
}

#[tokio::test]
async fn who_is_found_elsewhere_is_there_until_it_is_not_found_and_never_stored() {
    let (store, clock) = store();
    let registry = Arc::new(Registry::open(store.clone()).await.unwrap());
    let mut changes = registry.changes();
    registry.register(registration(Some("own"), "http://own"), 9).await.unwrap();
    changes.next().await;
    assert_eq!(registry.set_found(found(&["a", "b"]), 9), []);
    assert_eq!(names(&registry), ["a", "b", "own"]);
    // By its name as it is, and in lower case.
    let told = changes.next().await;
    let told: Vec<_> = told.iter().map(Destination::as_str).collect();
    assert_eq!(told, ["worker:/t", "worker:SHOP/t", "worker:shop/t"]);
    changes.next().await;
    // Found again it is no news, and it lives on while it is kept.
    for _ in 0..3 {
        clock.advance(LEASE_MAX / 2);
        registry.set_found(found(&["a", "b"]), 9);
        clock.advance(LEASE_MAX / 2);
        registry.keep_found();
    }
    assert!(changes.came.is_empty());
    assert_eq!(names(&registry), ["a", "b"]);
    registry.set_found(found(&["b", "c"]), 9);
    assert_eq!(names(&registry), ["b", "c"]);
    let refused = registry.set_found(found(&["b", "c", "d"]), 2);
    assert_eq!(refused.iter().map(Error::code).collect::<Vec<_>>(), [Code::Overloaded]);
    assert_eq!(names(&registry), ["b", "c"]);
    // Nobody here can change it.
    assert_eq!(registry.heartbeat(&id("b"), None).await.unwrap_err().code(), Code::WrongState);
    assert_eq!(registry.deregister(&id("b")).await.unwrap_err().code(), Code::WrongState);
    assert!(!stored(&store).await.iter().any(|(name, _)| name != "own"));
}

/// Has something done to a worker, one thing after the other by number.
async fn deed(registry: &Registry<Memory>, number: usize) {
    let name = id(["a", "b"][number % 2]);
    let _ = match number / 2 % 5 {
        0 => {
            let url = ["http://x", "http://y"][number / 10 % 2];
            registry.register(registration(Some(name.as_str()), url), 9).await.map(drop)
        }
        1 => registry.heartbeat(&name, None).await.map(drop),
        2 => registry.heartbeat(&name, Some(State::Draining)).await.map(drop),
        3 => registry.heartbeat(&name, Some(State::Live)).await.map(drop),
        _ => registry.deregister(&name).await.map(drop),
    };
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn whatever_happens_at_once_what_is_stored_is_what_is_known() {
    let (store, _clock) = store();
    let registry = Arc::new(Registry::open(store.clone()).await.unwrap());
    for round in 0..3000 {
        let callers = [7, 11, 13].map(|pace| {
            let registry = registry.clone();
            tokio::spawn(async move {
                for n in 0..3 {
                    deed(&registry, round * pace + n * 3).await;
                }
            })
        });
        for caller in callers {
            caller.await.unwrap();
        }
        let known = registry.list(&Filter::default(), None, 9);
        let known: Vec<_> = known.into_iter().map(|it| (it.id.to_string(), it.said)).collect();
        assert_eq!(stored(&store).await, known, "after round {round}");
    }
}
