//! Handing out jobs, and serving those who wait for them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::oneshot;

use super::core::{Core, Known, all, arg};
use super::gather::{Gather, Shared};
use super::job::{Kept, decode_settings};
use super::keys::{Bucket, Keys};
use super::quiet::{Place, Since};
use super::reply::{integer, strange};
use super::scripts;
use super::waiters::{Call, News, named};
use crate::error::{Code, Error, Result};
use crate::machine::State;
use crate::queue::{Ask, Delivery, Lane, Room, Settle, Source, Terms, Verdict};
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
    pub(super) async fn see_to(mut self, core: &Arc<Core>) {
        if let Ok(Some(came)) = self.place.await {
            drop(core.leave_line(came).await);
        }
        if let Ok(Ok(jobs)) = self.answer.try_recv() {
            core.recall(jobs).await;
        }
    }
}

/// Which jobs of a bucket are asked for, and on what terms.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Wanted {
    bucket: Bucket,
    /// Of all topics, if none are named.
    topics: BTreeSet<Topic>,
    lane: Lane,
    terms: Terms,
}

/// How many of them a caller takes.
pub(super) struct Hands(u32);

/// What a caller is handed.
pub(super) struct Handed {
    jobs: Vec<Delivery>,
    /// A lease has run out there.
    ran_out: bool,
}

impl Shared for Hands {
    type Of = Wanted;
    type Answer = Handed;
    // Whoever pops finishes, too, and while Redis does the one it is asked for the other.
    const UNDER_WAY_MAX: usize = 1;

    fn gather(core: &Core) -> &Gather<Hands> {
        &core.hands
    }

    fn jobs(&self) -> usize {
        self.0 as usize
    }

    async fn call(core: &Arc<Core>, of: &Wanted, asks: Vec<Hands>) -> Result<Vec<Handed>> {
        let max = asks.iter().map(|hands| hands.0).sum();
        let Handed { jobs, ran_out } = core.hand_out_now(of, max, None).await?;
        let mut jobs = jobs.into_iter();
        // First come, first served.
        let each = asks.iter().map(|hands| jobs.by_ref().take(hands.jobs()).collect());
        Ok(each.map(|jobs| Handed { jobs, ran_out }).collect())
    }

    async fn unwanted(core: &Arc<Core>, handed: Handed) {
        core.recall(handed.jobs).await;
    }
}

/// How much stands before the jobs in what is answered to a pop.
const POP_FRONT: usize = 6;

/// How many jobs one call hands out to those in line who ask for the same.
const AT_ONCE: usize = 128;

/// Whether one call can serve both.
fn is_alike(one: &Ask, next: &Ask) -> bool {
    let of = |ask: &Ask| (ask.lane, ask.max, ask.terms, ask.room.is_none());
    one.room.is_none() && one.from == next.from && of(one) == of(next)
}

pub(super) fn stopping() -> Error {
    Error::new(Code::Unavailable, "the store is stopping")
}

/// Where to look for jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    Everywhere,
    /// Not where there was nothing, and nothing was heard of since.
    WhereNews,
}

impl Core {
    /// Hands out what the ask may have at this moment, bucket by bucket.
    async fn hand_out(self: &Arc<Self>, ask: &Ask, look: Look) -> Result<Vec<Delivery>> {
        self.hand_out_in(self.buckets_of(ask, look).await?, ask).await
    }

    async fn hand_out_in(
        self: &Arc<Self>,
        buckets: BTreeMap<Bucket, BTreeSet<Topic>>,
        ask: &Ask,
    ) -> Result<Vec<Delivery>> {
        let mut handed = Vec::new();
        // So that a topic that always has something holds up none of the others.
        let first = self.turn.fetch_add(1, Ordering::Relaxed) % buckets.len().max(1);
        let mut buckets: VecDeque<_> = buckets.into_iter().collect();
        buckets.rotate_left(first);
        for (bucket, topics) in buckets {
            let left = ask.max - handed.len() as u32;
            if left == 0 {
                break;
            }
            let of = Wanted { bucket, topics, lane: ask.lane, terms: ask.terms };
            let Handed { mut jobs, ran_out } = self.hand_out_of(&of, ask, left).await?;
            if jobs.is_empty() && ran_out {
                Box::pin(self.expire(bucket)).await?;
                Handed { jobs, .. } = self.hand_out_of(&of, ask, left).await?;
            }
            handed.extend(jobs);
        }
        Ok(handed)
    }

    async fn hand_out_of(self: &Arc<Self>, of: &Wanted, ask: &Ask, max: u32) -> Result<Handed> {
        match &ask.room {
            Some(room) => Box::pin(self.hand_out_now(of, max, Some(room))).await,
            None => self.with_others(of.clone(), Hands(max)).await,
        }
    }

    /// The topics asked for by where they lie, each once.
    async fn buckets_of(&self, ask: &Ask, look: Look) -> Result<BTreeMap<Bucket, BTreeSet<Topic>>> {
        let mut buckets = BTreeMap::<_, BTreeSet<_>>::new();
        match &ask.from {
            Source::Any => {
                for bucket in Box::pin(self.with_something_ready(ask, look)).await? {
                    buckets.insert(bucket, BTreeSet::new());
                }
            }
            Source::These(topics) => {
                let known = self.known();
                for topic in topics {
                    let mut of_topic = known.spread.buckets_of(&self.keys, topic);
                    of_topic.retain(|bucket| {
                        look == Look::Everywhere || known.may_have(*bucket, topic, ask)
                    });
                    for bucket in of_topic {
                        buckets.entry(bucket).or_default().insert(topic.clone());
                    }
                }
            }
        }
        Ok(buckets)
    }

    async fn with_something_ready(&self, ask: &Ask, look: Look) -> Result<Vec<Bucket>> {
        let (since, buckets): (_, Vec<Bucket>) = {
            let quiet = &self.known().quiet;
            let is_asked = |bucket: &Bucket| {
                look == Look::Everywhere || !quiet.is_quiet(Place::Bucket(*bucket), ask.lane)
            };
            (quiet.since(), self.keys.buckets().filter(is_asked).collect())
        };
        let counts = buckets.iter().map(async |bucket| {
            let ready = self.keys.of_ready(*bucket);
            let count = [b"SCARD", ready.as_bytes()];
            integer(self.conn.command(ready.as_bytes(), &count).await?)
        });
        let counts = all(counts).await?;
        let mut some = Vec::new();
        for (bucket, count) in buckets.into_iter().zip(counts) {
            if count > 0 {
                some.push(bucket);
            } else {
                self.found_nothing([Place::Bucket(bucket)], ask.lane, since);
            }
        }
        Ok(some)
    }

    /// A look that began then found nothing.
    fn found_nothing(&self, places: impl IntoIterator<Item = Place>, lane: Lane, since: Since) {
        // On a clock that is given nobody is told of anything.
        if !self.clock_is_given {
            let quiet = &mut self.known().quiet;
            places.into_iter().for_each(|place| quiet.found_nothing(place, lane, since));
        }
    }

    /// Hands out jobs of one bucket.
    async fn hand_out_now(&self, of: &Wanted, max: u32, room: Option<&Room>) -> Result<Handed> {
        let Wanted { bucket, topics, lane, terms } = of;
        let grace = terms.grace.map_or_else(|| arg(-1), |grace| arg(duration_ms(grace)));
        let leases = self.leases(max);
        let args = || {
            let mut args = vec![
                arg(*lane as u8),
                arg(max),
                leases.clone(),
                terms.owner.map_or(0, |owner| owner.0).to_be_bytes().into(),
                arg(terms.ttr.map_or(0, crate::job::Ttr::as_ms)),
                arg(self.defaults().ttr.as_ms()),
                grace.clone(),
                arg(duration_ms(PUSH_TIMEOUT)),
                arg(u8::from(topics.is_empty())),
                arg(topics.len()),
            ];
            args.extend(topics.iter().map(|topic| topic.as_str().into()));
            if let Some(room) = room {
                args.extend([room.each_destination, room.each_topic].map(arg));
                args.push(arg(room.destinations.len()));
                for (to, room) in &room.destinations {
                    args.extend([to.as_str().into(), arg(room)]);
                }
                for (topic, room) in &room.topics {
                    args.extend([topic.as_str().into(), arg(room)]);
                }
            }
            args
        };
        let held = |_| {
            let topics = topics.iter().map(|topic| topic.as_str().into());
            [leases.clone(), arg(u8::from(topics.len() == 0))].into_iter().chain(topics).collect()
        };
        let since = self.known().quiet.since();
        let (mut reply, is_held) =
            self.ask_or(*bucket, &scripts::POP, args(), &scripts::HELD, held).await?;
        if is_held && reply.is_over_after(POP_FRONT) {
            reply = Box::pin(self.ask(&scripts::POP, *bucket, args())).await?;
        }
        let now = reply.now()?;
        let opens = reply.moment()?.map(|us| {
            let in_us = us.saturating_sub(now.tick.as_us());
            Tick::from_us(self.now().tick.as_us().saturating_add(in_us))
        });
        let ran_out = reply.u64()? == 1;
        let made_ready = self.count_due(&mut reply.list()?, now)?;
        *self.known().made_ready.entry(*bucket).or_default() += made_ready;
        let (mut of_topics, mut settings) = (reply.list()?, Vec::new());
        while !of_topics.is_empty() {
            settings.push(decode_settings(&of_topics.bytes()?)?);
        }
        self.count_strays(*bucket, reply.u64()?);
        let mut jobs = Vec::new();
        while !reply.is_empty() {
            let mut one = reply.packed()?;
            let (number, ready_since) = (one.u64()?, one.u64()?);
            let settings = settings.get(usize::from(one.u16()?)).ok_or_else(strange)?;
            let record = Kept::decode(number, &reply.bytes()?)?.record;
            let State::Reserved(hold) = record.life.state else { continue };
            self.own(terms.owner, record.number);
            let stats = &mut self.known().stats;
            stats.handed_out += 1;
            stats.ready_to_handed_out.record(now.tick.as_us().saturating_sub(ready_since));
            jobs.push(record.delivery(hold, settings, now));
        }
        if room.is_none() && jobs.len() < max as usize {
            let topics = topics.iter().cloned();
            self.found_nothing(topics.map(|topic| Place::Topic(*bucket, topic)), *lane, since);
        }
        let waiters = &mut self.known().waiters;
        waiters.opens = opens.into_iter().chain(waiters.opens).min();
        Ok(Handed { jobs, ran_out })
    }

    /// So many leases, one after the other.
    fn leases(&self, count: u32) -> Vec<u8> {
        let call = self.chances.fetch_add(1, Ordering::Relaxed);
        let leases = (0..count).map(|at| self.chance.lease(call, at.into()).to_string());
        leases.collect::<String>().into_bytes()
    }

    /// What nobody else has.
    pub(super) fn nonce(&self) -> u64 {
        self.chance.lease(self.chances.fetch_add(1, Ordering::Relaxed), u64::MAX).as_u64()
    }

    /// Pops where nothing needs a task of its own: one bucket is asked, once, along with others. None if
    /// that is not so, or if there is nothing and the call may wait.
    ///
    /// Cancel safe, as asking with others is.
    pub(super) async fn pop_on_the_spot(
        self: &Arc<Self>,
        ask: &Ask,
    ) -> Option<Result<Vec<Delivery>>> {
        if ask.room.is_some() || ask.from == Source::Any {
            return None;
        }
        let may_wait = !ask.wait.is_zero();
        let look = if may_wait { Look::WhereNews } else { Look::Everywhere };
        let buckets = self.buckets_of(ask, look).await.ok()?;
        if buckets.len() != 1 {
            return None;
        }
        let handed = self.hand_out_in(buckets, ask).await;
        let got_nothing = matches!(&handed, Ok(jobs) if jobs.is_empty());
        (!got_nothing || !may_wait).then_some(handed)
    }

    /// Pops now, or puts the call in line: its place there, if it waits.
    pub(super) async fn pop_or_wait(self: &Arc<Self>, ask: Ask, answer: Answer) -> Option<u64> {
        let since = self.known().quiet.since();
        let look = if ask.wait.is_zero() { Look::Everywhere } else { Look::WhereNews };
        let handed = self.hand_out(&ask, look).await;
        if ask.wait.is_zero() || !matches!(&handed, Ok(jobs) if jobs.is_empty()) {
            self.answer(answer, handed).await;
            return None;
        }
        let now = self.now().tick;
        // In one step, so that what is heard of from here on is told to it.
        let (came, has_news) = {
            let known = &mut *self.known();
            let (came, end) = known.waiters.join(ask.clone(), now, answer);
            if known.waiters.is_sooner(end) {
                self.sooner.notify_one();
            }
            (came, known.has_news(&self.keys, &ask, since))
        };
        if has_news
            && let Ok(jobs) = self.hand_out(&ask, Look::WhereNews).await
            && !jobs.is_empty()
        {
            self.give(came, jobs).await;
        }
        Some(came)
    }

    /// Gives jobs to a call in line; if it has left, they are as if they had not been handed out.
    async fn give(self: &Arc<Self>, came: u64, jobs: Vec<Delivery>) {
        match self.leave_line(came).await {
            Some(call) => self.answer(call.answer, Ok(jobs)).await,
            None => self.recall(jobs).await,
        }
    }

    /// Answers a call; what it is not there to take is as if it had not been handed out.
    async fn answer(self: &Arc<Self>, answer: Answer, handed: Result<Vec<Delivery>>) {
        if let Err(Ok(jobs)) = answer.send(handed) {
            self.recall(jobs).await;
        }
    }

    pub(super) async fn recall(self: &Arc<Self>, jobs: Vec<Delivery>) {
        let recalls = jobs.iter().map(|job| Settle::delivery(job, Verdict::Recall)).collect();
        // Refused if the job is gone or the lease ran out: then there is nothing to undo.
        let _ = self.settle(recalls).await;
    }

    /// Serves those who wait, first come, first served; one that cannot be served holds up nobody.
    pub(super) async fn serve(self: &Arc<Self>) -> Result<()> {
        self.serve_of(None).await
    }

    /// Whether somebody waits to pop of what is due in a bucket.
    pub(super) fn is_waited_for(&self, bucket: Bucket) -> bool {
        let known = self.known();
        known.waiters.pop_of_any() || known.topics_in(&self.keys, bucket).next().is_some()
    }

    /// Something is due in a bucket, of whatever topics.
    pub(super) fn is_due(&self, bucket: Bucket, news: &mut News) {
        let known = &mut *self.known();
        let topics: Vec<Topic> = known.topics_in(&self.keys, bucket).cloned().collect();
        for topic in topics {
            known.quiet.heard_of(&topic, bucket, Lane::Pull);
            news.of_topic(topic, bucket, Lane::Pull);
        }
        news.of_bucket(bucket, Lane::Pull);
    }

    /// Serves those for whom there are news; or everyone, and looks everywhere.
    pub(super) async fn serve_of(self: &Arc<Self>, news: Option<&News>) -> Result<()> {
        let line = {
            let known = &mut *self.known();
            if news.is_none() {
                known.waiters.opens = None;
                known.quiet.forget();
            }
            known.waiters.line(news)
        };
        // Who asks for the same as one who got nothing gets nothing either.
        let mut in_vain: Vec<Ask> = Vec::new();
        let same = |one: &Ask, other: &Ask| (&one.from, one.lane) == (&other.from, other.lane);
        for alike in line.chunk_by(|(_, one), (_, next)| is_alike(one, next)) {
            let ask = &alike[0].1;
            for some in alike.chunks((AT_ONCE / ask.max as usize).max(1)) {
                if ask.room.is_none() && in_vain.iter().any(|other| same(ask, other)) {
                    break;
                }
                let max = ask.max * some.len() as u32;
                let all = Ask { max, ..ask.clone() };
                let handed = match (&all.from, news) {
                    // Only there has anything changed.
                    (Source::Any, Some(news)) => {
                        let buckets = news.buckets(ask.lane);
                        let buckets = buckets.map(|bucket| (bucket, BTreeSet::new())).collect();
                        self.hand_out_in(buckets, &all).await?
                    }
                    _ => self.hand_out(&all, Look::WhereNews).await?,
                };
                if (handed.len() as u32) < max && ask.room.is_none() {
                    in_vain.push(ask.clone());
                }
                self.share_out(some, handed).await;
            }
        }
        Ok(())
    }

    /// Gives jobs to those in line, each as many as it takes.
    async fn share_out(self: &Arc<Self>, line: &[(u64, Ask)], jobs: Vec<Delivery>) {
        let mut jobs = jobs.into_iter();
        for (came, ask) in line {
            let some: Vec<Delivery> = jobs.by_ref().take(ask.max as usize).collect();
            if some.is_empty() {
                return;
            }
            self.give(*came, some).await;
        }
    }

    /// Takes a call out of the line.
    pub(super) async fn leave_line(&self, came: u64) -> Option<Call> {
        let call = {
            let known = &mut *self.known();
            let call = known.waiters.leave(came)?;
            let unnamed = named(&call.ask).into_iter();
            known.unnamed.extend(unnamed.filter(|it| known.waiters.naming(it) == 0).cloned());
            call
        };
        // By Redis's clock it is enough to do so in every poll.
        if self.clock_is_given {
            self.drop_unnamed().await;
        }
        Some(call)
    }

    /// Lets topics go that only those named who no longer wait.
    pub(super) async fn drop_unnamed(&self) {
        let unnamed = {
            let known = &mut *self.known();
            let mut unnamed = std::mem::take(&mut known.unnamed);
            unnamed.retain(|topic| known.waiters.naming(topic) == 0);
            unnamed
        };
        let drops = unnamed.iter().map(async |topic| {
            // One that is spread has settings, and stays.
            let bucket = self.keys.bucket_of_part(topic, 0);
            self.eval(&scripts::DROP, bucket, [topic.as_str().into()]).await
        });
        if let Err(error) = all(drops).await {
            tracing::debug!(%error, "topics that may be over were not looked at");
        }
    }

    /// How long until a wait is over, or a rate lets something out. Who asks is told of what is sooner
    /// by `sooner`.
    pub(super) fn next_of_waiters(&self) -> Option<Duration> {
        let now = self.now().tick;
        let waiters = &mut self.known().waiters;
        waiters.watched = waiters.next_end().into_iter().chain(waiters.opens).min();
        let next = waiters.watched?;
        Some(Duration::from_micros(next.as_us().saturating_sub(now.as_us())))
    }

    /// Whether a rate that somebody waits for lets something out by now.
    pub(super) fn rate_opens(&self) -> bool {
        let now = self.now().tick;
        self.known().waiters.opens.is_some_and(|opens| opens <= now)
    }

    /// Answers those whose wait is over.
    pub(super) async fn end_waits(self: &Arc<Self>) {
        let over = self.known().waiters.over(self.now().tick);
        for came in over {
            let Some(Call { ask, answer, .. }) = self.leave_line(came).await else { continue };
            if self.clock_is_given {
                self.answer(answer, Ok(Vec::new())).await;
                continue;
            }
            // It may have been told of nothing so far, or too late: it looks once itself.
            let core = self.clone();
            tokio::spawn(async move {
                let handed = core.hand_out(&ask, Look::Everywhere).await;
                core.answer(answer, Ok(handed.unwrap_or_default())).await;
            });
        }
    }
}

impl Known {
    /// Whether a bucket may have something of a topic that the ask would be given.
    fn may_have(&self, bucket: Bucket, topic: &Topic, ask: &Ask) -> bool {
        // What finds no room for one finds it for another.
        ask.room.is_some() || !self.quiet.is_quiet(Place::Topic(bucket, topic.clone()), ask.lane)
    }

    /// Whether something was heard, since then, of what it asks for.
    fn has_news(&self, keys: &Keys, ask: &Ask, since: Since) -> bool {
        let may_have = |topic: &Topic| {
            let mut buckets = self.spread.buckets_of(keys, topic).into_iter();
            buckets.any(|bucket| self.may_have(bucket, topic, ask))
        };
        self.quiet.since() != since
            && match &ask.from {
                Source::Any => true,
                Source::These(topics) => topics.iter().any(may_have),
            }
    }
}
