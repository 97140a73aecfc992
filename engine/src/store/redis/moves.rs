//! How jobs move: added and finished by a script, otherwise decided by the machine here and carried
//! out by a script if nothing has changed meanwhile.

use super::core::{Core, arg};
use super::job::{Fresh, Kept, decode_settings, state_of_new};
use super::keys::Bucket;
use super::reply::{Reply, strange};
use super::scripts;
use crate::error::{Code, Error, Result};
use crate::job::{Id, NewJob, OnConflict, When};
use crate::machine::{Event, Life, Next, Owner, Refusal, State, Step};
use crate::queue::{
    Added, Change, Changed, Delivery, End, How, JobInfo, Key, LetGo, Mode, Settle, Sweep, Terms,
    UniqueIds, Verdict,
};
use crate::record::{
    InForce, Move, Record, already_exists, check_version, ending, first_due, not_found,
};
use crate::time::{Now, Time, duration_ms};
use crate::topic::Settings;

/// How often a move is tried that others come in between.
const TRIES_MAX: usize = 100;

/// A job that was looked at, and what was so at that moment.
pub(super) struct Seen {
    pub(super) kept: Kept,
    pub(super) settings: Settings,
    pub(super) now: Now,
}

impl Core {
    pub(super) async fn add_all(&self, jobs: Vec<NewJob>) -> Result<Vec<Result<Added>>> {
        let mut answers = Vec::with_capacity(jobs.len());
        let mut jobs = jobs.into_iter().peekable();
        while let Some(first) = jobs.next() {
            let bucket = self.bucket_of(&first.spec.topic);
            let mut batch = vec![first];
            // An id that may stand in one topic only is looked for before each.
            while self.unique_ids == UniqueIds::PerTopic
                && let Some(next) = jobs.next_if(|job| self.bucket_of(&job.spec.topic) == bucket)
            {
                batch.push(next);
            }
            answers.extend(self.add(bucket, batch).await?);
        }
        Ok(answers)
    }

    /// Adds jobs of one bucket.
    async fn add(&self, bucket: Bucket, jobs: Vec<NewJob>) -> Result<Vec<Result<Added>>> {
        let now = self.now();
        let dues: Vec<Result<(u8, u64)>> = jobs.iter().map(|job| when(job, now)).collect();
        if let (UniqueIds::Global, [job]) = (self.unique_ids, &jobs[..])
            && dues[0].is_ok()
            && let Some(taken) = self.taken_elsewhere(job).await?
        {
            return Ok(vec![Err(taken)]);
        }
        let global = arg(u8::from(self.unique_ids == UniqueIds::Global));
        let mut args = vec![arg(bucket.0), arg(self.keys.count()), global];
        for (job, due) in jobs.iter().zip(&dues) {
            if let Ok((kind, ms)) = due {
                args.extend(new_args(job, *kind, *ms));
            }
        }
        let mut reply = self.ask(&scripts::ADD, bucket, args).await?;
        let now = reply.now()?;
        let each = jobs.into_iter().zip(dues);
        let answers = each.map(|(job, due)| match due {
            Ok(_) => self.added(job, &mut reply, now),
            Err(refused) => Ok(Err(refused)),
        });
        answers.collect()
    }

    async fn taken_elsewhere(&self, job: &NewJob) -> Result<Option<Error>> {
        let found = self.find(&job.spec.id).await?;
        let same = found.iter().any(|other| other.spec.topic == job.spec.topic);
        let other = found.first().filter(|_| !same);
        Ok(other.map(|other| already_exists(&other.spec.topic, &other.spec.id)))
    }

    fn added(&self, new: NewJob, reply: &mut Reply, now: Now) -> Result<Result<Added>> {
        let mut answer = reply.list()?;
        let how = match answer.text()?.as_str() {
            "n" => How::New,
            "p" => How::Replaced,
            "x" => return Ok(Err(already_exists(&new.spec.topic, &new.spec.id))),
            "o" => {
                let topic = answer.text()?.parse()?;
                return Ok(Err(already_exists(&topic, &new.spec.id)));
            }
            "k" => {
                let kept = Kept::decode(answer.number()?, &answer.bytes()?)?;
                return Ok(Ok(Added { how: How::Kept, job: kept.record.info(now) }));
            }
            _ => return Err(strange()),
        };
        let number = answer.number()?;
        let due = Time::from_ms(answer.u64()?).ok_or_else(strange)?;
        let mut life = Life::new(due, new.priority, new.held);
        life.state = state_of_new(answer.u64()?)?;
        let (created, notes) = (now.time(), Default::default());
        let NewJob { spec, body, by, .. } = new;
        let record = Record { number, spec, body, created, by, life, notes };
        self.known().stats.added += 1;
        Ok(Ok(Added { how, job: record.info(now) }))
    }

    pub(super) async fn get(&self, key: &Key) -> Result<JobInfo> {
        let seen = self.look(key).await?.ok_or_else(|| not_found(key))?;
        Ok(seen.kept.record.info_in_full(seen.now))
    }

    pub(super) async fn find(&self, id: &Id) -> Result<Vec<JobInfo>> {
        let mut found = Vec::new();
        for mut reply in self.ask_all(&scripts::FIND, &[id.as_str().into()]).await? {
            let now = reply.now()?;
            while !reply.is_empty() {
                let mut one = reply.list()?;
                let kept = Kept::decode(one.number()?, &one.bytes()?)?;
                found.push(kept.record.info_with_body(now));
            }
        }
        found.sort_by_key(|job| job.number);
        Ok(found)
    }

    /// Reads a job.
    pub(super) async fn look(&self, key: &Key) -> Result<Option<Seen>> {
        let mut reply = self.ask(&scripts::READ, self.bucket_of_key(key), key_args(key)).await?;
        let now = reply.now()?;
        let mut one = reply.list()?;
        if one.is_empty() {
            return Ok(None);
        }
        Seen::read(&mut one, now).map(Some)
    }

    fn bucket_of_key(&self, key: &Key) -> Bucket {
        match key {
            Key::Named(topic, _) => self.bucket_of(topic),
            Key::Number(number) => self.keys.bucket_of_number(*number),
        }
    }

    pub(super) async fn settle(&self, batch: Vec<Settle>) -> Result<Vec<Result<Changed>>> {
        let ends: Vec<Option<u64>> = batch.iter().map(ended_by).collect();
        let answers = self.settle_each(batch).await?;
        let owned = &mut self.known().owned;
        for (number, answer) in ends.into_iter().zip(&answers) {
            if let (Some(number), Ok(_)) = (number, answer) {
                owned.remove(&number);
            }
        }
        Ok(answers)
    }

    async fn settle_each(&self, batch: Vec<Settle>) -> Result<Vec<Result<Changed>>> {
        let mut answers = Vec::with_capacity(batch.len());
        let mut batch = batch.into_iter().peekable();
        while let Some(settle) = batch.next() {
            let bucket = self.bucket_of_key(&settle.key);
            if settle.verdict != Verdict::Finish {
                answers.push(self.settle_one(settle).await);
                continue;
            }
            let mut finishes = vec![settle];
            while let Some(next) = batch.next_if(|next| {
                next.verdict == Verdict::Finish && self.bucket_of_key(&next.key) == bucket
            }) {
                finishes.push(next);
            }
            answers.extend(self.finish(bucket, finishes).await?);
        }
        Ok(answers)
    }

    async fn settle_one(&self, settle: Settle) -> Result<Changed> {
        let recalls = settle.verdict == Verdict::Recall;
        let (key, made) = (settle.key.clone(), Move::settle(settle));
        self.make(&key, recalls, |_| Ok(made.clone())).await
    }

    /// Finishes jobs of one bucket: by the script what is gone by it, the long way what is not.
    async fn finish(&self, bucket: Bucket, batch: Vec<Settle>) -> Result<Vec<Result<Changed>>> {
        let retain =
            self.defaults().retain.map_or_else(Vec::new, |retain| arg(duration_ms(retain)));
        let mut args = vec![retain];
        for settle in &batch {
            args.extend(key_args(&settle.key));
            args.push(settle.lease.map_or_else(Vec::new, arg));
        }
        let mut reply = self.ask(&scripts::FINISH, bucket, args).await?;
        let _now = reply.now()?;
        let mut answers = Vec::with_capacity(batch.len());
        for settle in batch {
            let mut answer = reply.list()?;
            answers.push(match answer.text()?.as_str() {
                "d" => {
                    let attempts = answer.u64()?;
                    let stats = &mut self.known().stats;
                    stats.finished += 1;
                    stats.attempts.record(attempts);
                    Ok(Changed { changed: true, job: None })
                }
                "n" => Err(not_found(&settle.key)),
                "l" => Err(Refusal::LeaseLost.into()),
                _ => self.settle_one(settle).await,
            });
        }
        Ok(answers)
    }

    pub(super) async fn change(&self, batch: Vec<Change>) -> Result<Vec<Result<Changed>>> {
        let mut answers = Vec::with_capacity(batch.len());
        for change in batch {
            answers.push(self.change_one(change).await);
        }
        Ok(answers)
    }

    async fn change_one(&self, change: Change) -> Result<Changed> {
        let (key, if_version) = (change.key.clone(), change.if_version);
        // What can never be is refused before the job is looked for.
        Move::change(change.clone(), self.now())?;
        self.make(&key, false, |seen| {
            check_version(if_version, seen.kept.record.life.version)?;
            Move::change(change.clone(), seen.now)
        })
        .await
    }

    /// The one way in which the machine moves a job; `recalls` gives a token of its rate back.
    async fn make(
        &self,
        key: &Key,
        recalls: bool,
        made: impl Fn(&Seen) -> Result<Move>,
    ) -> Result<Changed> {
        for _ in 0..TRIES_MAX {
            let mut seen = self.look(key).await?.ok_or_else(|| not_found(key))?;
            let made = made(&seen)?;
            if let Some(changed) = self.try_make(&mut seen, &made, recalls).await? {
                let there = !matches!(changed, Made::Gone);
                let job = there.then(|| seen.kept.record.standing(seen.now));
                return Ok(Changed { changed: !matches!(changed, Made::Same), job });
            }
        }
        Err(Error::new(Code::Overloaded, "others kept changing the job; try again"))
    }

    /// Moves a job that was looked at; nothing, if it has changed meanwhile.
    pub(super) async fn try_make(
        &self,
        seen: &mut Seen,
        made: &Move,
        recalls: bool,
    ) -> Result<Option<Made>> {
        let (before, now) = (seen.kept.record.life.clone(), seen.now);
        let step = self.step(seen, &made.event)?;
        let ended = ending(&made.event, &before, &step.next);
        let ready_since = seen.kept.ready_since;
        let (how, makes) = match &step.next {
            Next::Same => {
                self.count(&made.event, &before, &step, ready_since, now);
                return Ok(Some(Made::Same));
            }
            Next::Gone => (b'g', Made::Gone),
            Next::Keep(life) => {
                seen.kept.record.turn_into(life.clone(), step.note.clone(), made, now);
                seen.kept.ready_if(&before.state, now.tick);
                self.due(seen)?;
                (if recalls { b'b' } else { b'k' }, Made::Kept)
            }
        };
        let number = seen.kept.record.number;
        let stored = if how == b'g' { Vec::new() } else { seen.kept.encode() };
        let args = [vec![how], number.to_be_bytes().into(), arg(before.version), stored];
        let bucket = self.bucket_of(&seen.kept.record.spec.topic);
        if self.ask(&scripts::COMMIT, bucket, args).await?.i64()? == 0 {
            return Ok(None);
        }
        self.count(&made.event, &before, &step, ready_since, now);
        self.archive(seen, ended, made);
        Ok(Some(makes))
    }

    fn step(&self, seen: &Seen, event: &Event) -> Result<Step, Refusal> {
        let defaults = self.defaults();
        let force = InForce { settings: &seen.settings, defaults: &defaults, dice: &self.dice };
        seen.kept.record.step(event, force, seen.now)
    }

    /// Makes a job ready that was moved and is due.
    fn due(&self, seen: &mut Seen) -> Result<(), Refusal> {
        if let Next::Keep(life) = self.step(seen, &Event::Due)?.next {
            let before = std::mem::replace(&mut seen.kept.record.life, life);
            seen.kept.ready_if(&before.state, seen.now.tick);
        }
        Ok(())
    }

    fn count(
        &self,
        event: &Event,
        before: &Life,
        step: &Step,
        ready_since: crate::time::Tick,
        now: Now,
    ) {
        let stats = &mut self.known().stats;
        stats.count(event, before, step);
        let hand_out = matches!(event, Event::Reserve(_) | Event::ReserveNamed(_));
        if hand_out && before.state == State::Ready {
            stats.ready_to_handed_out.record(now.tick.as_us().saturating_sub(ready_since.as_us()));
        }
    }

    fn archive(&self, seen: &Seen, ended: Option<End>, made: &Move) {
        if let (Some(how), Some(archive)) = (ended, &seen.settings.archive) {
            self.leaving.push(seen.kept.record.ended(how, made, archive.clone(), seen.now));
        }
    }

    pub(super) async fn reserve(&self, key: &Key, terms: Terms) -> Result<Delivery> {
        for _ in 0..TRIES_MAX {
            let mut seen = self.look(key).await?.ok_or_else(|| not_found(key))?;
            let defaults = self.defaults();
            let force = InForce { settings: &seen.settings, defaults: &defaults, dice: &self.dice };
            let hold = seen.kept.record.hold(terms, force, seen.now);
            let made = Move::plain(Event::ReserveNamed(hold));
            if self.try_make(&mut seen, &made, false).await?.is_some() {
                self.own(terms.owner, seen.kept.record.number);
                return Ok(seen.kept.record.delivery(hold, &seen.settings, seen.now));
            }
        }
        Err(Error::new(Code::Overloaded, "others kept changing the job; try again"))
    }

    /// Remembers whose lease this is.
    pub(super) fn own(&self, owner: Option<Owner>, number: u64) {
        if let Some(owner) = owner {
            self.known().owned.insert(number, owner);
        }
    }

    pub(super) async fn let_go(&self, owner: Owner, how: LetGo) -> Result<u64> {
        let mut numbers: Vec<u64> = {
            let owned = &mut self.known().owned;
            owned.extract_if(|_, of| *of == owner).map(|(number, _)| number).collect()
        };
        numbers.sort_unstable();
        let mut count = 0;
        for number in numbers {
            count += u64::from(self.let_go_of(owner, number, how).await?);
        }
        Ok(count)
    }

    async fn let_go_of(&self, owner: Owner, number: u64, how: LetGo) -> Result<bool> {
        for _ in 0..TRIES_MAX {
            let Some(mut seen) = self.look(&Key::Number(number)).await? else { return Ok(false) };
            match seen.kept.record.life.state {
                State::Reserved(hold) if hold.owner == Some(owner) => {}
                _ => return Ok(false),
            }
            if self.try_make(&mut seen, &Move::let_go(how), false).await?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    pub(super) async fn sweep(&self, sweep: Sweep) -> Result<u64> {
        let made = Move::bulk(sweep.bulk, sweep.by.clone());
        let limit = sweep.limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
        let mut numbers = Vec::new();
        let mut walk = self.walk(&sweep.topic, &sweep.filter, None);
        while numbers.len() < limit
            && let Some((_, seen)) = walk.next(self).await?
        {
            let fits = super::look::fits(&sweep.filter, &seen.kept.record);
            if fits && self.step(&seen, &made.event).is_ok_and(|step| step.changes()) {
                numbers.push(seen.kept.record.number);
            }
        }
        if sweep.mode == Mode::DryRun {
            return Ok(numbers.len() as u64);
        }
        let mut count = 0;
        for number in numbers {
            match self.make(&Key::Number(number), false, |_| Ok(made.clone())).await {
                Ok(changed) => count += u64::from(changed.changed),
                // Someone else was quicker.
                Err(error) if is_refusal(error.code()) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(count)
    }
}

/// What became of a job.
pub(super) enum Made {
    Same,
    Kept,
    Gone,
}

impl Seen {
    /// Number, job and settings, as scripts answer them.
    pub(super) fn read(reply: &mut Reply, now: Now) -> Result<Seen> {
        let kept = Kept::decode(reply.number()?, &reply.bytes()?)?;
        Ok(Seen { kept, settings: decode_settings(&reply.bytes()?)?, now })
    }
}

/// The job whose lease a settle ends or ties to nobody.
fn ended_by(settle: &Settle) -> Option<u64> {
    match (&settle.key, &settle.verdict) {
        (_, Verdict::Touch { .. }) | (Key::Named(..), _) => None,
        (Key::Number(number), _) => Some(*number),
    }
}

fn is_refusal(code: Code) -> bool {
    matches!(code, Code::NotFound | Code::WrongState | Code::LeaseLost | Code::VersionMismatch)
}

pub(super) fn key_args(key: &Key) -> [Vec<u8>; 3] {
    match key {
        Key::Named(topic, id) => [b"k".into(), topic.as_str().into(), id.as_str().into()],
        Key::Number(number) => [b"n".into(), number.to_be_bytes().into(), Vec::new()],
    }
}

/// When a new job is due: at a moment, or after a delay by Redis's clock.
fn when(job: &NewJob, now: Now) -> Result<(u8, u64)> {
    let due = first_due(job.when, job.spec.repeat.as_ref(), now)?;
    Ok(match (&job.spec.repeat, job.when) {
        (None, None) => (b'd', 0),
        (None, Some(When::In(delay))) => (b'd', duration_ms(delay)),
        _ => (b'a', due.as_ms()),
    })
}

fn new_args(job: &NewJob, kind: u8, ms: u64) -> [Vec<u8>; 11] {
    let Fresh { flags, ttr_ms, to, rest } = Fresh::of(job);
    let on_conflict: &[u8] = match job.on_conflict {
        OnConflict::Reject => b"r",
        OnConflict::Keep => b"k",
        OnConflict::Replace => b"p",
    };
    [
        job.spec.topic.as_str().into(),
        job.spec.id.as_str().into(),
        on_conflict.into(),
        vec![kind],
        arg(ms),
        arg(job.priority),
        arg(flags),
        arg(u8::from(job.held)),
        arg(ttr_ms),
        to,
        rest,
    ]
}
