//! When a job runs again: fixed intervals and cron, and what becomes of slots that were missed.

mod cron;

pub use cron::Cron;

use std::num::NonZeroU32;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::time::{Now, Time, duration_ms, format_duration};

/// The longest interval: a hundred years.
pub const EVERY_MAX: Duration = Duration::from_secs(36_500 * 86_400);
/// The most missed slots that [`Misfire::All`] may make up for.
pub const CATCH_UP_MAX: u32 = 1000;
/// The most slots that one call of [`Repeat::upcoming`] tells.
pub const UPCOMING_MAX: usize = 1000;
/// The longest cron expression; every minute and hour written out takes half of it.
pub const EXPRESSION_BYTES_MAX: usize = 512;

/// When a job runs again: the rule, its end, and what to do about missed slots.
///
/// The slots are the first due time (`base`), which may lie off the grid, and then `base` and
/// whole multiples of the interval, or the matches of the cron expression after `base`.
///
/// ```
/// use linger::schedule::{Misfire, Repeat};
/// use linger::time::{MINUTE, Time};
///
/// let minutely = Repeat::every(MINUTE)?.misfire(Misfire::Skip)?;
///
/// let workdays = Repeat::cron("0 9 * * 1-5", Some("Asia/Shanghai"))?;
/// let friday: Time = "2026-11-06T12:00:00+08:00".parse()?;
/// let monday: Time = "2026-11-09T09:00:00+08:00".parse()?;
/// assert_eq!(workdays.upcoming(friday, friday, 1), [monday]);
/// # Ok::<(), linger::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Repeat {
    rule: Rule,
    until: Option<Time>,
    count: Option<NonZeroU32>,
    misfire: Misfire,
    on_dead: OnDead,
}

/// What the slots are spaced by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Rule {
    /// The same time apart, whatever the clocks on the wall do.
    Every {
        /// The interval, in milliseconds.
        every_ms: u64,
    },
    /// The times on a wall clock that match a cron expression.
    Cron(Cron),
}

/// What to do about slots that passed while nobody could run them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Misfire {
    /// Leave them; wait for the next one.
    Skip,
    /// Run once, now, for all of them.
    #[default]
    Once,
    /// Run at most this many of them, the latest, one after the other.
    All(NonZeroU32),
}

/// What becomes of the schedule when an occurrence has used up its attempts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnDead {
    /// The next occurrence comes as if nothing had happened.
    #[default]
    GoOn,
    /// The job goes to the dead shelf.
    Stop,
}

/// One occurrence of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Where the schedule has got to once this is served: give it back as `served`.
    pub slot: Time,
    /// When it is due; in the past if it makes up for missed ones.
    pub due: Time,
}

impl Repeat {
    /// Runs every so often, rounded up to the millisecond.
    pub fn every(every: Duration) -> Result<Repeat> {
        if every.is_zero() || every > EVERY_MAX {
            return Err(Error::invalid(
                "repeat",
                format!(
                    "repeat every `{}` is out of range; write 1ms to {}",
                    format_duration(every),
                    format_duration(EVERY_MAX)
                ),
            ));
        }
        Ok(Repeat::new(Rule::Every { every_ms: duration_ms(every) }))
    }

    /// Runs when a wall clock in `zone` (an IANA name; UTC if none) matches `expression`.
    ///
    /// The expression has five fields, or six with seconds in front, or is a name such as
    /// `@daily`. Times of day that are named (`30 2,14 * * *`) run once each, on every day: at
    /// the first of two, or as soon as a wall clock shows a later time, when clocks are changed.
    /// Times with a star (`*/30 * * * *`) run whenever a wall clock shows them.
    pub fn cron(expression: &str, zone: Option<&str>) -> Result<Repeat> {
        Cron::new(expression, zone.unwrap_or("UTC")).map(|cron| Repeat::new(Rule::Cron(cron)))
    }

    fn new(rule: Rule) -> Repeat {
        let (misfire, on_dead) = (Misfire::default(), OnDead::default());
        Repeat { rule, until: None, count: None, misfire, on_dead }
    }

    /// The last moment at which an occurrence may be due.
    pub fn until(self, until: Time) -> Repeat {
        Repeat { until: Some(until), ..self }
    }

    /// The number of occurrences after which it is over.
    pub fn count(self, count: NonZeroU32) -> Repeat {
        Repeat { count: Some(count), ..self }
    }

    /// What to do about missed slots.
    pub fn misfire(self, misfire: Misfire) -> Result<Repeat> {
        match misfire {
            Misfire::All(n) if n.get() > CATCH_UP_MAX => Err(Error::invalid(
                "repeat",
                format!(
                    "misfire all `{n}` is over the limit of {CATCH_UP_MAX}; write 1 to {CATCH_UP_MAX}"
                ),
            )),
            _ => Ok(Repeat { misfire, ..self }),
        }
    }

    /// What becomes of the schedule when an occurrence dies.
    pub fn on_dead(self, on_dead: OnDead) -> Repeat {
        Repeat { on_dead, ..self }
    }

    /// What the slots are spaced by.
    pub fn rule(&self) -> &Rule {
        &self.rule
    }

    /// The last moment at which an occurrence may be due, if there is an end.
    pub fn ends_at(&self) -> Option<Time> {
        self.until
    }

    /// The number of occurrences after which it is over, if there is one.
    pub fn count_max(&self) -> Option<NonZeroU32> {
        self.count
    }

    /// What to do about missed slots.
    pub fn when_missed(&self) -> Misfire {
        self.misfire
    }

    /// What becomes of the schedule when an occurrence dies.
    pub fn when_dead(&self) -> OnDead {
        self.on_dead
    }

    /// The first due time: `asked` if the caller gave one, else one interval from now, or the
    /// next match. None if that is after `until`: it can never fire.
    pub fn first(&self, asked: Option<Time>, now: Now) -> Option<Time> {
        let due = match (asked, &self.rule) {
            (Some(asked), _) => Some(asked),
            (None, Rule::Every { every_ms }) => now.after_ms(*every_ms),
            (None, Rule::Cron(cron)) => cron.after(now.time()),
        };
        due.filter(|due| self.includes(*due))
    }

    /// The next occurrence after the slot just served. None when `until` has ended the schedule.
    ///
    /// `count` is for the caller to look at, who knows how many were served.
    pub fn next(&self, base: Time, served: Time, now: Time) -> Option<Slot> {
        let next = self.slot_after(base, served)?;
        if next > now {
            return Some(Slot::at(next));
        }
        match self.misfire {
            Misfire::Skip => self.slot_after(base, now).map(Slot::at),
            // Served as of now, so that the one after it lies in the future.
            Misfire::Once => Some(Slot { slot: now, due: next }),
            Misfire::All(n) => {
                // What would have come after the end was not missed.
                let last = self.until.map_or(now, |until| until.min(now));
                self.rule.latest_of(next, last, n.get()).map(Slot::at)
            }
        }
    }

    /// The next `n` slots after `after`, at most [`UPCOMING_MAX`].
    pub fn upcoming(&self, base: Time, after: Time, n: usize) -> Vec<Time> {
        let first = self.slot_after(base, after);
        let slots = std::iter::successors(first, |slot| self.slot_after(base, *slot));
        slots.take(n.min(UPCOMING_MAX)).collect()
    }

    fn slot_after(&self, base: Time, after: Time) -> Option<Time> {
        let slot = if after < base { Some(base) } else { self.rule.after(base, after) };
        slot.filter(|slot| self.includes(*slot))
    }

    fn includes(&self, due: Time) -> bool {
        self.until.is_none_or(|until| due <= until)
    }
}

impl Slot {
    fn at(slot: Time) -> Slot {
        Slot { slot, due: slot }
    }
}

impl Rule {
    /// The first slot later than `after`, which is not before `base`.
    fn after(&self, base: Time, after: Time) -> Option<Time> {
        match self {
            Rule::Every { every_ms } => {
                let steps = after.ms_since(base) / every_ms + 1;
                base.checked_add_ms(steps.checked_mul(*every_ms)?)
            }
            Rule::Cron(cron) => cron.after(after),
        }
    }

    /// The oldest of the latest `n` slots of those from slot `oldest` through `last`.
    fn latest_of(&self, oldest: Time, last: Time, n: u32) -> Option<Time> {
        match self {
            Rule::Every { every_ms } => {
                let missed = last.ms_since(oldest) / every_ms + 1;
                oldest.checked_add_ms(missed.saturating_sub(u64::from(n)) * every_ms)
            }
            Rule::Cron(cron) => cron.latest_of(oldest, last, n as usize),
        }
    }
}
