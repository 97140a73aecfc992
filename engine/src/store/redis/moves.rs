//! How jobs move: added and finished by a script, otherwise decided by the machine here and carried
//! out by a script if nothing has changed meanwhile.

use std::sync::Arc;

use super::core::{Core, arg};
use super::gather::{Gather, Shared};
use super::job::{Fresh, Kept, decode_settings};
use super::keys::Bucket;
use super::reply::{Packed, Reply, strange};
use super::scripts;
use super::spread;
use crate::error::{Code, Error, Result};
use crate::job::{Id, NewJob, OnConflict, When};
use crate::machine::{Event, Life, Next, Owner, Refusal, State, Step};
use crate::queue::{
    Added, Change, Changed, Delivery, End, How, JobInfo, Key, LetGo, Mode, Settle, Sweep, Terms,
    UniqueIds, Verdict, Was,
};
use crate::record::{
    InForce, Move, Record, already_exists, check_version, ending, first_due, moved, not_found, was,
};
use crate::schedule::{Repeat, Rule};
use crate::time::{Now, Time, duration_ms};
use crate::topic::{Settings, full, too_heavy};

/// How often a move is tried that others come in between.
const TRIES_MAX: usize = 100;

/// A job that was looked at, and what was so at that moment.
pub(super) struct Seen {
    pub(super) kept: Kept,
    pub(super) settings: Settings,
    pub(super) now: Now,
}

impl Core {
    pub(super) async fn add_all(self: &Arc<Self>, jobs: Vec<NewJob>) -> Result<Vec<Result<Added>>> {
        let mut tried = self.try_add_all(jobs).await?;
        for _ in 0..spread::TRIES_MAX {
            if !tried.iter().any(|tried| matches!(tried, Tried::Elsewhere(_))) {
                break;
            }
            tokio::time::sleep(spread::TRY_AFTER).await;
            Box::pin(self.read_spread()).await?;
            let again = tried.iter_mut().filter_map(Tried::take).collect();
            let mut again = self.try_add_all(again).await?.into_iter();
            let lacking = tried.iter_mut().filter(|tried| matches!(tried, Tried::Taken));
            lacking.zip(&mut again).for_each(|(place, again)| *place = again);
        }
        Ok(tried.into_iter().map(Tried::answer).collect())
    }

    async fn try_add_all(self: &Arc<Self>, jobs: Vec<NewJob>) -> Result<Vec<Tried>> {
        let mut answers = Vec::with_capacity(jobs.len());
        let place_of = |job: &NewJob| self.place_of(&job.spec.topic, &job.spec.id).0;
        let mut jobs = jobs.into_iter().peekable();
        while let Some(first) = jobs.next() {
            let bucket = place_of(&first);
            let mut batch = vec![first];
            // An id that may stand in one topic only is looked for before each.
            while self.unique_ids == UniqueIds::PerTopic
                && let Some(next) = jobs.next_if(|job| place_of(job) == bucket)
            {
                batch.push(next);
            }
            answers.extend(match self.unique_ids {
                UniqueIds::PerTopic => self.with_others(bucket, Adds(batch)).await?,
                UniqueIds::Global => Box::pin(self.add(bucket, batch)).await?,
            });
        }
        Ok(answers)
    }

    /// Adds jobs of one bucket.
    async fn add(&self, bucket: Bucket, jobs: Vec<NewJob>) -> Result<Vec<Tried>> {
        let now = self.now();
        let dues: Vec<Result<(u8, u64)>> = jobs.iter().map(|job| when(job, now)).collect();
        if let (UniqueIds::Global, [job]) = (self.unique_ids, &jobs[..])
            && dues[0].is_ok()
            && let Some(taken) = self.taken_elsewhere(job).await?
        {
            return Ok(vec![Tried::Answer(Err(taken))]);
        }
        let global = arg(u8::from(self.unique_ids == UniqueIds::Global));
        let mut args = vec![arg(bucket.0), arg(self.keys.count()), global];
        for (job, due) in jobs.iter().zip(&dues) {
            if let Ok((kind, ms)) = due {
                let (_, parts) = self.place_of(&job.spec.topic, &job.spec.id);
                args.extend(new_args(job, (*kind, *ms), self.nonce(), parts));
            }
        }
        // Never added twice: it may have been handed out and finished meanwhile.
        let find = |mut args: Vec<Vec<u8>>| {
            args.iter_mut().skip(3 + NEW_AT).step_by(NEW_ARGS).for_each(|new| new[0] = b'f');
            args
        };
        let (mut reply, _) = self.ask_or(bucket, &scripts::ADD, args, &scripts::ADD, find).await?;
        let now = reply.now()?;
        let each = jobs.into_iter().zip(dues);
        let answers = each.map(|(job, due)| match due {
            Ok(when) => self.added(job, when, &mut reply, now),
            Err(refused) => Ok(Tried::Answer(Err(refused))),
        });
        answers.collect()
    }

    async fn taken_elsewhere(&self, job: &NewJob) -> Result<Option<Error>> {
        let found = self.find(&job.spec.id).await?;
        let same = found.iter().any(|other| other.spec.topic == job.spec.topic);
        let other = found.first().filter(|_| !same);
        Ok(other.map(|other| already_exists(&other.spec.topic, &other.spec.id)))
    }

    fn added(&self, new: NewJob, when: (u8, u64), reply: &mut Reply, now: Now) -> Result<Tried> {
        let mut answer = reply.packed()?;
        let refused = |error| Ok(Tried::Answer(Err(error)));
        let how = match answer.u8()? {
            b'n' => How::New,
            b'p' => How::Replaced,
            b'w' => return Ok(Tried::Elsewhere(new)),
            b'x' => return refused(already_exists(&new.spec.topic, &new.spec.id)),
            b'l' => {
                let most = answer.u32()?.try_into().map_err(|_| strange())?;
                return refused(full(&new.spec.topic, most));
            }
            b'm' => {
                let most = answer.rest_as_text()?.parse().map_err(|_| strange())?;
                return refused(too_heavy(&new.spec.topic, most));
            }
            b'o' => {
                let topic = answer.rest_as_text()?.parse()?;
                return refused(already_exists(&topic, &new.spec.id));
            }
            b'k' => {
                let kept = Kept::decode(answer.u64()?, &answer.rest())?;
                let job = kept.record.info(now);
                return Ok(Tried::Answer(Ok(Added { how: How::Kept, job })));
            }
            b'u' => {
                let message = "the answer of Redis was lost, and the job is not there: whether it was \
                               added, and is gone by now, is unknown";
                return refused(Error::new(Code::Unavailable, message));
            }
            // By this very call, whose first answer was lost.
            b'a' => {
                let kept = Kept::decode(answer.u64()?, &answer.rest())?;
                self.known().stats.added += 1;
                let job = kept.record.info(now);
                return Ok(Tried::Answer(Ok(Added { how: How::New, job })));
            }
            _ => return Err(strange()),
        };
        let number = answer.u64()?;
        let due = match when {
            (b'd', 0) => Some(now.time()),
            (b'd', delay) => now.after_ms(delay),
            (_, at) => Time::from_ms(at),
        };
        let due = due.ok_or_else(strange)?;
        let mut life = Life::new(due, new.priority, new.held);
        if !new.held && due <= now.time() {
            life.state = State::Ready;
        }
        let (created, notes) = (now.time(), Default::default());
        let NewJob { spec, body, by, .. } = new;
        let record = Record { number, spec, body, created, by, life, notes };
        self.known().stats.added += 1;
        Ok(Tried::Answer(Ok(Added { how, job: record.info(now) })))
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
            Key::Named(topic, id) => self.place_of(topic, id).0,
            Key::Number(number) => self.keys.bucket_of_number(*number),
        }
    }

    pub(super) async fn settle(
        self: &Arc<Self>,
        batch: Vec<Settle>,
    ) -> Result<Vec<Result<Changed>>> {
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

    async fn settle_each(self: &Arc<Self>, batch: Vec<Settle>) -> Result<Vec<Result<Changed>>> {
        let mut answers = Vec::with_capacity(batch.len());
        let mut batch = batch.into_iter().peekable();
        while let Some(settle) = batch.next() {
            let bucket = self.bucket_of_key(&settle.key);
            if settle.verdict != Verdict::Finish {
                // Apart, here and wherever a call is mostly done another way: what a caller holds until it is
                // answered is moved often, and is to be small.
                answers.push(Box::pin(self.settle_one(settle)).await);
                continue;
            }
            let mut finishes = vec![settle];
            while let Some(next) = batch.next_if(|next| {
                next.verdict == Verdict::Finish && self.bucket_of_key(&next.key) == bucket
            }) {
                finishes.push(next);
            }
            answers.extend(self.with_others(bucket, Finishes(finishes)).await?);
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
            args.push(called(&settle.key));
            args.push(settle.lease.map_or_else(Vec::new, arg));
        }
        let (mut reply, is_again) =
            self.ask_or(bucket, &scripts::FINISH, args, &scripts::FINISH, |args| args).await?;
        let _now = reply.now()?;
        let mut answers = Vec::with_capacity(batch.len());
        for settle in batch {
            let mut answer = reply.packed()?;
            answers.push(match answer.u8()? {
                b'd' => {
                    let was = finished(&mut answer)?;
                    let attempts = was.attempt;
                    let stats = &mut self.known().stats;
                    stats.finished += 1;
                    stats.attempts.record(attempts.into());
                    Ok(Changed { changed: true, job: None, was: Some(was) })
                }
                // Gone, by the call whose answer was lost.
                b'n' if is_again => Ok(Changed { changed: true, job: None, was: None }),
                b'n' => Err(not_found(&settle.key)),
                b'l' => Err(Refusal::LeaseLost.into()),
                _ => Box::pin(self.settle_one(settle)).await,
            });
        }
        Ok(answers)
    }

    pub(super) async fn change(&self, batch: Vec<Change>) -> Result<Vec<Result<Changed>>> {
        let mut answers = Vec::with_capacity(batch.len());
        for change in batch {
            answers.push(Box::pin(self.change_one(change)).await);
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
            if let Some(Made { is_gone, was }) = self.try_make(&mut seen, &made, recalls).await? {
                let job = (!is_gone).then(|| seen.kept.record.standing(seen.now));
                return Ok(Changed { changed: was.is_some(), job, was });
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
        let number = seen.kept.record.number;
        let was = was(number, &before, &step.next, now);
        let how = match &step.next {
            Next::Same => {
                self.count(&made.event, &before, &step, ready_since, now);
                return Ok(Some(Made { is_gone: false, was: None }));
            }
            Next::Gone => b'g',
            Next::Keep(life) => {
                seen.kept.record.turn_into(life.clone(), step.note.clone(), made, now);
                seen.kept.ready_if(&before.state, now.tick);
                self.due(seen)?;
                if recalls { b'b' } else { b'k' }
            }
        };
        let stored = if how == b'g' { Vec::new() } else { seen.kept.encode() };
        let args = [vec![how], number.to_be_bytes().into(), arg(before.version), stored];
        let bucket = self.keys.bucket_of_number(number);
        match (self.ask(&scripts::COMMIT, bucket, args).await?.i64()?, seen.settings.bytes_max) {
            (1, _) => {}
            (2, Some(most)) => return Err(too_heavy(&seen.kept.record.spec.topic, most)),
            // The job has changed meanwhile, or its topic's settings have.
            _ => return Ok(None),
        }
        self.count(&made.event, &before, &step, ready_since, now);
        self.archive(seen, ended, made);
        if let (true, Some(moves), Some(was)) = (made.unasked, &self.moves, was) {
            moves.push(moved(&seen.kept.record.spec, was, step.note.as_ref(), made, now));
        }
        Ok(Some(Made { is_gone: how == b'g', was }))
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

/// What came of an add.
pub(super) enum Tried {
    Answer(Result<Added>),
    /// The job belongs elsewhere: its topic is spread otherwise than this instance knew.
    Elsewhere(NewJob),
    /// Such a one, while it is tried again.
    Taken,
}

impl Tried {
    fn take(&mut self) -> Option<NewJob> {
        match std::mem::replace(self, Tried::Taken) {
            Tried::Elsewhere(job) => Some(job),
            other => {
                *self = other;
                None
            }
        }
    }

    fn answer(self) -> Result<Added> {
        match self {
            Tried::Answer(answer) => answer,
            Tried::Elsewhere(_) | Tried::Taken => {
                let message = "the topic is being spread anew; try again, and if that does not help, \
                               set its partitions again";
                Err(Error::new(Code::Overloaded, message))
            }
        }
    }
}

/// Jobs of one bucket that a caller adds.
pub(super) struct Adds(Vec<NewJob>);

impl Shared for Adds {
    type Of = Bucket;
    type Answer = Vec<Tried>;
    const UNDER_WAY_MAX: usize = 2;

    fn gather(core: &Core) -> &Gather<Adds> {
        &core.adds
    }

    fn jobs(&self) -> usize {
        self.0.len()
    }

    async fn call(core: &Arc<Core>, bucket: &Bucket, asks: Vec<Adds>) -> Result<Vec<Self::Answer>> {
        let counts: Vec<usize> = asks.iter().map(Adds::jobs).collect();
        let jobs = asks.into_iter().flat_map(|asks| asks.0).collect();
        Ok(parted(core.add(*bucket, jobs).await?, counts))
    }
}

/// Jobs of one bucket that a caller has done.
pub(super) struct Finishes(Vec<Settle>);

impl Shared for Finishes {
    type Of = Bucket;
    type Answer = Vec<Result<Changed>>;
    // As for pops.
    const UNDER_WAY_MAX: usize = 1;

    fn gather(core: &Core) -> &Gather<Finishes> {
        &core.finishes
    }

    fn jobs(&self) -> usize {
        self.0.len()
    }

    async fn call(
        core: &Arc<Core>,
        bucket: &Bucket,
        asks: Vec<Finishes>,
    ) -> Result<Vec<Self::Answer>> {
        let counts: Vec<usize> = asks.iter().map(Finishes::jobs).collect();
        let jobs = asks.into_iter().flat_map(|asks| asks.0).collect();
        Ok(parted(core.finish(*bucket, jobs).await?, counts))
    }
}

/// The answers of each caller, of whom it is known how many they want.
fn parted<T>(answers: Vec<T>, counts: Vec<usize>) -> Vec<Vec<T>> {
    let mut answers = answers.into_iter();
    counts.into_iter().map(|count| answers.by_ref().take(count).collect()).collect()
}

/// What became of a job.
pub(super) struct Made {
    is_gone: bool,
    /// What it was before, unless nothing changed.
    was: Option<Was>,
}

/// What a job was that the script has finished.
fn finished(answer: &mut Packed) -> Result<Was> {
    let (number, attempt, took_us) = (answer.u64()?, answer.u32()?, answer.u64()?);
    Ok(Was { number, attempt, took_ms: Some(took_us / 1000), died: false })
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

/// The same in one, where there are many: each argument is work for Redis.
fn called(key: &Key) -> Vec<u8> {
    match key {
        Key::Named(topic, id) => ["k", topic.as_str(), "\n", id.as_str()].concat().into_bytes(),
        Key::Number(number) => [b"n".as_slice(), &number.to_be_bytes()].concat(),
    }
}

/// When a new job is due: at a moment, or after a delay by Redis's clock. Ours may be late, and a job
/// that is due so long from now would be early by it.
fn when(job: &NewJob, now: Now) -> Result<(u8, u64)> {
    let due = first_due(job.when, job.spec.repeat.as_ref(), now)?;
    Ok(match (job.spec.repeat.as_ref().map(Repeat::rule), job.when) {
        (None, None) => (b'd', 0),
        (_, Some(When::In(delay))) => (b'd', duration_ms(delay)),
        (Some(Rule::Every { every_ms }), None) => (b'd', *every_ms),
        (Some(Rule::Cron(_)), None) | (_, Some(When::At(_))) => (b'a', due.as_ms()),
    })
}

/// How many arguments a new job has, and which of them begins with what to do on conflict.
const NEW_ARGS: usize = 5;
const NEW_AT: usize = 2;

fn new_args(job: &NewJob, (kind, ms): (u8, u64), nonce: u64, parts: u16) -> [Vec<u8>; NEW_ARGS] {
    let Fresh { flags, ttr_ms, to, tail } = Fresh::of(job);
    let on_conflict = match job.on_conflict {
        OnConflict::Reject => b'r',
        OnConflict::Keep => b'k',
        OnConflict::Replace => b'p',
    };
    let mut new = vec![on_conflict, kind];
    new.extend(ms.to_be_bytes());
    new.extend(job.priority.to_be_bytes());
    new.extend([flags, u8::from(job.held)]);
    new.extend(ttr_ms.to_be_bytes());
    new.extend(nonce.to_be_bytes());
    new.extend(parts.to_be_bytes());
    [job.spec.topic.as_str().into(), job.spec.id.as_str().into(), new, to, tail]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Body;
    use crate::time::{SECOND, Tick};

    #[test]
    fn what_is_due_so_long_from_now_is_left_to_the_clock_of_redis() {
        let now = Now { wall_us: 1_000_000, tick: Tick::from_us(0) };
        let job = |when, repeat: Option<Repeat>| {
            let mut job = NewJob::new("t".parse().unwrap(), "1".parse().unwrap(), Body::default());
            (job.when, job.spec.repeat) = (when, repeat);
            job
        };
        let every = || Some(Repeat::every(2 * SECOND).unwrap());
        let in_5_s = Some(When::In(5 * SECOND));
        assert_eq!(when(&job(None, None), now).unwrap(), (b'd', 0));
        assert_eq!(when(&job(in_5_s, None), now).unwrap(), (b'd', 5000));
        assert_eq!(when(&job(None, every()), now).unwrap(), (b'd', 2000));
        assert_eq!(when(&job(in_5_s, every()), now).unwrap(), (b'd', 5000));
        let at = Some(When::At(Time::from_ms(7000).unwrap()));
        assert_eq!(when(&job(at, every()), now).unwrap(), (b'a', 7000));
        let cron = Some(Repeat::cron("* * * * *", None).unwrap());
        assert_eq!(when(&job(None, cron), now).unwrap(), (b'a', 60_000));
    }
}
