//! How many attempts a job has, and how long it waits between them.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use crate::dice::Chance;
use crate::error::{Error, Result};
use crate::time::{DAY, HOUR, Now, SECOND, Time, duration_ms, format_duration, parse_duration};

/// The attempts a job has and the pace between them.
///
/// The default is 16 attempts, exponential from 1 s to 1 h with jitter.
///
/// ```
/// use linger::retry::Retry;
/// use linger::time::{HOUR, SECOND};
///
/// // A ladder has one attempt more than steps; attempts beyond that repeat the last step.
/// let ladder: Retry = "15s 3m 10m".parse()?;
/// assert_eq!(ladder.attempts_max(), 4);
/// let patient = ladder.attempts(20);
///
/// // Twice as long each time, moved by up to a fifth; no limit to the attempts.
/// let backoff = Retry::backoff(SECOND, HOUR, 0.2)?.attempts(0);
/// # Ok::<(), linger::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Retry {
    attempts: u32,
    pace: Pace,
}

/// How long a job waits after each failure.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Pace {
    /// Twice as long each time, up to a cap, give or take some jitter.
    Backoff(Backoff),
    /// Step by step as written; past the end the last step is repeated.
    Ladder {
        /// The steps in milliseconds, at least one.
        steps_ms: Arc<[u64]>,
        /// What the steps are counted from.
        from: StepsFrom,
    },
}

/// Exponential waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Backoff {
    /// The wait after the first failure.
    pub base_ms: u64,
    /// The longest wait, before jitter.
    pub max_ms: u64,
    /// Each wait is moved by up to this many thousandths, either way.
    pub jitter_permille: u16,
}

/// What a ladder's steps are counted from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum StepsFrom {
    /// From the failure: each step is a wait.
    #[default]
    Failure,
    /// From the first due time: each step is an offset.
    Due,
}

/// The most steps a ladder may have.
pub const STEPS_MAX: usize = 100;
/// The longest a single wait may be.
pub const WAIT_MAX: Duration = Duration::from_secs(3650 * 86_400);

const DEFAULT_ATTEMPTS: u32 = 16;
const DEFAULT_BACKOFF: Backoff = Backoff { base_ms: 1000, max_ms: 3_600_000, jitter_permille: 200 };

impl Default for Retry {
    fn default() -> Self {
        Retry { attempts: DEFAULT_ATTEMPTS, pace: Pace::Backoff(DEFAULT_BACKOFF) }
    }
}

impl Retry {
    /// One attempt and no second.
    pub fn none() -> Retry {
        Retry::default().attempts(1)
    }

    /// The default pace without an end: what the older protocols' clients expect.
    pub fn no_limit() -> Retry {
        Retry::default().attempts(0)
    }

    /// Waits these steps in turn: one attempt more than there are steps.
    pub fn ladder(steps: &[Duration]) -> Result<Retry> {
        if steps.is_empty() || steps.len() > STEPS_MAX {
            return Err(wrong(format!(
                "the retry ladder has {} steps; give 1 to {STEPS_MAX}",
                steps.len()
            )));
        }
        for step in steps {
            check_wait("a step of the retry ladder", *step)?;
        }
        let steps_ms: Arc<[u64]> = steps.iter().map(|step| duration_ms(*step)).collect();
        Ok(Retry {
            attempts: steps.len() as u32 + 1,
            pace: Pace::Ladder { steps_ms, from: StepsFrom::Failure },
        })
    }

    /// Waits `base` after the first failure, then twice as long each time up to `max`.
    ///
    /// `jitter` is the share, 0 to 1, by which each wait is moved at random either way.
    pub fn backoff(base: Duration, max: Duration, jitter: f64) -> Result<Retry> {
        check_wait("the backoff base", base)?;
        check_wait("the backoff max", max)?;
        if base > max {
            return Err(wrong(format!(
                "the backoff base is {}, over its max of {}",
                format_duration(base),
                format_duration(max)
            )));
        }
        if !(0.0..=1.0).contains(&jitter) {
            return Err(wrong(format!("backoff jitter is {jitter}; give a share from 0 to 1")));
        }
        let backoff = Backoff {
            base_ms: duration_ms(base),
            max_ms: duration_ms(max),
            jitter_permille: (jitter * 1000.0).round() as u16,
        };
        Ok(Retry { attempts: DEFAULT_ATTEMPTS, pace: Pace::Backoff(backoff) })
    }

    /// Sets how many attempts there are; 0 is no limit.
    pub fn attempts(mut self, attempts: u32) -> Retry {
        self.attempts = attempts;
        self
    }

    /// Counts a ladder's steps from the first due time instead of from each failure.
    pub fn from_due(mut self) -> Retry {
        if let Pace::Ladder { from, .. } = &mut self.pace {
            *from = StepsFrom::Due;
        }
        self
    }

    /// How many attempts there are; 0 is no limit.
    pub fn attempts_max(&self) -> u32 {
        self.attempts
    }

    /// The pace between attempts.
    pub fn pace(&self) -> &Pace {
        &self.pace
    }

    /// Whether a job that was handed out `attempt` times has had its last.
    pub fn used_up(&self, attempt: u32) -> bool {
        self.attempts != 0 && attempt >= self.attempts
    }

    /// When a job whose attempt number `attempt` failed at `now` is due again.
    pub fn next_due(&self, attempt: u32, first_due: Time, now: Now, chance: Chance) -> Time {
        let failures = attempt.max(1);
        let after = |ms| now.after_ms(ms).unwrap_or(Time::MAX);
        match &self.pace {
            Pace::Backoff(backoff) => after(backoff.wait_ms(failures, chance)),
            Pace::Ladder { steps_ms, from } => match (steps_ms.get(failures as usize - 1), from) {
                (Some(step), StepsFrom::Failure) => after(*step),
                (Some(step), StepsFrom::Due) => first_due.saturating_add_ms(*step),
                // Past the end an offset would lie in the past and the job would spin: it
                // becomes a wait.
                (None, _) => after(*steps_ms.last().expect("a ladder has a step")),
            },
        }
    }
}

impl Backoff {
    fn wait_ms(&self, failures: u32, chance: Chance) -> u64 {
        let doubled = 1_u64.checked_shl(failures - 1).unwrap_or(u64::MAX);
        let wait = self.base_ms.saturating_mul(doubled).min(self.max_ms);
        let spread = u128::from(wait) * u128::from(self.jitter_permille) / 1000;
        let moved = (2 * spread * u128::from(chance.0)) >> 32;
        (u128::from(wait) - spread + moved) as u64
    }
}

/// Reads a ladder as people write it: `15s 3m 10m 30m 30m 1h 2h 6h 15h`.
impl FromStr for Retry {
    type Err = Error;

    fn from_str(text: &str) -> Result<Retry> {
        let steps: Vec<Duration> = text
            .split_whitespace()
            .map(parse_duration)
            .collect::<Result<_>>()
            .map_err(|cause| wrong(format!("a step of the retry ladder is wrong: {cause}")))?;
        Retry::ladder(&steps)
    }
}

fn check_wait(what: &str, wait: Duration) -> Result<()> {
    if wait > WAIT_MAX {
        let days = WAIT_MAX.as_secs() / DAY.as_secs();
        return Err(wrong(format!(
            "{what} is {}, over the limit of {days}d",
            format_duration(wait)
        )));
    }
    Ok(())
}

fn wrong(message: String) -> Error {
    Error::invalid("retry", message)
}

const _: () = assert!(DEFAULT_BACKOFF.base_ms as u128 == SECOND.as_millis());
const _: () = assert!(DEFAULT_BACKOFF.max_ms as u128 == HOUR.as_millis());

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::{MINUTE, Tick};

    fn at(ms: u64) -> Now {
        Now { wall_us: ms * 1000, tick: Tick::default() }
    }

    fn waits(retry: &Retry, attempts: u32) -> Vec<u64> {
        let first_due = Time::from_ms(1000).unwrap();
        (1..=attempts)
            .map(|attempt| {
                retry.next_due(attempt, first_due, at(5000), Chance::MIDDLE).as_ms() - 5000
            })
            .collect()
    }

    #[test]
    fn the_classic_ladder_works_as_written() {
        let retry: Retry = "15s 3m 10m 30m 30m 1h 2h 6h 15h".parse().unwrap();
        assert_eq!(retry.attempts_max(), 10);
        let secs = [15, 180, 600, 1800, 1800, 3600, 7200, 21_600, 54_000];
        assert_eq!(waits(&retry, 9), secs.map(|s| s * 1000));
        assert!(!retry.used_up(9));
        assert!(retry.used_up(10));
    }

    #[test]
    fn attempts_beyond_the_ladder_repeat_the_last_step() {
        let retry = Retry::ladder(&[SECOND, MINUTE]).unwrap().attempts(5);
        assert_eq!(waits(&retry, 4), [1000, 60_000, 60_000, 60_000]);
        assert!(retry.used_up(5));
    }

    #[test]
    fn a_ladder_from_due_counts_offsets_and_then_waits() {
        let retry = Retry::ladder(&[10 * SECOND, MINUTE]).unwrap().from_due().attempts(0);
        let first_due = Time::from_ms(1000).unwrap();
        let due = |attempt| retry.next_due(attempt, first_due, at(5000), Chance::MIDDLE).as_ms();
        assert_eq!([due(1), due(2), due(3)], [11_000, 61_000, 65_000]);
    }

    #[test]
    fn backoff_doubles_up_to_its_cap() {
        let retry = Retry::backoff(SECOND, 10 * SECOND, 0.0).unwrap();
        assert_eq!(waits(&retry, 6), [1000, 2000, 4000, 8000, 10_000, 10_000]);
        assert_eq!(waits(&retry, 200)[199], 10_000);
    }

    #[test]
    fn jitter_moves_a_wait_either_way_and_no_further() {
        let retry = Retry::backoff(10 * SECOND, HOUR, 0.2).unwrap();
        let wait = |chance| retry.next_due(1, Time::MIN, at(0), Chance(chance)).as_ms();
        assert_eq!(wait(0), 8000);
        assert_eq!(wait(1 << 31), 10_000);
        assert_eq!(wait(u32::MAX), 11_999);
    }

    #[test]
    fn no_limit_is_never_used_up_and_none_is_after_one() {
        assert!(!Retry::no_limit().used_up(u32::MAX));
        assert!(Retry::none().used_up(1));
        assert!(!Retry::none().used_up(0));
    }

    #[test]
    fn a_wait_past_the_year_9999_ends_there() {
        let retry = Retry::ladder(&[WAIT_MAX]).unwrap();
        let late = at(Time::MAX.as_ms() - 1);
        assert_eq!(retry.next_due(1, Time::MIN, late, Chance::MIDDLE), Time::MAX);
    }

    #[test]
    fn a_bad_ladder_says_why() {
        for text in ["", "15s,3m", "15s 3x", "4000d", "-1s"] {
            let refused = text.parse::<Retry>().unwrap_err();
            assert_eq!(refused.at_field(), Some("retry"), "{text:?}: {refused}");
        }
        assert!(Retry::ladder(&[SECOND; STEPS_MAX + 1]).is_err());
        assert!(Retry::backoff(HOUR, SECOND, 0.0).is_err());
        for jitter in [-0.1, 1.1, f64::NAN] {
            assert!(Retry::backoff(SECOND, HOUR, jitter).is_err(), "{jitter}");
        }
    }
}
