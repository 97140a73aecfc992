//! Jobs of an lmstfy pool: bodies under keys of their own, ready and dead ones in lists, all others in
//! one order by when they come next, with the tries that they have left.

use anyhow::Result;
use bytes::{Buf, Bytes};
use linger::dice::Dice;
use linger::history::{Entry, What};
use linger::machine::{Hold, State};
use linger::queue::{Queue, Whole};
use linger::retry::Retry;
use linger::store::redis::Foreign;
use linger::time::{Tick, Time};
use prost::Message;

use super::foreign::{AT_ONCE, at_second, fresh, keys, members, range, values};
use super::taken::Importing;
use crate::front::http::lines::ttr_until;

/// The order of those that wait.
const TIMER: &[u8] = b"timer_set";

/// An entry of a list or of the order.
struct Entered {
    namespace: Bytes,
    queue: Bytes,
    id: Bytes,
    tries: u16,
    stands: Stands,
}

#[derive(Clone, Copy)]
enum Stands {
    Ready,
    Until(f64),
    Dead,
}

/// A body with attributes, which those have whose ids begin with a version.
#[derive(Clone, PartialEq, Message)]
struct Data {
    #[prost(bytes = "bytes", tag = "1")]
    data: Bytes,
    #[prost(map = "string, string", tag = "2")]
    attributes: std::collections::HashMap<String, String>,
}

/// What is left behind.
#[derive(Default)]
struct Left {
    gone: u64,
    attributes: u64,
}

pub(super) async fn import(
    foreign: &Foreign,
    topic_of: &str,
    importing: &mut Importing<'_>,
) -> Result<()> {
    let mut left = Left::default();
    for (pattern, stands) in [("q/*", Stands::Ready), ("d/*", Stands::Dead)] {
        for key in keys(foreign, pattern, "list").await? {
            let mut seen = 0;
            loop {
                // The oldest stands at the end.
                let mut found = range(foreign, &key, -seen - AT_ONCE as i64, -seen - 1).await?;
                found.reverse();
                seen += found.len() as i64;
                let is_last = found.len() < AT_ONCE;
                let entries = found.iter().map(|entry| in_list(&key, entry, stands)).collect();
                take(foreign, entries, topic_of, importing, &mut left).await?;
                if is_last {
                    break;
                }
            }
        }
    }
    let mut cursor = Bytes::from_static(b"0");
    loop {
        let (next, found) = members(foreign, TIMER, &cursor).await?;
        let entries = found.iter().map(|(entry, score)| in_order(entry, *score)).collect();
        take(foreign, entries, topic_of, importing, &mut left).await?;
        cursor = next;
        if &cursor[..] == b"0" {
            break;
        }
    }
    importing.remark("named there, but finished, deleted or expired, and left out", left.gone);
    importing.remark("had attributes, which are left behind", left.attributes);
    Ok(())
}

async fn take(
    foreign: &Foreign,
    entries: Vec<Result<Entered, String>>,
    topic_of: &str,
    importing: &mut Importing<'_>,
    left: &mut Left,
) -> Result<()> {
    let pool: Vec<Vec<u8>> = entries.iter().flatten().map(Entered::key).collect();
    let mut bodies = values(foreign, &pool).await?.into_iter();
    let now = importing.store().clock().now().time();
    for entry in entries {
        let entry = match entry {
            Ok(entry) => entry,
            Err(why) => {
                importing.invalid("an entry", &why).await?;
                continue;
            }
        };
        let Some(Some(body)) = bodies.next() else {
            left.gone += 1;
            continue;
        };
        let found = format!("job `{}`", String::from_utf8_lossy(&entry.key()));
        match entry.job(body, topic_of, now, left) {
            Ok(job) => importing.job(found, job).await?,
            Err(why) => importing.invalid(&found, &why).await?,
        }
    }
    Ok(())
}

/// `q/namespace/queue` or `d/namespace/queue`, and an entry of it: tries, length, id.
fn in_list(key: &Bytes, entry: &Bytes, stands: Stands) -> Result<Entered, String> {
    let mut names = key.splitn(3, |byte| *byte == b'/').skip(1);
    let mut name = || names.next().map(|name| key.slice_ref(name)).ok_or("its list has no name");
    let (namespace, queue) = (name()?, name()?);
    let mut rest = entry.clone();
    let tries = number(&mut rest)?;
    let id = text(&mut rest)?;
    Ok(Entered { namespace, queue, id, tries, stands })
}

/// Namespace and queue with their lengths, tries, and the id with its own.
fn in_order(entry: &Bytes, score: f64) -> Result<Entered, String> {
    let mut rest = entry.clone();
    let (namespace, queue) = (text(&mut rest)?, text(&mut rest)?);
    let tries = number(&mut rest)?;
    let id = text(&mut rest)?;
    Ok(Entered { namespace, queue, id, tries, stands: Stands::Until(score) })
}

const CUT_SHORT: &str = "it is not written as entries are there";

fn number(rest: &mut Bytes) -> Result<u16, String> {
    if rest.len() < 2 { Err(CUT_SHORT.into()) } else { Ok(rest.get_u16_le()) }
}

fn text(rest: &mut Bytes) -> Result<Bytes, String> {
    let length = usize::from(number(rest)?);
    if rest.len() < length { Err(CUT_SHORT.into()) } else { Ok(rest.split_to(length)) }
}

impl Entered {
    /// Where its body is.
    fn key(&self) -> Vec<u8> {
        [b"j", &self.namespace[..], &self.queue, &self.id].join(&b'/')
    }

    fn job(
        &self,
        body: Bytes,
        topic_of: &str,
        now: Time,
        left: &mut Left,
    ) -> Result<Whole, String> {
        let name = |bytes: &Bytes| {
            let text = std::str::from_utf8(bytes);
            text.map(str::to_owned).map_err(|_| "a name of it is not UTF-8".to_owned())
        };
        let (namespace, queue, id) = (name(&self.namespace)?, name(&self.queue)?, name(&self.id)?);
        let topic = topic_of.replace("{namespace}", &namespace).replace("{queue}", &queue);
        let said = |error: linger::error::Error| error.message().to_owned();
        let (topic, id) = (topic.parse().map_err(said)?, id.parse().map_err(said)?);
        let body = if self.has_version() {
            let data =
                Data::decode(body).map_err(|_| "its body is not written as bodies are there")?;
            left.attributes += u64::from(!data.attributes.is_empty());
            data.data
        } else {
            body
        };
        let due = match self.stands {
            Stands::Until(second) => at_second(second).ok_or("its time is out of range")?,
            Stands::Ready | Stands::Dead => now,
        };
        let mut job = fresh(topic, id, body, due, now);
        job.spec.retry = Some(Retry::default().attempts(self.tries.max(1).into()));
        match self.stands {
            Stands::Dead => die(&mut job, now),
            // Its last try is under way: it is dead when that is over.
            Stands::Until(_) if self.tries == 0 => hold(&mut job, due, now),
            _ => {}
        }
        Ok(job)
    }

    /// Whether its id begins with a version: one more character than such ids have.
    fn has_version(&self) -> bool {
        self.id.len() == 27 && self.id[0] == b'1'
    }
}

fn handed_out(job: &mut Whole) {
    (job.life.attempt, job.life.hand_outs, job.life.tally.reserves) = (1, 1, 1);
}

fn die(job: &mut Whole, now: Time) {
    handed_out(job);
    job.life.tally.deaths = 1;
    job.life.state = State::Dead { at: now };
    job.last_error = Some("its tries were used up".into());
    job.history = vec![Entry {
        at: now,
        what: What::Died,
        attempt: 1,
        took_ms: None,
        error: job.last_error.clone(),
        report: None,
        by: None,
    }];
}

fn hold(job: &mut Whole, until: Time, now: Time) {
    handed_out(job);
    job.life.due = now.min(until);
    job.reserved_until = Some(until);
    job.life.state = State::Reserved(Hold {
        // Nobody knows it: there a job is finished by its id alone.
        lease: Dice::secret().lease(0, 0),
        since: Tick::default(),
        until: Tick::default(),
        ttr: ttr_until(until, now),
        owner: None,
    });
}
