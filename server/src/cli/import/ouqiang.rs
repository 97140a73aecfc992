//! Jobs of an ouqiang/delay-queue: each under its id, which stands in a bucket by when it is due, or
//! in the list of its topic when it is ready. One that was handed out stands in a bucket by when that
//! attempt is over, and nothing tells it apart: it is due then.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use bytes::Bytes;
use linger::job::Ttr;
use linger::queue::{Queue, Whole};
use linger::retry::Retry;
use linger::store::redis::Foreign;
use linger::time::Time;

use super::foreign::{AT_ONCE, at_second, fresh, keys, members, range, values};
use super::msgpack::{self, Value};
use super::taken::Importing;

/// When each id comes next, in seconds: 0 if it is ready.
type Ids = BTreeMap<Bytes, f64>;

pub(super) async fn import(foreign: &Foreign, importing: &mut Importing<'_>) -> Result<()> {
    let ids: Vec<(Bytes, f64)> = ids(foreign).await?.into_iter().collect();
    let now = importing.store().clock().now().time();
    let mut gone = 0;
    for some in ids.chunks(AT_ONCE) {
        let pool: Vec<Vec<u8>> = some.iter().map(|(id, _)| id.to_vec()).collect();
        for ((id, next), stored) in some.iter().zip(values(foreign, &pool).await?) {
            let found = format!("job `{}`", String::from_utf8_lossy(id));
            let Some(stored) = stored else {
                gone += 1;
                continue;
            };
            match job(&stored, *next, now) {
                Ok(job) => importing.job(found, job).await?,
                Err(why) => importing.invalid(&found, &why).await?,
            }
        }
    }
    importing.remark("named there, but finished or deleted, and left out", gone);
    Ok(())
}

async fn ids(foreign: &Foreign) -> Result<Ids> {
    let mut ids = Ids::new();
    for queue in keys(foreign, "dq_queue_*", "list").await? {
        let mut from = 0;
        loop {
            let found = range(foreign, &queue, from, from + AT_ONCE as i64 - 1).await?;
            from += found.len() as i64;
            let is_last = found.len() < AT_ONCE;
            ids.extend(found.into_iter().map(|id| (id, 0.0)));
            if is_last {
                break;
            }
        }
    }
    for bucket in keys(foreign, "dq_bucket_*", "zset").await? {
        let mut cursor = Bytes::from_static(b"0");
        loop {
            let (next, found) = members(foreign, &bucket, &cursor).await?;
            for (id, score) in found {
                // The sooner of two is when it would come.
                ids.entry(id).and_modify(|next| *next = next.min(score)).or_insert(score);
            }
            cursor = next;
            if &cursor[..] == b"0" {
                break;
            }
        }
    }
    Ok(ids)
}

/// Older versions write the names of the fields, later ones numbers.
const FIELDS: [[&str; 2]; 5] =
    [["Topic", "1"], ["Id", "2"], ["Delay", "3"], ["TTR", "4"], ["Body", "5"]];

fn job(stored: &[u8], next: f64, now: Time) -> Result<Whole, String> {
    let map = msgpack::map(stored).ok_or("it is not written as jobs are there")?;
    let field = |at: usize| {
        let is_it = |key: &Value<'_>| match key {
            Value::Text(name) => FIELDS[at].iter().any(|known| known.as_bytes() == *name),
            Value::Int(number) => *number == at as i64 + 1,
        };
        let found = map.iter().find(|(key, _)| is_it(key)).map(|(_, value)| value);
        found.ok_or_else(|| format!("it has no {}", FIELDS[at][0]))
    };
    let text = |at: usize| match field(at)? {
        Value::Text(text) => Ok(*text),
        Value::Int(_) => Err(format!("its {} is a number", FIELDS[at][0])),
    };
    let name = |at: usize| {
        let name = std::str::from_utf8(text(at)?);
        name.map_err(|_| format!("its {} is not UTF-8", FIELDS[at][0]))
    };
    let seconds = |at: usize| match field(at)? {
        Value::Int(seconds) => Ok(*seconds),
        Value::Text(_) => Err(format!("its {} is a text", FIELDS[at][0])),
    };
    let said = |error: linger::error::Error| error.message().to_owned();
    let (topic, id) = (name(0)?.parse().map_err(said)?, name(1)?.parse().map_err(said)?);
    // It is put off again there if it is not due by its own word.
    let due = at_second(next.max(seconds(2)? as f64)).ok_or("its time is out of range")?;
    let ttr = Duration::from_secs(u64::try_from(seconds(3)?).unwrap_or(0));
    let mut job = fresh(topic, id, Bytes::copy_from_slice(text(4)?), due, now);
    job.spec.ttr = Some(Ttr::new(ttr).map_err(said)?);
    // There a job comes again until it is finished.
    job.spec.retry = Some(Retry::default().attempts(0));
    Ok(job)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Time {
        Time::from_ms(1_800_000_000_000).unwrap()
    }

    #[test]
    fn both_ways_in_which_jobs_are_written_are_read() {
        for keys in [["1", "2", "3", "4", "5"], ["Topic", "Id", "Delay", "TTR", "Body"]] {
            let mut bytes = vec![0x85];
            let mut put = |text: &str| {
                bytes.push(0xa0 | text.len() as u8);
                bytes.extend(text.as_bytes());
            };
            put(keys[0]);
            put("mail");
            put(keys[1]);
            put("7");
            put(keys[4]);
            put("hello");
            put(keys[2]);
            bytes.extend(b"\xce\x6b\x49\xd2\x0a");
            bytes.extend([0xa0 | keys[3].len() as u8]);
            bytes.extend(keys[3].as_bytes());
            bytes.extend(b"\xd3\0\0\0\0\0\0\0\x3c");
            let job = job(&bytes, 0.0, now()).unwrap();
            assert_eq!((job.spec.topic.as_str(), job.spec.id.as_str()), ("mail", "7"));
            assert_eq!(job.body.as_str(), Some("hello"));
            assert_eq!(job.life.due.as_ms(), 1_800_000_010_000);
            assert_eq!(job.spec.ttr.unwrap().as_ms(), 60_000);
        }
    }

    #[test]
    fn what_is_missing_or_wrong_is_told() {
        assert_eq!(job(b"hello", 0.0, now()).unwrap_err(), "it is not written as jobs are there");
        assert_eq!(job(b"\x80", 0.0, now()).unwrap_err(), "it has no Topic");
        assert_eq!(job(b"\x81\xa11\x05", 0.0, now()).unwrap_err(), "its Topic is a number");
    }
}
