//! Looks at all there is from outside, and takes all there is out.

use std::collections::BTreeMap;
use std::time::Duration;

use super::call::{Answer, Op};
use super::reference::{Checked, same};
use super::world::{ROUNDS_MAX, World};
use crate::job::{Body, NewJob};
use crate::machine::{Stage, State as At};
use crate::queue::{Ask, Bodies, Key, Lane, PAGE_MAX, Query, Source, Terms, TopicChange};
use crate::record::Record;
use crate::topic::Counts;

/// How long any job of a run waits at most, and then some.
const LONG: Duration = Duration::from_secs(400 * 24 * 3600);

impl World {
    /// Asks, and moves everything until it is answered.
    fn ask(&mut self, op: Op) -> Result<Option<Answer>, String> {
        let mut call = self.call(op);
        for _ in 0..ROUNDS_MAX {
            if let Some(answer) = call.poll() {
                self.answered(&call, &answer)?;
                return Ok(Some(answer));
            }
            self.round()?;
            if self.disk.is_off() || self.store().halted().is_some() {
                return Ok(None);
            }
        }
        Err(format!("never answered: {:?}", call.op))
    }

    /// Every job as lists and looks show it, and the counts.
    pub(super) fn look_at_all(&mut self) -> Checked {
        // What was held before is let go once there is a segment to write that to, for which the
        // keeper may have to try again.
        for _ in 0..5 {
            self.round()?;
            if self.disk.is_off() || self.store().halted().is_some() {
                return Ok(());
            }
        }
        self.settle_down()?;
        if self.disk.is_off() || self.store().halted().is_some() {
            return Ok(());
        }
        // On a full disk that may take until there is room, and meanwhile nothing holds still.
        if self.store().has_orphans() {
            return Ok(());
        }
        self.count("looked at all");
        for topic in self.plan.topics().to_vec() {
            let query =
                Query { limit: PAGE_MAX, bodies: Bodies::With, ..Query::all(topic.clone()) };
            let Some(Answer::Page(Ok(page))) = self.ask(Op::Browse(query))? else { return Ok(()) };
            let found = self.found(self.store.as_ref().expect("it is open"))?;
            let now = self.now();
            let jobs: BTreeMap<u64, Record> =
                found.jobs.into_iter().map(|job| (job.number, job)).collect();
            let there = jobs.values().filter(|job| job.spec.topic == topic).count();
            same("how many jobs a list has", &there, &page.jobs.len())?;
            let mut counts = Counts::default();
            for listed in &page.jobs {
                let job = jobs.get(&listed.number).ok_or("a listed job is not there")?;
                same("a job in a list", &job.info_with_body(now), listed)?;
                count(&mut counts, listed.stage, listed.priority);
            }
            let info = found.topics.iter().find(|info| info.topic == topic);
            same("the counts", &counts, &info.map(|info| info.counts).unwrap_or_default())?;
            for job in page.jobs {
                let named = Key::Named(topic.clone(), job.spec.id.clone());
                for key in [Key::Number(job.number), named] {
                    let Some(answer) = self.ask(Op::Get(key))? else { return Ok(()) };
                    let Answer::Job(Ok(got)) = answer else {
                        return Err(format!("a job that is listed is not found: {answer:?}"));
                    };
                    let full = jobs[&job.number].info_in_full(self.now());
                    same("a job by itself", &full, &got)?;
                }
            }
        }
        let found = self.found(self.store.as_ref().expect("it is open"))?;
        for job in &found.jobs {
            let known = self.reference.now.jobs.get(&job.number).ok_or("nobody added a job")?;
            same("the notes of a job", &known.notes, &job.notes)?;
            same("the body of a job", &known.body, &job.body)?;
        }
        Ok(())
    }

    /// Takes out all that can be: everything that is ready, in order.
    pub(super) fn drain(&mut self) -> Checked {
        self.make_room();
        // The keeper looks every second, when it has done what it is at.
        for _ in 0..20 {
            self.advance(Duration::from_secs(1));
            self.round()?;
        }
        self.settle_down()?;
        for topic in self.plan.topics().to_vec() {
            for change in [TopicChange::Set(Box::default()), TopicChange::Resume] {
                if self.ask(Op::Configure(topic.clone(), change))?.is_none() {
                    return Ok(());
                }
            }
        }
        let job = NewJob::new(
            self.plan.topics()[0].clone(),
            "last".parse().expect("an id"),
            Body::default(),
        );
        match self.ask(Op::Add(vec![job]))? {
            Some(Answer::Added(Ok(all))) if all[0].is_ok() => {}
            Some(answer) => {
                return Err(format!("there is room, and an add is refused: {answer:?}"));
            }
            None => return Ok(()),
        }
        self.advance(LONG);
        for lane in [Lane::Pull, Lane::Push] {
            self.drain_lane(lane)?;
        }
        Ok(())
    }

    fn drain_lane(&mut self, lane: Lane) -> Checked {
        self.settle_down()?;
        let found = self.found(self.store.as_ref().expect("it is open"))?;
        let fits = |job: &&Record| {
            let pushed = job.spec.target.is_some();
            job.life.state == At::Ready && pushed == (lane == Lane::Push)
        };
        let mut ready: Vec<_> = found.jobs.iter().filter(fits).map(order).collect();
        ready.sort_unstable();
        let ask = Ask {
            from: Source::Any,
            lane,
            max: 1000,
            wait: Duration::ZERO,
            terms: Terms::default(),
            room: None,
        };
        let Some(Answer::Popped(Ok(popped))) = self.ask(Op::Pop(ask))? else { return Ok(()) };
        let popped: Vec<_> =
            popped.iter().map(|one| (one.job.priority, one.job.due, one.job.number)).collect();
        same("what a last pop takes out", &ready, &popped)
    }
}

fn order(job: &Record) -> (u32, crate::time::Time, u64) {
    (job.life.priority, job.life.due, job.number)
}

fn count(counts: &mut Counts, stage: Stage, priority: u32) {
    *match stage {
        Stage::Delayed => &mut counts.delayed,
        Stage::Retry => &mut counts.retry,
        Stage::Held => &mut counts.held,
        Stage::Ready => &mut counts.ready,
        Stage::Reserved => &mut counts.reserved,
        Stage::Dead => &mut counts.dead,
        Stage::Finished => &mut counts.finished,
    } += 1;
    counts.urgent += u64::from(stage == Stage::Ready && priority < 1024);
}
