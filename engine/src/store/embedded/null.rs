//! The null engine, for the benchmark: the store's own callers, inbox, log, hand-over, syncer and
//! keeper around a decider that decides nothing and knows no job. What the store itself does
//! beyond this is the price of its index.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use crc32c::crc32c;

use super::batch::{DECIDED_BYTES, Decided, HEAD_BYTES, Tag};
use super::call::{Embedded, log_bytes_of};
use super::codec::encode_cold;
use super::decider::{Decider, Turn};
use super::desk::Haste;
use super::files::Folder;
use super::format::failed;
use super::inbox::Lane;
use super::log::Rests;
use super::open::{Parts, Settings};
use super::progress::Progress;
use super::state::State;
use crate::error::Result;
use crate::job::NewJob;
use crate::store::Options;
use crate::time::{Bell, Wake};

/// A store that writes down what it is told and forgets it.
pub struct Null {
    store: Embedded,
}

/// What the answer to an append rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Safe {
    /// On its record being durable, as far as the store is.
    Durable,
    /// On its record being written, as with a hand-out.
    Written,
}

/// How many bytes of the log a job takes.
pub fn record_bytes(job: &NewJob) -> usize {
    let mut payload = Vec::new();
    encode(job, &mut payload);
    HEAD_BYTES + DECIDED_BYTES + payload.len()
}

impl Null {
    /// Opens an empty folder.
    pub fn open(path: impl AsRef<Path>, options: Options, settings: Settings) -> Result<Null> {
        let folder = Folder::open(path).map_err(|cause| failed("opening the folder", cause))?;
        let parts = Parts::open(Arc::new(folder), options, settings, &Progress::default())?;
        Ok(Null { store: parts.start_with(turn)? })
    }

    /// Appends jobs as the store would, and waits until they are as safe.
    pub async fn add_all(&self, jobs: Vec<NewJob>) -> Result<usize> {
        let mut payloads = Vec::new();
        let prepared: Vec<(Range<usize>, u32)> = jobs
            .iter()
            .map(|job| {
                let from = payloads.len();
                encode(job, &mut payloads);
                (from..payloads.len(), crc32c(&payloads[from..]))
            })
            .collect();
        let log_bytes = prepared.iter().map(|(payload, _)| log_bytes_of(payload.len())).sum();
        let keeper = self.store.keeper_bell.clone();
        let act = move |state: &mut State, now: crate::time::Now| {
            let at_ms = now.time().as_ms();
            for (payload, check) in &prepared {
                let number = state.next_number;
                state.next_number += 1;
                let decided = Decided { created_ms: at_ms, base_ms: at_ms, added: number };
                state.log.put_cold(number, decided, &payloads[payload.clone()], *check);
            }
            know_begun(state, &keeper);
            (prepared, payloads)
        };
        let lane = Lane::Adds { bytes: log_bytes };
        self.store.shared.ask(lane, log_bytes, act).await.map(|(prepared, _)| prepared.len())
    }

    /// Appends one record as a move of a job would, and waits until it is as safe.
    pub async fn append(&self, payload: Vec<u8>, safe: Safe) -> Result<()> {
        let (sender, answer) = tokio::sync::oneshot::channel();
        let keeper = self.store.keeper_bell.clone();
        let bytes = HEAD_BYTES + payload.len();
        let task = super::inbox::Task::new(bytes, move |state, _| {
            state.log.put(Tag::Hot, state.next_number, &payload);
            know_begun(state, &keeper);
            let rests = if safe == Safe::Written { Rests::Written } else { Rests::All };
            state.log.answer(Box::new(move || _ = sender.send(())), rests);
        });
        let haste = if safe == Safe::Written { Haste::Now } else { Haste::WithSync };
        self.store.shared.submit(Lane::Calls, task).await?;
        self.store.shared.see_to(bytes, haste).await;
        answer.await.map_err(|_| self.store.shared.why_gone())
    }
}

fn encode(job: &NewJob, out: &mut Vec<u8>) {
    encode_cold(out, &job.spec, &job.body, job.by.as_ref(), job.priority, job.held);
}

fn know_begun(state: &mut State, keeper: &Bell) {
    for segment in state.log.take_begun() {
        state.segments.insert(segment);
        keeper.ring();
    }
}

/// As the decider's, but for what the clock brings and for those who wait.
fn turn(decider: &mut Decider) -> Turn {
    let taken = decider.inbox.take();
    decider.backlog.extend(taken.tasks);
    while let Some(task) = decider.next_task() {
        let now = task.at;
        task.run(&mut decider.state, now);
    }
    decider.state.log.end_turn(decider.clock.now().tick);
    match taken.stopping && decider.backlog.is_empty() {
        true => Turn::Over,
        false => Turn::Rest(Wake::default()),
    }
}
