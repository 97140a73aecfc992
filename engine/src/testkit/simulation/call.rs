//! Calls that are under way, and what a caller makes of the answers.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::reference::{Checked, Reference, same};
use crate::error::{Code, Error, Result};
use crate::job::NewJob;
use crate::machine::Owner;
use crate::queue::{
    Added, Ask, Change, Changed, Delivery, How, JobInfo, Key, KvWrite, LetGo, Page, Query, Queue,
    Settle, Sweep, Terms, TopicChange,
};
use crate::store::embedded::Embedded;
use crate::store::embedded::trace::ask_as;
use crate::time::Now;
use crate::topic::Topic;

/// Something that a caller asks for.
#[derive(Clone, Debug)]
pub(super) enum Op {
    Add(Vec<NewJob>),
    Pop(Ask),
    Reserve(Key, Terms),
    Settle(Vec<Settle>),
    Change(Vec<Change>),
    Sweep(Sweep),
    LetGo(Owner, LetGo),
    Configure(Topic, TopicChange),
    Kv(KvWrite),
    Get(Key),
    Browse(Query),
}

/// What it was answered.
#[derive(Debug)]
pub(super) enum Answer {
    Added(Result<Vec<Result<Added>>>),
    Popped(Result<Vec<Delivery>>),
    Reserved(Result<Box<Delivery>>),
    Changed(Result<Vec<Result<Changed>>>),
    Count(Result<u64>),
    Job(Result<Box<JobInfo>>),
    Page(Result<Page>),
}

impl Op {
    /// Whether it is one step, which must lie in one batch.
    fn is_one_step(&self) -> bool {
        match self {
            Op::Add(jobs) => jobs.len() == 1,
            Op::Settle(batch) => batch.len() == 1,
            Op::Change(batch) => batch.len() == 1,
            Op::Reserve(..) | Op::Configure(..) | Op::Kv(_) => true,
            Op::Pop(_) | Op::Sweep(_) | Op::LetGo(..) | Op::Get(_) | Op::Browse(_) => false,
        }
    }

    /// Whether it may wait for as long as it likes.
    pub(super) fn may_wait(&self) -> bool {
        matches!(self, Op::Pop(ask) if !ask.wait.is_zero())
    }

    async fn ask(self, store: Arc<Embedded>) -> Answer {
        match self {
            Op::Add(jobs) => Answer::Added(store.add_all(jobs).await),
            Op::Pop(ask) => Answer::Popped(store.pop(ask).await),
            Op::Reserve(key, terms) => {
                Answer::Reserved(store.reserve(&key, terms).await.map(Box::new))
            }
            Op::Settle(batch) => Answer::Changed(store.settle(batch).await),
            Op::Change(batch) => Answer::Changed(store.change(batch).await),
            Op::Sweep(sweep) => Answer::Count(store.sweep(sweep).await),
            Op::LetGo(owner, how) => Answer::Count(store.let_go(owner, how).await),
            Op::Configure(topic, change) => Answer::Count(store.configure(&topic, change).await),
            Op::Kv(write) => Answer::Count(store.kv_write(write).await),
            Op::Get(key) => Answer::Job(store.get(&key).await.map(Box::new)),
            Op::Browse(query) => Answer::Page(store.browse(query).await),
        }
    }
}

/// A call that is under way.
pub(super) struct Call {
    pub(super) caller: u64,
    pub(super) op: Op,
    future: Pin<Box<dyn Future<Output = Answer>>>,
}

impl Call {
    pub(super) fn new(caller: u64, op: Op, store: Arc<Embedded>) -> Call {
        Call { caller, op: op.clone(), future: Box::pin(op.ask(store)) }
    }

    /// Goes on as far as it can.
    pub(super) fn poll(&mut self) -> Option<Answer> {
        ask_as(self.caller);
        let polled = self.future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        ask_as(0);
        match polled {
            Poll::Ready(answer) => Some(answer),
            Poll::Pending => None,
        }
    }

    /// What the answer tells must be so, and stay so.
    pub(super) fn check(&self, answer: &Answer, reference: &mut Reference, now: Now) -> Checked {
        if let Some(refused) = answer.refused() {
            return self.check_refused(refused, reference);
        }
        // A hand-out may be forgotten by a power cut, so that a pop rests on less than it did.
        if !matches!(self.op, Op::Pop(_)) {
            reference.acknowledged(self.caller, now);
        }
        if self.op.is_one_step() {
            let batches = reference.batches_of(self.caller);
            if batches.len() > 1 {
                return Err(format!("one step lies in the batches {batches:?}"));
            }
        }
        match answer {
            Answer::Added(Ok(all)) => self.check_added(all, reference, now),
            Answer::Popped(Ok(all)) => {
                all.iter().try_for_each(|one| reference.handed_out(one, false, now))
            }
            Answer::Reserved(Ok(one)) => reference.handed_out(one, true, now),
            Answer::Changed(Ok(all)) => {
                let shown = all.iter().flatten().filter_map(|one| one.job.as_ref());
                shown.into_iter().try_for_each(|one| reference.shown_standing(one, now))
            }
            Answer::Job(Ok(job)) => reference.shown_job(job, now),
            Answer::Page(Ok(page)) => {
                page.jobs.iter().try_for_each(|job| reference.shown_job(job, now))
            }
            _ => Ok(()),
        }
    }

    fn check_added(&self, all: &[Result<Added>], reference: &mut Reference, now: Now) -> Checked {
        let Op::Add(jobs) = &self.op else { return Err("only an add adds".into()) };
        same("how many adds were answered", &jobs.len(), &all.len())?;
        for (job, added) in jobs.iter().zip(all) {
            let Ok(added) = added else { continue };
            reference.shown_job(&added.job, now)?;
            if added.how != How::Kept {
                same("the spec of a job that was added", &job.spec, &added.job.spec)?;
                let known = reference.now.jobs.get(&added.job.number);
                // It may be changed or gone by now.
                if let Some(known) = known.filter(|known| known.life.version == added.job.version) {
                    same("the body of a job that was added", &job.body, &known.body)?;
                }
            }
        }
        Ok(())
    }

    /// Refused as full is not done; all else that is refused as a whole is a bug here.
    fn check_refused(&self, refused: &Error, reference: &Reference) -> Checked {
        match refused.code() {
            Code::StorageFull if self.op.is_one_step() => same(
                "what was refused was done in batches",
                &vec![],
                &reference.batches_of(self.caller),
            ),
            Code::StorageFull | Code::StorageFailed => Ok(()),
            Code::Invalid
            | Code::NotFound
            | Code::WrongState
            | Code::AlreadyExists
            | Code::VersionMismatch => Ok(()),
            _ => Err(format!("refused: {refused}")),
        }
    }
}

impl Answer {
    /// Why nothing was done.
    pub(super) fn refused(&self) -> Option<&Error> {
        match self {
            Answer::Added(answer) => answer.as_ref().err(),
            Answer::Popped(answer) => answer.as_ref().err(),
            Answer::Reserved(answer) => answer.as_ref().err(),
            Answer::Changed(answer) => answer.as_ref().err(),
            Answer::Count(answer) => answer.as_ref().err(),
            Answer::Job(answer) => answer.as_ref().err(),
            Answer::Page(answer) => answer.as_ref().err(),
        }
    }

    /// Whether it or a part of it was refused like this.
    pub(super) fn has(&self, code: Code) -> bool {
        let is = |error: &Error| error.code() == code;
        let part = match self {
            Answer::Added(Ok(all)) => all.iter().any(|one| one.as_ref().is_err_and(is)),
            Answer::Changed(Ok(all)) => all.iter().any(|one| one.as_ref().is_err_and(is)),
            _ => false,
        };
        part || self.refused().is_some_and(is)
    }

    pub(super) fn deliveries(&self) -> &[Delivery] {
        match self {
            Answer::Popped(Ok(popped)) => popped,
            Answer::Reserved(Ok(one)) => std::slice::from_ref(one),
            _ => &[],
        }
    }
}
