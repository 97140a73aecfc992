//! The store as callers see it: encode, ask the decider, wait for the answer, read the bodies.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::JoinHandle;

use crc32c::crc32c;
use tokio::sync::oneshot;

use super::batch::{DECIDED_BYTES, Decided, HEAD_BYTES};
use super::codec::{Own, encode_cold};
use super::desk::{Desk, Haste};
use super::files::Guard;
use super::handover::Handover;
use super::inbox::{Inbox, Lane, Task};
use super::meter::Meter;
use super::read::{ReadCold, read_cold, record, record_in_full};
use super::space::{IdHasher, full};
use super::state::{Decision, Outcome, Prepared, Returning, Rewritten, Shifted, Snapshot, State};
use crate::error::{Code, Error, Result};
use crate::history::Notes;
use crate::job::{Edit, Id, NewJob, Patch, Spec};
use crate::machine::{Life, Owner};
use crate::queue::{
    Action, Added, Ask, Change, Changed, Delivery, Ended, Forecast, How, JobInfo, Key, KvEntry,
    KvQuery, KvWrite, LetGo, Moves, Page, Query, Queue, Settle, Sweep, Terms, TopicChange,
    TopicInfo, Topics, Verdict, Whole,
};
use crate::record::{Move, Record, moved, not_found};
use crate::stats::Stats;
use crate::time::{Bell, Clock, Now};
use crate::topic::{Defaults, Topic};

/// The durable store. Dropped, it ends in good order: what was answered is on disk.
pub struct Embedded {
    pub(crate) shared: Arc<Shared>,
    pub(crate) threads: Mutex<Vec<JoinHandle<()>>>,
    pub(crate) keeper_bell: Arc<Bell>,
    /// Let go of last.
    pub(crate) guard: Option<Box<dyn Guard>>,
}

/// What every call needs.
pub(crate) struct Shared {
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) desk: OnceLock<Arc<Desk>>,
    pub(crate) handover: Arc<Handover>,
    pub(crate) hasher: IdHasher,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) tickets: AtomicU64,
    /// Set when the store is to be closed.
    pub(crate) closing: AtomicBool,
    pub(crate) meter: Arc<Meter>,
    /// The most bytes that one step may append to the log.
    pub(crate) step_bytes_max: usize,
}

/// More than a change by hand or a hand-out ever appends, texts apart.
pub(crate) const CHANGE_BYTES: usize = 1024;
/// More than a change to a topic ever appends.
pub(crate) const CONFIGURE_BYTES: usize = 16 * CHANGE_BYTES;
/// Both texts that a note may carry, at their longest.
const NOTE_TEXT_BYTES: usize = crate::history::ERROR_BYTES_MAX + crate::history::EXCERPT_BYTES_MAX;

impl Shared {
    /// Has the decider do something, and waits until what it answers is safe.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        lane: Lane,
        log_bytes: usize,
        act: impl FnOnce(&mut State, Now) -> T + Send + 'static,
    ) -> Result<T> {
        // What appends nothing only looks.
        let haste = if log_bytes == 0 { Haste::Now } else { Haste::WithSync };
        let (sender, answer) = oneshot::channel();
        let task = Task::new(log_bytes, move |state, now| {
            let value = act(state, now);
            // Nobody may be waiting any more; it is done all the same.
            state.answer(Box::new(move || drop(sender.send(value))));
        });
        self.submit(lane, task).await?;
        self.see_to(log_bytes, haste).await;
        answer.await.map_err(|_| self.why_gone())
    }

    /// Looks at the state.
    pub(crate) async fn look<T: Send + 'static>(
        &self,
        act: impl FnOnce(&mut State, Now) -> T + Send + 'static,
    ) -> Result<T> {
        self.ask(Lane::Calls, 0, act).await
    }

    /// Changes something, unless there is no room at all.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        log_bytes: usize,
        act: impl FnOnce(&mut State, Now) -> T + Send + 'static,
    ) -> Result<T> {
        let act = |state: &mut State, now: Now| match state.out_of_room {
            true => Err(full()),
            false => Ok(act(state, now)),
        };
        self.ask(Lane::Calls, log_bytes, act).await?
    }

    /// Puts a task in line. Somebody has to see to it.
    pub(crate) async fn submit(&self, lane: Lane, task: Task) -> Result<()> {
        self.inbox.submit(lane, task).await.map_err(|_| self.why_gone())
    }

    /// Sees to it that what was put in line is decided.
    pub(crate) async fn see_to(&self, log_bytes: usize, haste: Haste) {
        // There is none where parts move only when they are told.
        if let Some(desk) = self.desk.get() {
            desk.see_to(log_bytes, haste).await;
        }
    }

    /// Why an answer will never come.
    pub(crate) fn why_gone(&self) -> Error {
        let stopping = || Error::new(Code::Unavailable, "the store is stopping");
        self.handover.halted().cloned().unwrap_or_else(stopping)
    }

    fn prepare(&self, new: &NewJob, payloads: &mut Vec<u8>) -> Result<Prepared> {
        let (spec, from) = (&new.spec, payloads.len());
        encode_cold(payloads, spec, &new.body, new.by.as_ref(), new.priority, new.held);
        let payload = from..payloads.len();
        self.check_fits(payload.len())?;
        Ok(Prepared {
            topic: spec.topic.clone(),
            id: spec.id.clone(),
            hash: self.hasher.hash(&spec.id),
            check: crc32c(&payloads[payload.clone()]),
            payload,
            body_bytes: new.body.as_bytes().len(),
            when: new.when,
            priority: new.priority,
            held: new.held,
            own: Own::of(spec).map(Arc::new),
            on_conflict: new.on_conflict,
        })
    }

    fn check_fits(&self, bytes: usize) -> Result<()> {
        let max = self.step_bytes_max / 2;
        if bytes <= max {
            return Ok(());
        }
        let message = format!("the job takes {bytes} bytes, over the store's limit of {max}");
        Err(Error::new(Code::TooLarge, message).field("body"))
    }

    /// A batch in parts, none of which is too much for what is left of a segment, with the bytes
    /// each may take.
    fn parts<T>(&self, batch: Vec<T>, bytes_of: impl Fn(&T) -> usize) -> Vec<(Vec<T>, usize)> {
        let all = batch.iter().map(&bytes_of).sum();
        if all <= self.step_bytes_max / 4 {
            return vec![(batch, all)];
        }
        let mut parts: Vec<(Vec<T>, usize)> = Vec::new();
        for item in batch {
            let item_bytes = bytes_of(&item);
            match parts.last_mut() {
                Some((part, bytes)) if *bytes + item_bytes <= self.step_bytes_max / 4 => {
                    *bytes += item_bytes;
                    part.push(item);
                }
                _ => parts.push((vec![item], item_bytes)),
            }
        }
        parts
    }

    /// Adds jobs that fit into one task; each in its place.
    async fn add_some(&self, jobs: Vec<NewJob>) -> Result<Vec<Result<Added>>> {
        let mut payloads = Vec::new();
        let prepared: Vec<Result<Prepared>> =
            jobs.iter().map(|job| self.prepare(job, &mut payloads)).collect();
        let log_bytes = prepared.iter().flatten().map(|job| log_bytes_of(job.payload.len())).sum();
        let lane = Lane::Adds { bytes: log_bytes };
        let act = move |state: &mut State, now: Now| {
            if state.out_of_room {
                return Err(full());
            }
            state.look_ahead(&prepared);
            let add = |job: &Result<Prepared>| match job {
                Ok(job) => state.add(job, &payloads[job.payload.clone()], now),
                Err(refused) => Err(refused.clone()),
            };
            let decisions: Vec<_> = prepared.iter().map(add).collect();
            // What was made in the caller's thread goes back there to be freed.
            Ok((decisions, now, (prepared, payloads)))
        };
        let (decisions, now, _) = self.ask(lane, log_bytes, act).await??;
        let mut answers = Vec::with_capacity(jobs.len());
        for (job, decision) in jobs.into_iter().zip(decisions) {
            answers.push(match decision {
                Ok(decision) => Ok(added(job, decision, now).await?),
                Err(refused) => Err(refused),
            });
        }
        Ok(answers)
    }

    /// Takes in jobs of another store that fit into one task.
    async fn restore_some(&self, jobs: Vec<Whole>) -> Result<Vec<Result<bool>>> {
        let mut payloads = Vec::new();
        let ready: Vec<Result<Returning>> =
            jobs.into_iter().map(|job| self.returning(job, &mut payloads)).collect();
        let log_bytes = ready.iter().flatten().map(Returning::log_bytes).sum();
        let act = move |state: &mut State, now: Now| {
            let restore = |job: &Result<Returning>| match job {
                Ok(job) => state.restore(job, &payloads[job.new.payload.clone()], now),
                Err(refused) => Err(refused.clone()),
            };
            ready.iter().map(restore).collect()
        };
        self.write(log_bytes, act).await
    }

    fn returning(&self, whole: Whole, payloads: &mut Vec<u8>) -> Result<Returning> {
        whole.check()?;
        let Whole { spec, body, by, life, .. } = whole.clone();
        let blank = NewJob::new(spec.topic.clone(), spec.id.clone(), body);
        let new = NewJob { spec, by, priority: life.priority, ..blank };
        Ok(Returning::new(self.prepare(&new, payloads)?, whole))
    }

    /// Makes changes in order, at one moment. Where one needs a job rewritten that has changed
    /// since it was read, those from there on are made at another.
    async fn change_all(&self, batch: Vec<Change>) -> Result<Vec<Result<Changed>>> {
        let mut answers = Vec::with_capacity(batch.len());
        let mut rest = batch;
        while !rest.is_empty() {
            let (mut ready, mut log_bytes) = (Vec::with_capacity(rest.len()), 0);
            for change in &rest {
                let rewritten = self.rewrite(change).await?;
                let payload = rewritten.as_ref().ok().and_then(Option::as_ref);
                let bytes = CHANGE_BYTES + payload.map_or(0, |new| new.payload.len());
                // What would be too much for one moment is left for the next.
                if log_bytes > 0 && log_bytes + bytes > self.step_bytes_max / 2 {
                    break;
                }
                log_bytes += bytes;
                ready.push((change.clone(), rewritten));
            }
            let act = move |state: &mut State, now| make_changes(state, ready, now);
            let made = self.write(log_bytes, act).await?;
            rest.drain(..made.len());
            answers.extend(made);
        }
        Ok(answers)
    }

    /// The job as a change makes it, from what is on disk now; none if it need not be rewritten,
    /// or is not there.
    async fn rewrite(&self, change: &Change) -> Result<Result<Option<Rewritten>>> {
        let Action::Update(patch) = &change.action else { return Ok(Ok(None)) };
        if !rewrites(patch) {
            return Ok(Ok(None));
        }
        let key = change.key.clone();
        let look = move |state: &mut State, _| state.slot_of(&key).map(|slot| state.snapshot(slot));
        let Some(snapshot) = self.look(look).await? else { return Ok(Ok(None)) };
        let ReadCold { decided, mut cold } = read_cold(snapshot.number, &snapshot.cold).await?;
        apply(patch, &mut cold.spec);
        let body = patch.body.as_ref().unwrap_or(&cold.body);
        let (by, mut payload) = (cold.by.as_ref(), Vec::new());
        encode_cold(&mut payload, &cold.spec, body, by, cold.priority, cold.held);
        if let Err(refused) = self.check_fits(payload.len()) {
            return Ok(Err(refused));
        }
        Ok(Ok(Some(Rewritten {
            check: crc32c(&payload),
            payload,
            // None was added by it.
            decided: Decided { added: 0, ..decided },
            own: Own::of(&cold.spec).map(Arc::new),
            body_bytes: body.as_bytes().len(),
            was: snapshot.cold.place,
        })))
    }
}

/// Makes changes in order, as far as what was read of the jobs still holds.
fn make_changes(
    state: &mut State,
    ready: Vec<(Change, Result<Option<Rewritten>>)>,
    now: Now,
) -> Vec<Result<Changed>> {
    let mut made = Vec::with_capacity(ready.len());
    for (change, rewritten) in ready {
        let outcome = rewritten.and_then(|rewritten| make_change(state, change, rewritten, now));
        made.push(match outcome {
            Ok(Outcome::Done(changed)) => Ok(changed),
            Ok(Outcome::Stale) => break,
            Err(refused) => Err(refused),
        });
    }
    made
}

fn make_change(
    state: &mut State,
    change: Change,
    rewritten: Option<Rewritten>,
    now: Now,
) -> Result<Outcome> {
    let (key, if_version) = (change.key.clone(), change.if_version);
    let needed = matches!(&change.action, Action::Update(patch) if rewrites(patch));
    let made = Move::change(change, now)?;
    if needed && rewritten.is_none() && state.slot_of(&key).is_some() {
        return Ok(Outcome::Stale);
    }
    state.change(&key, if_version, &made, rewritten, now)
}

/// Whether a patch changes what the cold record says.
fn rewrites(patch: &Patch) -> bool {
    patch.body.is_some()
        || patch.ttr != Edit::Keep
        || patch.retry != Edit::Keep
        || patch.target != Edit::Keep
}

fn apply(patch: &Patch, spec: &mut Spec) {
    patch.ttr.apply(&mut spec.ttr);
    patch.retry.apply(&mut spec.retry);
    patch.target.apply(&mut spec.target);
}

pub(crate) fn log_bytes_of(payload: usize) -> usize {
    payload + HEAD_BYTES * 2 + DECIDED_BYTES
}

async fn added(job: NewJob, decision: Decision, now: Now) -> Result<Added> {
    match decision {
        Decision::Added { how, number, due, life } => {
            let NewJob { spec, body, by, priority, held, .. } = job;
            let life = life.map_or_else(|| Life::new(due, priority, held), |life| *life);
            let (created, notes) = (now.time(), Notes::default());
            let record = Record { number, spec, body, created, by, life, notes };
            Ok(Added { how, job: record.info(now) })
        }
        Decision::Kept(job) => Ok(Added { how: How::Kept, job: record(&job).await?.info(now) }),
    }
}

impl Embedded {
    /// Why the store has stopped for good, if it has: only opening it again helps.
    pub fn halted(&self) -> Option<Error> {
        self.shared.handover.halted().cloned()
    }
}

impl Queue for Embedded {
    async fn add_all(&self, jobs: Vec<NewJob>) -> Result<Vec<Result<Added>>> {
        let bytes = |job: &NewJob| log_bytes_of(job.body.as_bytes().len() + CHANGE_BYTES);
        if jobs.len() == 1 {
            // It is too large by itself or not at all.
            return self.shared.add_some(jobs).await;
        }
        let mut answers = Vec::with_capacity(jobs.len());
        for (part, _) in self.shared.parts(jobs, bytes) {
            answers.extend(self.shared.add_some(part).await?);
        }
        Ok(answers)
    }

    async fn get(&self, key: &Key) -> Result<JobInfo> {
        let at = key.clone();
        let look = move |state: &mut State, now| {
            state.slot_of(&at).map(|slot| (state.snapshot(slot), now))
        };
        let (job, now) = self.shared.look(look).await?.ok_or_else(|| not_found(key))?;
        Ok(record_in_full(&job).await?.info_in_full(now))
    }

    async fn find(&self, id: &Id) -> Result<Vec<JobInfo>> {
        let hash = self.shared.hasher.hash(id);
        let look = move |state: &mut State, now| {
            let slots = state.by_id(hash);
            (slots.into_iter().map(|slot| state.snapshot(slot)).collect::<Vec<Snapshot>>(), now)
        };
        let (jobs, now) = self.shared.look(look).await?;
        let mut found = Vec::with_capacity(jobs.len());
        for job in &jobs {
            found.push(record(job).await?.info_with_body(now));
        }
        Ok(found)
    }

    async fn pop(&self, ask: Ask) -> Result<Vec<Delivery>> {
        ask.check()?;
        self.shared.pop(ask).await
    }

    async fn reserve(&self, key: &Key, terms: Terms) -> Result<Delivery> {
        let key = key.clone();
        let act = move |state: &mut State, now| (state.reserve(&key, terms, now), now);
        let (handed, now) = self.shared.write(CHANGE_BYTES, act).await?;
        let handed = handed?;
        Ok(record(&handed.job).await?.delivery(handed.hold, &handed.settings, now))
    }

    async fn settle(&self, batch: Vec<Settle>) -> Result<Vec<Result<Changed>>> {
        let mut answers = Vec::with_capacity(batch.len());
        for (part, log_bytes) in self.shared.parts(batch, settle_bytes) {
            let act = move |state: &mut State, now| {
                part.into_iter().map(|settle| state.settle(settle, now)).collect::<Vec<_>>()
            };
            answers.extend(self.shared.write(log_bytes, act).await?);
        }
        Ok(answers)
    }

    async fn change(&self, batch: Vec<Change>) -> Result<Vec<Result<Changed>>> {
        self.shared.change_all(batch).await
    }

    async fn sweep(&self, sweep: Sweep) -> Result<u64> {
        self.shared.sweep(sweep).await
    }

    async fn let_go(&self, owner: Owner, how: LetGo) -> Result<u64> {
        self.shared.let_go(owner, how).await
    }

    async fn browse(&self, query: Query) -> Result<Page> {
        query.check()?;
        self.shared.page(query).await
    }

    async fn dump(&self, query: Query) -> Result<Page<Whole>> {
        query.check()?;
        self.shared.page(query).await
    }

    async fn restore(&self, jobs: Vec<Whole>) -> Result<Vec<Result<bool>>> {
        let bytes = |job: &Whole| {
            log_bytes_of(job.body.as_bytes().len())
                + CHANGE_BYTES * 2
                + job.history.len() * (CHANGE_BYTES + NOTE_TEXT_BYTES)
        };
        let mut answers = Vec::with_capacity(jobs.len());
        for (part, _) in self.shared.parts(jobs, bytes) {
            answers.extend(self.shared.restore_some(part).await?);
        }
        Ok(answers)
    }

    async fn forecast(&self, forecast: Forecast) -> Result<Vec<u64>> {
        forecast.check()?;
        self.shared.look(move |state, _| state.forecast(&forecast)).await
    }

    async fn dead_by_error(&self, topic: &Topic) -> Result<Vec<(Arc<str>, u64)>> {
        let topic = topic.clone();
        self.shared.look(move |state, _| state.dead_by_error(&topic)).await
    }

    async fn topics(&self, which: Topics) -> Result<Vec<TopicInfo>> {
        which.check()?;
        self.shared.look(move |state, now| state.topics(&which, now)).await
    }

    async fn configure(&self, topic: &Topic, change: TopicChange) -> Result<u64> {
        let topic = topic.clone();
        let act = move |state: &mut State, now| state.configure(&topic, change, now);
        self.shared.write(CONFIGURE_BYTES, act).await?
    }

    async fn ended(&self, max: usize) -> Result<Vec<Ended>> {
        let leaving = self.shared.look(|state, _| state.leaving.clone()).await?;
        let mut ended = Vec::new();
        for left in leaving.take(max).await {
            match record_in_full(&left.job).await {
                Ok(record) => {
                    ended.push(record.ended(left.how, &left.made, left.archive, left.now))
                }
                Err(why) => {
                    let number = left.job.number;
                    tracing::error!(number, "a job cannot be read and is not archived: {why}");
                }
            }
        }
        Ok(ended)
    }

    async fn moved(&self, max: usize) -> Result<Moves> {
        let moves = self.shared.look(|state, _| state.moves.clone()).await?;
        let Some(moves) = moves else { return std::future::pending().await };
        let (shifted, mut lost) = moves.take_counted(max).await;
        let mut told = Vec::with_capacity(shifted.len());
        for one in shifted {
            let Shifted { cold, was, note, made, now } = one;
            match read_cold(was.number, &cold).await {
                Ok(read) => told.push(moved(&read.cold.spec, was, note.as_ref(), &made, now)),
                Err(why) => {
                    let number = was.number;
                    tracing::error!(
                        number,
                        "a job cannot be read, and what it did is not told: {why}"
                    );
                    lost += 1;
                }
            }
        }
        Ok(Moves { moves: told, lost })
    }

    fn set_defaults(&self, defaults: Defaults) {
        let task = Task::new(0, move |state, _| state.defaults = defaults);
        // A store that stops needs none.
        let _ = self.shared.inbox.push(Lane::Own, task);
    }

    async fn stats(&self) -> Result<Stats> {
        self.shared.look(|state, _| state.stats()).await
    }

    async fn kv_write(&self, write: KvWrite) -> Result<u64> {
        write.check()?;
        let value_bytes = write.value.as_ref().map_or(0, |value| value.len());
        let log_bytes = CHANGE_BYTES + write.key.len() + value_bytes;
        // One that no segment can hold would wait for room for ever, and everyone behind it.
        if log_bytes > self.shared.step_bytes_max {
            let max = self.shared.step_bytes_max - CHANGE_BYTES - write.key.len();
            let message = format!("value is {value_bytes} bytes, over the store's limit of {max}");
            return Err(Error::new(Code::TooLarge, message).field("value"));
        }
        self.shared.write(log_bytes, move |state, now| state.kv_write(write, now)).await?
    }

    async fn kv_read(&self, query: KvQuery) -> Result<Vec<KvEntry>> {
        query.check()?;
        self.shared.look(move |state, _| state.kv.read(&query)).await
    }

    fn clock(&self) -> &Arc<dyn Clock> {
        &self.shared.clock
    }
}

pub(crate) fn settle_bytes(settle: &Settle) -> usize {
    match settle.verdict {
        Verdict::Finish | Verdict::Touch { .. } if settle.report.is_none() => CHANGE_BYTES / 2,
        _ => CHANGE_BYTES + NOTE_TEXT_BYTES,
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        self.shared.closing.store(true, Ordering::Release);
        self.keeper_bell.ring();
        // The keeper first: what it leaves in order, it leaves through the others.
        for thread in self.threads.get_mut().expect("nobody panics holding it").drain(..) {
            // A panic there has been printed; one here would hide what led to it.
            let _ = thread.join();
            self.shared.inbox.stop();
        }
        self.guard = None;
    }
}
