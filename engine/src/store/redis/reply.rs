//! What scripts answer.

use bytes::{Buf, Bytes};
use redis::Value;

use crate::error::{Code, Error, Result};
use crate::time::{Now, Tick};

/// Answers of a script, from front to back.
pub(super) struct Reply {
    values: std::vec::IntoIter<Value>,
}

impl Reply {
    pub(super) fn of(value: Value) -> Result<Reply> {
        match value {
            Value::Array(values) => Ok(Reply { values: values.into_iter() }),
            _ => Err(strange()),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.values.len() == 0
    }

    /// Whether there is nothing more after so many.
    pub(super) fn is_over_after(&self, count: usize) -> bool {
        self.values.len() <= count
    }

    pub(super) fn list(&mut self) -> Result<Reply> {
        Reply::of(self.value()?)
    }

    pub(super) fn bytes(&mut self) -> Result<Bytes> {
        match self.value()? {
            Value::BulkString(bytes) => Ok(bytes.into()),
            _ => Err(strange()),
        }
    }

    pub(super) fn text(&mut self) -> Result<String> {
        String::from_utf8(self.bytes()?.into()).map_err(|_| strange())
    }

    pub(super) fn i64(&mut self) -> Result<i64> {
        integer(self.value()?)
    }

    pub(super) fn u64(&mut self) -> Result<u64> {
        u64::try_from(self.i64()?).map_err(|_| strange())
    }

    /// A job's number: eight bytes.
    pub(super) fn number(&mut self) -> Result<u64> {
        let bytes = self.bytes()?;
        bytes.as_ref().try_into().map(u64::from_be_bytes).map_err(|_| strange())
    }

    /// Numbers and texts in one piece.
    pub(super) fn packed(&mut self) -> Result<Packed> {
        self.bytes().map(|bytes| Packed { bytes })
    }

    /// A moment, or none if it is -1.
    pub(super) fn moment(&mut self) -> Result<Option<u64>> {
        self.i64().map(|at| u64::try_from(at).ok())
    }

    pub(super) fn now(&mut self) -> Result<Now> {
        let mut clock = self.list()?;
        Ok(Now { wall_us: clock.u64()?, tick: Tick::from_us(clock.u64()?) })
    }

    fn value(&mut self) -> Result<Value> {
        self.values.next().ok_or_else(strange)
    }
}

/// What a script has put into one piece, from front to back.
pub(super) struct Packed {
    bytes: Bytes,
}

impl Packed {
    pub(super) fn u8(&mut self) -> Result<u8> {
        self.bytes.try_get_u8().map_err(|_| strange())
    }

    pub(super) fn u16(&mut self) -> Result<u16> {
        self.bytes.try_get_u16().map_err(|_| strange())
    }

    pub(super) fn u32(&mut self) -> Result<u32> {
        self.bytes.try_get_u32().map_err(|_| strange())
    }

    pub(super) fn u64(&mut self) -> Result<u64> {
        self.bytes.try_get_u64().map_err(|_| strange())
    }

    pub(super) fn rest(self) -> Bytes {
        self.bytes
    }

    pub(super) fn rest_as_text(self) -> Result<String> {
        String::from_utf8(self.bytes.into()).map_err(|_| strange())
    }
}

pub(super) fn integer(value: Value) -> Result<i64> {
    match value {
        Value::Int(number) => Ok(number),
        Value::BulkString(text) => {
            std::str::from_utf8(&text).ok().and_then(|text| text.parse().ok()).ok_or_else(strange)
        }
        _ => Err(strange()),
    }
}

/// The last of a list of texts, or of a map's.
pub(super) fn last_text(value: Value) -> Option<String> {
    match value {
        Value::Array(values) => values.into_iter().next_back().and_then(last_text),
        Value::Map(pairs) => pairs.into_iter().next_back().and_then(|(_, value)| last_text(value)),
        Value::BulkString(text) => String::from_utf8(text).ok(),
        _ => None,
    }
}

/// The answer of a script that is not ours, or of a server that is none.
pub(super) fn strange() -> Error {
    Error::new(
        Code::StorageFailed,
        "Redis answered what no script of ours does; is it shared with others?",
    )
}
