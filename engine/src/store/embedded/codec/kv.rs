//! One write to the key-value side.

use super::wire::{Malformed, Reader, Result, flag, put_bytes, put_str, put_time, put_varint};
use crate::queue::check_kv_sizes;
use crate::time::{Now, Tick, Time};

/// A key with what was written to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoredKv<'a> {
    pub(crate) key: &'a str,
    /// None if the key was removed.
    pub(crate) value: Option<&'a [u8]>,
    pub(crate) version: u64,
    pub(crate) end: Option<StoredEnd>,
}

/// When a key is gone by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoredEnd {
    /// By the clock on the wall.
    pub(crate) at: Time,
    /// What it was written with, so that a clock that was set back cannot make it longer.
    pub(crate) ttl_ms: u64,
}

const VALUE: u8 = 1 << 0;
const END: u8 = 1 << 1;

impl StoredEnd {
    /// When that is by the clock of this process.
    pub(crate) fn tick(self, now: Now) -> Tick {
        now.tick.plus_ms(self.at.ms_since(now.time()).min(self.ttl_ms))
    }
}

impl<'a> StoredKv<'a> {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.push(flag(VALUE, self.value.is_some()) | flag(END, self.end.is_some()));
        put_str(out, self.key);
        put_varint(out, self.version);
        if let Some(StoredEnd { at, ttl_ms }) = self.end {
            put_time(out, at);
            put_varint(out, ttl_ms);
        }
        if let Some(value) = self.value {
            put_bytes(out, value);
        }
    }

    pub(crate) fn decode(reader: &mut Reader<'a>) -> Result<StoredKv<'a>> {
        let flags = reader.u8()?;
        if flags & !(VALUE | END) != 0 {
            return Err(Malformed("a key has unknown flags"));
        }
        let (key, version) = (reader.str()?, reader.varint()?);
        let end = reader.option(flags & END != 0, end)?;
        let value = reader.option(flags & VALUE != 0, Reader::bytes)?;
        check_kv_sizes(key, value).map_err(|_| Malformed("a key or its value is out of range"))?;
        Ok(StoredKv { key, value, version, end })
    }
}

fn end(reader: &mut Reader<'_>) -> Result<StoredEnd> {
    Ok(StoredEnd { at: reader.time()?, ttl_ms: reader.varint()? })
}
