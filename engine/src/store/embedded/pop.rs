//! Popping, on the caller's side. Whoever hangs up leases nothing.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::oneshot;

use super::call::{CHANGE_BYTES, Shared};
use super::inbox::{Inbox, Lane, Task};
use super::read::record;
use super::state::{Call, Handed, recall};
use crate::error::Result;
use crate::queue::{Ask, Delivery};
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
    async fn read(mut self, now: Now) -> Result<Vec<Delivery>> {
        let mut deliveries = Vec::with_capacity(self.jobs.len());
        for handed in &self.jobs {
            let record = record(&handed.job).await?;
            deliveries.push(record.delivery(handed.hold, &handed.settings, now));
        }
        self.jobs.clear();
        Ok(deliveries)
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        recall(self.inbox, &self.jobs);
    }
}
