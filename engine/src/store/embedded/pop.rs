//! Popping, on the caller's side. Whoever hangs up leases nothing.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::oneshot;

use super::call::{CHANGE_BYTES, Shared, settle_bytes};
use super::desk::Haste;
use super::inbox::{Inbox, Lane, Task};
use super::read::Ahead;
use super::state::{Call, Handed, recall};
use crate::error::{Error, Result};
use crate::queue::{Ask, Delivery, Key, Settle, Verdict};
use crate::time::{Now, duration_ms};

impl Shared {
    pub(crate) async fn pop(&self, ask: Ask) -> Result<Vec<Delivery>> {
        let ticket = self.tickets.fetch_add(1, Ordering::Relaxed);
        let (sender, answer) = oneshot::channel();
        // The decider looks for room job by job.
        // Counted from the call, though the log may have no room for it yet.
        let end = self.clock.now().tick.plus_ms(duration_ms(ask.wait));
        let call = Call { ask, ticket, end, answer: sender };
        let task = Task::new(CHANGE_BYTES, move |state, now| state.pop(call, now));
        self.submit(Lane::Calls, task).await?;
        let mut line = Line { inbox: &self.inbox, ticket, answer: Some(answer) };
        self.see_to(CHANGE_BYTES, Haste::Now).await;
        let answered = line.answer.as_mut().expect("it waits").await;
        line.answer = None;
        let (jobs, now) = answered.map_err(|_| self.why_gone())?;
        Taken { inbox: &self.inbox, jobs }.read(now).await
    }
}

/// A place in the line. Dropped before it is answered, it is given up.
struct Line<'a> {
    inbox: &'a Arc<Inbox>,
    ticket: u64,
    answer: Option<oneshot::Receiver<(Vec<Handed>, Now)>>,
}

impl Drop for Line<'_> {
    fn drop(&mut self) {
        let Some(mut answer) = self.answer.take() else { return };
        // From here on nothing can be sent: what was, is taken back here; the rest by the sender.
        answer.close();
        match answer.try_recv() {
            Ok((unseen, _)) => recall(self.inbox, &unseen),
            Err(_) => {
                let ticket = self.ticket;
                let task = Task::new(0, move |state, _| state.hang_up(ticket));
                // A store that stops has no line.
                let _ = self.inbox.push(Lane::Own, task);
            }
        }
    }
}

/// Jobs that were handed out and not shown yet. Dropped, they are taken back.
struct Taken<'a> {
    inbox: &'a Arc<Inbox>,
    jobs: Vec<Handed>,
}

impl Taken<'_> {
    /// Those that can be read. One that cannot is told if it is the only one.
    async fn read(mut self, now: Now) -> Result<Vec<Delivery>> {
        let mut deliveries = Vec::with_capacity(self.jobs.len());
        let (mut unreadable, mut ahead) = (None, Ahead::default());
        for (at, handed) in self.jobs.iter().enumerate() {
            match ahead.record(self.jobs[at..].iter().map(|handed| &handed.job)).await {
                Ok(record) => {
                    deliveries.push(record.delivery(handed.hold, &handed.settings, now));
                }
                Err(why) => {
                    self.bury(handed, &why);
                    unreadable = Some(why);
                }
            }
        }
        self.jobs.clear();
        match unreadable {
            Some(why) if deliveries.is_empty() => Err(why),
            _ => Ok(deliveries),
        }
    }

    /// Puts a job on the dead shelf that cannot be read: given back, it would come first again and
    /// keep everyone from the jobs behind it.
    fn bury(&self, handed: &Handed, why: &Error) {
        let number = handed.job.number;
        tracing::error!(number, "a job cannot be read and is put on the dead shelf: {why}");
        let verdict = Verdict::Bury { error: Some(why.message().into()), priority: None };
        let lease = Some(handed.hold.lease);
        let settle = Settle { lease, ..Settle::key(Key::Number(number), verdict) };
        // Refused if the lease ran out or the store stops: then somebody else finds it so.
        let task =
            Task::new(settle_bytes(&settle), move |state, now| _ = state.settle(settle, now));
        let _ = self.inbox.push(Lane::Own, task);
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        recall(self.inbox, &self.jobs);
    }
}
