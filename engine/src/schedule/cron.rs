//! Cron expressions in a time zone: which moments match.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use croner::parser::{CronParser, Year};
use croner::{CronPattern, Weekday};
use jiff::civil::{self, DateTime};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{Timestamp, Zoned};

use super::EXPRESSION_BYTES_MAX;
use crate::error::{Error, Result, excerpt};
use crate::time::{SECOND, Time};

/// A cron expression read in a time zone. Cheap to clone; equal if text and zone are.
#[derive(Clone)]
pub struct Cron(Arc<Parsed>);

struct Parsed {
    expression: String,
    zone: String,
    cron: croner::Cron,
    time_zone: TimeZone,
}

impl Cron {
    /// The expression, as it was given.
    pub fn expression(&self) -> &str {
        &self.0.expression
    }

    /// The IANA name of the time zone, in its usual spelling.
    pub fn zone(&self) -> &str {
        &self.0.zone
    }

    pub(super) fn new(expression: &str, zone: &str) -> Result<Cron> {
        let cron = parse_expression(expression)?;
        let (time_zone, zone) = find_zone(zone)?;
        Ok(Cron(Arc::new(Parsed { expression: expression.into(), zone, cron, time_zone })))
    }

    /// The oldest of the latest `n` slots of those from slot `oldest` through `last`.
    pub(super) fn latest_of(&self, oldest: Time, last: Time, n: usize) -> Option<Time> {
        // After a long outage there are too many to count, so look no further than the n-th.
        let slots = std::iter::successors(Some(oldest), |slot| self.after(*slot));
        if slots.take_while(|slot| *slot <= last).nth(n).is_none() {
            return Some(oldest);
        }
        let before = |slot: &Time| self.at_or_before(slot.saturating_sub_ms(1));
        std::iter::successors(self.at_or_before(last), before).nth(n - 1)
    }

    /// The first match later than `after`.
    pub(super) fn after(&self, after: Time) -> Option<Time> {
        let wall = self.zoned(after)?;
        if self.names_times() {
            return self.named_after(after, wall.datetime());
        }
        let next = self.0.cron.find_next_occurrence(&wall, false).ok()?;
        time(next.timestamp())
    }

    /// The last match not later than `at`.
    fn at_or_before(&self, at: Time) -> Option<Time> {
        // To the second, as matches are: just before an hour comes again, croner's way back
        // gives parts of a second to the far side.
        let wall = self.zoned(at.saturating_sub_ms(at.as_ms() % 1000))?;
        if self.names_times() {
            return self.named_at_or_before(at, wall.datetime());
        }
        let last = self.0.cron.find_previous_occurrence(&wall, true).ok()?;
        time(last.timestamp())
    }

    /// Whether the times of day are written out, with no star: those run once each, every day.
    ///
    /// They are searched on a wall clock that nobody changes, and only the answer is put into
    /// the zone. croner's own search in a zone has them run once more where midnight is skipped
    /// (Beirut, Cairo, Havana), and skips or doubles a time that is one of several.
    fn names_times(&self) -> bool {
        let pattern = &self.0.cron.pattern;
        let fields = [&pattern.seconds, &pattern.minutes, &pattern.hours];
        fields.iter().all(|field| !field.from_wildcard)
    }

    fn named_after(&self, after: Time, mut wall: DateTime) -> Option<Time> {
        loop {
            wall = self.0.cron.find_next_occurrence(&wall, false).ok()?;
            let slot = self.first_shown(wall)?;
            // While an hour comes again, its times are ahead on the wall but already served.
            if slot > after {
                return Some(slot);
            }
        }
    }

    fn named_at_or_before(&self, at: Time, wall: DateTime) -> Option<Time> {
        let mut wall = self.furthest_shown(wall)?.checked_add(SECOND).ok()?;
        loop {
            wall = self.0.cron.find_previous_occurrence(&wall, false).ok()?;
            let slot = self.first_shown(wall)?;
            if slot <= at {
                return Some(slot);
            }
        }
    }

    /// When a wall clock first shows `wall` or later: the first of two, or the end of a gap.
    fn first_shown(&self, wall: DateTime) -> Option<Time> {
        let zone = &self.0.time_zone;
        let ambiguous = zone.to_ambiguous_timestamp(wall);
        let gap = matches!(ambiguous.offset(), AmbiguousOffset::Gap { .. });
        let earlier = ambiguous.earlier().ok()?;
        time(if gap { zone.following(earlier).next()?.timestamp() } else { earlier })
    }

    /// At least the latest that a wall clock has ever shown when it shows `wall`.
    fn furthest_shown(&self, wall: DateTime) -> Option<DateTime> {
        match self.0.time_zone.to_ambiguous_timestamp(wall).offset() {
            AmbiguousOffset::Fold { before, after } => {
                wall.checked_add(before.duration_since(after)).ok()
            }
            _ => Some(wall),
        }
    }

    fn zoned(&self, time: Time) -> Option<Zoned> {
        let ms = i64::try_from(time.as_ms()).ok()?;
        Some(Timestamp::from_millisecond(ms).ok()?.to_zoned(self.0.time_zone.clone()))
    }
}

impl PartialEq for Cron {
    fn eq(&self, other: &Cron) -> bool {
        (self.expression(), self.zone()) == (other.expression(), other.zone())
    }
}

impl Eq for Cron {}

impl Hash for Cron {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.expression(), self.zone()).hash(state);
    }
}

impl fmt::Debug for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cron({:?} in {})", self.expression(), self.zone())
    }
}

fn time(stamp: Timestamp) -> Option<Time> {
    u64::try_from(stamp.as_millisecond()).ok().and_then(Time::from_ms)
}

fn find_zone(name: &str) -> Result<(TimeZone, String)> {
    let wrong = || {
        Error::invalid(
            "repeat",
            format!(
                "`{}` is not a time zone; write an IANA name such as Europe/Berlin, \
                 or leave it out for UTC",
                excerpt(name)
            ),
        )
    };
    let time_zone = TimeZone::get(name).map_err(|cause| wrong().because(cause))?;
    // Files that lie beside the zones and mean something else on every machine.
    let local = |name: &&str| ["localtime", "posixrules"].contains(name);
    let name = time_zone.iana_name().filter(|name| !local(name)).ok_or_else(wrong)?.to_owned();
    Ok((time_zone, name))
}

/// One field of an expression, for telling what is wrong with it.
struct Field {
    name: &'static str,
    takes: &'static str,
    words: &'static [&'static str],
}

const FIELDS: [Field; 6] = [
    Field { name: "second", takes: "0-59, as 5, 0,30, 10-20 or */5", words: &[] },
    Field { name: "minute", takes: "0-59, as 5, 0,30, 10-20 or */5", words: &[] },
    Field { name: "hour", takes: "0-23, as 5, 8,20, 9-17 or */2", words: &[] },
    Field {
        name: "day",
        takes: "1-31, L for the last, or 15W for the nearest Monday to Friday",
        words: &["L", "W", "LW"],
    },
    Field {
        name: "month",
        takes: "1-12 or JAN-DEC",
        words: &[
            "JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC",
        ],
    },
    Field {
        name: "weekday",
        takes: "0-7 or SUN-SAT, 1#2 for the second Monday, or 0L for the last Sunday",
        words: &["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT", "L"],
    },
];

fn parse_expression(expression: &str) -> Result<croner::Cron> {
    if expression.len() > EXPRESSION_BYTES_MAX {
        return Err(too_long(expression));
    }
    if let Some((field, text)) = fields(expression).find(|(field, text)| field.misreads(text)) {
        return Err(field.refuse(text, expression));
    }
    let mut cron = parser().parse(expression).map_err(|cause| {
        let faulty = fields(expression).find(|(field, text)| !field.reads(text));
        let refusal = faulty.map(|(field, text)| field.refuse(text, expression));
        refusal.unwrap_or_else(|| unreadable(expression)).because(cause)
    })?;
    mend_last_sunday(&mut cron.pattern);
    if can_match(&cron.pattern) { Ok(cron) } else { Err(never_matches(expression)) }
}

fn parser() -> CronParser {
    CronParser::builder().year(Year::Disallowed).build()
}

/// The fields with what is written in them; none if there are neither five nor six.
fn fields(expression: &str) -> impl Iterator<Item = (&'static Field, &str)> {
    let skipped = match expression.split_whitespace().count() {
        6 => 0,
        5 => 1,
        _ => FIELDS.len(),
    };
    FIELDS[skipped..].iter().zip(expression.split_whitespace())
}

impl Field {
    /// Whether croner would take `text` for something else: it passes over empty entries and
    /// reads `FRI` as 5 in any field.
    fn misreads(&self, text: &str) -> bool {
        let upper = text.to_uppercase();
        let mut words = upper.split(|c: char| !c.is_alphabetic()).filter(|word| !word.is_empty());
        let is_known = |word: &str| {
            let day = word.strip_suffix('L').unwrap_or(word);
            self.words.contains(&word) || self.words.contains(&day)
        };
        upper.split(',').any(str::is_empty) || !words.all(is_known)
    }

    fn reads(&self, text: &str) -> bool {
        let alone = FIELDS.each_ref().map(|field| if field.name == self.name { text } else { "*" });
        parser().parse(&alone.join(" ")).is_ok()
    }

    fn refuse(&self, text: &str, expression: &str) -> Error {
        let (name, takes) = (self.name, self.takes);
        let (text, expression) = (excerpt(text), excerpt(expression));
        Error::invalid(
            "repeat",
            format!("`{text}` is no {name} in cron expression `{expression}`; write {takes}"),
        )
    }
}

fn unreadable(expression: &str) -> Error {
    Error::invalid(
        "repeat",
        format!(
            "`{}` is not a cron expression; write minute, hour, day, month and weekday such as \
             `0 9 * * 1-5`, with seconds in front if need be, or one of @hourly, @daily, @weekly, \
             @monthly, @yearly",
            excerpt(expression)
        ),
    )
}

fn too_long(expression: &str) -> Error {
    let bytes = expression.len();
    Error::invalid(
        "repeat",
        format!(
            "cron expression is {bytes} bytes, over the limit of {EXPRESSION_BYTES_MAX}; \
             write lists as ranges or steps"
        ),
    )
}

fn never_matches(expression: &str) -> Error {
    Error::invalid(
        "repeat",
        format!(
            "cron expression `{}` never matches, for there is no such date; \
             change its day, month or weekday",
            excerpt(expression)
        ),
    )
}

/// croner takes 7 for Sunday, but not in `7L`, which it reads and never finds.
fn mend_last_sunday(pattern: &mut CronPattern) {
    /// croner's mark for the `L`, which it does not export.
    const LAST: u8 = 1 << 6;
    let weekdays = &mut pattern.days_of_week;
    if weekdays.is_bit_set(7, LAST).unwrap_or(false) {
        weekdays.set_bit(0, LAST).expect("0 is a weekday, and weekdays take an L");
    }
}

/// Whether any date matches; croner itself would look for one until the year 5000.
fn can_match(pattern: &CronPattern) -> bool {
    // 28 years hold every kind of year: leap or not, with 1 January on each weekday.
    let days = civil::date(2000, 1, 1).series(jiff::Span::new().days(1)).take(28 * 366);
    days.into_iter().any(|day| matches_day(pattern, day))
}

fn matches_day(pattern: &CronPattern, day: civil::Date) -> bool {
    let weekday = Weekday::from_days_from_sunday(day.weekday().to_sunday_zero_offset() as u32);
    let (year, month) = (i32::from(day.year()), day.month() as u32);
    pattern.month_match(month).unwrap_or(false)
        && pattern.day_match(year, month, day.day() as u32, weekday).unwrap_or(false)
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
