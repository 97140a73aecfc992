//! Calls as they come, by Redis's clock: what a fleet of instances runs.
//!
//! Three tasks stand behind them. One listens to what scripts publish: a topic that has something
//! ready, a bucket whose next moment is sooner than before. One sees to the clock, bucket by bucket. One
//! serves those who wait. Messages may be lost: everything is looked at anew in every poll.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::MissedTickBehavior;

use super::clock::RedisClock;
use super::conn::Heard;
use super::core::Core;
use super::keys::Bucket;
use super::pop::{Waiting, stopping};
use crate::error::Result;
use crate::queue::{Ask, Delivery};
use crate::time::{Clock, SECOND, Wake};
use crate::topic::Topic;

/// How many buckets are looked at side by side.
const BUCKETS_AT_ONCE: usize = 32;
/// The least time between two looks at the clock.
const LOOK_GAP: Duration = Duration::from_millis(1);
/// How long to wait before something that failed is tried again.
const AGAIN_AFTER: Duration = Duration::from_millis(200);

pub(super) struct Live {
    core: Arc<Core>,
    tasks: Vec<JoinHandle<()>>,
}

/// What has changed since those who wait were last served.
#[derive(Default)]
struct Changed {
    topics: Mutex<BTreeSet<Topic>>,
    bell: Notify,
}

impl Live {
    pub(super) async fn start(
        core: Arc<Core>,
        clock: Arc<RedisClock>,
        poll: Duration,
    ) -> Result<Live> {
        let heard = core.conn.subscribe(core.keys.channels()).await?;
        let changed = Arc::new(Changed::default());
        let (sooner, moments) = mpsc::unbounded_channel();
        let tasks = vec![
            tokio::spawn(listen(core.clone(), heard, changed.clone(), sooner)),
            tokio::spawn(Timer::new(core.clone(), clock, poll).run(moments)),
            tokio::spawn(serve(core.clone(), changed, poll)),
        ];
        Ok(Live { core, tasks })
    }

    pub(super) async fn call<T, F, Fut>(&self, act: F) -> Result<T>
    where
        F: FnOnce(Arc<Core>) -> Fut,
        Fut: Future<Output = Result<T>>,
    {
        act(self.core.clone()).await
    }

    pub(super) async fn pop(&self, ask: Ask) -> Result<Vec<Delivery>> {
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
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Changed {
    fn topic(&self, topic: Topic) {
        self.topics.lock().expect("nobody panics holding them").insert(topic);
        self.bell.notify_one();
    }

    fn take(&self) -> BTreeSet<Topic> {
        std::mem::take(&mut *self.topics.lock().expect("nobody panics holding them"))
    }
}

async fn listen(
    core: Arc<Core>,
    mut heard: mpsc::UnboundedReceiver<Heard>,
    changed: Arc<Changed>,
    sooner: mpsc::UnboundedSender<Option<Bucket>>,
) {
    while let Some(heard) = heard.recv().await {
        core.heard_something();
        match heard {
            Heard::Message { channel, payload } => match core.keys.bucket_of_channel(&channel) {
                Some((bucket, true)) => {
                    let _ = sooner.send(Some(bucket));
                }
                _ => {
                    let topic = std::str::from_utf8(&payload).ok().and_then(|t| t.parse().ok());
                    topic.into_iter().for_each(|topic| changed.topic(topic));
                }
            },
            // Whatever was said meanwhile is not known.
            Heard::Again => {
                core.known().waiters.topics().cloned().for_each(|topic| changed.topic(topic));
                let _ = sooner.send(None);
            }
        }
    }
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
            _ = polls.tick() => everyone = true,
        }
        // By the time and not by what woke us: where much is ready the bell always rings first.
        everyone |= core.rate_opens();
        let topics = changed.take();
        core.end_waits().await;
        let served = core.serve_of((!everyone).then_some(&topics)).await;
        everyone = served.is_err();
        if let Err(error) = served {
            tracing::debug!(%error, "those who wait could not be served; they go on waiting");
            tokio::time::sleep(AGAIN_AFTER).await;
        }
    }
}

/// Sees to the clock, bucket by bucket.
struct Timer {
    core: Arc<Core>,
    clock: Arc<RedisClock>,
    poll: Duration,
    /// When each bucket wants to be looked at, in microseconds of Redis's clock.
    next_us: Vec<u64>,
}

impl Timer {
    fn new(core: Arc<Core>, clock: Arc<RedisClock>, poll: Duration) -> Timer {
        let next_us = core.keys.buckets().map(|_| 0).collect();
        Timer { core, clock, poll, next_us }
    }

    async fn run(mut self, mut moments: mpsc::UnboundedReceiver<Option<Bucket>>) {
        loop {
            let now_us = self.clock.now().wall_us;
            let due = (0..self.next_us.len()).filter(|at| self.next_us[*at] <= now_us).collect();
            self.look_at(due).await;
            let next_us = self.next_us.iter().copied().min().unwrap_or(u64::MAX);
            let pause = next_us.saturating_sub(self.clock.now().wall_us);
            let pause = Duration::from_micros(pause).max(LOOK_GAP).min(self.poll.max(SECOND));
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                Some(moment) = moments.recv() => {
                    self.sooner(moment);
                    while let Ok(moment) = moments.try_recv() {
                        self.sooner(moment);
                    }
                }
            }
        }
    }

    fn sooner(&mut self, bucket: Option<Bucket>) {
        match bucket {
            Some(Bucket(at)) => self.next_us[usize::from(at)] = 0,
            None => self.next_us.fill(0),
        }
    }

    async fn look_at(&mut self, due: Vec<usize>) {
        for some in due.chunks(BUCKETS_AT_ONCE) {
            let mut looks = JoinSet::new();
            for at in some.iter().copied() {
                let core = self.core.clone();
                looks.spawn(async move { (at, core.see_to(Bucket(at as u16)).await) });
            }
            while let Some(looked) = looks.join_next().await {
                let Ok((at, looked)) = looked else { continue };
                self.next_us[at] = match looked {
                    Ok((wake, now)) => {
                        self.clock.set_by(now);
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
    let wall = wake.wall.map(|time| time.as_ms().saturating_mul(1000));
    let tick = wake.tick.map(|tick| tick.as_us());
    wall.into_iter().chain(tick).min().unwrap_or(u64::MAX)
}
