//! A store with a bit of everything, written step by step, so that it comes out the same each time.

pub(crate) mod found;

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use linger::Job;
use linger::dice::Dice;
use linger::history::Report;
use linger::job::{Body, Confirm, Edit, NewJob, Patch, Ttr};
use linger::machine::{Owner, Reach};
use linger::queue::{
    Action, Ask, Change, Delivery, Expect, Key, KvWrite, Queue, Settle, Terms, TopicChange, Verdict,
};
use linger::retry::Retry;
use linger::schedule::{Misfire, OnDead, Repeat};
use linger::store::Options;
use linger::store::embedded::files::Files;
use linger::store::embedded::{Embedded, Manual, Settings};
use linger::testkit::{START_MS, SimClock};
use linger::time::{DAY, HOUR, MINUTE, SECOND, Time};
use linger::topic::{Settings as TopicSettings, Topic};

/// The smallest segments there are, so that there are several of them.
pub(crate) const SEGMENT_BYTES: u32 = 64 << 10;

pub(crate) fn topic(name: &str) -> Topic {
    name.parse().expect("a topic")
}

pub(crate) fn key(topic_name: &str, id: &str) -> Key {
    Key::Named(topic(topic_name), id.parse().expect("an id"))
}

pub(crate) fn time(after_start: Duration) -> Time {
    Time::from_ms(START_MS + after_start.as_millis() as u64).expect("within range")
}

/// A store whose parts move only while it is called.
pub(crate) struct Stepped {
    manual: Manual,
    clock: Arc<SimClock>,
}

impl Stepped {
    pub(crate) fn open(files: Arc<dyn Files>, clock: &Arc<SimClock>) -> Stepped {
        let settings = Settings { segment_bytes: SEGMENT_BYTES, ..Settings::default() };
        Stepped::open_with(files, clock, settings)
    }

    pub(crate) fn open_with(
        files: Arc<dyn Files>,
        clock: &Arc<SimClock>,
        settings: Settings,
    ) -> Stepped {
        let options = Options { clock: clock.clone(), dice: Dice::seeded(7), ..Options::default() };
        let manual = Manual::open(files, options, settings).expect("a store");
        Stepped { manual, clock: clock.clone() }
    }

    pub(crate) fn call<T>(&mut self, call: impl AsyncFnOnce(&Embedded) -> T) -> T {
        let store = self.manual.handle();
        let mut call = std::pin::pin!(call(&store));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        loop {
            if let std::task::Poll::Ready(answer) = call.as_mut().poll(&mut context) {
                return answer;
            }
            self.settle_down();
        }
    }

    fn settle_down(&mut self) {
        while self.manual.decide() | self.manual.sync() | self.manual.keep() {}
    }

    /// Lets the keeper look over the house until it has nothing left to do.
    pub(crate) fn tidy_up(&mut self) {
        for _ in 0..20 {
            self.clock.advance(2 * SECOND);
            self.settle_down();
        }
    }
}

/// A store that is called, one call after the other.
pub(crate) trait Called {
    type Store: Queue;

    fn call<T>(&mut self, call: impl AsyncFnOnce(&Self::Store) -> T) -> T;

    fn add(&mut self, job: NewJob) {
        let added = self.call(async |store| store.add_all(vec![job]).await);
        added.expect("added").remove(0).expect("nothing is wrong with it");
    }

    fn configure(&mut self, name: &str, change: TopicChange) {
        let name = topic(name);
        self.call(async |store| store.configure(&name, change).await).expect("configured");
    }

    fn pop(&mut self, name: &str, terms: Terms) -> Delivery {
        let ask = Ask { terms, ..Ask::one(topic(name)) };
        self.call(async |store| store.pop(ask).await).expect("popped").remove(0)
    }

    fn settle(&mut self, settle: Settle) {
        let settled = self.call(async |store| store.settle(vec![settle]).await);
        settled.expect("settled").remove(0).expect("the lease is ours");
    }

    fn change(&mut self, key: Key, action: Action) {
        let change =
            Change { by: Some("ops".parse().expect("a name")), ..Change::new(key, action) };
        let changed = self.call(async |store| store.change(vec![change]).await);
        changed.expect("changed").remove(0).expect("nothing forbids it");
    }

    fn put(&mut self, key: &str, value: Option<&'static str>, ttl: Option<Duration>) {
        let value = value.map(|value| value.into());
        let write = KvWrite { key: key.into(), value, expect: Expect::Any, ttl };
        self.call(async |store| store.kv_write(write).await).expect("written");
    }
}

impl Called for Stepped {
    type Store = Embedded;

    fn call<T>(&mut self, call: impl AsyncFnOnce(&Embedded) -> T) -> T {
        Stepped::call(self, call)
    }
}

/// The leases of the jobs that are held in the end, by id.
pub(crate) type Leases = BTreeMap<&'static str, u64>;

/// Writes the store. It ends in the middle of its work, as by a kill.
pub(crate) fn write(files: Arc<dyn Files>) -> Leases {
    let mut store = Stepped::open(files, &SimClock::new());
    settings(&mut store);
    let leases = states(&mut store);
    own(&mut store);
    keys(&mut store);
    fill(&mut store);
    // A checkpoint, and what is left of sparse segments is moved.
    store.tidy_up();
    afterwards(&mut store);
    store.change(key("dense", "0"), Action::Delete(Reach::Any));
    leases
}

/// Writes the same without what fills segments, which not all stores have, into a store that is called.
pub(crate) fn tell(store: &mut impl Called, clock: &SimClock) -> Leases {
    settings(store);
    let leases = states(store);
    own(store);
    keys(store);
    // As long as the other store is tidied up.
    clock.advance(40 * SECOND);
    afterwards(store);
    leases
}

/// Writes the same without what only fills segments: a log, and a checkpoint of all of it.
pub(crate) fn write_small(files: Arc<dyn Files>) {
    let settings =
        Settings { segment_bytes: SEGMENT_BYTES, checkpoint_records: 50, ..Settings::default() };
    let mut store = Stepped::open_with(files, &SimClock::new(), settings);
    self::settings(&mut store);
    states(&mut store);
    own(&mut store);
    keys(&mut store);
    afterwards(&mut store);
    store.tidy_up();
}

fn settings(store: &mut impl Called) {
    let settings = TopicSettings {
        ttr: Some(Ttr::new(30 * SECOND).expect("a ttr")),
        retry: Some(Retry::ladder(&[15 * SECOND, 3 * MINUTE]).expect("a ladder").attempts(3)),
        target: Some("https://example.com/hook".parse().expect("a target")),
        confirm: Some(Confirm::Finish),
        retain: Some(HOUR),
        retain_dead: Some(7 * DAY),
        rate: Some("100/m".parse().expect("a rate")),
        concurrency: NonZeroU32::new(5),
        ..TopicSettings::default()
    };
    store.configure("limited", TopicChange::Set(Box::new(settings)));
    store.configure("paused", TopicChange::Pause(None));
    store.configure("resting", TopicChange::Pause(Some(DAY)));
    store.configure("forgotten", TopicChange::Pause(None));
    store.configure("forgotten", TopicChange::Forget);
}

/// One job in every state.
fn states(store: &mut impl Called) -> Leases {
    let mut leases = Leases::new();
    let long = Terms { ttr: Some(Ttr::new(6 * DAY).expect("a ttr")), owner: None, grace: None };
    for id in ["finished", "dead", "retry", "released", "reserved", "touched", "tied"] {
        let job = Job::new("states", format!("body of {id}")).id(id).retain(30 * DAY);
        store.add(job.check(time(Duration::ZERO)).expect("a right job"));
        let owner = (id == "tied").then_some(Owner(1));
        let job = store.pop("states", Terms { owner, ..long });
        let verdict = match id {
            "finished" => Verdict::Finish,
            "dead" => Verdict::Bury { error: Some("broken".into()), priority: Some(9) },
            "retry" => Verdict::Fail { error: "not now".into(), retry_in: Some(DAY) },
            "released" => Verdict::Release { delay: DAY, priority: Some(7) },
            "touched" => Verdict::Touch { ttr: Some(Ttr::new(7 * DAY).expect("a ttr")) },
            _ => {
                leases.insert(id, job.lease.as_u64());
                continue;
            }
        };
        let report =
            (id == "retry").then(|| Report { status: Some(503), excerpt: Some("busy".into()) });
        if id == "touched" {
            leases.insert(id, job.lease.as_u64());
        }
        store.settle(Settle { report, ..Settle::delivery(&job, verdict) });
    }
    for id in ["held", "unheld", "delayed", "updated", "deleted", "replaced"] {
        let job = Job::new("states", format!("body of {id}")).id(id).delay(DAY);
        let job = if id == "held" { job.held() } else { job };
        store.add(job.check(time(Duration::ZERO)).expect("a right job"));
    }
    store.change(key("states", "unheld"), Action::Hold);
    store.change(key("states", "unheld"), Action::Unhold);
    store.change(key("states", "deleted"), Action::Delete(Reach::Any));
    let ready = Job::new("paused", "ready").id("ready").priority(3);
    store.add(ready.check(time(Duration::ZERO)).expect("a right job"));
    leases
}

/// Jobs with settings of their own, and bodies of every form.
fn own(store: &mut impl Called) {
    let cron = Repeat::cron("0 9 * * 1-5", Some("Europe/Berlin")).expect("a schedule");
    let every = Repeat::every(HOUR)
        .and_then(|repeat| repeat.misfire(Misfire::All(NonZeroU32::new(3).expect("not 0"))))
        .expect("a schedule")
        .until(time(30 * DAY))
        .count(NonZeroU32::new(100).expect("not 0"))
        .on_dead(OnDead::Stop);
    let ladder = Retry::ladder(&[SECOND, MINUTE, HOUR]).expect("a ladder").from_due();
    let backoff = Retry::backoff(SECOND, HOUR, 0.5).expect("a backoff").attempts(5);
    let json = Body::json(r#"{"order": 1001}"#).expect("json");
    let jobs = [
        Job::new("own", json).id("cron").repeat(cron).ttr(20 * SECOND),
        Job::new("own", Body::bytes(vec![0, 159, 146, 150])).id("every").repeat(every),
        Job::new("own", "text").id("ladder").retry(ladder).delay(DAY).target("http://example.com/"),
        Job::new("own", "").id("回退").retry(backoff).delay(DAY).content_type("text/csv"),
    ];
    for job in jobs {
        let mut job = job.confirm(Confirm::Delivery).check(time(Duration::ZERO)).expect("right");
        job.by = Some("writer".parse().expect("a name"));
        let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        job.spec.traceparent = Some(trace.parse().expect("a trace"));
        store.add(job);
    }
}

fn keys(store: &mut impl Called) {
    store.put("keys/a", Some("1"), None);
    store.put("keys/b", Some("2"), Some(30 * DAY));
    store.put("keys/c", Some("3"), None);
    store.put("keys/c", None, None);
}

/// How many jobs are in the segment that is left as it is, and in the one that is cleared.
pub(crate) const DENSE: usize = 50;
const SPARSE: usize = 100;
/// Those that are left of the sparse ones.
pub(crate) const LEFT: std::ops::Range<usize> = 40..44;

/// A segment that is full of jobs, and one that hardly anything is left of.
fn fill(store: &mut impl Called) {
    let filler = |name: &'static str, n: usize| {
        let body = format!("{name} {n:3} ").repeat(80);
        let job = Job::new(name, body).id(n.to_string()).delay(DAY);
        job.check(time(Duration::ZERO)).expect("a right job")
    };
    (0..DENSE).for_each(|n| store.add(filler("dense", n)));
    (0..SPARSE).for_each(|n| store.add(filler("sparse", n)));
    for n in (0..SPARSE).filter(|n| !LEFT.contains(n)) {
        store.change(key("sparse", &n.to_string()), Action::Delete(Reach::Any));
    }
    store.configure("emptied", TopicChange::Pause(Some(SECOND)));
    store.add(filler("emptied", 0));
    store.configure("emptied", TopicChange::Empty);
}

/// What only the log knows.
fn afterwards(store: &mut impl Called) {
    let update = Patch {
        body: Some(Body::text("another body")),
        priority: Some(5),
        ttr: Edit::Set(Ttr::new(MINUTE).expect("a ttr")),
        ..Patch::default()
    };
    store.change(key("states", "updated"), Action::Update(update));
    let job = Job::new("states", "in its place").id("replaced").delay(2 * DAY);
    let job = job.on_conflict(linger::job::OnConflict::Replace);
    store.add(job.check(time(Duration::ZERO)).expect("a right job"));
    let late = Job::new("states", "late").id("late").delay(DAY);
    store.add(late.check(time(Duration::ZERO)).expect("a right job"));
    store.put("keys/a", Some("4"), None);
}
