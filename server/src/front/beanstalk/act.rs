//! What commands do. Those of a kind that were read together are decided together, where the order
//! allows it, and answered in order.

use std::io;
use std::iter::Peekable;
use std::sync::atomic::Ordering;
use std::time::Duration;

use linger::error::Code;
use linger::job::{Body, DELAY_MAX, NewJob, Ttr, When, made_id};
use linger::machine::{Reach, Stage};
use linger::queue::{
    Action, Ask, Bodies, Bulk, Change, Delivery, Filter, JobInfo, Key, Lane, Mode, Query, Queue,
    Settle, Source, Sweep, Terms, TopicChange, Topics, Verdict,
};
use linger::retry::Retry;
use linger::time::Now;
use linger::topic::Topic;
use tokio::time::Instant;

use super::connection::{Connection, End};
use super::parse::{Command, Put, Refusal, Shelf};
use super::reply::{
    BURIED, DEADLINE_SOON, DELETED, DRAINING, KICKED, NOT_FOUND, NOT_IGNORED, OUT_OF_MEMORY,
    PAUSED, RELEASED, TIMED_OUT, TOUCHED, Word, word_of,
};
use super::stats;
use super::tube::tube_of;

/// The most tubes that a connection may watch.
const WATCHED_MAX: usize = 1000;
/// The most jobs that are reserved in one go, if they are small.
const RESERVE_MAX: usize = 64;
/// As good as for ever.
const FOR_EVER: Duration = Duration::from_secs(i32::MAX as u64);

type Commands = Peekable<std::vec::IntoIter<Command>>;

impl Connection {
    /// Does all of them, and says whether the connection is to end.
    pub(super) async fn act_all(&mut self, commands: Vec<Command>) -> io::Result<Option<End>> {
        let mut commands = commands.into_iter().peekable();
        while let Some(command) = self.next(&mut commands) {
            match command {
                Command::Quit => return Ok(Some(End::Gone)),
                Command::Put(put) => self.put(put, &mut commands).await,
                Command::Delete(number) => self.delete(number, &mut commands).await,
                Command::Release { .. } | Command::Bury { .. } | Command::Touch(_) => {
                    self.settle(command, &mut commands).await;
                }
                Command::Reserve { timeout_s } => self.reserve(timeout_s, &mut commands).await?,
                single => self.act(single).await,
            }
            self.flush_if_long().await?;
        }
        Ok(None)
    }

    fn next(&self, commands: &mut Commands) -> Option<Command> {
        let command = commands.next()?;
        self.server.count(command.op());
        Some(command)
    }

    /// The next one, if it is of this kind.
    fn next_if(
        &self,
        commands: &mut Commands,
        fits: impl FnOnce(&Command) -> bool,
    ) -> Option<Command> {
        let command = commands.next_if(fits)?;
        self.server.count(command.op());
        Some(command)
    }

    async fn act(&mut self, command: Command) {
        match command {
            Command::Use(tube) => self.use_tube(tube),
            Command::Watch(tube) => self.watch(tube),
            Command::Ignore(tube) => self.ignore(&tube),
            Command::ReserveJob(number) => self.reserve_job(number).await,
            Command::Peek(number) => self.peek(number).await,
            Command::PeekNext(shelf) => self.peek_next(shelf).await,
            Command::Kick(count) => self.kick(count).await,
            Command::KickJob(number) => self.kick_job(number).await,
            Command::PauseTube { tube, pause_s } => self.pause(&tube, pause_s).await,
            Command::ListTubeUsed => self.out.tube("USING", &tube_of(&self.used)),
            Command::ListTubesWatched => {
                let tubes = stats::list(self.watched.iter().map(tube_of));
                self.out.text(&tubes);
            }
            Command::ListTubes => {
                let text = stats::tubes(&self.server).await;
                self.answer_text(text);
            }
            Command::Stats => {
                let text = stats::of_server(&self.server).await.map(Some);
                self.answer_text(text);
            }
            Command::StatsJob(number) => {
                let text = stats::of_job(&self.server, number).await;
                self.answer_text(text);
            }
            Command::StatsTube(tube) => {
                let text = stats::of_tube(&self.server, &tube).await;
                self.answer_text(text);
            }
            Command::Refused(refusal) => {
                if refusal == Refusal::ExpectedCrlf {
                    self.becomes_producer();
                }
                self.out.word(refusal.into());
            }
            Command::Put(_)
            | Command::Delete(_)
            | Command::Release { .. }
            | Command::Bury { .. }
            | Command::Touch(_)
            | Command::Reserve { .. }
            | Command::Quit => unreachable!("these are done together with those that follow"),
        }
    }

    fn answer_text(&mut self, text: linger::Result<Option<String>>) {
        match text {
            Ok(Some(text)) => self.out.text(&text),
            Ok(None) => self.out.word(NOT_FOUND),
            Err(error) => self.out.word(word_of(&error)),
        }
    }

    fn answer_job(&mut self, job: linger::Result<Option<JobInfo>>) {
        match job {
            Ok(Some(job)) => self.out.job("FOUND", &job),
            Ok(None) => self.out.word(NOT_FOUND),
            Err(error) => self.out.word(word_of(&error)),
        }
    }

    fn use_tube(&mut self, tube: Topic) {
        self.server.tubes.used(&tube);
        self.server.tubes.unused(&self.used);
        self.out.tube("USING", &tube_of(&tube));
        self.used = tube;
    }

    fn watch(&mut self, tube: Topic) {
        if !self.watched.contains(&tube) {
            if self.watched.len() == WATCHED_MAX {
                return self.out.word(OUT_OF_MEMORY);
            }
            self.server.tubes.watched(&tube);
            self.watched.push(tube);
        }
        self.out.count("WATCHING", self.watched.len() as u64);
    }

    fn ignore(&mut self, tube: &Topic) {
        if let Some(at) = self.watched.iter().position(|watched| watched == tube) {
            if self.watched.len() == 1 {
                return self.out.word(NOT_IGNORED);
            }
            self.server.tubes.unwatched(tube);
            // The last takes its place, as there: the order is seen in list-tubes-watched.
            self.watched.swap_remove(at);
        }
        self.out.count("WATCHING", self.watched.len() as u64);
    }

    /// Puts, as one batch.
    async fn put(&mut self, first: Put, commands: &mut Commands) {
        let now = self.server.store.clock().now();
        let mut jobs = vec![new_job(first, &self.used, now)];
        while let Some(Command::Put(put)) =
            self.next_if(commands, |next| matches!(next, Command::Put(_)))
        {
            jobs.push(new_job(put, &self.used, now));
        }
        self.becomes_producer();
        let count = jobs.len();
        if self.server.is_draining() {
            return (0..count).for_each(|_| self.out.word(DRAINING));
        }
        let results = match self.server.store.add_all(jobs).await {
            Ok(results) => results,
            Err(error) => {
                let word = word_of(&error);
                return (0..count).for_each(|_| self.out.word(word));
            }
        };
        let added = results.iter().filter(|result| result.is_ok()).count();
        self.server.tubes.put(&self.used, added as u64);
        for result in results {
            match result {
                Ok(added) => self.out.count("INSERTED", added.job.number),
                Err(error) => self.out.word(word_of(&error)),
            }
        }
    }

    /// Deletes, as one batch. One who holds the job says by it that it is done.
    async fn delete(&mut self, first: u64, commands: &mut Commands) {
        let mut numbers = vec![first];
        while let Some(Command::Delete(number)) =
            self.next_if(commands, |next| matches!(next, Command::Delete(_)))
        {
            numbers.push(number);
        }
        let mut words: Vec<Option<Word>> = vec![None; numbers.len()];
        self.finish_held(&numbers, &mut words).await;
        self.delete_others(&numbers, &mut words).await;
        words.into_iter().for_each(|word| self.out.word(word.unwrap_or(NOT_FOUND)));
    }

    /// Finishes those that are held, and leaves the others.
    async fn finish_held(&mut self, numbers: &[u64], words: &mut [Option<Word>]) {
        let held = |at: &usize| self.held.get(numbers[*at]).map(|hold| (*at, hold.lease));
        let (at, settles): (Vec<usize>, Vec<Settle>) = (0..numbers.len())
            .filter_map(|at| held(&at))
            .map(|(at, lease)| (at, by_lease(numbers[at], lease, Verdict::Finish)))
            .unzip();
        if settles.is_empty() {
            return;
        }
        let results = match self.server.store.settle(settles).await {
            Ok(results) => results,
            Err(error) => return at.iter().for_each(|at| words[*at] = Some(word_of(&error))),
        };
        let mut finished: Vec<Topic> = Vec::with_capacity(at.len());
        for (at, result) in at.into_iter().zip(results) {
            let number = numbers[at];
            words[at] = match result {
                Ok(changed) => {
                    finished.extend(self.held.remove(number).map(|hold| hold.topic));
                    Some(if changed.changed { DELETED } else { NOT_FOUND })
                }
                Err(error) if error.code() == Code::LeaseLost => {
                    let done = numbers[..at].iter().zip(&words[..at]);
                    let twice = done.into_iter().any(|(n, word)| *n == number && word.is_some());
                    self.held.remove(number);
                    // It ran out, and the job may be nobody's; unless it was lost by being done.
                    twice.then_some(NOT_FOUND)
                }
                Err(error) => Some(word_of(&error)),
            };
        }
        self.server.tubes.deleted(finished.iter());
    }

    async fn delete_others(&mut self, numbers: &[u64], words: &mut [Option<Word>]) {
        let at: Vec<usize> = (0..numbers.len()).filter(|at| words[*at].is_none()).collect();
        if at.is_empty() {
            return;
        }
        let delete =
            |at: &usize| Change::new(Key::Number(numbers[*at]), Action::Delete(Reach::Unreserved));
        match self.server.store.change(at.iter().map(delete).collect()).await {
            Ok(results) => {
                for (at, result) in at.into_iter().zip(results) {
                    words[at] = Some(result.map_or_else(|error| word_of(&error), |_| DELETED));
                }
            }
            Err(error) => at.into_iter().for_each(|at| words[at] = Some(word_of(&error))),
        }
    }

    /// Releases, buries and touches, as one batch.
    async fn settle(&mut self, first: Command, commands: &mut Commands) {
        let mut asked = vec![first];
        let fits = |next: &Command| {
            matches!(next, Command::Release { .. } | Command::Bury { .. } | Command::Touch(_))
        };
        while let Some(next) = self.next_if(commands, fits) {
            asked.push(next);
        }
        // For each whether it is asked of the store, with the word for success.
        let mut settles = Vec::with_capacity(asked.len());
        let mut words = Vec::with_capacity(asked.len());
        for command in asked {
            let (number, verdict, word) = verdict(command);
            words.push(self.held.get(number).map(|hold| {
                settles.push(by_lease(number, hold.lease, verdict));
                (number, word)
            }));
        }
        let results = match settles.is_empty() {
            true => Ok(Vec::new()),
            false => self.server.store.settle(settles).await,
        };
        let mut results = match results {
            Ok(results) => results.into_iter(),
            Err(error) => {
                let failed = word_of(&error);
                return words.into_iter().for_each(|word| {
                    self.out.word(word.map_or(NOT_FOUND, |_| failed));
                });
            }
        };
        for word in words {
            let Some((number, word)) = word else {
                self.out.word(NOT_FOUND);
                continue;
            };
            match results.next().expect("one answer each") {
                Ok(_) if word == TOUCHED => self.held.touched(number, Instant::now()),
                Ok(_) => drop(self.held.remove(number)),
                Err(error) => {
                    self.out.word(word_of(&error));
                    continue;
                }
            }
            self.out.word(word);
        }
    }

    /// Reserves, as many at a time as were asked for in the same way.
    async fn reserve(&mut self, timeout_s: Option<u32>, commands: &mut Commands) -> io::Result<()> {
        let mut left = 1;
        let same = Command::Reserve { timeout_s };
        while self.next_if(commands, |next| *next == same).is_some() {
            left += 1;
        }
        self.becomes_worker();
        while left > 0 {
            match self.take(timeout_s, left).await? {
                Ok(jobs) => {
                    left -= jobs.len();
                    for job in &jobs {
                        self.hand_out(job);
                    }
                }
                Err(word) => {
                    left -= 1;
                    self.out.word(word);
                }
            }
            self.flush_if_long().await?;
        }
        Ok(())
    }

    fn becomes_producer(&mut self) {
        if !self.is_producer {
            self.is_producer = true;
            self.server.tally.producers.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn becomes_worker(&mut self) {
        if !self.is_worker {
            self.is_worker = true;
            self.server.tally.workers.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn hand_out(&mut self, delivery: &Delivery) {
        self.held.insert(delivery, Instant::now());
        self.out.job("RESERVED", &delivery.job);
    }

    /// At least one job, or the word for why there is none.
    async fn take(
        &mut self,
        timeout_s: Option<u32>,
        most: usize,
    ) -> io::Result<Result<Vec<Delivery>, Word>> {
        let max = {
            let limits = &self.server.config().limits;
            // All of them may be as large as they get.
            (limits.answer_bytes / limits.body_bytes).clamp(1, RESERVE_MAX).min(most)
        };
        let now = Instant::now();
        let timeout = timeout_s.map_or(FOR_EVER, |s| Duration::from_secs(s.into()));
        let soon = self.held.soon_at(now).map(|at| at.saturating_duration_since(now));
        let (wait, none) = match soon {
            Some(soon) if soon <= timeout => (soon, DEADLINE_SOON),
            _ => (timeout, TIMED_OUT),
        };
        let waits = !wait.is_zero() && self.may_wait();
        let ask = |wait| Ask {
            from: Source::These(self.watched.clone()),
            lane: Lane::Pull,
            max: max as u32,
            wait,
            terms: Terms { ttr: None, owner: Some(self.owner), grace: None },
            room: None,
        };
        // Answers that are there already must not wait along.
        if !waits || self.out.len() > 0 {
            let popped = self.server.store.pop(ask(Duration::ZERO)).await;
            match popped {
                Ok(jobs) if !jobs.is_empty() => return Ok(Ok(jobs)),
                Ok(_) if !waits => return Ok(Err(none)),
                Ok(_) => {}
                Err(error) => return Ok(Err(word_of(&error))),
            }
        }
        let server = self.server.clone();
        let waiting_max = server.config().limits.waiting;
        let Ok(_stay) = server.controls.gates.waits.enter(waiting_max, "waiting pops") else {
            // One who may not wait may still have what is there.
            return Ok(match server.store.pop(ask(Duration::ZERO)).await {
                Ok(jobs) if jobs.is_empty() => Err(OUT_OF_MEMORY),
                Ok(jobs) => Ok(jobs),
                Err(error) => Err(word_of(&error)),
            });
        };
        let ask = ask(wait);
        self.flush().await?;
        Ok(match self.wait_for(ask).await? {
            Ok(jobs) if jobs.is_empty() => Err(if self.may_wait() { none } else { TIMED_OUT }),
            Ok(jobs) => Ok(jobs),
            Err(error) => Err(word_of(&error)),
        })
    }

    async fn reserve_job(&mut self, number: u64) {
        let terms = Terms { ttr: None, owner: Some(self.owner), grace: None };
        match self.server.store.reserve(&Key::Number(number), terms).await {
            Ok(delivery) => {
                self.becomes_worker();
                self.hand_out(&delivery);
            }
            Err(error) => self.out.word(word_of(&error)),
        }
    }

    async fn peek(&mut self, number: u64) {
        let job = self.server.store.get(&Key::Number(number)).await;
        self.answer_job(job.map(|job| (job.stage != Stage::Finished).then_some(job)));
    }

    async fn peek_next(&mut self, shelf: Shelf) {
        let job = self.first_of(shelf).await;
        self.answer_job(job);
    }

    async fn first_of(&self, shelf: Shelf) -> linger::Result<Option<JobInfo>> {
        let first = async |stage| {
            let filter = Filter { stage: Some(stage), ..Filter::default() };
            let query =
                Query { filter, bodies: Bodies::With, limit: 1, ..Query::all(self.used.clone()) };
            Ok(self.server.store.browse(query).await?.jobs.pop())
        };
        match shelf {
            Shelf::Ready => first(Stage::Ready).await,
            Shelf::Buried => first(Stage::Dead).await,
            Shelf::Delayed => {
                let (delayed, retry) = (first(Stage::Delayed).await?, first(Stage::Retry).await?);
                Ok(delayed.into_iter().chain(retry).min_by_key(|job| (job.due, job.number)))
            }
        }
    }

    async fn kick(&mut self, count: u32) {
        match self.kicked(count.into()).await {
            Ok(kicked) => self.out.count("KICKED", kicked),
            Err(error) => self.out.word(word_of(&error)),
        }
    }

    /// The dead ones if there are any, else those that wait; the oldest and the soonest first.
    async fn kicked(&self, count: u64) -> linger::Result<u64> {
        let sweep = |stage, bulk, limit, mode| {
            let filter = Filter { stage: Some(stage), ..Filter::default() };
            let topic = self.used.clone();
            self.server.store.sweep(Sweep {
                topic,
                filter,
                bulk,
                limit: Some(limit),
                mode,
                by: None,
            })
        };
        let buried = sweep(Stage::Dead, Bulk::Redrive, 1, Mode::DryRun).await?;
        if buried > 0 {
            return sweep(Stage::Dead, Bulk::Redrive, count, Mode::Apply).await;
        }
        let delayed = sweep(Stage::Delayed, Bulk::Run, count, Mode::Apply).await?;
        Ok(delayed + sweep(Stage::Retry, Bulk::Run, count - delayed, Mode::Apply).await?)
    }

    async fn kick_job(&mut self, number: u64) {
        let change = Change::new(Key::Number(number), Action::Run);
        let changed = self.server.store.change(vec![change]).await;
        let word = match changed.map(|mut changed| changed.pop().expect("one answer for one job")) {
            // Of one that is ready already nothing changes.
            Ok(Ok(changed)) => {
                if changed.changed {
                    KICKED
                } else {
                    NOT_FOUND
                }
            }
            Ok(Err(error)) | Err(error) => word_of(&error),
        };
        self.out.word(word);
    }

    async fn pause(&mut self, tube: &Topic, pause_s: u32) {
        let word = self.paused(tube, pause_s).await;
        self.out.word(word.unwrap_or_else(|error| word_of(&error)));
    }

    async fn paused(&self, tube: &Topic, pause_s: u32) -> linger::Result<Word> {
        let store = &self.server.store;
        let is_there = !store.topics(Topics::One(tube.clone())).await?.is_empty();
        if !is_there && !stats::is_known(&self.server, tube) {
            return Ok(NOT_FOUND);
        }
        match pause_s {
            // There is nothing to resume in a tube that is only watched.
            0 if !is_there => {}
            0 => drop(store.configure(tube, TopicChange::Resume).await?),
            s => {
                let pause = TopicChange::Pause(Some(Duration::from_secs(s.into())));
                store.configure(tube, pause).await?;
            }
        }
        self.server.tubes.paused(tube, pause_s);
        Ok(PAUSED)
    }
}

/// A job as `put` means it: handed out until it is deleted, however often that takes.
fn new_job(put: Put, tube: &Topic, now: Now) -> NewJob {
    let id = made_id(now.time());
    let mut job = NewJob::new(tube.clone(), id, Body::from_wire(put.body));
    job.priority = put.priority;
    job.when = when(put.delay_s, now);
    job.spec.ttr = Some(ttr(put.ttr_s));
    job.spec.retry = Some(Retry::no_limit());
    job
}

fn when(delay_s: u32, now: Now) -> Option<When> {
    let delay = Duration::from_secs(delay_s.into());
    match delay {
        Duration::ZERO => None,
        // More than a century is a moment rather than a delay.
        delay if delay > DELAY_MAX => now.after_ms(delay.as_millis() as u64).map(When::At),
        delay => Some(When::In(delay)),
    }
}

/// At least a second, as there, and at most what there is.
fn ttr(ttr_s: u32) -> Ttr {
    let length = Duration::from_secs(ttr_s.max(1).into()).min(Ttr::MAX);
    Ttr::new(length).expect("it is within its bounds")
}

fn verdict(command: Command) -> (u64, Verdict, Word) {
    match command {
        Command::Release { number, priority, delay_s } => {
            let delay = Duration::from_secs(delay_s.into());
            (number, Verdict::Release { delay, priority: Some(priority) }, RELEASED)
        }
        Command::Bury { number, priority } => {
            (number, Verdict::Bury { error: None, priority: Some(priority) }, BURIED)
        }
        Command::Touch(number) => (number, Verdict::Touch { ttr: None }, TOUCHED),
        _ => unreachable!("only these settle"),
    }
}

fn by_lease(number: u64, lease: linger::dice::Lease, verdict: Verdict) -> Settle {
    Settle { lease: Some(lease), ..Settle::key(Key::Number(number), verdict) }
}
