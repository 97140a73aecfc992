//! Random values from a seed: everything that goes into a call.

use std::collections::HashMap;
use std::num::{NonZeroU32, NonZeroU64};
use std::sync::Arc;
use std::time::Duration;

use crate::history::Report;
use crate::job::{
    Body, Caller, Confirm, DELAY_MAX, Destination, Edit, Envelope, Id, NewJob, OnConflict, Patch,
    Target, Ttr, When,
};
use crate::machine::{Owner, Stage};
use crate::queue::{Filter, Room, Terms};
use crate::retry::Retry;
use crate::schedule::{Misfire, OnDead, Repeat};
use crate::testkit::rng::Rng;
use crate::time::{HOUR, MINUTE, SECOND, Time};
use crate::topic::{Defaults, Headers, Rate, Settings, Topic};

const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// Which names a story uses: few, so that its calls meet.
pub(in crate::testkit) struct Cast {
    pub(in crate::testkit) topics: Vec<Topic>,
    pub(in crate::testkit) ids: Vec<Id>,
}

const TOPICS: [&str; 6] = ["a", "b", "b.c", "支付宝", "a crab 🦀", "default"];
const IDS: [&str; 6] = ["1", "10", "2", "è", " ", "订单-7"];
const ERRORS: [&str; 4] = ["boom", "bang", "", "connection lost"];
const TARGETS: [&str; 5] = [
    "worker:",
    "https://example.com/hook",
    "https://example.com/other",
    "http://shop.example",
    "sink:log",
];
const PRIORITIES: [u32; 6] = [0, 1, 1023, 1024, 1025, u32::MAX];

impl Rng {
    pub(in crate::testkit) fn cast(&mut self) -> Cast {
        let (topics, ids) = (self.pick(&[1, 1, 2, 3, 4, 6]), self.pick(&[1, 3, 4, 6, 6]));
        let topic = |name: &&str| name.parse().expect("a topic");
        let id = |name: &&str| name.parse().expect("an id");
        Cast {
            topics: TOPICS.iter().take(topics).map(topic).collect(),
            ids: IDS.iter().take(ids).map(id).collect(),
        }
    }

    pub(in crate::testkit) fn length(&mut self) -> Duration {
        const LENGTHS: [Duration; 13] = [
            Duration::ZERO,
            Duration::from_micros(1),
            Duration::from_millis(1),
            Duration::from_micros(1500),
            Duration::from_millis(200),
            SECOND,
            Duration::from_secs(5),
            Duration::from_secs(30),
            MINUTE,
            Duration::from_secs(61),
            Duration::from_secs(600),
            HOUR,
            Duration::from_secs(25 * 3600),
        ];
        self.pick(&LENGTHS)
    }

    /// A length that may be out of all reason.
    pub(in crate::testkit) fn term(&mut self) -> Duration {
        if self.percent(4) { Duration::MAX } else { self.length() }
    }

    pub(in crate::testkit) fn ttr(&mut self) -> Ttr {
        let lengths = [Duration::from_millis(1), SECOND, 10 * SECOND, MINUTE, HOUR];
        Ttr::new(self.pick(&lengths)).expect("a ttr")
    }

    pub(in crate::testkit) fn when(&mut self, now: Time) -> When {
        match self.below(40) {
            0 => When::In(DELAY_MAX + SECOND),
            1 => When::At(Time::MAX),
            2..12 => When::At(self.near(now)),
            _ => When::In(self.length()),
        }
    }

    /// A moment around `now`, before or after.
    pub(in crate::testkit) fn near(&mut self, now: Time) -> Time {
        let ms = self.length().as_millis() as u64;
        if self.percent(40) { now.saturating_sub_ms(ms) } else { now.saturating_add_ms(ms) }
    }

    pub(in crate::testkit) fn retry(&mut self) -> Retry {
        let ladder = Retry::ladder(&[SECOND, 10 * SECOND, MINUTE]).expect("a ladder");
        let backoff = Retry::backoff(SECOND, MINUTE, 0.5).expect("a backoff");
        match self.below(9) {
            0 | 8 => Retry::none(),
            1 => Retry::no_limit(),
            2 => ladder,
            3 => ladder.from_due(),
            4 => ladder.from_due().attempts(5),
            5 => backoff.attempts(2),
            6 => backoff.attempts(3),
            _ => Retry::default().attempts(2),
        }
    }

    pub(in crate::testkit) fn repeat(&mut self, now: Time) -> Repeat {
        let length = self.pick(&[SECOND, 7 * SECOND, MINUTE, HOUR]);
        let rule = match self.below(6) {
            0 => Repeat::cron("*/5 * * * *", None),
            1 => Repeat::cron("0 9 * * 1-5", Some("Europe/Berlin")),
            _ => Repeat::every(length),
        };
        let three = NonZeroU32::new(3).expect("three");
        let misfire = self.pick(&[Misfire::Skip, Misfire::Once, Misfire::All(three)]);
        let mut repeat = rule.and_then(|rule| rule.misfire(misfire)).expect("a repeat");
        if self.percent(30) {
            repeat = repeat.until(self.near(now));
        }
        if self.percent(30) {
            repeat = repeat.count(three);
        }
        if self.percent(30) { repeat.on_dead(OnDead::Stop) } else { repeat }
    }

    pub(in crate::testkit) fn target(&mut self) -> Target {
        self.pick(&TARGETS).parse().expect("a target")
    }

    pub(in crate::testkit) fn body(&mut self) -> Body {
        match self.below(4) {
            0 => Body::default(),
            1 => Body::json("{\"n\": 1.0}").expect("JSON"),
            2 => Body::bytes(vec![0xff, self.below(256) as u8]),
            _ => Body::text(format!("text {}", self.below(1000))),
        }
    }

    pub(in crate::testkit) fn caller(&mut self) -> Option<Caller> {
        self.maybe(20, |rng| rng.pick(&["ann", "bob"]).parse().expect("a caller"))
    }

    pub(in crate::testkit) fn report(&mut self) -> Option<Report> {
        self.maybe(20, |rng| Report {
            status: rng.maybe(50, |rng| rng.pick(&[200, 503])),
            excerpt: rng.maybe(50, |_| "so it said".into()),
        })
    }

    pub(in crate::testkit) fn error(&mut self) -> Arc<str> {
        self.pick(&ERRORS).into()
    }

    pub(in crate::testkit) fn priority(&mut self) -> u32 {
        self.pick(&PRIORITIES)
    }

    pub(in crate::testkit) fn owner(&mut self) -> Owner {
        Owner(self.below(3) as u64)
    }

    pub(in crate::testkit) fn terms(&mut self) -> Terms {
        Terms {
            ttr: self.maybe(40, Rng::ttr),
            owner: self.maybe(50, Rng::owner),
            grace: self.maybe(20, Rng::term),
        }
    }

    /// Room for some destinations and topics, and for others not.
    pub(in crate::testkit) fn room(&mut self, cast: &Cast) -> Arc<Room> {
        let mut room = Room {
            each_destination: self.pick(&[0, 1, 2, 1000]),
            destinations: HashMap::new(),
            each_topic: self.pick(&[0, 1, 1000, 1000]),
            topics: HashMap::new(),
        };
        for _ in 0..self.below(4) {
            let (topic, target) = (self.pick(&cast.topics), self.target());
            let room_there = self.pick(&[0, 1, 3]);
            room.destinations.insert(Destination::of(&topic, &target), room_there);
            room.topics.insert(topic, self.pick(&[0, 1, 2]));
        }
        Arc::new(room)
    }

    pub(in crate::testkit) fn maybe_ttr(&mut self) -> Option<Ttr> {
        self.maybe(50, Rng::ttr)
    }

    pub(in crate::testkit) fn new_job(&mut self, cast: &Cast, now: Time) -> NewJob {
        let (topic, id) = (self.pick(&cast.topics), self.pick(&cast.ids));
        let mut job = NewJob::new(topic, id, self.body());
        job.when = self.maybe(60, |rng| rng.when(now));
        job.priority = if self.percent(50) { job.priority } else { self.priority() };
        job.held = self.percent(8);
        job.on_conflict = self.pick(&[OnConflict::Reject, OnConflict::Keep, OnConflict::Replace]);
        job.by = self.caller();
        let spec = &mut job.spec;
        spec.content_type = self.maybe(10, |_| "text/html".parse().expect("a content type"));
        spec.ttr = self.maybe(40, Rng::ttr);
        spec.retry = self.maybe(50, Rng::retry);
        spec.repeat = self.maybe(15, |rng| rng.repeat(now));
        spec.target = self.maybe(15, Rng::target);
        spec.confirm = self.maybe(15, Rng::confirm);
        spec.envelope = self.maybe(15, Rng::envelope);
        spec.retain = self.maybe(20, Rng::term);
        spec.traceparent = self.maybe(10, |_| TRACE.parse().expect("a traceparent"));
        job
    }

    fn envelope(&mut self) -> Envelope {
        self.pick(&[Envelope::Body, Envelope::CloudEvents, Envelope::Task])
    }

    fn confirm(&mut self) -> Confirm {
        self.pick(&[Confirm::Delivery, Confirm::Finish])
    }

    pub(in crate::testkit) fn patch(&mut self, now: Time) -> Patch {
        Patch {
            when: self.maybe(50, |rng| rng.when(now)),
            body: self.maybe(30, Rng::body),
            priority: self.maybe(40, Rng::priority),
            ttr: self.edit(Rng::ttr),
            retry: self.edit(Rng::retry),
            target: self.edit(Rng::target),
        }
    }

    fn edit<T>(&mut self, make: impl FnOnce(&mut Rng) -> T) -> Edit<T> {
        match self.below(6) {
            0 => Edit::Set(make(self)),
            1 => Edit::Clear,
            _ => Edit::Keep,
        }
    }

    pub(in crate::testkit) fn settings(&mut self) -> Settings {
        if self.percent(20) {
            return Settings::default();
        }
        Settings {
            ttr: self.maybe(25, Rng::ttr),
            retry: self.maybe(25, Rng::retry),
            target: self.maybe(15, Rng::target),
            confirm: self.maybe(15, Rng::confirm),
            envelope: self.maybe(15, Rng::envelope),
            timeout: self.maybe(25, Rng::ttr),
            headers: self.headers(),
            archive: self.maybe(10, |rng| rng.pick(&["files", "sink:log"]).parse().expect("one")),
            retain: self.maybe(25, Rng::term),
            retain_dead: self.maybe(25, Rng::term),
            rate: self.maybe(40, Rng::rate),
            concurrency: self.maybe(30, Rng::concurrency),
            // Topics with jobs are not spread anew on some stores, and are on others.
            partitions: None,
            jobs_max: self.maybe(20, Rng::jobs_max),
            bytes_max: self.maybe(30, Rng::bytes_max),
        }
    }

    fn headers(&mut self) -> Headers {
        let value = self.pick(&["1", "2"]);
        if self.percent(15) {
            Headers::new([("x-shop", value)]).expect("headers")
        } else {
            Headers::default()
        }
    }

    /// Settings that only hold jobs back.
    pub(in crate::testkit) fn limits(&mut self) -> Settings {
        Settings {
            rate: self.maybe(80, Rng::rate),
            concurrency: self.maybe(40, Rng::concurrency),
            ..Settings::default()
        }
    }

    fn rate(&mut self) -> Rate {
        self.pick(&["1", "2/s", "3/m", "1/10s", "1/d", "1000"]).parse().expect("a rate")
    }

    fn jobs_max(&mut self) -> NonZeroU32 {
        let few = [1, 2, 5].map(|count| NonZeroU32::new(count).expect("some"));
        self.pick(&few)
    }

    fn bytes_max(&mut self) -> NonZeroU64 {
        let few = [1, 20, 60, 1000].map(|bytes| NonZeroU64::new(bytes).expect("some"));
        self.pick(&few)
    }

    fn concurrency(&mut self) -> NonZeroU32 {
        self.pick(&[NonZeroU32::MIN, NonZeroU32::new(2).expect("two")])
    }

    pub(in crate::testkit) fn defaults(&mut self) -> Defaults {
        Defaults { ttr: self.ttr(), retry: self.retry(), retain: self.maybe(30, Rng::term) }
    }

    pub(in crate::testkit) fn filter(&mut self, cast: &Cast, now: Time) -> Filter {
        Filter {
            stage: self.maybe(50, |rng| rng.pick(&Stage::ALL)),
            due_after: self.maybe(15, |rng| rng.near(now)),
            due_before: self.maybe(15, |rng| rng.near(now)),
            id_prefix: self.maybe(15, |rng| beginning(rng.pick(&cast.ids).as_str())),
            error: self.maybe(10, Rng::error),
        }
    }
}

/// The first character of a name.
pub(in crate::testkit) fn beginning(name: &str) -> Arc<str> {
    name.chars().take(1).collect::<String>().into()
}
