//! Handing out jobs, and serving those who wait for them.

use std::collections::{BTreeMap, BTreeSet};

use std::time::Duration;

use tokio::sync::oneshot;

use super::core::{Core, all, arg};
use super::job::{Kept, decode_settings};
use super::keys::Bucket;
use super::reply::integer;
use super::scripts;
use super::waiters::named;
use crate::error::{Code, Error, Result};
use crate::machine::State;
use crate::queue::{Ask, Delivery, Settle, Source, Verdict};
use crate::time::{Tick, duration_ms};
use crate::topic::{PUSH_TIMEOUT, Topic};

/// What a waiting call is answered through.
pub(super) type Answer = oneshot::Sender<Result<Vec<Delivery>>>;

/// A call that may wait. Dropped, what becomes of it is up to `hung_up`.
pub(super) struct Waiting<F: FnOnce(HungUp)> {
    call: Option<(HungUp, F)>,
}

/// A call whose caller is gone.
pub(super) struct HungUp {
    answer: oneshot::Receiver<Result<Vec<Delivery>>>,
    /// Where it stands in line, if it does.
    place: oneshot::Receiver<Option<u64>>,
}

impl<F: FnOnce(HungUp)> Waiting<F> {
    pub(super) fn new(
        answer: oneshot::Receiver<Result<Vec<Delivery>>>,
        place: oneshot::Receiver<Option<u64>>,
        hung_up: F,
    ) -> Waiting<F> {
        Waiting { call: Some((HungUp { answer, place }, hung_up)) }
    }

    /// What is answered; nothing, if nobody is there to do so.
    pub(super) async fn answer(mut self) -> Option<Result<Vec<Delivery>>> {
        let (call, _) = self.call.as_mut().expect("it is there until it is dropped");
        let answer = (&mut call.answer).await.ok();
        self.call = None;
        answer
    }
}

impl<F: FnOnce(HungUp)> Drop for Waiting<F> {
    fn drop(&mut self) {
        if let Some((call, hung_up)) = self.call.take() {
            hung_up(call);
        }
    }
}

impl HungUp {
    /// Takes it out of the line; what it was given but never saw is as if it had not been.
    pub(super) async fn see_to(mut self, core: &Core) {
        if let Ok(Some(came)) = self.place.await {
            drop(core.leave_line(came).await);
        }
        if let Ok(Ok(jobs)) = self.answer.try_recv() {
            core.recall(jobs).await;
        }
    }
}

pub(super) fn stopping() -> Error {
    Error::new(Code::Unavailable, "the store is stopping")
}

impl Core {
    /// Hands out what the ask may have at this moment, bucket by bucket.
    pub(super) async fn hand_out(&self, ask: &Ask) -> Result<Vec<Delivery>> {
        let mut handed = Vec::new();
        for (bucket, topics) in self.buckets_of(ask).await? {
            let left = ask.max - handed.len() as u32;
            if left == 0 {
                break;
            }
            let (mut jobs, ran_out) = self.hand_out_of(bucket, &topics, ask, left).await?;
            if jobs.is_empty() && ran_out {
                self.expire(bucket).await?;
                (jobs, _) = self.hand_out_of(bucket, &topics, ask, left).await?;
            }
            handed.extend(jobs);
        }
        Ok(handed)
    }

    /// The topics asked for by where they lie, each once.
    async fn buckets_of<'a>(&self, ask: &'a Ask) -> Result<BTreeMap<Bucket, BTreeSet<&'a str>>> {
        Ok(match &ask.from {
            Source::Any => {
                let ready = self.keys.buckets().map(async |bucket| {
                    let ready = self.keys.of_ready(bucket);
                    let count = [b"SCARD", ready.as_bytes()];
                    let count = self.conn.command(ready.as_bytes(), &count).await?;
                    Ok((bucket, integer(count)?))
                });
                let ready = all(ready).await?;
                let some = ready.into_iter().filter(|(_, count)| *count > 0);
                some.map(|(bucket, _)| (bucket, BTreeSet::new())).collect()
            }
            Source::These(topics) => {
                let mut buckets = BTreeMap::<_, BTreeSet<_>>::new();
                for topic in topics {
                    buckets.entry(self.bucket_of(topic)).or_default().insert(topic.as_str());
                }
                buckets
            }
        })
    }

    /// Hands out jobs of one bucket; says as well whether a lease has run out there.
    async fn hand_out_of(
        &self,
        bucket: Bucket,
        topics: &BTreeSet<&str>,
        ask: &Ask,
        max: u32,
    ) -> Result<(Vec<Delivery>, bool)> {
        let terms = ask.terms;
        let grace = terms.grace.map_or_else(|| arg(-1), |grace| arg(duration_ms(grace)));
        let mut args = vec![
            arg(ask.lane as u8),
            arg(max),
            uuid::Uuid::new_v4().into_bytes().into(),
            terms.owner.map_or(0, |owner| owner.0).to_be_bytes().into(),
            arg(terms.ttr.map_or(0, crate::job::Ttr::as_ms)),
            arg(self.defaults().ttr.as_ms()),
            grace,
            arg(duration_ms(PUSH_TIMEOUT)),
            arg(u8::from(ask.from == Source::Any)),
            arg(topics.len()),
        ];
        args.extend(topics.iter().copied().map(Vec::from));
        if let Some(room) = &ask.room {
            args.extend([room.each_destination, room.each_topic].map(arg));
            args.push(arg(room.destinations.len()));
            for (to, room) in &room.destinations {
                args.extend([to.as_str().into(), arg(room)]);
            }
            for (topic, room) in &room.topics {
                args.extend([topic.as_str().into(), arg(room)]);
            }
        }
        let mut reply = self.ask(&scripts::POP, bucket, args).await?;
        let now = reply.now()?;
        let opens = reply.moment()?.map(|us| {
            let in_us = us.saturating_sub(now.tick.as_us());
            Tick::from_us(self.now().tick.as_us().saturating_add(in_us))
        });
        let ran_out = reply.u64()? == 1;
        self.count_due(&mut reply.list()?, now)?;
        let mut handed = Vec::new();
        while !reply.is_empty() {
            let mut one = reply.list()?;
            let record = Kept::decode(one.number()?, &one.bytes()?)?.record;
            let ready_since = one.u64()?;
            let settings = decode_settings(&one.bytes()?)?;
            let State::Reserved(hold) = record.life.state else { continue };
            self.own(terms.owner, record.number);
            let stats = &mut self.known().stats;
            stats.handed_out += 1;
            stats.ready_to_handed_out.record(now.tick.as_us().saturating_sub(ready_since));
            handed.push(record.delivery(hold, &settings, now));
        }
        let waiters = &mut self.known().waiters;
        waiters.opens = opens.into_iter().chain(waiters.opens).min();
        Ok((handed, ran_out))
    }

    /// Pops now, or puts the call in line: its place there, if it waits.
    pub(super) async fn pop_or_wait(&self, ask: Ask, answer: Answer) -> Option<u64> {
        let heard = self.heard();
        let handed = self.hand_out(&ask).await;
        if ask.wait.is_zero() || !matches!(&handed, Ok(jobs) if jobs.is_empty()) {
            self.answer(answer, handed).await;
            return None;
        }
        let now = self.now().tick;
        let came = self.known().waiters.join(ask.clone(), now, answer);
        // What was heard before it stood in line was told to others: it looks once more.
        if self.heard() != heard
            && let Ok(jobs) = self.hand_out(&ask).await
            && !jobs.is_empty()
        {
            self.give(came, jobs).await;
        }
        Some(came)
    }

    /// Gives jobs to a call in line; if it has left, they are as if they had not been handed out.
    async fn give(&self, came: u64, jobs: Vec<Delivery>) {
        match self.leave_line(came).await {
            Some(answer) => self.answer(answer, Ok(jobs)).await,
            None => self.recall(jobs).await,
        }
    }

    /// Answers a call; what it is not there to take is as if it had not been handed out.
    async fn answer(&self, answer: Answer, handed: Result<Vec<Delivery>>) {
        if let Err(Ok(jobs)) = answer.send(handed) {
            self.recall(jobs).await;
        }
    }

    pub(super) async fn recall(&self, jobs: Vec<Delivery>) {
        let recalls = jobs.iter().map(|job| Settle::delivery(job, Verdict::Recall)).collect();
        // Refused if the job is gone or the lease ran out: then there is nothing to undo.
        let _ = self.settle(recalls).await;
    }

    /// Serves those who wait, first come, first served; one that cannot be served holds up nobody.
    pub(super) async fn serve(&self) -> Result<()> {
        self.serve_of(None).await
    }

    /// Serves those who wait for these topics, or everyone.
    pub(super) async fn serve_of(&self, topics: Option<&BTreeSet<Topic>>) -> Result<()> {
        let line = {
            let waiters = &mut self.known().waiters;
            if topics.is_none() {
                waiters.opens = None;
            }
            waiters.line(topics)
        };
        // Who asks for the same as one who got nothing gets nothing either.
        let mut in_vain: Vec<Ask> = Vec::new();
        let same = |one: &Ask, other: &Ask| (&one.from, one.lane) == (&other.from, other.lane);
        for (came, ask) in line {
            if ask.room.is_none() && in_vain.iter().any(|other| same(&ask, other)) {
                continue;
            }
            let jobs = self.hand_out(&ask).await?;
            if jobs.is_empty() {
                in_vain.extend(Some(ask).filter(|ask| ask.room.is_none()));
                continue;
            }
            self.give(came, jobs).await;
        }
        Ok(())
    }

    /// Takes a call out of the line, and lets topics go that only it named.
    pub(super) async fn leave_line(&self, came: u64) -> Option<Answer> {
        let call = self.known().waiters.leave(came)?;
        for topic in named(&call.ask) {
            if self.known().waiters.naming(topic) == 0 {
                let bucket = self.bucket_of(topic);
                let dropped = self.eval(&scripts::DROP, bucket, [topic.as_str().into()]).await;
                if let Err(error) = dropped {
                    tracing::debug!(%error, "a topic that may be over was not looked at");
                }
            }
        }
        Some(call.answer)
    }

    /// How long until a wait is over, or a rate lets something out.
    pub(super) fn next_of_waiters(&self) -> Option<Duration> {
        let now = self.now().tick;
        let known = self.known();
        let next = known.waiters.next_end().into_iter().chain(known.waiters.opens).min()?;
        Some(Duration::from_micros(next.as_us().saturating_sub(now.as_us())))
    }

    /// Whether a rate that somebody waits for lets something out by now.
    pub(super) fn rate_opens(&self) -> bool {
        let now = self.now().tick;
        self.known().waiters.opens.is_some_and(|opens| opens <= now)
    }

    /// Answers those whose wait is over.
    pub(super) async fn end_waits(&self) {
        let over = self.known().waiters.over(self.now().tick);
        for came in over {
            if let Some(answer) = self.leave_line(came).await {
                self.answer(answer, Ok(Vec::new())).await;
            }
        }
    }
}
