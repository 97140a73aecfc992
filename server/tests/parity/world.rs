//! The world of a story: a store of its own, one who speaks to it, and the hand of an operator.

use std::collections::HashMap;
use std::fmt::Debug;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use linger::Linger;
use linger::queue::Queue;
use linger::store::embedded::{Embedded, Settings};
use linger_server::config::Config;
use linger_server::serve::{self, Running};
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::fronts::http::Http;
use crate::fronts::library::Library;
use crate::fronts::{Addresses, Front, House, call};
use crate::speaker::{Add, Job, No, Popped, Speaker, Told, cannot};
use crate::state::{self, State};

/// So long is waited for what must come: only to fail rather than hang.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks at what must come about.
const MOMENT: Duration = Duration::from_millis(10);
/// The largest body, in bytes.
pub(crate) const BODY_BYTES_MAX: usize = 1000;

/// A story's world.
pub(crate) struct World {
    pub(crate) front: &'static Front,
    /// Who tells the story.
    pub(crate) speaker: Box<dyn Speaker>,
    /// Who does what few front ends can, so that all can tell what follows: over HTTP, or by the
    /// library where there is no server.
    pub(crate) hand: Box<dyn Speaker>,
    /// What stories call the jobs, by their id.
    names: HashMap<String, String>,
    /// Those without a delay, which a protocol may have ready a bit later.
    fresh: Vec<Job>,
    queue: Option<Linger<Embedded>>,
    running: Option<Running>,
    runtime: Arc<Runtime>,
    folder: tempfile::TempDir,
}

impl World {
    pub(crate) fn new(front: &'static Front) -> World {
        let folder = tempfile::tempdir().expect("a folder");
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = Arc::new(runtime.worker_threads(2).enable_all().build().expect("threads"));
        let (running, queue, speaker, hand): (_, _, Box<dyn Speaker>, Box<dyn Speaker>) =
            match front.house {
                House::Server { set, speak } => {
                    let running = served(&runtime, folder.path(), set);
                    let http = running.address();
                    let beanstalkd = running.beanstalkd_address().expect("it was asked for");
                    let speaker = speak(&Addresses { http, beanstalkd });
                    (Some(running), None, speaker, Box::new(Http { address: http }))
                }
                House::Library => {
                    // Small ones are read back sooner.
                    let settings = Settings { segment_bytes: 1 << 20, ..Settings::default() };
                    let queue = Linger::builder(folder.path().join("data")).settings(settings);
                    let queue = queue.open().expect("a store").body_bytes_max(BODY_BYTES_MAX);
                    let speaks = || Box::new(Library::new(runtime.clone(), queue.clone()));
                    (None, Some(queue.clone()), speaks(), speaks())
                }
            };
        let (names, fresh) = (HashMap::new(), Vec::new());
        World { front, speaker, hand, names, fresh, queue, running, runtime, folder }
    }

    /// Ends the story here for a front end that lacks a fine point.
    pub(crate) fn needs(&self, what: &'static str) -> Told<()> {
        if self.front.lacks(what) { cannot(what) } else { Ok(()) }
    }

    /// Adds a job.
    pub(crate) fn add(&mut self, add: &Add) -> Told<Job> {
        let job = self.speaker.add(add)?;
        Ok(self.named(add, job))
    }

    /// Adds a job by hand.
    pub(crate) fn add_by_hand(&mut self, add: &Add) -> Told<Job> {
        let job = self.hand.add(add)?;
        Ok(self.named(add, job))
    }

    fn named(&mut self, add: &Add, job: Job) -> Job {
        self.names.insert(job.id.clone(), add.name.clone());
        if add.delay.is_zero() && !add.held {
            self.fresh.push(job.clone());
        }
        job
    }

    /// Waits until no job is delayed that was added without a delay.
    fn freshen(&mut self) -> Told<()> {
        for job in std::mem::take(&mut self.fresh) {
            let Some(job) = self.found(&job) else { continue };
            match self.until_state(&job, |state| state != "delayed") {
                // It is gone already.
                Err(No::Refused(_)) => {}
                told => told?,
            }
        }
        Ok(())
    }

    /// Pops this job, waiting for it.
    pub(crate) fn pops(&mut self, topic: &str, body: &str) -> Told<Popped> {
        self.freshen()?;
        let popped = self.speaker.pop(topic, PATIENCE)?.expect("there is a job");
        assert_eq!(popped.body, body);
        Ok(popped)
    }

    /// Finds that nothing can be popped now.
    pub(crate) fn pops_nothing(&mut self, topic: &str) -> Told<()> {
        self.freshen()?;
        let popped = self.speaker.pop(topic, Duration::ZERO)?;
        assert!(popped.is_none(), "{popped:?}");
        Ok(())
    }

    /// Waits until a job is in this state.
    pub(crate) fn until(&mut self, job: &Job, state: &str) -> Told<()> {
        let job = self.by_hand(job);
        self.until_state(&job, |seen| seen == state)
    }

    fn until_state(&mut self, job: &Job, is_it: impl Fn(&str) -> bool) -> Told<()> {
        let since = Instant::now();
        loop {
            let state = self.hand.look(job)?.state.expect("the hand sees states");
            if is_it(&state) {
                return Ok(());
            }
            assert!(since.elapsed() < PATIENCE, "{job:?} stays {state}");
            self.hand.pop("nobody", MOMENT)?;
        }
    }

    /// A job as the hand knows it.
    pub(crate) fn by_hand(&self, job: &Job) -> Job {
        self.found(job).unwrap_or_else(|| panic!("{job:?} is not there"))
    }

    fn found(&self, job: &Job) -> Option<Job> {
        // The library is its own hand.
        let Some(address) = self.address() else { return Some(job.clone()) };
        let (_, page) = call(address, "GET", &format!("/v1/topics/{}/jobs", job.topic), "");
        let is_it = |found: &&Value| {
            found["id"] == job.id || job.number.is_some_and(|number| found["number"] == number)
        };
        let found = page["jobs"].as_array().expect("jobs").iter().find(is_it)?;
        let id = found["id"].as_str().expect("an id").to_owned();
        Some(Job { topic: job.topic.clone(), id, number: found["number"].as_u64() })
    }

    fn address(&self) -> Option<SocketAddr> {
        self.running.as_ref().map(Running::address)
    }

    /// Ends it, and answers what is in the store.
    pub(crate) fn end(mut self) -> State {
        self.freshen().expect("the hand can look");
        let World { speaker, hand, names, queue, running, runtime, folder, .. } = self;
        let (running, counted, speakers) = match (running, queue) {
            (Some(running), _) => {
                let counted = state::counted_by(running.address());
                (running, counted, Some((speaker, hand)))
            }
            // It has no eye of its own: a server looks at what it leaves.
            (None, queue) => {
                let queue = queue.expect("a world has a server or a queue");
                let stats = runtime.block_on(queue.store().stats()).expect("it counts");
                drop((speaker, hand, queue));
                (served(&runtime, folder.path(), |_| {}), state::counted(&stats), None)
            }
        };
        let state = state::look(running.address(), &names, counted);
        // Not before: what they hold would be let go. A stop would wait for them.
        drop(speakers);
        runtime.block_on(running.stop()).expect("it stops in good order");
        state
    }
}

fn served(runtime: &Runtime, folder: &Path, set: fn(&mut Config)) -> Running {
    let mut config = Config::defaults();
    // Nobody pushes: stories end where their tellers leave them.
    config.role.worker = false;
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    (config.listen, config.beanstalkd) = (any, Some(any));
    config.store = folder.join("data").into();
    config.limits.body_bytes = BODY_BYTES_MAX;
    config.limits.beanstalkd_body_bytes = BODY_BYTES_MAX;
    set(&mut config);
    runtime.block_on(async {
        let mut running = serve::start(config).await.expect("it starts");
        running.ready().await.expect("it is ready");
        running
    })
}

/// Asserts that something was refused.
#[track_caller]
pub(crate) fn is_refused<T: Debug>(told: Told<T>) -> Told<()> {
    match told {
        Ok(done) => panic!("it was not refused: {done:?}"),
        Err(No::Refused(_)) => Ok(()),
        Err(no) => Err(no),
    }
}
