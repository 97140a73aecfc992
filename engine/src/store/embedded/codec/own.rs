//! What a job says for itself, where others leave it to their topic.

use std::time::Duration;

use super::part::{
    self, confirm, confirm_bits, envelope, envelope_bits, put_repeat, put_retry, put_ttr,
};
use super::wire::{Malformed, Reader, Result, flag, put_duration, put_str, str_size};
use crate::job::{Confirm, Envelope, Spec, Target, Ttr};
use crate::retry::Retry;
use crate::schedule::Repeat;

/// What a job says for itself: at least one thing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Own {
    pub(crate) ttr: Option<Ttr>,
    pub(crate) retry: Option<Retry>,
    pub(crate) repeat: Option<Repeat>,
    pub(crate) target: Option<Target>,
    pub(crate) confirm: Option<Confirm>,
    pub(crate) retain: Option<Duration>,
    pub(crate) envelope: Option<Envelope>,
}

const TTR: u8 = 1 << 0;
const RETRY: u8 = 1 << 1;
const REPEAT: u8 = 1 << 2;
const TARGET: u8 = 1 << 3;
const RETAIN: u8 = 1 << 4;
const CONFIRM_SHIFT: u8 = 5;
const ENVELOPE: u8 = 1 << 7;

impl Own {
    /// What this job says for itself; none if it leaves everything to its topic.
    pub(crate) fn of(spec: &Spec) -> Option<Own> {
        let own = Own {
            ttr: spec.ttr,
            retry: spec.retry.clone(),
            repeat: spec.repeat.clone(),
            target: spec.target.clone(),
            confirm: spec.confirm,
            retain: spec.retain,
            envelope: spec.envelope,
        };
        (own.flags() != 0).then_some(own)
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.flags());
        if let Some(ttr) = self.ttr {
            put_ttr(out, ttr);
        }
        if let Some(retry) = &self.retry {
            put_retry(out, retry);
        }
        if let Some(repeat) = &self.repeat {
            put_repeat(out, repeat);
        }
        if let Some(target) = &self.target {
            put_str(out, target.as_str());
        }
        if let Some(retain) = self.retain {
            put_duration(out, retain);
        }
        if self.envelope.is_some() {
            out.push(envelope_bits(self.envelope));
        }
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Own> {
        let flags = reader.u8()?;
        // A job that says nothing has none: the one way to write that is to leave them out.
        if flags == 0 {
            return Err(Malformed("a job's own settings are empty"));
        }
        Ok(Own {
            ttr: reader.option(flags & TTR != 0, part::ttr)?,
            retry: reader.option(flags & RETRY != 0, part::retry)?,
            repeat: reader.option(flags & REPEAT != 0, part::repeat)?,
            target: reader.option(flags & TARGET != 0, part::target)?,
            retain: reader.option(flags & RETAIN != 0, Reader::duration)?,
            confirm: confirm((flags & !ENVELOPE) >> CONFIRM_SHIFT)?,
            envelope: if flags & ENVELOPE == 0 { None } else { own_envelope(reader)? },
        })
    }

    /// At least the bytes that [`Own::encode`] takes.
    pub(super) fn size_max(&self) -> usize {
        const SMALL_PARTS: usize = 1 + 5 + 15 + 1;
        SMALL_PARTS
            + self.retry.as_ref().map_or(0, part::retry_size_max)
            + self.repeat.as_ref().map_or(0, part::repeat_size_max)
            + self.target.as_ref().map_or(0, |target| str_size(target.as_str().len()))
    }

    fn flags(&self) -> u8 {
        flag(TTR, self.ttr.is_some())
            | flag(RETRY, self.retry.is_some())
            | flag(REPEAT, self.repeat.is_some())
            | flag(TARGET, self.target.is_some())
            | flag(RETAIN, self.retain.is_some())
            | (confirm_bits(self.confirm) << CONFIRM_SHIFT)
            | flag(ENVELOPE, self.envelope.is_some())
    }
}

fn own_envelope(reader: &mut Reader<'_>) -> Result<Option<Envelope>> {
    match envelope(reader.u8()?)? {
        // The one way to write that it has none is to leave it out.
        None => Err(Malformed("an envelope is of no kind")),
        some => Ok(some),
    }
}
