//! Numbers, texts and times as bytes.

use std::fmt;
use std::time::Duration;

use crate::time::Time;

/// Bytes that are no record of ours, and what is wrong with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed(pub(crate) &'static str);

pub(crate) type Result<T> = std::result::Result<T, Malformed>;

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Malformed {}

/// Reads bytes from front to back.
#[derive(Clone, Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

/// Reads one value that takes up all of `bytes`.
pub(crate) fn whole<'a, T>(
    bytes: &'a [u8],
    decode: impl FnOnce(&mut Reader<'a>) -> Result<T>,
) -> Result<T> {
    let mut reader = Reader::new(bytes);
    let value = decode(&mut reader)?;
    reader.end()?;
    Ok(value)
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { rest: bytes }
    }

    /// What has not been read yet.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Refuses bytes that nothing has asked for.
    pub(crate) fn end(&self) -> Result<()> {
        if self.rest.is_empty() { Ok(()) } else { Err(Malformed("bytes follow the end")) }
    }

    pub(crate) fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(CUT_SHORT)?;
        self.rest = rest;
        Ok(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(CUT_SHORT)?;
        self.rest = rest;
        Ok(*taken)
    }

    pub(crate) fn u8(&mut self) -> Result<u8> {
        self.array().map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self) -> Result<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// A number in as many bytes as it needs. One number has one form: a longer one is refused.
    pub(crate) fn varint(&mut self) -> Result<u64> {
        let mut value = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.u8()?;
            let low = u64::from(byte & 0x7f);
            if low << shift >> shift != low {
                return Err(Malformed("a number takes more than 64 bits"));
            }
            value |= low << shift;
            if byte < 0x80 {
                let padded = byte == 0 && shift > 0;
                return if padded { Err(Malformed("a number is padded")) } else { Ok(value) };
            }
        }
        Err(Malformed("a number takes more than 64 bits"))
    }

    pub(crate) fn varint_u32(&mut self) -> Result<u32> {
        let wide = self.varint()?;
        u32::try_from(wide).map_err(|_| Malformed("a number takes more than 32 bits"))
    }

    /// Bytes with their length in front. What is not there is not made room for.
    pub(crate) fn bytes(&mut self) -> Result<&'a [u8]> {
        let len = self.varint()?;
        self.take(usize::try_from(len).map_err(|_| CUT_SHORT)?)
    }

    pub(crate) fn str(&mut self) -> Result<&'a str> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Malformed("a text is not UTF-8"))
    }

    pub(crate) fn time(&mut self) -> Result<Time> {
        let [a, b, c, d, e, f] = self.array()?;
        let ms = u64::from_le_bytes([a, b, c, d, e, f, 0, 0]);
        Time::from_ms(ms).ok_or(Malformed("a time is after the year 9999"))
    }

    pub(crate) fn duration(&mut self) -> Result<Duration> {
        let (secs, nanos) = (self.varint()?, self.varint_u32()?);
        if nanos >= NANOS {
            return Err(Malformed("a duration has a second's worth of nanoseconds"));
        }
        Ok(Duration::new(secs, nanos))
    }

    /// A value that is only there if its flag says so.
    pub(crate) fn option<T>(
        &mut self,
        there: bool,
        read: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<Option<T>> {
        if there { read(self).map(Some) } else { Ok(None) }
    }
}

/// The flag, if it is to be set.
pub(crate) fn flag<T: Default>(flag: T, set: bool) -> T {
    if set { flag } else { T::default() }
}

const CUT_SHORT: Malformed = Malformed("the bytes end too soon");
const NANOS: u32 = 1_000_000_000;

pub(crate) fn put_u16(out: &mut Vec<u8>, value: u16) {
    out.extend_from_slice(&value.to_le_bytes());
}

pub(crate) fn put_u64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_le_bytes());
}

pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

pub(crate) fn put_str(out: &mut Vec<u8>, text: &str) {
    put_bytes(out, text.as_bytes());
}

/// Six bytes: enough for the year 9999.
pub(crate) fn put_time(out: &mut Vec<u8>, time: Time) {
    out.extend_from_slice(&time.as_ms().to_le_bytes()[..6]);
}

const _: () = assert!(Time::MAX.as_ms() < 1 << 48);

/// To the nanosecond: what a caller gave is what they get back.
pub(crate) fn put_duration(out: &mut Vec<u8>, duration: Duration) {
    put_varint(out, duration.as_secs());
    put_varint(out, u64::from(duration.subsec_nanos()));
}

/// How many bytes [`put_varint`] takes.
pub(crate) fn varint_size(value: u64) -> usize {
    (u64::BITS - (value | 1).leading_zeros()).div_ceil(7) as usize
}

/// How many bytes [`put_str`] and [`put_bytes`] take for so many.
pub(crate) fn str_size(len: usize) -> usize {
    varint_size(len as u64) + len
}
