//! What jobs and topics both can say: times to run, retries, targets, confirmations.

use std::num::NonZeroU32;
use std::time::Duration;

use super::wire::{Malformed, Reader, Result, flag, put_str, put_time, put_varint, str_size};
use crate::job::{Confirm, Envelope, Target, Ttr};
use crate::retry::{Backoff, Pace, Retry, STEPS_MAX, StepsFrom};
use crate::schedule::{Misfire, OnDead, Repeat, Rule};

/// The most bytes a varint takes.
const VARINT_MAX: usize = 10;

pub(super) fn put_ttr(out: &mut Vec<u8>, ttr: Ttr) {
    put_varint(out, ttr.as_ms());
}

pub(super) fn ttr(reader: &mut Reader<'_>) -> Result<Ttr> {
    let length = Duration::from_millis(reader.varint()?);
    Ttr::new(length).map_err(|_| Malformed("a ttr is out of range"))
}

pub(super) fn target(reader: &mut Reader<'_>) -> Result<Target> {
    reader.str()?.parse().map_err(|_| Malformed("a target is not one we know"))
}

pub(super) fn non_zero(reader: &mut Reader<'_>) -> Result<NonZeroU32> {
    NonZeroU32::new(reader.varint_u32()?).ok_or(Malformed("a count is 0"))
}

/// Two bits, for the flags of whoever has one.
pub(super) fn confirm_bits(confirm: Option<Confirm>) -> u8 {
    match confirm {
        None => 0,
        Some(Confirm::Delivery) => 1,
        Some(Confirm::Finish) => 2,
    }
}

pub(super) fn envelope_bits(envelope: Option<Envelope>) -> u8 {
    match envelope {
        None => 0,
        Some(Envelope::Body) => 1,
        Some(Envelope::CloudEvents) => 2,
        Some(Envelope::Task) => 3,
    }
}

pub(super) fn envelope(bits: u8) -> Result<Option<Envelope>> {
    match bits {
        0 => Ok(None),
        1 => Ok(Some(Envelope::Body)),
        2 => Ok(Some(Envelope::CloudEvents)),
        3 => Ok(Some(Envelope::Task)),
        _ => Err(Malformed("an envelope is of no kind")),
    }
}

pub(super) fn confirm(bits: u8) -> Result<Option<Confirm>> {
    match bits {
        0 => Ok(None),
        1 => Ok(Some(Confirm::Delivery)),
        2 => Ok(Some(Confirm::Finish)),
        _ => Err(Malformed("a confirmation is of no kind")),
    }
}

const BACKOFF: u8 = 0;
const LADDER: u8 = 1;
const LADDER_FROM_DUE: u8 = 2;

pub(super) fn put_retry(out: &mut Vec<u8>, retry: &Retry) {
    out.push(match retry.pace() {
        Pace::Backoff(_) => BACKOFF,
        Pace::Ladder { from: StepsFrom::Failure, .. } => LADDER,
        Pace::Ladder { from: StepsFrom::Due, .. } => LADDER_FROM_DUE,
    });
    put_varint(out, u64::from(retry.attempts_max()));
    match retry.pace() {
        Pace::Backoff(Backoff { base_ms, max_ms, jitter_permille }) => {
            put_varint(out, *base_ms);
            put_varint(out, *max_ms);
            put_varint(out, u64::from(*jitter_permille));
        }
        Pace::Ladder { steps_ms, .. } => {
            put_varint(out, steps_ms.len() as u64);
            steps_ms.iter().for_each(|step_ms| put_varint(out, *step_ms));
        }
    }
}

pub(super) fn retry(reader: &mut Reader<'_>) -> Result<Retry> {
    let kind = reader.u8()?;
    let attempts = reader.varint_u32()?;
    let retry = match kind {
        BACKOFF => backoff(reader)?,
        LADDER => ladder(reader)?,
        LADDER_FROM_DUE => ladder(reader)?.from_due(),
        _ => return Err(Malformed("a retry is of no kind")),
    };
    Ok(retry.attempts(attempts))
}

fn backoff(reader: &mut Reader<'_>) -> Result<Retry> {
    let base = Duration::from_millis(reader.varint()?);
    let max = Duration::from_millis(reader.varint()?);
    let jitter = f64::from(reader.varint_u32()?) / 1000.0;
    Retry::backoff(base, max, jitter).map_err(|_| Malformed("a backoff is out of range"))
}

fn ladder(reader: &mut Reader<'_>) -> Result<Retry> {
    let wrong = Malformed("a retry ladder is out of range");
    let count = usize::try_from(reader.varint()?).map_err(|_| wrong)?;
    if count > STEPS_MAX {
        return Err(wrong);
    }
    let step = |_| reader.varint().map(Duration::from_millis);
    let steps: Vec<Duration> = (0..count).map(step).collect::<Result<_>>()?;
    Retry::ladder(&steps).map_err(|_| wrong)
}

pub(super) fn retry_size_max(retry: &Retry) -> usize {
    let numbers = match retry.pace() {
        Pace::Backoff(_) => 4,
        Pace::Ladder { steps_ms, .. } => 2 + steps_ms.len(),
    };
    1 + numbers * VARINT_MAX
}

const CRON: u8 = 1 << 0;
const UNTIL: u8 = 1 << 1;
const COUNT: u8 = 1 << 2;
const STOP: u8 = 1 << 3;
const MISFIRE_SHIFT: u8 = 4;
const MISFIRE: u8 = 0b11 << MISFIRE_SHIFT;
const REPEAT_KNOWN: u8 = CRON | UNTIL | COUNT | STOP | MISFIRE;

pub(super) fn put_repeat(out: &mut Vec<u8>, repeat: &Repeat) {
    let (misfire, catch_up) = match repeat.when_missed() {
        Misfire::Once => (0, None),
        Misfire::Skip => (1, None),
        Misfire::All(n) => (2, Some(n)),
    };
    out.push(
        flag(CRON, matches!(repeat.rule(), Rule::Cron(_)))
            | flag(UNTIL, repeat.ends_at().is_some())
            | flag(COUNT, repeat.count_max().is_some())
            | flag(STOP, repeat.when_dead() == OnDead::Stop)
            | (misfire << MISFIRE_SHIFT),
    );
    match repeat.rule() {
        Rule::Every { every_ms } => put_varint(out, *every_ms),
        Rule::Cron(cron) => {
            put_str(out, cron.expression());
            put_str(out, cron.zone());
        }
    }
    if let Some(until) = repeat.ends_at() {
        put_time(out, until);
    }
    for number in [repeat.count_max(), catch_up].into_iter().flatten() {
        put_varint(out, u64::from(number.get()));
    }
}

pub(super) fn repeat(reader: &mut Reader<'_>) -> Result<Repeat> {
    let flags = reader.u8()?;
    if flags & !REPEAT_KNOWN != 0 {
        return Err(Malformed("a repeat has unknown flags"));
    }
    let mut repeat = if flags & CRON != 0 { cron(reader)? } else { every(reader)? };
    if flags & UNTIL != 0 {
        repeat = repeat.until(reader.time()?);
    }
    if flags & COUNT != 0 {
        repeat = repeat.count(non_zero(reader)?);
    }
    if flags & STOP != 0 {
        repeat = repeat.on_dead(OnDead::Stop);
    }
    let misfire = match (flags & MISFIRE) >> MISFIRE_SHIFT {
        0 => Misfire::Once,
        1 => Misfire::Skip,
        2 => Misfire::All(non_zero(reader)?),
        _ => return Err(Malformed("a misfire is of no kind")),
    };
    repeat.misfire(misfire).map_err(|_| Malformed("a misfire makes up for too many slots"))
}

fn every(reader: &mut Reader<'_>) -> Result<Repeat> {
    let every = Duration::from_millis(reader.varint()?);
    Repeat::every(every).map_err(|_| Malformed("an interval is out of range"))
}

fn cron(reader: &mut Reader<'_>) -> Result<Repeat> {
    let (expression, zone) = (reader.str()?, reader.str()?);
    Repeat::cron(expression, Some(zone))
        .map_err(|_| Malformed("a cron expression or its time zone cannot be read"))
}

pub(super) fn repeat_size_max(repeat: &Repeat) -> usize {
    let rule = match repeat.rule() {
        Rule::Every { .. } => VARINT_MAX,
        Rule::Cron(cron) => str_size(cron.expression().len()) + str_size(cron.zone().len()),
    };
    1 + rule + 6 + 2 * VARINT_MAX
}
