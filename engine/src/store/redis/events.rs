//! The event log that instances write together. What stands in its lines is the affair of those who
//! write it.

use bytes::Bytes;
use redis::Value;

use super::Redis;
use super::core::arg;
use super::reply::{Reply, integer, strange};
use super::scripts;
use crate::error::Result;
use crate::time::Time;

/// Lines to be written, all or none of them, and once however often that is tried.
#[derive(Clone, Debug)]
pub struct Append {
    /// Who writes: nobody else has the same name.
    pub writer: String,
    /// Its how-manieth time this is. One that was written is not written again.
    pub turn: u64,
    /// The most bytes of all segments together; the oldest are let go.
    pub bytes_max: u64,
    /// The most bytes of one.
    pub segment_bytes_max: u64,
    /// How long lines and sums are kept, in milliseconds.
    pub keep_ms: u64,
    /// The first and the last moment that the lines tell of.
    pub span: (Time, Time),
    /// Whole lines.
    pub lines: Vec<u8>,
    /// What is to be added to sums.
    pub sums: Vec<Added>,
}

/// By how much a sum grows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Added {
    /// The beginning of its hour.
    pub hour: Time,
    /// The topic. Without a name: all beyond the first so many.
    pub topic: String,
    /// What is counted.
    pub what: String,
    /// By so much.
    pub by: u64,
}

/// Some of the log's lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Later ones have higher numbers.
    pub number: u64,
    /// The first and the last moment that its lines tell of.
    pub span: (Time, Time),
    /// How long it is.
    pub bytes: u64,
}

impl Redis {
    /// Writes to the event log.
    pub async fn log_append(&self, append: Append) -> Result<()> {
        let (first, last) = append.span;
        let mut args = vec![
            b"append".into(),
            append.writer.into_bytes(),
            arg(append.turn),
            arg(append.bytes_max),
            arg(append.segment_bytes_max),
            arg(append.keep_ms),
            arg(first.as_ms()),
            arg(last.as_ms()),
            append.lines,
        ];
        for Added { hour, topic, what, by } in append.sums {
            args.extend([arg(hour.as_ms()), topic.into_bytes(), what.into_bytes(), arg(by)]);
        }
        self.ask_events(args).await.map(drop)
    }

    /// The segments of the event log, oldest first.
    pub async fn log_segments(&self) -> Result<Vec<Segment>> {
        let mut reply = Reply::of(self.ask_events(vec![b"look".into()]).await?)?;
        let mut segments = Vec::new();
        while !reply.is_empty() {
            let mut one = reply.list()?;
            let number = one.u64()?;
            let mut moment = || one.u64().map(|ms| Time::from_ms(ms).unwrap_or(Time::MAX));
            let span = (moment()?, moment()?);
            segments.push(Segment { number, span, bytes: one.u64()? });
        }
        Ok(segments)
    }

    /// Up to so many bytes of a segment; none of one that is gone.
    pub async fn log_read(&self, segment: u64, from: u64, bytes: u64) -> Result<Bytes> {
        let key = format!("{}s{segment}", self.core.keys.of_events());
        let (from, to) = (arg(from), arg(from + bytes.max(1) - 1));
        let words: [&[u8]; 4] = [b"GETRANGE", key.as_bytes(), &from, &to];
        match self.core.conn.command(key.as_bytes(), &words).await? {
            Value::BulkString(bytes) => Ok(bytes.into()),
            _ => Err(strange()),
        }
    }

    /// The sums of an hour: topic, what is counted, how much.
    pub async fn log_sums(&self, hour: Time) -> Result<Vec<(String, String, u64)>> {
        let key = format!("{}h{}", self.core.keys.of_events(), hour.as_ms());
        let found = self.core.conn.command(key.as_bytes(), &[b"HGETALL", key.as_bytes()]).await?;
        let pairs = match found {
            Value::Map(pairs) => pairs,
            Value::Array(all) => {
                let mut all = all.into_iter();
                std::iter::from_fn(|| Some((all.next()?, all.next()?))).collect()
            }
            _ => return Err(strange()),
        };
        let sum = |(field, count)| {
            let Value::BulkString(field) = field else { return Err(strange()) };
            let field = String::from_utf8(field).map_err(|_| strange())?;
            let (topic, what) = field.split_once('\0').ok_or_else(strange)?;
            let count = u64::try_from(integer(count)?).map_err(|_| strange())?;
            Ok((topic.to_owned(), what.to_owned(), count))
        };
        pairs.into_iter().map(sum).collect()
    }

    async fn ask_events(&self, args: Vec<Vec<u8>>) -> Result<Value> {
        let key = self.core.keys.of_events();
        self.core.eval_at(&scripts::EVENTS, key, Vec::new(), args).await
    }
}
