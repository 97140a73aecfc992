//! Jobs on their way from and to other stores.

use std::collections::BTreeMap;

use super::core::{Core, all, arg};
use super::job::Kept;
use super::keys::Bucket;
use super::scripts;
use crate::error::Result;
use crate::job::Spec;
use crate::queue::{Page, Query, UniqueIds, Whole};
use crate::record::{Record, already_exists};
use crate::time::{Now, Tick};

/// The most bytes of jobs that one script takes in, so that nobody waits long behind it.
const BYTES_AT_ONCE: usize = 1 << 20;

impl Core {
    pub(super) async fn dump(&self, query: &Query) -> Result<Page<Whole>> {
        self.page(query, |record, now| record.whole(now)).await
    }

    pub(super) async fn restore(&self, jobs: Vec<Whole>) -> Result<Vec<Result<bool>>> {
        let mut answers = Vec::with_capacity(jobs.len());
        let mut lines = BTreeMap::<Bucket, Vec<Batch>>::new();
        for whole in jobs {
            let record = match self.restored(whole).await? {
                Ok(record) => record,
                Err(refused) => {
                    answers.push(Err(refused));
                    continue;
                }
            };
            answers.push(Ok(false));
            let (bucket, _) = self.place_of(&record.spec.topic, &record.spec.id);
            let line = lines.entry(bucket).or_default();
            if line.last().is_none_or(|batch| batch.bytes >= BYTES_AT_ONCE) {
                line.push(Batch::default());
            }
            line.last_mut().expect("one was pushed").push(answers.len() - 1, record);
            // An id that may stand in one topic only is looked for before each.
            if self.unique_ids == UniqueIds::Global {
                self.restore_all(std::mem::take(&mut lines), &mut answers).await?;
            }
        }
        self.restore_all(lines, &mut answers).await?;
        Ok(answers)
    }

    /// Takes in jobs, those of each bucket in order and the buckets side by side, and writes down which
    /// of them are new.
    async fn restore_all(
        &self,
        lines: BTreeMap<Bucket, Vec<Batch>>,
        answers: &mut [Result<bool>],
    ) -> Result<()> {
        let lines = lines.into_iter().map(|(bucket, line)| self.restore_line(bucket, line));
        for (place, is_new) in all(lines).await?.into_iter().flatten() {
            self.known().stats.added += u64::from(is_new);
            answers[place] = Ok(is_new);
        }
        Ok(())
    }

    /// The job as it would be kept here, or why it may not be.
    async fn restored(&self, whole: Whole) -> Result<Result<Record>> {
        let record = Record::restored(0, whole, self.now_of_scripts());
        if let (UniqueIds::Global, Ok(record)) = (self.unique_ids, &record)
            && let Some(other) = self.elsewhere(&record.spec).await?
        {
            return Ok(Err(already_exists(&other.topic, &other.id)));
        }
        Ok(record)
    }

    /// The time as scripts have it: by Redis's clock, which is one for all.
    fn now_of_scripts(&self) -> Now {
        let now = self.now();
        if self.clock_is_given { now } else { Now { tick: Tick::from_us(now.wall_us), ..now } }
    }

    async fn elsewhere(&self, spec: &Spec) -> Result<Option<Spec>> {
        let found = self.find(&spec.id).await?;
        let same = found.iter().any(|other| other.spec.topic == spec.topic);
        Ok(found.into_iter().next().filter(|_| !same).map(|other| other.spec))
    }

    /// Takes in jobs of one bucket; of each, its place among the answers and whether it is new.
    async fn restore_line(&self, bucket: Bucket, line: Vec<Batch>) -> Result<Vec<(usize, bool)>> {
        let mut answers = Vec::new();
        for batch in line {
            let mut args = vec![arg(bucket.0), arg(self.keys.count())];
            args.extend(batch.args);
            let mut reply = self.ask(&scripts::RESTORE, bucket, args).await?;
            for place in batch.places {
                answers.push((place, reply.i64()? == 1));
            }
        }
        Ok(answers)
    }
}

/// Jobs of one bucket, for one call of the script.
#[derive(Default)]
struct Batch {
    bytes: usize,
    /// Where among the answers each has its own.
    places: Vec<usize>,
    args: Vec<Vec<u8>>,
}

impl Batch {
    fn push(&mut self, place: usize, record: Record) {
        let spec = &record.spec;
        let names = [spec.topic.as_str().into(), spec.id.as_str().into()];
        let stored = Kept::new(record).encode();
        self.bytes += stored.len();
        self.places.push(place);
        self.args.extend(names);
        self.args.push(stored);
    }
}
