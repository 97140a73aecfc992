//! Whether a store is in good order, and putting it right. What is looked for is in `lua/check.lua`.

use std::collections::HashSet;

use super::address::Address;
use super::conn::Conn;
use super::core::{Core, arg};
use super::job::Kept;
use super::keys::{Bucket, Keys};
use super::reply::Reply;
use super::scripts;
use crate::error::{Code, Error, Result};
use crate::store::Options;

/// The most examples that are told of one kind of fault.
pub const EXAMPLES_MAX: usize = 5;

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Parts of the store that were looked at, and how many there are.
    pub buckets: (u16, u16),
    /// Jobs that were looked at.
    pub jobs: u64,
    /// Topics that were looked at.
    pub topics: u64,
    /// Entries of orders that were looked at.
    pub entries: u64,
    /// Ids that were looked at.
    pub ids: u64,
    /// What is wrong, by kind.
    pub faults: Vec<Fault>,
}

/// One kind of fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Its name.
    pub kind: String,
    /// How often it was found.
    pub found: u64,
    /// How often it was put right.
    pub repaired: u64,
    /// Where, a few times.
    pub examples: Vec<String>,
}

/// Whether faults are put right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Repair {
    /// Nothing is changed.
    #[default]
    No,
    /// What can be is. No job is removed by it.
    Yes,
}

impl Checked {
    /// Whether something is wrong, and still is.
    pub fn is_faulty(&self) -> bool {
        self.faults.iter().any(|fault| fault.found > fault.repaired)
    }
}

/// Whether there is a store whose keys begin so.
pub async fn is_there(address: &Address, prefix: &str) -> Result<bool> {
    let conn = Conn::open(address).await?;
    Ok(Keys::there(&conn, prefix).await?.is_some())
}

/// Looks over a store, which may be in use: a little at a time, each bit at one moment. `seen` is told
/// after each part of it.
pub async fn check(
    address: &Address,
    prefix: &str,
    repair: Repair,
    mut seen: impl FnMut(&Checked),
) -> Result<Checked> {
    let conn = Conn::open(address).await?;
    let none = || {
        let message = format!("there is no store whose keys begin with `{prefix}`");
        Error::new(Code::NotFound, message)
    };
    let keys = Keys::there(&conn, prefix).await?.ok_or_else(none)?;
    let core = Core::new(conn, keys, Options::default(), false);
    let mut look = Look { core, repair, checked: Checked::default(), told: HashSet::new() };
    look.checked.buckets.1 = look.core.keys.count();
    for bucket in look.core.keys.buckets() {
        look.bucket(bucket).await?;
        look.checked.buckets.0 += 1;
        seen(&look.checked);
    }
    Ok(look.checked)
}

/// A check under way.
struct Look {
    core: Core,
    repair: Repair,
    checked: Checked,
    /// What was told of this bucket: a walk may come by the same thing twice.
    told: HashSet<(String, Vec<u8>)>,
}

/// What one call has seen.
struct Step {
    cursor: Vec<u8>,
    looked: u64,
    found: Vec<Vec<u8>>,
    repaired: u64,
}

impl Look {
    async fn bucket(&mut self, bucket: Bucket) -> Result<()> {
        self.told.clear();
        let (jobs, adopted) = self.jobs(bucket).await?;
        if adopted > 0 {
            // They stand nowhere yet.
            self.jobs(bucket).await?;
        }
        self.checked.jobs += jobs;
        let (topics, numbers) = self.walk(bucket, &[b"topics".to_vec()], &[]).await?;
        self.checked.topics += topics;
        for number in numbers {
            self.topic(bucket, number).await?;
        }
        let (ids, _) = self.walk(bucket, &[b"ids".to_vec()], &[]).await?;
        self.checked.ids += ids;
        for set in ["ready", "topics", "wall", "tick"] {
            self.walk(bucket, &[b"set".to_vec(), set.into()], &[]).await?;
        }
        Ok(())
    }

    /// Looks at all jobs; how many there are, and how many were given a topic.
    async fn jobs(&mut self, bucket: Bucket) -> Result<(u64, u64)> {
        let after = [arg(bucket.0), arg(self.core.keys.count())];
        let (jobs, without_topic) = self.walk(bucket, &[b"jobs".to_vec()], &after).await?;
        let mut adopted = 0;
        for number in without_topic {
            let args = [b"n".to_vec(), number.clone(), Vec::new()];
            let mut reply = self.core.ask(&scripts::READ, bucket, args).await?;
            let _now = reply.now()?;
            let mut one = reply.list()?;
            if one.is_empty() {
                continue;
            }
            let read = Kept::decode(one.number()?, &one.bytes()?);
            match read {
                Ok(kept) => {
                    let topic = kept.record.spec.topic.as_str().into();
                    adopted +=
                        self.step(bucket, vec![b"adopt".into(), number, topic]).await?.repaired;
                }
                Err(why) => self.note("job_unreadable".into(), why.message().into(), false),
            }
        }
        Ok((jobs, adopted))
    }

    async fn topic(&mut self, bucket: Bucket, number: Vec<u8>) -> Result<()> {
        let orders = self.step(bucket, vec![b"orders".into(), number.clone()]).await?.found;
        for order in orders {
            let what = [b"order".to_vec(), number.clone(), order];
            self.checked.entries += self.walk(bucket, &what, &[]).await?.0;
        }
        self.step(bucket, vec![b"rest".into(), number]).await?;
        Ok(())
    }

    /// Goes through all pages; how many were looked at, and what was found.
    async fn walk(
        &mut self,
        bucket: Bucket,
        what: &[Vec<u8>],
        after: &[Vec<u8>],
    ) -> Result<(u64, Vec<Vec<u8>>)> {
        let (mut cursor, mut looked, mut found) = (b"0".to_vec(), 0, Vec::new());
        loop {
            let step = self.step(bucket, [what, &[cursor], after].concat()).await?;
            cursor = step.cursor;
            looked += step.looked;
            found.extend(step.found);
            if cursor == b"0" {
                found.sort_unstable();
                found.dedup();
                return Ok((looked, found));
            }
        }
    }

    async fn step(&mut self, bucket: Bucket, args: Vec<Vec<u8>>) -> Result<Step> {
        let repair = arg(u8::from(self.repair == Repair::Yes));
        let args = std::iter::once(repair).chain(args);
        let mut reply = self.core.ask(&scripts::CHECK, bucket, args).await?;
        let (cursor, looked) = (reply.bytes()?.to_vec(), reply.u64()?);
        let found = texts(reply.list()?)?;
        let (mut faults, mut repaired) = (reply.list()?, 0);
        while !faults.is_empty() {
            let mut fault = faults.list()?;
            let (kind, place, is_repaired) = (fault.text()?, fault.bytes()?, fault.u64()? == 1);
            repaired += u64::from(is_repaired);
            self.note(kind, place.to_vec(), is_repaired);
        }
        Ok(Step { cursor, looked, found, repaired })
    }

    fn note(&mut self, kind: String, place: Vec<u8>, is_repaired: bool) {
        if !self.told.insert((kind.clone(), place.clone())) {
            return;
        }
        let place = String::from_utf8_lossy(&place).into_owned();
        if is_repaired {
            tracing::warn!(kind, place, "a fault of the store was put right");
        }
        let faults = &mut self.checked.faults;
        let at = faults.iter().position(|fault| fault.kind == kind).unwrap_or_else(|| {
            faults.push(Fault { kind, found: 0, repaired: 0, examples: Vec::new() });
            faults.len() - 1
        });
        let fault = &mut faults[at];
        fault.found += 1;
        fault.repaired += u64::from(is_repaired);
        if fault.examples.len() < EXAMPLES_MAX {
            fault.examples.push(place);
        }
    }
}

fn texts(mut list: Reply) -> Result<Vec<Vec<u8>>> {
    let mut texts = Vec::new();
    while !list.is_empty() {
        texts.push(list.bytes()?.to_vec());
    }
    Ok(texts)
}
