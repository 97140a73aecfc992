//! An empty store, its clock, and short words for what the cases do often.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::dice::Dice;
use crate::error::{Code, Result};
use crate::job::{Job, NewJob, Ttr};
use crate::machine::Stage;
use crate::queue::{
    Action, Added, Ask, Bulk, Change, Changed, Delivery, Filter, JobInfo, Key, Mode, Query, Queue,
    Settle, Source, Sweep, Terms, TopicChange, TopicInfo, Topics, Verdict,
};
use crate::stats::Stats;
use crate::store::Options;
use crate::testkit::SimClock;
use crate::time::{HOUR, Time, duration_ms};
use crate::topic::{Counts, Settings, Topic};

use super::Subject;

/// An empty store and the clock it goes by.
pub struct Trial<S: Subject> {
    /// The store.
    pub queue: Arc<S::Store>,
    /// The clock it goes by.
    pub clock: Arc<SimClock>,
    subject: S,
}

/// A name that a case writes down: it is right, or the case is wrong.
pub fn topic(name: &str) -> Topic {
    name.parse().expect("a case names topics rightly")
}

/// The key of a job by topic and id.
pub fn key(topic_name: &str, id: &str) -> Key {
    Key::Named(topic(topic_name), id.parse().expect("a case names ids rightly"))
}

/// An attempt that failed, with this error, and waits its next step.
pub fn failed(error: &str) -> Verdict {
    Verdict::Fail { error: error.into(), retry_in: None }
}

/// A release without delay or priority.
pub const RELEASE: Verdict = Verdict::Release { delay: Duration::ZERO, priority: None };

/// A touch by the lease's own length.
pub const TOUCH: Verdict = Verdict::Touch { ttr: None };

/// A time to run that a case writes down.
pub fn ttr(length: Duration) -> Ttr {
    Ttr::new(length).expect("a case writes times to run rightly")
}

/// One job of any of these topics, now or never.
pub fn over(names: &[&str]) -> Ask {
    let topics = names.iter().map(|name| topic(name)).collect();
    Ask { from: Source::These(topics), ..Ask::one(Topic::default()) }
}

/// The ids of jobs, in order.
pub fn ids(jobs: &[JobInfo]) -> Vec<&str> {
    jobs.iter().map(|job| job.spec.id.as_str()).collect()
}

/// The ids of deliveries, in order.
pub fn handed(deliveries: &[Delivery]) -> Vec<&str> {
    deliveries.iter().map(|delivery| delivery.id().as_str()).collect()
}

impl<S: Subject> Trial<S> {
    /// An empty store, opened with options that the case may change.
    pub async fn open(subject: S, change: impl FnOnce(&mut Options)) -> Trial<S> {
        let clock = SimClock::new();
        let mut options =
            Options { clock: clock.clone(), dice: Dice::seeded(1), ..Options::default() };
        options.tells_moves = true;
        change(&mut options);
        let queue = Arc::new(subject.open(options).await);
        Trial { queue, clock, subject }
    }

    /// Another empty store of the same kind, with options that the case may change.
    pub async fn another(&self, change: impl FnOnce(&mut Options)) -> Trial<S> {
        Trial::open(self.subject.clone(), change).await
    }

    /// What the wall clock shows.
    pub fn now(&self) -> Time {
        self.clock.time()
    }

    /// Lets time pass, and the store notice.
    pub async fn pass(&self, by: Duration) {
        self.clock.advance(by);
        self.settled().await;
    }

    /// Sets the wall clock, and lets the store notice.
    pub async fn jump_ms(&self, by_ms: i64) {
        self.clock.jump_ms(by_ms);
        self.settled().await;
    }

    /// Any call makes a store do what the clock has brought first.
    pub async fn settled(&self) {
        self.queue.stats().await.expect("stats are always there");
    }

    /// A job as the store takes it.
    pub fn checked(&self, job: Job) -> NewJob {
        job.check(self.now()).expect("a case writes jobs rightly")
    }

    /// Adds a job, or says why not.
    pub async fn try_add(&self, job: Job) -> Result<Added> {
        let new = job.check(self.now())?;
        self.queue.add_all(vec![new]).await?.pop().expect("one answer for one job")
    }

    /// Adds a job that must be taken.
    pub async fn add(&self, job: Job) -> JobInfo {
        self.try_add(job).await.expect("the job is taken").job
    }

    /// The job, with body and history, or why not.
    pub async fn try_get(&self, topic: &str, id: &str) -> Result<JobInfo> {
        self.queue.get(&key(topic, id)).await
    }

    /// The job, which must be there.
    pub async fn get(&self, topic: &str, id: &str) -> JobInfo {
        self.try_get(topic, id).await.expect("the job is there")
    }

    /// Where the job is; none if it is gone.
    pub async fn stage(&self, topic: &str, id: &str) -> Option<Stage> {
        match self.try_get(topic, id).await {
            Ok(job) => Some(job.stage),
            Err(gone) if gone.code() == Code::NotFound => None,
            Err(other) => panic!("get of {topic}/{id}: {other:?}"),
        }
    }

    /// One job, if one is ready.
    pub async fn pop(&self, name: &str) -> Option<Delivery> {
        self.pop_up_to(name, 1).await.pop()
    }

    /// One job, which must be ready.
    pub async fn popped(&self, name: &str) -> Delivery {
        self.pop(name).await.expect("a job is ready")
    }

    /// Up to so many jobs of a topic.
    pub async fn pop_up_to(&self, name: &str, max: u32) -> Vec<Delivery> {
        self.queue.pop(Ask { max, ..Ask::one(topic(name)) }).await.expect("a right ask")
    }

    /// Begins a pop that waits; it stands in line when this returns.
    pub fn begin(&self, ask: Ask) -> WaitingPop {
        let queue = self.queue.clone();
        let mut pop = WaitingPop { pop: Box::pin(async move { queue.pop(ask).await }) };
        assert!(pop.poll_once().is_none(), "the pop was to wait");
        pop
    }

    /// Begins a pop of one job of a topic that waits so long.
    pub fn begin_one(&self, name: &str, wait: Duration) -> WaitingPop {
        self.begin(Ask { wait, ..Ask::one(topic(name)) })
    }

    /// What a waiting pop has been answered so far; the store has noticed everything before.
    pub async fn answered(&self, pop: &mut WaitingPop) -> Option<Vec<Delivery>> {
        self.settled().await;
        pop.poll_once()
    }

    /// Settles a delivery by its lease.
    pub async fn settle(&self, delivery: &Delivery, verdict: Verdict) -> Result<Changed> {
        self.settle_by(Settle::delivery(delivery, verdict)).await
    }

    /// Settles a job by its id alone, whoever holds it.
    pub async fn settle_id(&self, topic: &str, id: &str, verdict: Verdict) -> Result<Changed> {
        self.settle_by(Settle::key(key(topic, id), verdict)).await
    }

    /// Settles as written.
    pub async fn settle_by(&self, settle: Settle) -> Result<Changed> {
        self.queue.settle(vec![settle]).await?.pop().expect("one answer for one settle")
    }

    /// Finishes a delivery, which must be allowed.
    pub async fn finish(&self, delivery: &Delivery) -> Changed {
        self.settle(delivery, Verdict::Finish).await.expect("the lease holds")
    }

    /// Fails a delivery with this error, which must be allowed.
    pub async fn fail(&self, delivery: &Delivery, error: &str) -> Changed {
        self.settle(delivery, failed(error)).await.expect("the lease holds")
    }

    /// Changes a job by hand.
    pub async fn change(&self, topic: &str, id: &str, action: Action) -> Result<Changed> {
        self.change_by(Change::new(key(topic, id), action)).await
    }

    /// Changes as written.
    pub async fn change_by(&self, change: Change) -> Result<Changed> {
        self.queue.change(vec![change]).await?.pop().expect("one answer for one change")
    }

    /// Does one thing to all jobs of a topic that fit, for real.
    pub async fn sweep(&self, name: &str, filter: Filter, bulk: Bulk) -> u64 {
        self.sweep_as(name, filter, bulk, Mode::Apply).await
    }

    /// Does one thing to all jobs of a topic that fit, for real or not.
    pub async fn sweep_as(&self, name: &str, filter: Filter, bulk: Bulk, mode: Mode) -> u64 {
        let sweep = Sweep { topic: topic(name), filter, bulk, limit: None, mode, by: None };
        self.queue.sweep(sweep).await.expect("a right sweep")
    }

    /// Configures a topic.
    pub async fn configure(&self, name: &str, change: TopicChange) -> Result<u64> {
        self.queue.configure(&topic(name), change).await
    }

    /// Gives a topic these settings.
    pub async fn set(&self, name: &str, settings: Settings) {
        self.configure(name, TopicChange::Set(Box::new(settings))).await.expect("right settings");
    }

    /// The topic, if it is there.
    pub async fn topic(&self, name: &str) -> Option<TopicInfo> {
        self.queue.topics(Topics::One(topic(name))).await.expect("a right question").pop()
    }

    /// The topic's counts; all zero if it is not there.
    pub async fn counts(&self, name: &str) -> Counts {
        self.topic(name).await.map(|info| info.counts).unwrap_or_default()
    }

    /// All jobs of a topic that fit, over as many pages as it takes.
    pub async fn browse(&self, query: Query) -> Vec<JobInfo> {
        let mut all = Vec::new();
        let mut query = query;
        loop {
            let page = self.queue.browse(query.clone()).await.expect("a right query");
            assert!(page.jobs.len() <= query.limit, "a page has at most `limit` jobs");
            all.extend(page.jobs);
            match page.cursor {
                Some(cursor) => {
                    assert_ne!(Some(&cursor), query.cursor.as_ref(), "each page goes on");
                    query.cursor = Some(cursor);
                }
                None => return all,
            }
        }
    }

    /// All jobs of a topic in one state, in its order.
    pub async fn in_stage(&self, name: &str, stage: Stage) -> Vec<JobInfo> {
        let filter = Filter { stage: Some(stage), ..Filter::default() };
        self.browse(Query { filter, ..Query::all(topic(name)) }).await
    }

    /// The moment this long from now.
    pub fn after(&self, by: Duration) -> Time {
        self.now().saturating_add_ms(duration_ms(by))
    }

    /// Adds a job with its stage as id, hands it out once and brings it into that stage; answers
    /// the lease it has or had.
    pub async fn bring(&self, name: &str, stage: Stage) -> Delivery {
        let id = stage.as_str();
        self.add(Job::new(name, "x").id(id).retain(HOUR)).await;
        let terms = Terms::default();
        let delivery = self.queue.reserve(&key(name, id), terms).await.expect("it is ready");
        let verdict = match stage {
            Stage::Reserved => return delivery,
            Stage::Delayed => Verdict::Release { delay: HOUR, priority: None },
            Stage::Retry => Verdict::Fail { error: "no".into(), retry_in: Some(HOUR) },
            Stage::Held | Stage::Ready => RELEASE,
            Stage::Dead => Verdict::Bury { error: Some("no".into()), priority: None },
            Stage::Finished => Verdict::Finish,
        };
        self.settle(&delivery, verdict).await.expect("the lease holds");
        if stage == Stage::Held {
            self.change(name, id, Action::Hold).await.expect("a ready job can be held");
        }
        assert_eq!(self.stage(name, id).await, Some(stage));
        delivery
    }

    /// Pops as written.
    pub async fn pop_by(&self, ask: Ask) -> Vec<Delivery> {
        self.queue.pop(ask).await.expect("a right ask")
    }

    /// Leases this very job, or says why not.
    pub async fn reserve(&self, topic: &str, id: &str) -> Result<Delivery> {
        self.queue.reserve(&key(topic, id), Terms::default()).await
    }

    /// Puts one job into each state, its id the state's name, and answers the reserved one.
    pub async fn one_in_each_stage(&self, name: &str) -> Delivery {
        let job = |stage: Stage| Job::new(name, "old").id(stage.as_str());
        self.add(job(Stage::Delayed).delay(HOUR)).await;
        self.add(job(Stage::Held).held()).await;
        self.add(job(Stage::Retry)).await;
        let verdict = Verdict::Fail { error: "no".into(), retry_in: Some(HOUR) };
        self.settle(&self.popped(name).await, verdict).await.expect("the lease holds");
        self.add(job(Stage::Dead)).await;
        let verdict = Verdict::Bury { error: None, priority: None };
        self.settle(&self.popped(name).await, verdict).await.expect("the lease holds");
        self.add(job(Stage::Finished).retain(HOUR)).await;
        self.finish(&self.popped(name).await).await;
        self.add(job(Stage::Reserved)).await;
        let reserved = self.popped(name).await;
        self.add(job(Stage::Ready)).await;
        for stage in Stage::ALL {
            assert_eq!(self.stage(name, stage.as_str()).await, Some(stage));
        }
        reserved
    }

    /// Adds jobs in one call, all of which must be taken.
    pub async fn add_many(&self, jobs: impl IntoIterator<Item = Job>) -> Vec<JobInfo> {
        let new = jobs.into_iter().map(|job| self.checked(job)).collect();
        let answers = self.queue.add_all(new).await.expect("the batch is taken");
        answers.into_iter().map(|added| added.expect("the job is taken").job).collect()
    }

    /// What the store has counted.
    pub async fn stats(&self) -> Stats {
        self.queue.stats().await.expect("stats are always there")
    }
}

/// A pop that waits. Drop it to hang up, await it to wait.
pub struct WaitingPop {
    pop: Pin<Box<dyn Future<Output = Result<Vec<Delivery>>> + Send>>,
}

impl WaitingPop {
    /// The answer, if it is there already.
    pub fn poll_once(&mut self) -> Option<Vec<Delivery>> {
        match self.pop.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(answer) => Some(answer.expect("a right ask")),
            Poll::Pending => None,
        }
    }
}

impl Future for WaitingPop {
    type Output = Vec<Delivery>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.pop.as_mut().poll(context).map(|answer| answer.expect("a right ask"))
    }
}
