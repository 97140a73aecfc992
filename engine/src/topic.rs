//! Topics: their names, their settings, and what they count.

mod headers;

pub use headers::Headers;

use std::fmt;
use std::num::{NonZeroU32, NonZeroU64};
use std::str::FromStr;
use std::time::Duration;

use crate::error::{Code, Error, Result, excerpt};
use crate::job::{Confirm, Envelope, Target, Ttr};
use crate::name::name;
use crate::retry::Retry;
use crate::time::{Tick, format_duration, parse_duration};

name! {
    /// A topic's name: 1 to 200 bytes of UTF-8 without control characters or blanks at its ends.
    Topic, field "topic", bytes_max 200, blank_ends refused
}

impl Default for Topic {
    fn default() -> Self {
        "default".parse().expect("`default` is a topic")
    }
}

/// What a topic says about its jobs. Looked up when used, so a change reaches the jobs that wait.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// How long an attempt may take, for jobs that do not say.
    pub ttr: Option<Ttr>,
    /// Attempts and pace, for jobs that do not say.
    pub retry: Option<Retry>,
    /// Where jobs are pushed, for jobs that do not say. None: they wait to be popped.
    pub target: Option<Target>,
    /// When a pushed job counts as finished, for jobs that do not say.
    pub confirm: Option<Confirm>,
    /// What a push makes of the body, for jobs that do not say.
    pub envelope: Option<Envelope>,
    /// The most an attempt to push may take. [`PUSH_TIMEOUT`] unless set; ttr if that is shorter.
    pub timeout: Option<Ttr>,
    /// What every push brings along besides.
    pub headers: Headers,
    /// How long finished jobs stay visible, for jobs that do not say.
    pub retain: Option<Duration>,
    /// How long dead jobs are kept. None: for ever.
    pub retain_dead: Option<Duration>,
    /// Where jobs are kept whose life is over. None: nowhere.
    pub archive: Option<Archive>,
    /// The most jobs handed out in a time.
    pub rate: Option<Rate>,
    /// The most jobs reserved at once.
    pub concurrency: Option<NonZeroU32>,
    /// The most jobs that it may have, in whatever state: more are refused. On a shared store that holds
    /// in each partition by itself.
    pub jobs_max: Option<NonZeroU32>,
    /// The most bytes that the bodies of all its jobs may have together, in whatever state: what would
    /// make it more is refused. On a shared store that holds in each partition by itself.
    pub bytes_max: Option<NonZeroU64>,
    /// Over how many parts of a shared store its jobs are spread. Only a topic without jobs can be
    /// spread anew. A store that is not shared keeps it, and has no parts.
    pub partitions: Option<Partitions>,
}

/// Into how many parts a hot topic is spread, by the ids of its jobs: 1 to 256. Order and limits then hold
/// in each part by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partitions(u16);

impl Partitions {
    /// The most there can be.
    pub const MAX: u16 = 256;

    /// So many parts.
    pub fn new(count: u32) -> Result<Partitions> {
        let count = u16::try_from(count).ok().filter(|count| (1..=Self::MAX).contains(count));
        let wrong = || Error::invalid("partitions", "a topic is spread over 1 to 256 partitions");
        count.map(Partitions).ok_or_else(wrong)
    }

    /// How many.
    pub fn get(self) -> u16 {
        self.0
    }
}

/// Where jobs go whose life is over, with their history: written `files`, or as a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Archive {
    /// To files of JSON lines.
    Files,
    /// To be pushed there, as jobs of their own.
    Target(Target),
}

impl FromStr for Archive {
    type Err = Error;

    fn from_str(text: &str) -> Result<Archive> {
        match text {
            "files" => Ok(Archive::Files),
            target => target.parse().map(Archive::Target).map_err(|_| {
                let text = excerpt(text);
                let message = format!("`{text}` is no archive; give files, or where to push to");
                Error::invalid("archive", message)
            }),
        }
    }
}

impl fmt::Display for Archive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Archive::Files => f.write_str("files"),
            Archive::Target(target) => target.fmt(f),
        }
    }
}

/// The most an attempt to push takes where the topic does not say.
pub const PUSH_TIMEOUT: Duration = Duration::from_secs(30);

/// What holds for jobs whose topic does not say either.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Defaults {
    /// How long an attempt may take. 60 s unless set.
    pub ttr: Ttr,
    /// Attempts and pace.
    pub retry: Retry,
    /// How long finished jobs stay visible. None: they are gone at once.
    pub retain: Option<Duration>,
}

impl Default for Defaults {
    fn default() -> Self {
        Defaults { ttr: Ttr::DEFAULT, retry: Retry::default(), retain: None }
    }
}

impl Settings {
    /// Refuses one job more in a topic that has so many.
    pub(crate) fn check_room(&self, topic: &Topic, jobs: impl FnOnce() -> u64) -> Result<()> {
        match self.jobs_max {
            Some(most) if jobs() >= most.get().into() => Err(full(topic, most)),
            _ => Ok(()),
        }
    }

    /// Refuses a body that grows from `was` bytes to `is` in a topic that has so many: what does not
    /// grow is no burden.
    pub(crate) fn check_bytes(&self, topic: &Topic, there: u64, was: u64, is: u64) -> Result<()> {
        match self.bytes_max {
            Some(most) if is > was && there - was + is > most.get() => Err(too_heavy(topic, most)),
            _ => Ok(()),
        }
    }

    /// How long an attempt to push may take, of a job with this ttr.
    pub fn attempt_time(&self, ttr: Ttr) -> Duration {
        ttr.as_duration().min(self.timeout.map_or(PUSH_TIMEOUT, Ttr::as_duration))
    }
}

/// A topic has as many jobs as it may have.
pub(crate) fn full(topic: &Topic, most: NonZeroU32) -> Error {
    let topic = excerpt(topic.as_str());
    let message = format!(
        "topic `{topic}` has {most} jobs, which is its limit jobs_max; try again when some are gone"
    );
    Error::new(Code::Overloaded, message)
}

/// The bodies of a topic's jobs would be more than they may be.
pub(crate) fn too_heavy(topic: &Topic, most: NonZeroU64) -> Error {
    let topic = excerpt(topic.as_str());
    let message = format!(
        "topic `{topic}` would have more than {most} bytes of bodies, which is its limit bytes_max; \
         try again when some jobs are gone"
    );
    Error::new(Code::Overloaded, message)
}

/// So many hand-outs in so much time, written `100` (a second), `10/m` or `500/15m`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    count: NonZeroU32,
    per_ms: u64,
}

/// The longest time a rate may be counted over.
pub const RATE_PER_MAX: Duration = crate::time::DAY;

impl Rate {
    /// `count` hand-outs in each `per`.
    pub fn new(count: u32, per: Duration) -> Result<Rate> {
        let count = NonZeroU32::new(count).ok_or_else(|| {
            Error::invalid(
                "rate",
                "a rate of 0 would never hand out a job; pause the topic instead",
            )
        })?;
        if per < Duration::from_millis(1) || per > RATE_PER_MAX {
            return Err(Error::invalid(
                "rate",
                format!("a rate is counted over {}; give 1ms to 1d", format_duration(per)),
            ));
        }
        Ok(Rate { count, per_ms: crate::time::duration_ms(per) })
    }

    /// Hand-outs in each period.
    pub fn count(self) -> u32 {
        self.count.get()
    }

    /// The period.
    pub fn per(self) -> Duration {
        Duration::from_millis(self.per_ms)
    }

    /// Nanoseconds between two hand-outs at this rate.
    pub(crate) fn gap_ns(self) -> u64 {
        (self.per_ms * 1_000_000 / u64::from(self.count.get())).max(1)
    }
}

impl FromStr for Rate {
    type Err = Error;

    fn from_str(text: &str) -> Result<Rate> {
        let wrong = || {
            let text = excerpt(text);
            Error::invalid(
                "rate",
                format!("`{text}` is not a rate; write 100 (a second), 10/m or 500/15m"),
            )
        };
        let (count, per) = text.split_once('/').unwrap_or((text, "s"));
        let count = count.parse().map_err(|_| wrong())?;
        let per = match per.chars().next() {
            None => return Err(wrong()),
            Some(first) if first.is_ascii_digit() => per.to_owned(),
            Some(_) => format!("1{per}"),
        };
        Rate::new(count, parse_duration(&per).map_err(|_| wrong())?)
    }
}

/// A token bucket of one second's worth, kept as the moment at which it would be full again.
///
/// One number instead of two, and exact: nothing is rounded however often it is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bucket {
    full_at_ns: u128,
}

const SECOND_NS: u64 = 1_000_000_000;

impl Bucket {
    /// When the next token is there: at or before now if one is there already.
    pub fn next_at(self, rate: Rate) -> Tick {
        let at_ns = (self.full_at_ns + u128::from(rate.gap_ns())).saturating_sub(room_ns(rate));
        Tick::from_us(u64::try_from(at_ns.div_ceil(1000)).unwrap_or(u64::MAX))
    }

    /// Takes one token at `now`, whether or not there is one.
    pub fn take(&mut self, rate: Rate, now: Tick) {
        let now_ns = u128::from(now.as_us()) * 1000;
        self.full_at_ns = self.full_at_ns.max(now_ns) + u128::from(rate.gap_ns());
    }

    /// Goes over to `rate`: at worst the bucket is empty, whatever was taken at another rate.
    pub fn refit(&mut self, rate: Rate, now: Tick) {
        let now_ns = u128::from(now.as_us()) * 1000;
        self.full_at_ns = self.full_at_ns.min(now_ns + room_ns(rate));
    }

    /// Gives back a token taken for nothing.
    pub fn give_back(&mut self, rate: Rate) {
        self.full_at_ns = self.full_at_ns.saturating_sub(u128::from(rate.gap_ns()));
    }
}

/// How long an empty bucket takes to fill. At least one token fits, however slow the rate.
pub(crate) fn room_ns(rate: Rate) -> u128 {
    u128::from(rate.gap_ns().max(SECOND_NS))
}

/// Whether a topic hands out jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pause {
    /// It does.
    #[default]
    No,
    /// It does not, until this tick.
    Until(Tick),
    /// It does not, until someone resumes it.
    Indefinitely,
}

impl Pause {
    /// Whether the topic is paused at `now`.
    pub fn holds(self, now: Tick) -> bool {
        match self {
            Pause::No => false,
            Pause::Until(end) => now < end,
            Pause::Indefinitely => true,
        }
    }
}

/// How many jobs are in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Not due yet, never failed.
    pub delayed: u64,
    /// Not due yet, after a failure.
    pub retry: u64,
    /// Set aside by hand.
    pub held: u64,
    /// Due, not held, not reserved.
    pub ready: u64,
    /// Of the ready ones, those with a priority under 1024.
    pub urgent: u64,
    /// Handed out and not settled.
    pub reserved: u64,
    /// On the dead shelf.
    pub dead: u64,
    /// Finished and still visible.
    pub finished: u64,
}

impl Counts {
    /// All jobs there are.
    pub fn total(&self) -> u64 {
        self.delayed
            + self.retry
            + self.held
            + self.ready
            + self.reserved
            + self.dead
            + self.finished
    }
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.delayed += other.delayed;
        self.retry += other.retry;
        self.held += other.held;
        self.ready += other.ready;
        self.urgent += other.urgent;
        self.reserved += other.reserved;
        self.dead += other.dead;
        self.finished += other.finished;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topic_names_are_checked() {
        for good in ["order.close", "支付宝", "a b", "x", "/slashes/too", "🦀"] {
            assert!(good.parse::<Topic>().is_ok(), "{good}");
        }
        let long = "x".repeat(201);
        for bad in ["", " a", "a ", "\u{a0}a", "a\nb", "a\0", "\u{7f}", "\u{85}", &long] {
            let refused = bad.parse::<Topic>().unwrap_err();
            assert_eq!(refused.at_field(), Some("topic"), "{bad:?}");
        }
    }

    #[test]
    fn rates_are_read_as_people_write_them() {
        for (text, count, per_ms) in
            [("100", 100, 1000), ("10/m", 10, 60_000), ("500/15m", 500, 900_000), ("1/s", 1, 1000)]
        {
            let rate: Rate = text.parse().unwrap();
            assert_eq!((rate.count(), rate.per().as_millis()), (count, per_ms), "{text}");
        }
        for bad in ["", "0", "-1", "1.5", "10/", "/m", "10/x", "10/2d", "10/0s"] {
            assert_eq!(bad.parse::<Rate>().unwrap_err().at_field(), Some("rate"), "{bad:?}");
        }
    }

    /// Takes every token as soon as it is there, until `end_ms`, and counts them.
    fn taken(rate: &str, end_ms: u64) -> u32 {
        let rate: Rate = rate.parse().unwrap();
        let (mut bucket, mut now, mut count) = (Bucket::default(), Tick::default(), 0);
        loop {
            now = now.max(bucket.next_at(rate));
            if now.as_us() >= end_ms * 1000 {
                return count;
            }
            bucket.take(rate, now);
            count += 1;
        }
    }

    #[test]
    fn a_bucket_starts_with_one_seconds_worth_and_fills_at_its_rate() {
        assert_eq!(taken("100", 1), 100);
        assert_eq!(taken("100", 1000), 200 - 1);
        assert_eq!(taken("10/m", 1), 1);
        assert_eq!(taken("10/m", 60_000), 10);
    }

    #[test]
    fn a_faster_rate_does_not_wait_for_what_a_slower_one_owes() {
        let (slow, fast): (Rate, Rate) = ("1/d".parse().unwrap(), "2".parse().unwrap());
        let mut bucket = Bucket::default();
        let now = Tick::from_us(5_000_000);
        bucket.take(slow, now);
        bucket.refit(fast, now);
        assert_eq!(bucket.next_at(fast), now.plus_ms(500));
    }

    #[test]
    fn a_token_given_back_can_be_taken_again() {
        let rate: Rate = "1/m".parse().unwrap();
        let mut bucket = Bucket::default();
        let now = Tick::from_us(5_000_000);
        bucket.take(rate, now);
        assert!(bucket.next_at(rate) > now);
        bucket.give_back(rate);
        assert!(bucket.next_at(rate) <= now);
    }
}
