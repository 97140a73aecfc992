use linger::time::{MINUTE, SECOND, Time};

use super::*;

/// So many seconds after the start.
fn at(seconds: u64) -> Now {
    let us = seconds * 1_000_000;
    Now { wall_us: 1_793_577_600_000_000 + us, tick: Tick::from_us(us) }
}

fn id(text: &str) -> Id {
    text.parse().unwrap()
}

fn topic(text: &str) -> Topic {
    text.parse().unwrap()
}

fn app(text: &str) -> AppName {
    text.parse().unwrap()
}

fn registration(name: Option<&str>, app: &str, topics: &[&str], url: &str) -> Registration {
    let topics = topics.iter().map(|name| topic(name)).collect();
    let (app, url) = (app.parse().unwrap(), url.parse().unwrap());
    Registration::new(name.map(id), app, topics, url, 30 * SECOND).unwrap()
}

fn said(app: &str, topics: &[&str], url: &str, now: Now) -> Said {
    Said::new(registration(None, app, topics, url), now.time())
}

/// Instances of `shop` for topic `t`, each at a url of its own.
fn roster_of(names: &[&str]) -> Roster {
    let mut roster = Roster::default();
    for name in names {
        put(&mut roster, name, "shop", &["t"], at(0));
    }
    roster
}

fn put(roster: &mut Roster, name: &str, app: &str, topics: &[&str], now: Now) -> Put {
    let url = format!("http://{name}:80");
    roster.put(id(name), said(app, topics, &url, now), now)
}

/// The names of those who are chosen, the first first.
fn chosen(roster: &mut Roster, now: Now) -> String {
    chosen_of(roster, Some("shop"), "t", now)
}

fn chosen_of(roster: &mut Roster, name: Option<&str>, of: &str, now: Now) -> String {
    let name = name.map(app);
    let chosen = roster.choose(name.as_ref(), &topic(of), 9, now);
    chosen.iter().map(|instance| instance.id.as_str()).collect()
}

fn down() -> Ended {
    Ended::Down("no answer".into())
}

#[test]
fn instances_take_turns() {
    let mut roster = roster_of(&["a", "b", "c"]);
    let turns: Vec<_> = (0..4).map(|_| chosen(&mut roster, at(1))).collect();
    assert_eq!(turns, ["abc", "bca", "cab", "abc"]);
    // One that comes or goes leaves the others their turns.
    put(&mut roster, "aa", "shop", &["t"], at(1));
    assert_eq!(chosen(&mut roster, at(1)), "aabca");
    roster.remove(&id("aa"), at(1)).unwrap();
    assert_eq!(chosen(&mut roster, at(1)), "bca");
}

#[test]
fn heartbeats_do_not_change_whose_turn_it_is() {
    let mut roster = roster_of(&["a", "b", "c"]);
    assert_eq!(chosen(&mut roster, at(1)), "abc");
    for name in ["a", "b", "c", "b"] {
        roster.keep(&id(name), None, at(1)).unwrap();
    }
    assert_eq!(chosen(&mut roster, at(1)), "bca");
}

#[test]
fn each_application_and_topic_has_turns_of_its_own() {
    let mut roster = roster_of(&["a", "b"]);
    put(&mut roster, "c", "mail", &["t", "u"], at(0));
    for (name, of, right) in [
        (Some("shop"), "t", "ab"),
        (Some("mail"), "t", "c"),
        (Some("mail"), "u", "c"),
        (None, "t", "abc"),
        (Some("shop"), "t", "ba"),
        (None, "t", "bca"),
        (None, "u", "c"),
        (Some("shop"), "u", ""),
        (Some("none"), "t", ""),
        (None, "none", ""),
    ] {
        assert_eq!(chosen_of(&mut roster, name, of, at(1)), right, "{name:?} {of}");
    }
}

#[test]
fn no_more_are_chosen_than_are_asked_for() {
    let mut roster = roster_of(&["a", "b", "c", "d"]);
    let chosen = roster.choose(None, &topic("t"), 3, at(1));
    let urls: Vec<_> = chosen.iter().map(|instance| instance.url.as_str()).collect();
    assert_eq!(urls, ["http://a:80", "http://b:80", "http://c:80"]);
}

#[test]
fn a_worker_without_a_heartbeat_is_forgotten() {
    let mut roster = roster_of(&["a", "b"]);
    roster.keep(&id("b"), None, at(10)).unwrap();
    roster.lapse(at(29));
    assert_eq!(chosen(&mut roster, at(29)), "ab");
    roster.lapse(at(30));
    assert_eq!(chosen(&mut roster, at(30)), "b");
    let refused = roster.keep(&id("a"), None, at(30)).unwrap_err();
    assert_eq!(refused.code(), Code::NotFound);
    assert!(refused.message().contains("`a`; register again"), "{refused}");
    roster.lapse(at(40));
    assert_eq!(chosen(&mut roster, at(40)), "");
    assert!(roster.lines.is_empty() && roster.places.is_empty() && roster.ends.is_empty());
}

#[test]
fn a_lease_ends_by_the_monotonic_clock_and_is_told_by_the_wall() {
    let mut roster = roster_of(&["a"]);
    let mut later = at(10);
    assert_eq!(roster.get(&id("a"), later).unwrap().expires, at(30).time());
    later.wall_us += 3_600_000_000;
    roster.lapse(later);
    assert_eq!(
        roster.get(&id("a"), later).unwrap().expires,
        Time::from_ms(later.time().as_ms() + 20_000).unwrap()
    );
}

#[test]
fn one_that_drains_is_not_chosen_and_stays_registered() {
    let mut roster = roster_of(&["a", "b"]);
    let (worker, came) = roster.keep(&id("a"), Some(State::Draining), at(1)).unwrap();
    assert_eq!((worker.said.state, came.len()), (State::Draining, 0));
    assert_eq!(chosen(&mut roster, at(1)), "b");
    // A plain heartbeat does not change its mind.
    let (worker, came) = roster.keep(&id("a"), None, at(2)).unwrap();
    assert_eq!((worker.said.state, came.len()), (State::Draining, 0));
    assert_eq!(worker.expires, at(32).time());
    assert_eq!(chosen(&mut roster, at(2)), "b");
    let (worker, came) = roster.keep(&id("a"), Some(State::Live), at(3)).unwrap();
    assert_eq!((worker.said.state, &*came), (State::Live, &[topic("t")][..]));
    assert!(roster.keep(&id("a"), Some(State::Live), at(3)).unwrap().1.is_empty());
    assert_eq!(chosen(&mut roster, at(3)), "ab");
    // To register again is to be live again.
    roster.keep(&id("a"), Some(State::Draining), at(4)).unwrap();
    assert_eq!(put(&mut roster, "a", "shop", &["t"], at(4)).worker.said.state, State::Live);
}

#[test]
fn one_that_failed_lately_comes_after_the_others() {
    let mut roster = roster_of(&["a", "b", "c"]);
    roster.end(&id("a"), down(), at(1));
    let turns: Vec<_> = (0..3).map(|_| chosen(&mut roster, at(2))).collect();
    assert_eq!(turns, ["bca", "cba", "bca"]);
    // All have failed: then it is by turns again.
    roster.end(&id("b"), down(), at(3));
    roster.end(&id("c"), down(), at(3));
    assert_eq!(chosen(&mut roster, at(4)), "cab");
    assert_eq!(chosen(&mut roster, at(4)), "abc");
    // One that answers is well.
    roster.end(&id("b"), Ended::Answered, at(5));
    assert_eq!(chosen(&mut roster, at(5)), "bca");
    // After a while each is given a try.
    assert_eq!(chosen(&mut roster, at(10)), "bca");
    assert_eq!(chosen(&mut roster, at(11)), "abc");
    assert_eq!(chosen(&mut roster, at(13)), "bca");
}

#[test]
fn where_nobody_was_found_each_heartbeat_tells_until_somebody_is() {
    let mut roster = Roster::default();
    for (name, of) in [(Some("shop"), "t"), (None, "u"), (Some("mail"), "v")] {
        assert_eq!(chosen_of(&mut roster, name, of, at(0)), "");
    }
    put(&mut roster, "a", "shop", &["t", "u", "v"], at(1));
    let told = |roster: &mut Roster| {
        let topics = roster.keep(&id("a"), None, at(1)).unwrap().1;
        topics.iter().map(Topic::as_str).collect::<String>()
    };
    assert_eq!(told(&mut roster), "tu");
    assert_eq!(told(&mut roster), "tu");
    assert_eq!(chosen(&mut roster, at(1)), "a");
    assert_eq!(told(&mut roster), "u");
    assert_eq!(chosen_of(&mut roster, None, "u", at(1)), "a");
    assert_eq!(told(&mut roster), "");
    // One that drains is found by nobody, and has nothing to tell.
    roster.keep(&id("a"), Some(State::Draining), at(1)).unwrap();
    assert_eq!(chosen(&mut roster, at(1)), "");
    assert_eq!(told(&mut roster), "");
}

#[test]
fn what_became_of_calls_is_counted() {
    let mut roster = roster_of(&["a"]);
    let health = |roster: &Roster| roster.get(&id("a"), at(9)).unwrap().health;
    assert_eq!(health(&roster), Health::default());
    roster.begin(&id("a"));
    roster.begin(&id("a"));
    roster.begin(&id("gone"));
    roster.end(&id("a"), down(), at(1));
    roster.end(&id("gone"), down(), at(1));
    let one = Health {
        under_way: 1,
        deliveries: 1,
        failures: 1,
        last_error: Some("no answer".into()),
        last_failure: Some(at(1).time()),
        last_success: None,
    };
    assert_eq!(health(&roster), one);
    roster.end(&id("a"), Ended::Answered, at(2));
    let two = Health { under_way: 0, deliveries: 2, last_success: Some(at(2).time()), ..one };
    assert_eq!(health(&roster), two);
}

#[test]
fn an_instance_is_registered_once_and_keeps_its_id() {
    let mut roster = Roster::default();
    let first = registration(None, "shop", &["t"], "http://x");
    assert_eq!(roster.id_for(&first), None);
    let done = roster.put(id("1"), said("shop", &["t"], "http://x", at(0)), at(0));
    assert!(!done.replaced && done.ousted.is_none());

    // The same application and url, without a name.
    assert_eq!(roster.id_for(&first), Some(id("1")));
    roster.end(&id("1"), down(), at(1));
    let done = roster.put(id("1"), said("shop", &["u"], "http://x", at(1)), at(1));
    assert!(done.replaced && done.ousted.is_none());
    assert_eq!(done.worker.health.failures, 1, "it is the same one");
    assert_eq!(chosen(&mut roster, at(1)), "", "it does not serve `t` any more");
    assert_eq!(chosen_of(&mut roster, None, "u", at(1)), "1");

    // The same name elsewhere.
    let moved = registration(Some("1"), "shop", &["t"], "http://y");
    assert_eq!(roster.id_for(&moved), Some(id("1")));
    let done = roster.put(id("1"), said("shop", &["t"], "http://y", at(2)), at(2));
    assert!(done.replaced && done.ousted.is_none());
    assert_eq!(done.worker.health, Health::default(), "nothing is known of that address");
    assert_eq!(roster.id_for(&first), None);

    // The same application and url by another name.
    let done = roster.put(id("2"), said("shop", &["t"], "http://y", at(3)), at(3));
    assert_eq!((done.replaced, done.ousted), (true, Some(id("1"))));
    assert_eq!(chosen(&mut roster, at(3)), "2");

    // Another application at the same url is another worker.
    assert!(!roster.put(id("3"), said("mail", &["t"], "http://y", at(3)), at(3)).replaced);
    assert_eq!(roster.workers.len(), 2);
}

#[test]
fn one_that_registers_again_is_taken_for_well() {
    let mut roster = roster_of(&["a", "b"]);
    roster.end(&id("a"), down(), at(1));
    assert_eq!(chosen(&mut roster, at(1)), "ba");
    put(&mut roster, "a", "shop", &["t"], at(2));
    assert_eq!(chosen(&mut roster, at(2)), "ab");
}

#[test]
fn there_are_no_more_than_may_be() {
    let roster = roster_of(&["a", "b"]);
    assert!(roster.check_room(&id("c"), 3).is_ok());
    let refused = roster.check_room(&id("c"), 2).unwrap_err();
    assert_eq!(refused.code(), Code::Overloaded);
    assert!(refused.message().contains("at the limit of 2"), "{refused}");
    assert!(roster.check_room(&id("b"), 2).is_ok(), "it is there already");
}

#[test]
fn workers_are_listed_by_name_page_by_page() {
    let mut roster = roster_of(&["c", "a", "b"]);
    put(&mut roster, "d", "mail", &["t", "u"], at(0));
    roster.keep(&id("c"), Some(State::Draining), at(0)).unwrap();
    let listed = |app_name: Option<&str>, of: Option<&str>, after: Option<&str>, limit| {
        let filter = Filter { app: app_name.map(app), topic: of.map(topic), within: None };
        let found = roster.list(&filter, after.map(id).as_ref(), limit, at(1));
        found.iter().map(|worker| worker.id.as_str()).collect::<String>()
    };
    for (app_name, of, after, limit, right) in [
        (None, None, None, 9, "abcd"),
        (None, None, None, 2, "ab"),
        (None, None, Some("b"), 9, "cd"),
        (Some("shop"), None, Some("a"), 9, "bc"),
        (None, Some("u"), None, 9, "d"),
        (Some("shop"), Some("u"), None, 9, ""),
    ] {
        assert_eq!(listed(app_name, of, after, limit), right, "{app_name:?} {of:?} {after:?}");
    }
}

#[test]
fn leases_may_be_longer_than_the_shortest() {
    let mut roster = Roster::default();
    let long = Said { lease: MINUTE, ..said("shop", &["t"], "http://x", at(0)) };
    let worker = roster.put(id("a"), long, at(0)).worker;
    assert_eq!(worker.expires, at(60).time());
    roster.lapse(at(59));
    assert_eq!(chosen(&mut roster, at(59)), "a");
}
