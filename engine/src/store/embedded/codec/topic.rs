//! What a topic says about its jobs, and whether it is paused.

use std::num::NonZeroU64;
use std::time::Duration;

use super::part::{self, confirm, confirm_bits, envelope, envelope_bits, put_retry, put_ttr};
use super::wire::{
    Malformed, Reader, Result, flag, put_duration, put_str, put_time, put_u16, put_varint,
};
use crate::time::{Now, Time, duration_ms};
use crate::topic::{Archive, Headers, Partitions, Pause, Rate, Settings};

/// A topic's settings and pause, as they are stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredTopic {
    pub(crate) settings: Settings,
    pub(crate) pause: StoredPause,
}

/// A pause by the clock on the wall, for ticks mean nothing to the next process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoredPause {
    No,
    Until(Time),
    Indefinitely,
}

const TTR: u16 = 1 << 0;
const RETRY: u16 = 1 << 1;
const TARGET: u16 = 1 << 2;
const RETAIN: u16 = 1 << 3;
const RETAIN_DEAD: u16 = 1 << 4;
const RATE: u16 = 1 << 5;
const CONCURRENCY: u16 = 1 << 6;
const CONFIRM_SHIFT: u16 = 7;
const PAUSE_SHIFT: u16 = 9;
const TIMEOUT: u16 = 1 << 11;
const HEADERS: u16 = 1 << 12;
const ENVELOPE_SHIFT: u16 = 13;
const ARCHIVE: u16 = 1 << 15;
const TWO_BITS: u16 = 0b11;
/// In place of a pause: that, and what else there is, stands in a byte after the flags.
const MORE: u16 = 3;
const PARTITIONS: u8 = 1 << 2;
const JOBS_MAX: u8 = 1 << 3;
const BYTES_MAX: u8 = 1 << 4;

impl StoredPause {
    pub(crate) fn of(pause: Pause, now: Now) -> StoredPause {
        match pause {
            Pause::No => StoredPause::No,
            Pause::Until(end) => StoredPause::Until(now.time_at(end)),
            Pause::Indefinitely => StoredPause::Indefinitely,
        }
    }

    /// What is left of it.
    pub(crate) fn resume(self, now: Now) -> Pause {
        match self {
            StoredPause::No => Pause::No,
            StoredPause::Until(end) if end <= now.time() => Pause::No,
            StoredPause::Until(end) => Pause::Until(now.tick.plus_ms(end.ms_since(now.time()))),
            StoredPause::Indefinitely => Pause::Indefinitely,
        }
    }

    fn bits(self) -> u16 {
        match self {
            StoredPause::No => 0,
            StoredPause::Until(_) => 1,
            StoredPause::Indefinitely => 2,
        }
    }
}

impl StoredTopic {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let Settings {
            ttr,
            retry,
            target,
            retain,
            retain_dead,
            rate,
            concurrency,
            confirm,
            envelope,
            timeout,
            headers,
            archive,
            partitions,
            jobs_max,
            bytes_max,
        } = &self.settings;
        let rest = flag(PARTITIONS, partitions.is_some())
            | flag(JOBS_MAX, jobs_max.is_some())
            | flag(BYTES_MAX, bytes_max.is_some());
        let more = (rest != 0).then(|| self.pause.bits() as u8 | rest);
        let pause = more.map_or(self.pause.bits(), |_| MORE);
        put_u16(
            out,
            flag(TTR, ttr.is_some())
                | flag(RETRY, retry.is_some())
                | flag(TARGET, target.is_some())
                | flag(RETAIN, retain.is_some())
                | flag(RETAIN_DEAD, retain_dead.is_some())
                | flag(RATE, rate.is_some())
                | flag(CONCURRENCY, concurrency.is_some())
                | (u16::from(confirm_bits(*confirm)) << CONFIRM_SHIFT)
                | (pause << PAUSE_SHIFT)
                | flag(TIMEOUT, timeout.is_some())
                | flag(HEADERS, !headers.is_empty())
                | flag(ARCHIVE, archive.is_some())
                | (u16::from(envelope_bits(*envelope)) << ENVELOPE_SHIFT),
        );
        out.extend(more);
        if let Some(ttr) = ttr {
            put_ttr(out, *ttr);
        }
        if let Some(retry) = retry {
            put_retry(out, retry);
        }
        if let Some(target) = target {
            put_str(out, target.as_str());
        }
        for retain in [retain, retain_dead].into_iter().flatten() {
            put_duration(out, *retain);
        }
        if let Some(rate) = rate {
            put_varint(out, rate.count().into());
            put_varint(out, duration_ms(rate.per()));
        }
        if let Some(concurrency) = concurrency {
            put_varint(out, concurrency.get().into());
        }
        if let StoredPause::Until(end) = self.pause {
            put_time(out, end);
        }
        if let Some(timeout) = timeout {
            put_ttr(out, *timeout);
        }
        if !headers.is_empty() {
            put_varint(out, headers.iter().len() as u64);
            for (name, value) in headers.iter() {
                put_str(out, name);
                put_str(out, value);
            }
        }
        if let Some(archive) = archive {
            put_str(out, &archive.to_string());
        }
        if let Some(partitions) = partitions {
            put_varint(out, partitions.get().into());
        }
        if let Some(jobs_max) = jobs_max {
            put_varint(out, jobs_max.get().into());
        }
        if let Some(bytes_max) = bytes_max {
            put_varint(out, bytes_max.get());
        }
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<StoredTopic> {
        let flags = reader.u16()?;
        let two_bits = |shift: u16| (flags >> shift) & TWO_BITS;
        let (paused, more) = match two_bits(PAUSE_SHIFT) {
            MORE => more(reader)?,
            paused => (paused, 0),
        };
        let mut settings = Settings {
            ttr: reader.option(flags & TTR != 0, part::ttr)?,
            retry: reader.option(flags & RETRY != 0, part::retry)?,
            target: reader.option(flags & TARGET != 0, part::target)?,
            retain: reader.option(flags & RETAIN != 0, Reader::duration)?,
            retain_dead: reader.option(flags & RETAIN_DEAD != 0, Reader::duration)?,
            rate: reader.option(flags & RATE != 0, rate)?,
            concurrency: reader.option(flags & CONCURRENCY != 0, part::non_zero)?,
            confirm: confirm(two_bits(CONFIRM_SHIFT) as u8)?,
            envelope: envelope(two_bits(ENVELOPE_SHIFT) as u8)?,
            ..Settings::default()
        };
        let pause = pause(reader, paused)?;
        settings.timeout = reader.option(flags & TIMEOUT != 0, part::ttr)?;
        settings.headers = reader.option(flags & HEADERS != 0, headers)?.unwrap_or_default();
        settings.archive = reader.option(flags & ARCHIVE != 0, archive)?;
        settings.partitions = reader.option(more & PARTITIONS != 0, partitions)?;
        settings.jobs_max = reader.option(more & JOBS_MAX != 0, part::non_zero)?;
        settings.bytes_max = reader.option(more & BYTES_MAX != 0, bytes_max)?;
        Ok(StoredTopic { settings, pause })
    }
}

fn rate(reader: &mut Reader<'_>) -> Result<Rate> {
    let (count, per_ms) = (reader.varint_u32()?, reader.varint()?);
    Rate::new(count, Duration::from_millis(per_ms)).map_err(|_| Malformed("a rate is out of range"))
}

/// The pause, and what else there is.
fn more(reader: &mut Reader<'_>) -> Result<(u16, u8)> {
    let more = reader.u8()?;
    let (paused, rest) = (u16::from(more) & TWO_BITS, more & !(TWO_BITS as u8));
    if rest == 0 || rest & !(PARTITIONS | JOBS_MAX | BYTES_MAX) != 0 {
        return Err(Malformed("a topic has more than is known"));
    }
    Ok((paused, rest))
}

fn partitions(reader: &mut Reader<'_>) -> Result<Partitions> {
    let count = reader.varint_u32()?;
    Partitions::new(count).map_err(|_| Malformed("partitions are out of range"))
}

fn bytes_max(reader: &mut Reader<'_>) -> Result<NonZeroU64> {
    NonZeroU64::new(reader.varint()?).ok_or(Malformed("a count is 0"))
}

fn archive(reader: &mut Reader<'_>) -> Result<Archive> {
    reader.str()?.parse().map_err(|_| Malformed("an archive is out of range"))
}

fn headers(reader: &mut Reader<'_>) -> Result<Headers> {
    let wrong = Malformed("headers are out of range");
    let count = usize::try_from(reader.varint()?).map_err(|_| wrong)?;
    if count == 0 || count > Headers::COUNT_MAX {
        return Err(wrong);
    }
    let mut each = Vec::with_capacity(count);
    for _ in 0..count {
        each.push((reader.str()?, reader.str()?));
    }
    Headers::new(each).map_err(|_| wrong)
}

fn pause(reader: &mut Reader<'_>, bits: u16) -> Result<StoredPause> {
    match bits {
        0 => Ok(StoredPause::No),
        1 => reader.time().map(StoredPause::Until),
        2 => Ok(StoredPause::Indefinitely),
        _ => Err(Malformed("a pause is of no kind")),
    }
}
