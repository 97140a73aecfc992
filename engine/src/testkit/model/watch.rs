//! What must hold whatever the stores agree on: never early, one holder at a time, gone is gone.

use std::collections::{HashMap, HashSet};

use super::Difference;
use super::op::Op;
use super::side::Answer;
use crate::machine::Stage;
use crate::queue::{Added, Changed, Delivery, How, JobInfo, Mode, TopicChange, Verdict};
use crate::time::{Clock, Now, Tick, Time};

/// What has been promised so far, by the numbers that the harness gives.
#[derive(Default)]
pub(super) struct Watch {
    /// The latest moment the wall clock has shown: what was ready stays so if it goes back.
    latest: Time,
    /// Who is held until when, as far as we know: a lease that may have ended is not here.
    held: HashMap<u64, Tick>,
    gone: HashSet<u64>,
}

impl Watch {
    pub(super) fn look_at(&mut self, clock: &dyn Clock) {
        self.latest = self.latest.max(clock.now().time());
    }

    pub(super) fn answered(
        &mut self,
        op: &Op,
        answer: &Answer,
        now: Now,
    ) -> Result<(), Difference> {
        match (op, answer) {
            (_, Answer::Popped(Ok(popped))) => self.popped(popped, now)?,
            (_, Answer::Reserved(Ok(delivery))) => self.handed_out(delivery, now)?,
            (Op::Settle(batch), Answer::Changed(Ok(all))) => {
                for (one, changed) in batch.iter().zip(all) {
                    let touched = matches!(one.verdict, Verdict::Touch { .. } | Verdict::Leave);
                    self.changed(changed.as_ref().ok(), touched);
                }
            }
            (_, Answer::Changed(Ok(all))) => {
                all.iter().for_each(|changed| self.changed(changed.as_ref().ok(), false));
            }
            (_, Answer::Added(Ok(all))) if all.iter().flatten().any(replaced) => self.held.clear(),
            _ => {}
        }
        if lets_go_of_many(op) {
            self.held.clear();
        }
        Ok(())
    }

    pub(super) fn popped(&mut self, popped: &[Delivery], now: Now) -> Result<(), Difference> {
        for delivery in popped {
            if delivery.job.due > self.latest {
                return Err(broken("a job was handed out early", delivery));
            }
            self.handed_out(delivery, now)?;
        }
        Ok(())
    }

    fn handed_out(&mut self, delivery: &Delivery, now: Now) -> Result<(), Difference> {
        self.seen(&delivery.job)?;
        let until = now.tick.plus_ms(delivery.until.ms_since(now.time()));
        match self.held.insert(delivery.job.number, until) {
            Some(before) if before > now.tick => {
                Err(broken("a job was handed out while somebody holds it", delivery))
            }
            _ => Ok(()),
        }
    }

    fn changed(&mut self, changed: Option<&Changed>, touched: bool) {
        match changed {
            // How much longer a touched lease runs is not told: what is not sure is not held.
            Some(Changed { job: Some(job), changed: true, .. })
                if touched || job.stage != Stage::Reserved =>
            {
                self.held.remove(&job.number);
            }
            // It does not say which job is gone.
            Some(Changed { job: None, .. }) => self.held.clear(),
            _ => {}
        }
    }

    /// Notes which jobs are gone, and that none of them came back.
    pub(super) fn all_jobs(&mut self, jobs: &[JobInfo]) -> Result<(), Difference> {
        let newest = jobs.iter().map(|job| job.number).max().unwrap_or_default();
        jobs.iter().try_for_each(|job| self.seen(job))?;
        let there: HashSet<u64> = jobs.iter().map(|job| job.number).collect();
        self.gone.extend((1..=newest).filter(|number| !there.contains(number)));
        Ok(())
    }

    fn seen(&self, job: &JobInfo) -> Result<(), Difference> {
        if self.gone.contains(&job.number) {
            return Err(broken("a job that was gone is back", job));
        }
        Ok(())
    }
}

fn replaced(added: &Added) -> bool {
    added.how == How::Replaced
}

fn lets_go_of_many(op: &Op) -> bool {
    match op {
        Op::Sweep(sweep) => sweep.mode == Mode::Apply,
        Op::Configure(_, change) => matches!(change, TopicChange::Empty | TopicChange::Forget),
        Op::LetGo(..) => true,
        _ => false,
    }
}

fn broken(rule: &str, seen: &impl std::fmt::Debug) -> Difference {
    Difference { what: rule.into(), a: format!("{seen:#?}"), b: "(both stores agree)".into() }
}
