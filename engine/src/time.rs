//! Moments, durations, and the only door to the wall clock.

use std::fmt;
use std::str::FromStr;
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use jiff::fmt::temporal::DateTimePrinter;

use crate::error::{Error, Result, excerpt};

/// One second, for `30 * SECOND`.
pub const SECOND: Duration = Duration::from_secs(1);
/// One minute, for `30 * MINUTE`.
pub const MINUTE: Duration = Duration::from_secs(60);
/// One hour, for `2 * HOUR`.
pub const HOUR: Duration = Duration::from_secs(3600);
/// One day of 24 hours, for `7 * DAY`.
pub const DAY: Duration = Duration::from_secs(86_400);

/// A moment of the wall clock, in milliseconds: from 1970 almost to the end of the year 9999.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(u64);

impl Time {
    /// The first moment there is: 1970-01-01T00:00:00Z.
    pub const MIN: Time = Time(0);
    /// The last moment there is: 9999-12-30T22:00:00.000Z, so that every zone can show it.
    pub const MAX: Time = Time(253_402_207_200_000);

    /// This many milliseconds after 1970, if that is not past [`Time::MAX`].
    pub fn from_ms(ms: u64) -> Option<Time> {
        (ms <= Time::MAX.0).then_some(Time(ms))
    }

    /// Milliseconds since 1970.
    pub const fn as_ms(self) -> u64 {
        self.0
    }

    /// This moment and `ms` more, or none past [`Time::MAX`].
    pub fn checked_add_ms(self, ms: u64) -> Option<Time> {
        self.0.checked_add(ms).and_then(Time::from_ms)
    }

    /// This moment and `ms` more, or the last moment there is.
    pub fn saturating_add_ms(self, ms: u64) -> Time {
        self.checked_add_ms(ms).unwrap_or(Time::MAX)
    }

    /// The moment `ms` before this one, or 1970.
    pub fn saturating_sub_ms(self, ms: u64) -> Time {
        Time(self.0.saturating_sub(ms))
    }

    /// Milliseconds from `earlier` to here; 0 if `earlier` is later.
    pub fn ms_since(self, earlier: Time) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// Reads RFC 3339, or Unix time in digits: 10 are seconds, 13 milliseconds, 16 microseconds.
impl FromStr for Time {
    type Err = Error;

    fn from_str(text: &str) -> Result<Time> {
        let wrong = || {
            Error::invalid(
                "at",
                format!(
                    "`{}` is not a time; write RFC 3339 such as 2026-12-01T09:00:00+08:00, \
                     from 1970 to 9999, or Unix time in 10 (seconds), 13 (milliseconds) or 16 digits (microseconds)",
                    excerpt(text)
                ),
            )
        };
        if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
            let number: u64 = text.parse().map_err(|_| wrong())?;
            let ms = match text.len() {
                10 => number * 1000,
                13 => number,
                // A due time is never rounded down, so that nothing is early.
                16 => number.div_ceil(1000),
                _ => return Err(wrong()),
            };
            return Time::from_ms(ms).ok_or_else(wrong);
        }
        let stamp: jiff::Timestamp = text.parse().map_err(|cause| wrong().because(cause))?;
        let us = u64::try_from(stamp.as_nanosecond().div_euclid(1000)).ok();
        us.and_then(|us| Time::from_ms(us.div_ceil(1000))).ok_or_else(|| {
            let (text, min, max) = (excerpt(text), Time::MIN, Time::MAX);
            Error::invalid("at", format!("`{text}` is out of range; give {min} to {max}"))
        })
    }
}

impl Time {
    /// Writes it as it is displayed.
    pub fn write_to(self, out: &mut Vec<u8>) {
        const RFC_3339: DateTimePrinter = DateTimePrinter::new().precision(Some(3));
        RFC_3339.print_timestamp(&self.stamp(), out).expect("a vector takes everything");
    }

    fn stamp(self) -> jiff::Timestamp {
        let ms = i64::try_from(self.0).expect("a time is before the year 10000");
        jiff::Timestamp::from_millisecond(ms).expect("a time is before the year 10000")
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3}", self.stamp())
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A reading of the monotonic clock, in microseconds since the clock was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Tick(u64);

impl Tick {
    /// The last tick there is.
    pub const MAX: Tick = Tick(u64::MAX);

    /// This many microseconds after the clock was made.
    pub fn from_us(us: u64) -> Tick {
        Tick(us)
    }

    /// Microseconds since the clock was made.
    pub fn as_us(self) -> u64 {
        self.0
    }

    /// The tick `ms` milliseconds later.
    pub fn plus_ms(self, ms: u64) -> Tick {
        Tick(self.0.saturating_add(ms.saturating_mul(1000)))
    }

    /// Whole milliseconds from `earlier` to here; 0 if `earlier` is later.
    pub fn ms_since(self, earlier: Tick) -> u64 {
        self.us_since(earlier) / 1000
    }

    /// Microseconds from `earlier` to here; 0 if `earlier` is later.
    pub fn us_since(self, earlier: Tick) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// One reading of both clocks. Due times look at the wall, durations in flight at the tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Microseconds since 1970 by the wall clock.
    pub wall_us: u64,
    /// The monotonic clock.
    pub tick: Tick,
}

impl Now {
    /// The wall clock, rounded down: what a due time is compared with.
    pub fn time(self) -> Time {
        Time::from_ms(self.wall_us / 1000).unwrap_or(Time::MAX)
    }

    /// The moment `ms` from now, rounded up, or none past [`Time::MAX`]: what a delay becomes.
    pub fn after_ms(self, ms: u64) -> Option<Time> {
        Time::from_ms(self.wall_us.div_ceil(1000))?.checked_add_ms(ms)
    }

    /// What the wall clock will show at `tick`, if nobody sets it meanwhile.
    pub fn time_at(self, tick: Tick) -> Time {
        let us = i128::from(self.wall_us) + i128::from(tick.0) - i128::from(self.tick.0);
        u64::try_from(us / 1000).ok().and_then(Time::from_ms).unwrap_or(if us < 0 {
            Time::MIN
        } else {
            Time::MAX
        })
    }

    /// Microseconds by which `due` is past; 0 if it is not.
    pub fn late_us(self, due: Time) -> u64 {
        self.wall_us.saturating_sub(due.as_ms() * 1000)
    }
}

/// Where time comes from. The only door to the wall clock: nothing else in the crate reads it.
pub trait Clock: Send + Sync + 'static {
    /// Reads both clocks.
    fn now(&self) -> Now;

    /// Blocks the calling thread until `bell` rings or `wake` is reached; may return early.
    fn park(&self, bell: &std::sync::Arc<Bell>, wake: Wake);
}

/// When a parked thread wants to be woken: whichever comes first; nothing means only by the bell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wake {
    /// When the wall clock shows this.
    pub wall: Option<Time>,
    /// When the monotonic clock shows this.
    pub tick: Option<Tick>,
}

impl Wake {
    /// Whether one who sleeps until `other` would miss it.
    pub(crate) fn is_before(self, other: Wake) -> bool {
        fn sooner<T: Ord>(one: Option<T>, other: Option<T>) -> bool {
            one.is_some_and(|one| other.is_none_or(|other| one < other))
        }
        sooner(self.wall, other.wall) || sooner(self.tick, other.tick)
    }

    /// Whether `now` has come this far.
    pub fn reached(self, now: Now) -> bool {
        self.wall.is_some_and(|wall| now.time() >= wall)
            || self.tick.is_some_and(|tick| now.tick >= tick)
    }
}

/// Wakes one parked thread. A ring before the wait is not lost.
#[derive(Debug, Default)]
pub struct Bell {
    state: Mutex<Rung>,
    heard: Condvar,
}

#[derive(Debug, Default)]
struct Rung {
    rung: bool,
    /// Whether anyone listens: to wake nobody costs a call to the kernel too.
    awaited: bool,
}

impl Bell {
    /// Wakes the thread that waits, or the next one that will.
    pub fn ring(&self) {
        let mut state = self.state.lock().expect("nobody panics holding a bell");
        let wakes = state.awaited && !state.rung;
        state.rung = true;
        drop(state);
        if wakes {
            self.heard.notify_one();
        }
    }

    /// Whether it was rung, which is forgotten by that.
    #[cfg(test)]
    pub(crate) fn was_rung(&self) -> bool {
        std::mem::take(&mut self.state.lock().expect("nobody panics holding a bell").rung)
    }

    /// Waits for a ring, at most `limit`.
    pub fn wait(&self, limit: Option<Duration>) {
        let mut state = self.state.lock().expect("nobody panics holding a bell");
        state.awaited = true;
        let silent = |state: &mut Rung| !state.rung;
        let mut state = match limit {
            None => self.heard.wait_while(state, silent).expect("as above"),
            Some(limit) => self.heard.wait_timeout_while(state, limit, silent).expect("as above").0,
        };
        *state = Rung::default();
    }
}

/// The machine's own clocks.
#[derive(Debug)]
pub struct SystemClock {
    start: Instant,
}

/// A wall clock may be set while we sleep, and that must be noticed within a second.
const SLEEP_MAX: Duration = SECOND;

impl SystemClock {
    /// The machine's clocks, with the tick counting from here.
    pub fn new() -> Self {
        SystemClock { start: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        SystemClock::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Now {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Now {
            wall_us: wall.as_micros() as u64,
            tick: Tick(self.start.elapsed().as_micros() as u64),
        }
    }

    fn park(&self, bell: &std::sync::Arc<Bell>, wake: Wake) {
        let now = self.now();
        let wall = wake.wall.map(|due| {
            let ahead = (due.as_ms() * 1000).saturating_sub(now.wall_us);
            Duration::from_micros(ahead).min(SLEEP_MAX)
        });
        let tick = wake.tick.map(|tick| Duration::from_micros(tick.0.saturating_sub(now.tick.0)));
        bell.wait(match (wall, tick) {
            (Some(wall), Some(tick)) => Some(wall.min(tick)),
            (either, or) => either.or(or),
        });
    }
}

/// Notices that the wall clock was set, by its distance from the monotonic one.
#[derive(Debug, Default)]
pub struct StepWatch {
    offset_us: Option<i128>,
}

/// Slewing moves a clock by under a millisecond a second; this much at once is a step.
const STEP_US: i128 = 100_000;

impl StepWatch {
    /// The step in milliseconds since the last reading, if there was one.
    pub fn observe(&mut self, now: Now) -> Option<i64> {
        let offset = i128::from(now.wall_us) - i128::from(now.tick.0);
        let before = self.offset_us.replace(offset)?;
        let step = offset - before;
        (step.abs() >= STEP_US).then_some((step / 1000) as i64)
    }
}

/// Reads a duration as people write it: `500ms`, `15s`, `3m`, `2h30m`, `7d`; a bare number is seconds.
pub fn parse_duration(text: &str) -> Result<Duration> {
    parse_duration_ms(text).map(Duration::from_millis).ok_or_else(|| {
        Error::new(
            crate::error::Code::Invalid,
            format!(
                "`{}` is not a duration; write it as 500ms, 15s, 3m, 2h30m or 7d \
                 (a bare number is seconds)",
                excerpt(text)
            ),
        )
    })
}

fn parse_duration_ms(text: &str) -> Option<u64> {
    if let Some(ms) = number_times(text, 1000) {
        return Some(ms);
    }
    let mut rest = text;
    let mut total = 0_u64;
    // Each unit at most once and in falling order, so that `5m2h` is a mistake, not 2h5m.
    let mut units =
        [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)].iter();
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at(digits);
        let unit = &tail[..tail.find(|c: char| !c.is_ascii_lowercase()).unwrap_or(tail.len())];
        let (_, scale) = units.find(|(name, _)| *name == unit)?;
        total = total.checked_add(number_times(number, *scale)?)?;
        rest = &tail[unit.len()..];
    }
    (!text.is_empty()).then_some(total)
}

/// `1.5` times 1000 is 1500; rounded up to the millisecond, never down.
fn number_times(text: &str, scale: u64) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(fraction) || fraction.len() > 9 {
        return None;
    }
    let whole: u64 = whole.parse().ok()?;
    let part: u64 = fraction.parse().ok()?;
    let part_ms = (part * scale).div_ceil(10_u64.pow(fraction.len() as u32));
    whole.checked_mul(scale)?.checked_add(part_ms)
}

/// Writes a duration as [`parse_duration`] reads it.
pub fn format_duration(duration: Duration) -> String {
    let mut ms = duration_ms(duration);
    if ms == 0 {
        return "0s".into();
    }
    let mut text = String::new();
    for (name, scale) in
        [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)]
    {
        if ms >= scale {
            text.push_str(&format!("{}{name}", ms / scale));
            ms %= scale;
        }
    }
    text
}

/// A duration in milliseconds, rounded up, never down.
pub fn duration_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_people_write_them() {
        for (text, ms) in [
            ("500ms", 500),
            ("15s", 15_000),
            ("3m", 180_000),
            ("2h30m", 9_000_000),
            ("7d", 604_800_000),
            ("60", 60_000),
            ("0", 0),
            ("0.5", 500),
            ("1.5s", 1500),
            ("0.0001", 1),
            ("1d2h3m4s5ms", 93_784_005),
        ] {
            assert_eq!(parse_duration(text).map(duration_ms), Ok(ms), "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_is_refused() {
        for text in [
            "",
            " ",
            "m",
            "-5",
            "-5s",
            "5x",
            "5 m",
            "2m3h",
            "1s1s",
            "1..5",
            "1e3",
            "NaN",
            ".5",
            "5.",
            "99999999999999999999",
            "30M",
        ] {
            assert!(
                parse_duration(text).is_err(),
                "{text:?} was read as {:?}",
                parse_duration(text)
            );
        }
    }

    #[test]
    fn a_duration_is_written_as_it_is_read() {
        for text in ["0s", "500ms", "15s", "3m", "2h30m", "7d", "1d2h3m4s5ms"] {
            assert_eq!(format_duration(parse_duration(text).unwrap()), text);
        }
    }

    #[test]
    fn times_are_read_in_every_form_and_never_rounded_down() {
        let expected = Time::from_ms(1_796_086_800_000).unwrap();
        for text in [
            "2026-12-01T09:00:00+08:00",
            "2026-12-01T01:00:00Z",
            "1796086800",
            "1796086800000",
            "1796086800000000",
        ] {
            assert_eq!(text.parse::<Time>(), Ok(expected), "{text}");
        }
        assert_eq!("1796086800000001".parse::<Time>().unwrap().as_ms(), 1_796_086_800_001);
        assert_eq!("2026-12-01T01:00:00.0001Z".parse::<Time>().unwrap().as_ms(), 1_796_086_800_001);
        assert_eq!(expected.to_string(), "2026-12-01T01:00:00.000Z");
        for edge in [Time::MIN, Time::MAX] {
            assert_eq!(edge.to_string().parse(), Ok(edge));
        }
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in [
            "",
            "now",
            "12345",
            "2026-12-01",
            "2026-12-01T09:00:00",
            "1960-01-01T00:00:00Z",
            "9999999999999999999",
            "2026-13-01T00:00:00Z",
        ] {
            let refused = text.parse::<Time>().unwrap_err();
            assert_eq!(refused.at_field(), Some("at"), "{text:?}");
        }
    }

    #[test]
    fn a_delay_is_rounded_up_and_the_clock_down() {
        let now = Now { wall_us: 1_000_400, tick: Tick(0) };
        assert_eq!(now.time().as_ms(), 1000);
        assert_eq!(now.after_ms(10).unwrap().as_ms(), 1011);
    }

    #[test]
    fn a_step_of_the_wall_clock_is_noticed_and_a_drift_is_not() {
        let mut watch = StepWatch::default();
        let at = |wall_ms: u64, tick_ms: u64| Now {
            wall_us: wall_ms * 1000,
            tick: Tick(tick_ms * 1000),
        };
        assert_eq!(watch.observe(at(10_000, 0)), None);
        assert_eq!(watch.observe(at(11_010, 1000)), None);
        assert_eq!(watch.observe(at(72_010, 2000)), Some(60_000));
        assert_eq!(watch.observe(at(13_010, 3000)), Some(-60_000));
    }

    #[test]
    fn a_ring_before_the_wait_is_not_lost() {
        let bell = Bell::default();
        bell.ring();
        bell.wait(None);
    }
}
