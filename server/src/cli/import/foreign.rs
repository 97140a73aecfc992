//! Walking what others have on Redis. Nothing is changed there.

use anyhow::{Context, Result};
use bytes::Bytes;
use linger::job::{Body, Id, NewJob};
use linger::machine::Life;
use linger::queue::Whole;
use linger::store::redis::{Answer, Foreign};
use linger::time::Time;
use linger::topic::Topic;

/// How many entries are asked for at once.
pub(super) const AT_ONCE: usize = 500;

/// The names of all keys of a type that look so.
pub(super) async fn keys(foreign: &Foreign, pattern: &str, kind: &str) -> Result<Vec<Bytes>> {
    let (mut keys, mut cursor) = (Vec::new(), Bytes::from_static(b"0"));
    loop {
        let scan: [&[u8]; 8] = [
            b"SCAN",
            &cursor,
            b"MATCH",
            pattern.as_bytes(),
            b"COUNT",
            b"1000",
            b"TYPE",
            kind.as_bytes(),
        ];
        let (next, found) = page(foreign.command(&scan).await?)?;
        keys.extend(found);
        cursor = next;
        if &cursor[..] == b"0" {
            break;
        }
    }
    // A key may come twice.
    keys.sort_unstable();
    keys.dedup();
    Ok(keys)
}

/// One page of a sorted set: where to go on, and members with their scores.
pub(super) async fn members(
    foreign: &Foreign,
    key: &[u8],
    cursor: &[u8],
) -> Result<(Bytes, Vec<(Bytes, f64)>)> {
    let (next, found) = page(foreign.command(&[b"ZSCAN", key, cursor, b"COUNT", b"500"]).await?)?;
    let pairs = found.chunks_exact(2).map(|pair| {
        let score = std::str::from_utf8(&pair[1]).ok().and_then(|score| score.parse().ok());
        Ok((pair[0].clone(), score.context("a score is no number")?))
    });
    Ok((next, pairs.collect::<Result<_>>()?))
}

/// Entries of a list.
pub(super) async fn range(foreign: &Foreign, key: &[u8], from: i64, to: i64) -> Result<Vec<Bytes>> {
    let (from, to) = (from.to_string(), to.to_string());
    list(foreign.command(&[b"LRANGE", key, from.as_bytes(), to.as_bytes()]).await?)?
        .into_iter()
        .map(text)
        .collect()
}

/// The values of keys; none of those that are not there.
pub(super) async fn values(foreign: &Foreign, keys: &[Vec<u8>]) -> Result<Vec<Option<Bytes>>> {
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let words: Vec<&[u8]> =
        std::iter::once(&b"MGET"[..]).chain(keys.iter().map(|key| &key[..])).collect();
    let found = list(foreign.command(&words).await?)?;
    found
        .into_iter()
        .map(|one| if one == Answer::Nil { Ok(None) } else { text(one).map(Some) })
        .collect()
}

/// A job that has not happened to anyone yet.
pub(super) fn fresh(topic: Topic, id: Id, body: Bytes, due: Time, created: Time) -> Whole {
    let new = NewJob::new(topic, id, Body::from_wire(body));
    Whole {
        spec: new.spec,
        body: new.body,
        created,
        by: None,
        life: Life::new(due, new.priority, false),
        reserved_until: None,
        last_error: None,
        history: Vec::new(),
    }
}

/// A moment that others keep in seconds.
pub(super) fn at_second(seconds: f64) -> Option<Time> {
    let is_right = seconds.is_finite() && seconds >= 0.0;
    is_right.then(|| Time::from_ms((seconds * 1000.0).ceil() as u64)).flatten()
}

fn page(answer: Answer) -> Result<(Bytes, Vec<Bytes>)> {
    let mut both = list(answer)?.into_iter();
    let cursor = text(both.next().context(STRANGE)?)?;
    let found = list(both.next().context(STRANGE)?)?;
    Ok((cursor, found.into_iter().map(text).collect::<Result<_>>()?))
}

const STRANGE: &str = "Redis answered what it never does";

fn list(answer: Answer) -> Result<Vec<Answer>> {
    match answer {
        Answer::List(answers) => Ok(answers),
        _ => anyhow::bail!(STRANGE),
    }
}

fn text(answer: Answer) -> Result<Bytes> {
    match answer {
        Answer::Bytes(bytes) => Ok(bytes),
        _ => anyhow::bail!(STRANGE),
    }
}
