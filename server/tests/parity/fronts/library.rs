//! The library, in this process.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use linger::job::{Body, Edit, Envelope, OnConflict, Patch, Ttr, When};
use linger::queue::{Bulk, Delivery, Filter, Mode, Queue, Settle, Sweep, TopicChange, Verdict};
use linger::retry::Retry;
use linger::schedule::Repeat;
use linger::store::embedded::Embedded;
use linger::topic;
use linger::{Linger, Outcome};
use tokio::runtime::Runtime;

use super::{Front, House};
use crate::speaker::{Add, Again, Job, No, Popped, Seen, Settings, Speaker, Told, Update};

pub(crate) const FRONT: Front =
    Front { name: "library", house: House::Library, lacks: &[], simple: Add::new };

/// One who uses the library.
pub(crate) struct Library {
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) queue: Linger<Embedded>,
    popped: HashMap<String, Delivery>,
}

impl From<linger::Error> for No {
    fn from(error: linger::Error) -> No {
        No::Refused(error.to_string())
    }
}

impl Library {
    pub(crate) fn new(runtime: Arc<Runtime>, queue: Linger<Embedded>) -> Library {
        Library { runtime, queue, popped: HashMap::new() }
    }

    fn end(&mut self, popped: &Popped, outcome: Outcome) -> Told<()> {
        let delivery = &self.popped[&popped.lease];
        Ok(self.runtime.block_on(self.queue.settle(delivery, outcome))?)
    }

    fn settle(&mut self, popped: &Popped, verdict: Verdict) -> Told<()> {
        let settle = Settle::delivery(&self.popped[&popped.lease], verdict);
        let mut done = self.runtime.block_on(self.queue.store().settle(vec![settle]))?;
        done.pop().expect("one answer for one job")?;
        Ok(())
    }

    fn change(&self, topic: &str, change: TopicChange) -> Told<()> {
        self.runtime.block_on(self.queue.configure(topic, change))?;
        Ok(())
    }
}

fn text(body: Option<&Body>) -> String {
    body.and_then(Body::as_str).expect("text").to_owned()
}

impl Speaker for Library {
    fn add(&mut self, add: &Add) -> Told<Job> {
        let Add { topic, name, body, delay, .. } = add.clone();
        let mut job = linger::Job::new(topic.clone(), body.as_str());
        job = job.id(name.clone()).delay(delay).priority(add.priority);
        if let Some(ttr) = add.ttr {
            job = job.ttr(ttr);
        }
        if let Some(attempts) = add.attempts {
            job = job.retry(Retry::default().attempts(attempts));
        }
        if let Some(every) = add.repeat {
            job = job.repeat(Repeat::every(every)?);
        }
        if let Some(target) = &add.target {
            job = job.target(target.as_str());
        }
        if add.as_task {
            job = job.envelope(Envelope::Task);
        }
        if let Some(retain) = add.retain {
            job = job.retain(retain);
        }
        if add.held {
            job = job.held();
        }
        let job = job.on_conflict(match add.again {
            Again::New | Again::Reject => OnConflict::Reject,
            Again::Keep => OnConflict::Keep,
            Again::Replace => OnConflict::Replace,
        });
        let added = self.runtime.block_on(self.queue.add(job))?;
        Ok(Job { topic, id: name, number: Some(added.job.number) })
    }

    fn look(&mut self, job: &Job) -> Told<Seen> {
        let seen = self.runtime.block_on(self.queue.get(&job.topic, &job.id))?;
        let state = Some(seen.stage.as_str().to_owned());
        Ok(Seen { state, body: Some(text(seen.body.as_ref())) })
    }

    fn pop(&mut self, topic: &str, wait: Duration) -> Told<Option<Popped>> {
        let popped = self.runtime.block_on(self.queue.pop_wait(topic, wait))?;
        Ok(popped.map(|delivery| {
            let popped = Popped {
                topic: topic.to_owned(),
                id: delivery.id().as_str().to_owned(),
                body: text(Some(delivery.body())),
                lease: delivery.lease.to_string(),
            };
            self.popped.insert(popped.lease.clone(), delivery);
            popped
        }))
    }

    fn finish(&mut self, popped: &Popped) -> Told<()> {
        self.end(popped, Outcome::done())
    }

    fn fail(&mut self, popped: &Popped, error: &str, retry_in: Option<Duration>) -> Told<()> {
        let failed = Outcome::failed(error);
        self.end(popped, retry_in.map_or(failed.clone(), |wait| failed.retry_in(wait)))
    }

    fn again(&mut self, popped: &Popped, retry_in: Duration) -> Told<()> {
        self.end(popped, Outcome::again().retry_in(retry_in))
    }

    fn release(&mut self, popped: &Popped, delay: Duration, priority: u32) -> Told<()> {
        self.settle(popped, Verdict::Release { delay, priority: Some(priority) })
    }

    fn touch(&mut self, popped: &Popped) -> Told<()> {
        self.settle(popped, Verdict::Touch { ttr: None })
    }

    fn bury(&mut self, popped: &Popped, priority: u32) -> Told<()> {
        self.settle(popped, Verdict::Bury { error: None, priority: Some(priority) })
    }

    fn delete(&mut self, job: &Job) -> Told<()> {
        self.runtime.block_on(self.queue.delete(&job.topic, &job.id))?;
        Ok(())
    }

    fn update(&mut self, job: &Job, update: &Update) -> Told<()> {
        let ttr = update.ttr.map(Ttr::new).transpose()?;
        let patch = Patch {
            when: update.delay.map(When::In),
            body: update.body.as_deref().map(Body::text),
            priority: update.priority,
            ttr: ttr.map_or(Edit::Keep, Edit::Set),
            ..Patch::default()
        };
        self.runtime.block_on(self.queue.update(&job.topic, &job.id, patch))?;
        Ok(())
    }

    fn run(&mut self, job: &Job) -> Told<()> {
        self.runtime.block_on(self.queue.run(&job.topic, &job.id))?;
        Ok(())
    }

    fn hold(&mut self, job: &Job) -> Told<()> {
        self.runtime.block_on(self.queue.hold(&job.topic, &job.id))?;
        Ok(())
    }

    fn unhold(&mut self, job: &Job) -> Told<()> {
        self.runtime.block_on(self.queue.unhold(&job.topic, &job.id))?;
        Ok(())
    }

    fn redrive(&mut self, topic: &str) -> Told<u64> {
        let (topic, filter) = (topic.parse()?, Filter::default());
        let (bulk, limit, mode, by) = (Bulk::Redrive, None, Mode::Apply, None);
        let sweep = Sweep { topic, filter, bulk, limit, mode, by };
        Ok(self.runtime.block_on(self.queue.store().sweep(sweep))?)
    }

    fn pause(&mut self, topic: &str, length: Duration) -> Told<()> {
        self.change(topic, TopicChange::Pause(Some(length)))
    }

    fn resume(&mut self, topic: &str) -> Told<()> {
        self.change(topic, TopicChange::Resume)
    }

    fn configure(&mut self, topic: &str, settings: &Settings) -> Told<()> {
        let settings = topic::Settings {
            concurrency: settings.concurrency.and_then(NonZeroU32::new),
            retain: settings.retain,
            ttr: settings.ttr.map(Ttr::new).transpose()?,
            ..topic::Settings::default()
        };
        self.change(topic, TopicChange::Set(Box::new(settings)))
    }
}
