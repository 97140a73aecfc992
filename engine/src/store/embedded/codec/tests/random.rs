//! Random values of everything that is stored, from a seed.

use std::num::NonZeroU32;
use std::ops::Range;
use std::time::Duration;

use super::super::{StoredEnd, StoredPause, StoredTopic};
use crate::dice::Lease;
use crate::history::{Entry, Report, What};
use crate::job::{Body, Caller, Confirm, Envelope, NewJob, Target, Ttr};
use crate::machine::{Hold, Life, Owner, State, Tally};
use crate::retry::{Retry, WAIT_MAX};
use crate::schedule::{CATCH_UP_MAX, EVERY_MAX, Misfire, OnDead, Repeat};
use crate::time::{Now, Tick, Time};
use crate::topic::{Headers, Partitions, Rate, Settings};

/// A small generator (splitmix64): the same seed, the same values.
pub(super) struct Rng(u64);

/// Calls `test` once for each of `rounds` seeds, or only for that of `LINGER_SEED`.
pub(super) fn for_seeds(rounds: u64, mut test: impl FnMut(&mut Rng)) {
    for seed in seeds(rounds) {
        let _said = SaySeed(seed);
        test(&mut Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
    }
}

fn seeds(rounds: u64) -> Range<u64> {
    match std::env::var("LINGER_SEED") {
        Ok(seed) => {
            let seed = seed.parse().expect("LINGER_SEED is a number");
            seed..seed + 1
        }
        Err(_) => 0..rounds,
    }
}

struct SaySeed(u64);

impl Drop for SaySeed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let seed = self.0;
            eprintln!("repeat with LINGER_SEED={seed} cargo test -p linger --lib codec");
        }
    }
}

impl Rng {
    pub(super) fn u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.u64() % end
    }

    pub(super) fn coin(&mut self) -> bool {
        self.below(2) == 0
    }

    pub(super) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }

    fn maybe<T>(&mut self, make: impl FnOnce(&mut Rng) -> T) -> Option<T> {
        self.coin().then(|| make(self))
    }

    /// 0 to `max`, of any magnitude, often at an end.
    fn upto(&mut self, max: u64) -> u64 {
        match self.below(6) {
            0 => 0,
            1 => max,
            _ => (self.u64() >> self.below(64)).min(max),
        }
    }

    fn u32(&mut self) -> u32 {
        self.upto(u32::MAX.into()) as u32
    }

    fn non_zero(&mut self, max: u32) -> NonZeroU32 {
        NonZeroU32::new(self.upto(max.into()) as u32).unwrap_or(NonZeroU32::MIN)
    }

    pub(super) fn bytes(&mut self, len: u64) -> Vec<u8> {
        (0..len).map(|_| self.u64() as u8).collect()
    }

    fn text(&mut self, bytes_max: usize) -> String {
        let mut text = String::from("x");
        let len = 1 + self.upto(bytes_max as u64 - 1) as usize;
        while text.len() < len {
            text.push(self.pick(&['a', 'Z', '7', '.', '-', 'é', '支', '🦀']));
        }
        text.truncate(text.floor_char_boundary(bytes_max));
        text
    }

    fn time(&mut self) -> Time {
        let ms = if self.coin() {
            1_790_000_000_000 + self.below(1_000_000_000)
        } else {
            self.upto(Time::MAX.as_ms())
        };
        Time::from_ms(ms).unwrap()
    }

    fn duration(&mut self) -> Duration {
        match self.below(4) {
            0 => Duration::MAX,
            1 => Duration::from_nanos(self.u64()),
            2 => Duration::from_secs(self.below(1_000_000)),
            _ => Duration::from_millis(self.upto(u64::MAX)),
        }
    }

    fn duration_upto(&mut self, max: Duration) -> Duration {
        Duration::from_millis(self.upto(max.as_millis() as u64))
    }

    fn ttr(&mut self) -> Ttr {
        Ttr::new(self.duration_upto(Ttr::MAX).max(Duration::from_millis(1))).unwrap()
    }

    fn retry(&mut self) -> Retry {
        let retry = if self.coin() {
            let (a, b) = (self.duration_upto(WAIT_MAX), self.duration_upto(WAIT_MAX));
            let jitter = self.below(1001) as f64 / 1000.0;
            Retry::backoff(a.min(b), a.max(b), jitter).unwrap()
        } else {
            let steps = 1 + self.upto(99);
            let steps: Vec<_> = (0..steps).map(|_| self.duration_upto(WAIT_MAX)).collect();
            let ladder = Retry::ladder(&steps).unwrap();
            if self.coin() { ladder.from_due() } else { ladder }
        };
        if self.coin() { retry.attempts(self.u32()) } else { retry }
    }

    fn repeat(&mut self) -> Repeat {
        let mut repeat = if self.below(4) == 0 {
            let cron = self.pick(&["0 9 * * 1-5", "*/30 * * * *", "@daily", "5 0 3 L * *"]);
            let zone = self.pick(&[None, Some("Asia/Shanghai"), Some("europe/berlin")]);
            Repeat::cron(cron, zone).unwrap()
        } else {
            Repeat::every(self.duration_upto(EVERY_MAX).max(Duration::from_millis(1))).unwrap()
        };
        if self.coin() {
            repeat = repeat.until(self.time());
        }
        if self.coin() {
            repeat = repeat.count(self.non_zero(u32::MAX));
        }
        if self.coin() {
            repeat = repeat.on_dead(OnDead::Stop);
        }
        let all = Misfire::All(self.non_zero(CATCH_UP_MAX));
        repeat.misfire(self.pick(&[Misfire::Once, Misfire::Skip, all])).unwrap()
    }

    fn target(&mut self) -> Target {
        match self.below(3) {
            0 => "worker:".parse().unwrap(),
            1 => format!("sink:{}", self.text(100)).parse().unwrap(),
            _ => format!("https://{}", self.text(Target::BYTES_MAX - 8)).parse().unwrap(),
        }
    }

    fn envelope(&mut self) -> Envelope {
        self.pick(&[Envelope::Body, Envelope::CloudEvents, Envelope::Task])
    }

    fn headers(&mut self) -> Headers {
        let count = if self.coin() { 0 } else { self.below(5) };
        let value = "v".repeat(self.below(100) as usize);
        Headers::new((0..count).map(|n| (format!("x-{n}"), &value))).unwrap()
    }

    fn confirm(&mut self) -> Confirm {
        self.pick(&[Confirm::Delivery, Confirm::Finish])
    }

    fn caller(&mut self) -> Caller {
        self.text(Caller::BYTES_MAX).parse().unwrap()
    }

    fn body(&mut self) -> Body {
        let len = self.upto(300);
        match self.below(3) {
            0 => Body::json_of(&[self.text(300)]).unwrap(),
            1 => Body::text(self.text(300)),
            _ => Body::bytes(self.bytes(len)),
        }
    }

    pub(super) fn job(&mut self) -> NewJob {
        let topic = self.text(200).parse().unwrap();
        let id = self.text(256).parse().unwrap();
        let mut job = NewJob::new(topic, id, self.body());
        job.priority = if self.coin() { job.priority } else { self.u32() };
        job.held = self.coin();
        job.by = self.maybe(Rng::caller);
        if self.coin() {
            let spec = &mut job.spec;
            spec.ttr = self.maybe(Rng::ttr);
            spec.retry = self.maybe(Rng::retry);
            spec.repeat = self.maybe(Rng::repeat);
            spec.target = self.maybe(Rng::target);
            spec.confirm = self.maybe(Rng::confirm);
            spec.envelope = self.maybe(Rng::envelope);
            spec.retain = self.maybe(Rng::duration);
        }
        job.spec.content_type = self.maybe(|_| "application/xml; charset=utf-8".parse().unwrap());
        job.spec.traceparent = self.maybe(|rng| {
            let (a, b, c) = (rng.u64() as u8, rng.u64(), rng.u64());
            format!("{a:02x}-{b:032x}-{c:016x}-{a:02x}").parse().unwrap()
        });
        job
    }

    /// A moment on whole milliseconds of both clocks, so that holds come back as they were.
    pub(super) fn now(&mut self) -> Now {
        let wall_us = (1_790_000_000_000 + self.below(1_000_000_000)) * 1000;
        // Longer than any ttr after the clock was made, so that no hold began before it.
        let tick = Tick::from_us((1 + self.below(1 << 20)) * 1_000_000_000);
        Now { wall_us, tick }
    }

    /// A life whose hold, if it has one, was just given.
    pub(super) fn life(&mut self, now: Now) -> Life {
        let due = self.time();
        let mut life = Life::new(due, if self.coin() { 1024 } else { self.u32() }, false);
        life.state = self.state(now);
        life.version = self.upto(u64::MAX);
        if self.coin() {
            life.first_due = self.time();
            (life.base, life.slot) = (life.first_due, life.first_due);
        }
        if self.coin() {
            (life.base, life.slot) = (self.time(), self.time());
        }
        if self.coin() {
            life.occurrence = self.u32();
        }
        let counted = u32::from(matches!(life.state, State::Reserved(_)));
        life.attempt = self.u32().max(counted);
        life.hand_outs = if self.coin() { life.attempt } else { self.u32().max(counted) };
        life.tally.reserves = if self.coin() { life.hand_outs } else { self.u32().max(counted) };
        if self.coin() {
            life.tally = self.tally(life.tally.reserves);
        }
        life
    }

    fn tally(&mut self, reserves: u32) -> Tally {
        let mut count = || self.maybe(Rng::u32).unwrap_or_default();
        Tally {
            reserves,
            timeouts: count(),
            releases: count(),
            buries: count(),
            kicks: count(),
            deaths: count(),
        }
    }

    fn state(&mut self, now: Now) -> State {
        match self.below(5) {
            0 => State::Waiting { retry: self.coin(), held: self.coin() },
            1 => State::Ready,
            2 => State::Reserved(self.hold(now)),
            3 => State::Dead { at: self.time() },
            _ => State::Finished {
                at: self.time(),
                until: self.time(),
                lease: self.maybe(|rng| Lease::from_u64(rng.u64())),
            },
        }
    }

    fn hold(&mut self, now: Now) -> Hold {
        let ttr = self.ttr();
        let until = now.tick.plus_ms(ttr.as_ms());
        let owner = self.maybe(|rng| Owner(rng.u64()));
        Hold { lease: Lease::from_u64(self.u64()), since: now.tick, until, ttr, owner }
    }

    pub(super) fn note(&mut self) -> Entry {
        Entry {
            at: self.time(),
            what: self.pick(&[What::Added, What::Failed, What::Died, What::Finished, What::Run]),
            attempt: self.u32(),
            took_ms: self.maybe(|rng| rng.upto(u64::MAX)),
            error: self.maybe(|rng| rng.text(1024).into()),
            report: self.maybe(|rng| Report {
                status: rng.maybe(|rng| rng.u64() as u16),
                excerpt: rng.maybe(|rng| rng.text(1024).into()),
            }),
            by: self.maybe(Rng::caller),
        }
    }

    pub(super) fn topic(&mut self) -> StoredTopic {
        let settings = Settings {
            ttr: self.maybe(Rng::ttr),
            retry: self.maybe(Rng::retry),
            target: self.maybe(Rng::target),
            confirm: self.maybe(Rng::confirm),
            envelope: self.maybe(Rng::envelope),
            timeout: self.maybe(Rng::ttr),
            headers: self.headers(),
            archive: self.maybe(|rng| rng.pick(&["files", "sink:events"]).parse().unwrap()),
            retain: self.maybe(Rng::duration),
            retain_dead: self.maybe(Rng::duration),
            rate: self.maybe(|rng| {
                let per = Duration::from_millis(1 + rng.below(86_400_000));
                Rate::new(rng.non_zero(u32::MAX).get(), per).unwrap()
            }),
            concurrency: self.maybe(|rng| rng.non_zero(u32::MAX)),
            partitions: self.maybe(|rng| Partitions::new(rng.non_zero(256).get()).unwrap()),
            jobs_max: self.maybe(|rng| rng.non_zero(u32::MAX)),
            bytes_max: self.maybe(|rng| rng.non_zero(u32::MAX).into()),
        };
        let until = StoredPause::Until(self.time());
        let pause = self.pick(&[StoredPause::No, until, StoredPause::Indefinitely]);
        StoredTopic { settings, pause }
    }

    pub(super) fn kv(&mut self) -> (String, Option<Vec<u8>>, u64, Option<StoredEnd>) {
        let (key, len) = (self.text(512), self.upto(1000));
        let value = self.maybe(|rng| rng.bytes(len));
        let end = self.maybe(|rng| StoredEnd { at: rng.time(), ttl_ms: rng.upto(u64::MAX) });
        (key, value, self.upto(u64::MAX), end)
    }
}
