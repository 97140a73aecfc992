//! Tasks, as the second lineage has them: jobs with a callback, known by a uid that is made of the
//! request itself.

use std::time::Duration;

use linger::error::{Code, Error, Result};
use linger::job::{Body, Envelope, Id, NewJob, OnConflict, Target, When};
use linger::machine::{Reach, Stage};
use linger::queue::{Action, Change, JobInfo, Key, Queue};
use linger::time::{DAY, Time};
use sha2::{Digest, Sha256};

use super::app::App;
use super::short;
use crate::auth::Caller;

/// How long a task that has ended can be looked at.
const RETAIN: Duration = DAY;

/// A task as it is asked for.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) name: String,
    /// In seconds: from now, or since 1970.
    pub(super) time: Option<(u64, Count)>,
    pub(super) schema: String,
    pub(super) address: String,
    pub(super) path: String,
    pub(super) args: String,
}

/// From where seconds are counted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Count {
    FromNow,
    From1970,
}

impl Wanted {
    /// Adds it, and answers its uid.
    pub(super) async fn add(mut self, app: &App, caller: &Caller) -> Result<String> {
        let config = app.config();
        let _stay = app.gates.adds.enter(config.limits.requests, "adds")?;
        self.check()?;
        let uid = self.uid();
        let job = self.job(uid.parse()?)?;
        caller.check_topic(&job.spec.topic)?;
        job.body.check_size(config.limits.body_bytes)?;
        app.store()?.add_all(vec![job]).await?.pop().expect("one answer for one job")?;
        Ok(uid)
    }

    fn check(&mut self) -> Result<()> {
        for text in [&mut self.name, &mut self.schema, &mut self.address, &mut self.path] {
            *text = text.trim().to_owned();
        }
        self.schema.make_ascii_lowercase();
        let (schema, address) = (&self.schema, &self.address);
        if !["http", "https", "grpc"].contains(&schema.as_str()) {
            let message = format!("schema is `{}`; give http, https or grpc", short(schema));
            return Err(Error::invalid("callback.schema", message));
        }
        if address.is_empty() || address.contains(['/', '?', '#', '\\']) {
            let message = format!("address is `{}`; give host:port", short(address));
            return Err(Error::invalid("callback.address", message));
        }
        Ok(())
    }

    /// What the task is called. The same request makes the same one, so that sending it again
    /// adds nothing.
    fn uid(&self) -> String {
        let (seconds, count) = match self.time {
            None => (String::new(), "now"),
            Some((seconds, Count::FromNow)) => (seconds.to_string(), "relative"),
            Some((seconds, Count::From1970)) => (seconds.to_string(), "absolute"),
        };
        let mut hash = Sha256::new();
        let parts = [&self.name, &seconds, count, &self.schema, &self.address, &self.path];
        for part in parts.into_iter().chain([self.args.as_str()]) {
            // With its length, so that no two requests run together into the same bytes.
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        hash.finalize()[..16].iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn job(self, uid: Id) -> Result<NewJob> {
        let target = self.target()?;
        let mut job = NewJob::new(self.name.parse()?, uid, Body::text(self.args));
        job.when = match self.time {
            None => None,
            Some((seconds, Count::FromNow)) => Some(When::In(Duration::from_secs(seconds))),
            Some((seconds, Count::From1970)) => Some(When::At(moment(seconds)?)),
        };
        job.on_conflict = OnConflict::Keep;
        job.spec.target = Some(target);
        job.spec.envelope = Some(Envelope::Task);
        job.spec.retain = Some(RETAIN);
        Ok(job)
    }

    fn target(&self) -> Result<Target> {
        let (schema, address) = (&self.schema, &self.address);
        Ok(match self.path.trim_start_matches('/') {
            "" => format!("{schema}://{address}").parse()?,
            path => format!("{schema}://{address}/{path}").parse()?,
        })
    }
}

fn moment(seconds: u64) -> Result<Time> {
    seconds.checked_mul(1000).and_then(Time::from_ms).ok_or_else(|| {
        let message = format!("duration is {seconds}, past the year 9999; give Unix seconds");
        Error::invalid("time.duration", message)
    })
}

/// The one task of this uid.
pub(super) async fn look(app: &App, caller: &Caller, uid: &str) -> Result<Task> {
    let _stay = app.gates.calls.enter(app.config().limits.requests, "requests")?;
    Ok(Task::of(&only_one(app, caller, &uid.trim().parse()?).await?))
}

/// Cancels the one task of this uid.
pub(super) async fn remove(app: &App, caller: &Caller, uid: &str) -> Result<()> {
    let _stay = app.gates.calls.enter(app.config().limits.requests, "requests")?;
    let key = Key::Number(only_one(app, caller, &uid.trim().parse()?).await?.number);
    let change = Change::new(key, Action::Delete(Reach::Any));
    app.store()?.change(vec![change]).await?.pop().expect("one answer for one change")?;
    Ok(())
}

/// The one job of this id in all topics that the caller may see. A uid that was made here has its name in it, so that two
/// of them are other people's jobs, and it is not for this call to choose.
async fn only_one(app: &App, caller: &Caller, uid: &Id) -> Result<JobInfo> {
    let mut found = app.store()?.find(uid).await?;
    found.retain(|job| caller.sees(&job.spec.topic));
    match (found.pop(), found.is_empty()) {
        (Some(task), true) => Ok(task),
        (Some(_), false) => Err(Error::new(Code::WrongState, "the uid is in several topics")),
        (None, _) => Err(Error::new(Code::NotFound, "there is no such task")),
    }
}

/// A task as it is shown.
pub(super) struct Task {
    pub(super) number: u64,
    pub(super) uid: String,
    pub(super) name: String,
    /// The number of its `TaskType`.
    pub(super) kind: u8,
    pub(super) times: u32,
    pub(super) retry_times: u32,
    pub(super) exec_time: u64,
    pub(super) next_exec_time: u64,
    pub(super) schema: String,
    pub(super) address: String,
    pub(super) path: String,
    pub(super) created_at: u64,
    pub(super) updated_at: u64,
}

impl Task {
    fn of(job: &JobInfo) -> Task {
        let callback =
            job.spec.target.as_ref().and_then(|target| target.as_str().split_once("://"));
        let (schema, rest) = callback.unwrap_or_default();
        let (address, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let updated = job.history.last().map_or(job.created, |entry| entry.at.max(job.created));
        Task {
            number: job.number,
            uid: job.spec.id.to_string(),
            name: job.spec.topic.to_string(),
            kind: kind(job.stage),
            times: job.attempt,
            retry_times: job.attempt.saturating_sub(1),
            exec_time: unix_seconds(job.base),
            next_exec_time: unix_seconds(job.due),
            schema: schema.to_owned(),
            address: address.to_owned(),
            path: path.to_owned(),
            created_at: unix_seconds(job.created),
            updated_at: unix_seconds(updated),
        }
    }
}

fn unix_seconds(time: Time) -> u64 {
    time.as_ms() / 1000
}

/// The number of a `TaskType`.
fn kind(stage: Stage) -> u8 {
    match stage {
        // Stored, and not on its way.
        Stage::Held => 1,
        Stage::Delayed => 2,
        Stage::Ready => 3,
        Stage::Reserved => 4,
        // That lineage has no shelf for the dead: they have ended.
        Stage::Finished | Stage::Dead => 5,
        Stage::Retry => 6,
    }
}
