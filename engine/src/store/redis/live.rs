//! Calls as they come, by Redis's clock: what a fleet of instances runs.
//!
//! Four tasks stand behind them. One listens to what scripts publish: a topic that has something
//! ready, a bucket whose next moment is sooner than before. One says that this instance is alive and gets
//! it its share of the buckets. One sees to the clock of those, one by one. One serves those who wait.
//! Messages may be lost: everything is looked at anew in every poll.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::MissedTickBehavior;

use super::Settings;
use super::clock::RedisClock;
use super::conn::Heard;
use super::core::Core;
use super::keys::Bucket;
use super::nodes::{Beats, Share};
use super::pop::{Waiting, stopping};
use super::time::Looked;
use super::waiters::News;
use crate::error::Result;
use crate::queue::{Ask, Delivery, Lane};
use crate::time::{Clock, SECOND, Tick, Time, Wake};
use crate::topic::Topic;

/// How many buckets are looked at side by side.
const BUCKETS_AT_ONCE: usize = 32;
/// How long those who wait elsewhere are not told of what is due, at most.
const FIRST_MAX: Duration = Duration::from_millis(250);
/// The least time between two looks at the clock.
const LOOK_GAP: Duration = Duration::from_millis(1);
/// How long to wait before something that failed is tried again.
const AGAIN_AFTER: Duration = Duration::from_millis(200);

/// How long a goodbye may take: after it the leases run out by themselves.
const GOODBYE: Duration = SECOND;

pub(super) struct Live {
    core: Arc<Core>,
    tasks: Vec<JoinHandle<()>>,
    beating: JoinHandle<()>,
    /// The id by which others know this instance.
    id: Arc<str>,
    share: Arc<Share>,
}

/// What has changed since those who wait were last served.
#[derive(Default)]
struct Changed {
    unserved: Mutex<Unserved>,
    bell: Notify,
}

#[derive(Default)]
struct Unserved {
    news: News,
    /// Buckets in which something is due, and who goes on when that was served.
    due: Vec<(Bucket, oneshot::Sender<Infallible>)>,
}

impl Live {
    pub(super) async fn start(
        core: Arc<Core>,
        clock: Arc<RedisClock>,
        settings: &Settings,
    ) -> Result<Live> {
        let mut beats = Beats::new(core.clone(), clock.clone(), settings)?;
        let heard = core.conn.subscribe(core.keys.channels()).await?;
        // So that the first of all sees to everything from its first moment on.
        beats.round().await?;
        let (id, share, poll) = (beats.id(), beats.share(), settings.poll);
        let changed = Arc::new(Changed::default());
        let (sooner, moments) = mpsc::unbounded_channel();
        let told = Told { id: id.clone(), changed: changed.clone(), sooner, moved: Arc::default() };
        let beating = tokio::spawn(beats.run(told.moved.clone()));
        let timer = Timer::new(core.clone(), clock, share.clone(), poll, changed.clone());
        let tasks = vec![
            tokio::spawn(listen(core.clone(), heard, told)),
            tokio::spawn(timer.run(moments)),
            tokio::spawn(serve(core.clone(), changed, poll)),
        ];
        Ok(Live { core, tasks, beating, id, share })
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Whether anybody sees to buckets.
    pub(super) fn has_timer(&self) -> bool {
        self.share.has_timer()
    }

    /// Tells the others that it is gone.
    pub(super) async fn leave(&self) {
        self.beating.abort();
        self.share.clear();
        let said = tokio::time::timeout(GOODBYE, self.core.say_goodbye(&self.id)).await;
        if let Ok(Err(error)) = said {
            tracing::debug!(%error, "the goodbye was not heard; the leases run out by themselves");
        }
    }

    pub(super) async fn call<T, F, Fut>(&self, act: F) -> Result<T>
    where
        F: FnOnce(Arc<Core>) -> Fut,
        Fut: Future<Output = Result<T>>,
    {
        act(self.core.clone()).await
    }

    pub(super) async fn pop(&self, ask: Ask) -> Result<Vec<Delivery>> {
        // In a box, so that what callers carry is small, and their futures nest no deeper than they may.
        if let Some(handed) = Box::pin(self.core.pop_on_the_spot(&ask)).await {
            return handed;
        }
        let (sender, answer) = oneshot::channel();
        let (told, place) = oneshot::channel();
        let core = self.core.clone();
        // By itself, so that whoever hangs up takes no job along.
        tokio::spawn(async move {
            let _ = told.send(core.pop_or_wait(ask, sender).await);
        });
        let core = self.core.clone();
        let runtime = tokio::runtime::Handle::current();
        let hung_up = move |call: super::pop::HungUp| {
            runtime.spawn(async move { call.see_to(&core).await });
        };
        let answer = Waiting::new(answer, place, hung_up).answer().await;
        answer.unwrap_or_else(|| Err(stopping()))
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.tasks.iter().chain([&self.beating]).for_each(JoinHandle::abort);
    }
}

impl Changed {
    fn topic(&self, bucket: Bucket, topic: Topic, lane: Lane) {
        self.unserved().news.of_topic(topic, bucket, lane);
        self.bell.notify_one();
    }

    /// Has those served who wait here for what is due in a bucket, before everyone everywhere is told of it:
    /// most often there is nothing left to tell.
    async fn serve_first(&self, core: &Core, bucket: Bucket) {
        if !core.is_waited_for(bucket) {
            return;
        }
        let (done, served) = oneshot::channel();
        self.unserved().due.push((bucket, done));
        self.bell.notify_one();
        // Nobody says anything: it is dropped.
        let _ = tokio::time::timeout(FIRST_MAX, served).await;
    }

    fn take(&self) -> Unserved {
        std::mem::take(&mut *self.unserved())
    }

    fn unserved(&self) -> MutexGuard<'_, Unserved> {
        self.unserved.lock().expect("nobody panics holding it")
    }
}

/// When a clock brings something to a bucket, that nobody knew of before.
struct Moment {
    bucket: usize,
    wake: Wake,
}

/// Who is told of what was heard.
struct Told {
    /// What this instance says itself is no news.
    id: Arc<str>,
    changed: Arc<Changed>,
    /// Nothing, if all buckets are to be looked at.
    sooner: mpsc::UnboundedSender<Option<Moment>>,
    moved: Arc<Notify>,
}

async fn listen(core: Arc<Core>, mut heard: mpsc::UnboundedReceiver<Heard>, told: Told) {
    let Told { id, changed, sooner, moved } = told;
    let moves = core.keys.of_moves().into_bytes();
    while let Some(heard) = heard.recv().await {
        match heard {
            Heard::Message { channel, payload } if channel == moves => {
                if payload != id.as_bytes() {
                    moved.notify_one();
                }
            }
            Heard::Message { channel, payload } => match core.keys.bucket_of_channel(&channel) {
                Some((bucket, true)) => {
                    if let Some(moment) = moment_of(bucket, &payload) {
                        let _ = sooner.send(Some(moment));
                    }
                }
                Some((bucket, false)) => {
                    if let Some((lane, topic)) = ready_of(&payload) {
                        core.known().quiet.heard_of(&topic, bucket, lane);
                        changed.topic(bucket, topic, lane);
                    }
                }
                None => {}
            },
            // Whatever was said meanwhile is not known.
            Heard::Again => {
                let known = &mut *core.known();
                known.quiet.forget();
                for topic in known.waiters.topics() {
                    for bucket in known.spread.buckets_of(&core.keys, topic) {
                        changed.topic(bucket, topic.clone(), Lane::Pull);
                        changed.topic(bucket, topic.clone(), Lane::Push);
                    }
                }
                let _ = sooner.send(None);
            }
        }
    }
}

/// Which clock brings something, and when.
fn moment_of(Bucket(bucket): Bucket, payload: &[u8]) -> Option<Moment> {
    let (clock, at) = std::str::from_utf8(payload).ok()?.split_once(' ')?;
    let at = at.parse().ok()?;
    let wake = match clock {
        "wall" => Wake { wall: Some(Time::from_ms(at)?), tick: None },
        "tick" => Wake { wall: None, tick: Some(Tick::from_us(at)) },
        _ => return None,
    };
    Some(Moment { bucket: bucket.into(), wake })
}

/// Of which topic something is ready, and for whom.
fn ready_of(payload: &[u8]) -> Option<(Lane, Topic)> {
    let (lane, topic) = payload.split_first()?;
    let lane = match lane {
        b'0' => Lane::Pull,
        b'1' => Lane::Push,
        _ => return None,
    };
    Some((lane, std::str::from_utf8(topic).ok()?.parse().ok()?))
}

/// Serves those who wait: when something has changed, when a wait is over, and in every poll.
async fn serve(core: Arc<Core>, changed: Arc<Changed>, poll: Duration) {
    let mut polls = tokio::time::interval(poll.max(LOOK_GAP));
    polls.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut everyone = false;
    loop {
        let pause = core.next_of_waiters().unwrap_or(poll).max(LOOK_GAP);
        tokio::select! {
            () = changed.bell.notified() => {}
            () = tokio::time::sleep(pause) => {}
            () = core.sooner.notified() => continue,
            _ = polls.tick() => everyone = true,
        }
        // By the time and not by what woke us: where much is ready the bell always rings first.
        everyone |= core.rate_opens();
        let Unserved { mut news, due } = changed.take();
        due.iter().for_each(|(bucket, _)| core.is_due(*bucket, &mut news));
        core.end_waits().await;
        if everyone {
            core.drop_unnamed().await;
            if let Err(error) = core.read_spread().await {
                tracing::debug!(%error, "how topics are spread could not be read");
            }
        }
        let served = core.serve_of((!everyone).then_some(&news)).await;
        drop(due);
        everyone = served.is_err();
        if let Err(error) = served {
            tracing::debug!(%error, "those who wait could not be served; they go on waiting");
            tokio::time::sleep(AGAIN_AFTER).await;
        }
    }
}

/// Sees to the clock of the buckets that this instance holds.
struct Timer {
    core: Arc<Core>,
    clock: Arc<RedisClock>,
    share: Arc<Share>,
    poll: Duration,
    changed: Arc<Changed>,
    /// When each bucket wants to be looked at, in microseconds of Redis's clock.
    next_us: Vec<u64>,
    /// When something is due there, if that is known, or later.
    due_us: Vec<u64>,
}

impl Timer {
    fn new(
        core: Arc<Core>,
        clock: Arc<RedisClock>,
        share: Arc<Share>,
        poll: Duration,
        changed: Arc<Changed>,
    ) -> Timer {
        let next_us: Vec<u64> = core.keys.buckets().map(|_| 0).collect();
        let due_us = vec![u64::MAX; next_us.len()];
        Timer { core, clock, share, poll, changed, next_us, due_us }
    }

    async fn run(mut self, mut moments: mpsc::UnboundedReceiver<Option<Moment>>) {
        loop {
            let due = self.due();
            self.look_at(due).await;
            let next_us = self.held().map(|at| self.next_us[at]).min().unwrap_or(u64::MAX);
            let pause = next_us.saturating_sub(self.clock.now().wall_us);
            let pause = Duration::from_micros(pause).max(LOOK_GAP).min(self.poll.max(SECOND));
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.share.bell.notified() => {}
                Some(moment) = moments.recv() => {
                    self.sooner(moment);
                    while let Ok(moment) = moments.try_recv() {
                        self.sooner(moment);
                    }
                }
            }
        }
    }

    /// The buckets that it holds.
    fn held(&self) -> impl Iterator<Item = usize> + use<> {
        let held = self.share.held(self.clock.now().tick);
        held.into_iter().enumerate().filter(|(_, is_held)| *is_held).map(|(at, _)| at)
    }

    /// Those of them whose time has come. Whatever it does not hold it looks at when it does.
    fn due(&mut self) -> Vec<usize> {
        let now = self.clock.now();
        let held = self.share.held(now.tick);
        for (at, _) in held.iter().enumerate().filter(|(_, is_held)| !**is_held) {
            (self.next_us[at], self.due_us[at]) = (0, u64::MAX);
        }
        self.core.known().made_ready.retain(|bucket, _| held[usize::from(bucket.0)]);
        self.held().filter(|at| self.next_us[*at] <= now.wall_us).collect()
    }

    fn sooner(&mut self, moment: Option<Moment>) {
        let Some(Moment { bucket, wake }) = moment else { return self.next_us.fill(0) };
        let (next, due) = (&mut self.next_us[bucket], &mut self.due_us[bucket]);
        *next = soonest_us(wake).min(*next);
        *due = wake.wall.map_or(u64::MAX, us_of).min(*due);
    }

    async fn look_at(&mut self, due: Vec<usize>) {
        for some in due.chunks(BUCKETS_AT_ONCE) {
            let mut looks = JoinSet::new();
            let now_us = self.clock.now().wall_us;
            for at in some.iter().copied() {
                let (core, changed) = (self.core.clone(), self.changed.clone());
                let (bucket, is_due) = (Bucket(at as u16), self.due_us[at] <= now_us);
                looks.spawn(async move {
                    if is_due {
                        changed.serve_first(&core, bucket).await;
                    }
                    (at, core.see_to(bucket).await)
                });
            }
            while let Some(looked) = looks.join_next().await {
                let Ok((at, looked)) = looked else { continue };
                self.next_us[at] = match looked {
                    Ok(Looked { wake, now, moved }) => {
                        self.clock.set_by(now);
                        let by_pops = self.core.known().made_ready.remove(&Bucket(at as u16));
                        self.share.count(at, moved + by_pops.unwrap_or_default());
                        self.due_us[at] = wake.wall.map_or(u64::MAX, us_of);
                        soonest_us(wake).min(now.wall_us + self.poll.as_micros() as u64)
                    }
                    Err(error) => {
                        tracing::debug!(%error, "a bucket's clock could not be seen to");
                        self.clock.now().wall_us + AGAIN_AFTER.as_micros() as u64
                    }
                };
            }
        }
    }
}

/// Redis has one clock for both.
fn soonest_us(wake: Wake) -> u64 {
    let wall = wake.wall.map(us_of);
    let tick = wake.tick.map(|tick| tick.as_us());
    wall.into_iter().chain(tick).min().unwrap_or(u64::MAX)
}

fn us_of(time: Time) -> u64 {
    time.as_ms().saturating_mul(1000)
}
