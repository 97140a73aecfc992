//! Jobs that a worker wants together with others.

use linger::machine::Stage;
use linger::queue::Lane;
use linger::time::SECOND;
use linger::worker::{Limits, Runner, Tell, Totals, Worker};
use linger::{Delivery, Job, Outcome};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::bench::{Bench, soon};
use crate::spy::Spy;

const TOGETHER: &str = "http://together";

/// Takes what goes there together, and does with each job what its id says. The others are done one by one.
struct Gathering {
    groups: UnboundedSender<Vec<String>>,
}

impl Gathering {
    fn new() -> (Gathering, UnboundedReceiver<Vec<String>>) {
        let (groups, seen) = unbounded_channel();
        (Gathering { groups }, seen)
    }
}

impl Worker for Gathering {
    async fn work(&self, job: Delivery) -> Outcome {
        match self.gathers(&job) {
            true => Outcome::dead("it was to come with the others"),
            false => Outcome::done(),
        }
    }

    fn gathers(&self, job: &Delivery) -> bool {
        assert_ne!(job.id().as_str(), "nobody knows");
        job.target.as_ref().is_some_and(|target| target.as_str() == TOGETHER)
    }

    async fn work_all(&self, jobs: Vec<Delivery>, tell: &mut Tell<'_>) {
        let ids = jobs.iter().map(|job| job.id().as_str().to_owned());
        self.groups.send(ids.collect()).unwrap();
        for (at, job) in jobs.iter().enumerate() {
            match job.id().as_str().trim_end_matches(|c: char| c.is_ascii_digit()) {
                "done" => tell(at, Outcome::done()),
                "failed" => tell(at, Outcome::failed("no")),
                "forgotten" => {}
                "hangs" => std::future::pending().await,
                other => panic!("{other}"),
            }
        }
    }
}

/// Has all of these pushed, which are there before it begins.
async fn pushing(
    bench: &Bench,
    jobs: impl IntoIterator<Item = Job>,
    worker: Gathering,
) -> Runner<Spy> {
    for job in jobs {
        bench.add_job(job).await;
    }
    let runner = Runner::new(bench.store.clone(), Lane::Push);
    runner.worker_for_all(worker).concurrency(256).start().unwrap();
    runner
}

fn together(id: &str) -> Job {
    Job::new("t", "").id(id).target(TOGETHER).ttr(10 * SECOND)
}

/// What came of so many.
async fn totals(runner: &Runner<Spy>, many: u64) -> Totals {
    soon(async {
        let mut look = tokio::time::interval(std::time::Duration::from_millis(1));
        loop {
            let totals = runner.totals();
            if totals.done + totals.failed >= many {
                return totals;
            }
            look.tick().await;
        }
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn those_of_one_topic_target_and_time_are_worked_on_together() {
    let bench = Bench::new();
    let (worker, mut groups) = Gathering::new();
    let other_topic = Job::new("u", "").id("done4").target(TOGETHER).ttr(10 * SECOND);
    let alone = Job::new("t", "").id("done5").target("http://alone");
    let jobs = [
        together("done1"),
        together("done2"),
        together("done3").ttr(5 * SECOND),
        other_topic,
        alone,
        together("done6"),
    ];
    let runner = pushing(&bench, jobs, worker).await;
    assert_eq!(totals(&runner, 6).await.done, 6);
    let mut seen = Vec::new();
    while let Ok(group) = groups.try_recv() {
        seen.push(group.join(" "));
    }
    seen.sort();
    assert_eq!(seen, ["done1 done2 done6", "done3", "done4"]);
}

#[tokio::test(start_paused = true)]
async fn half_of_what_a_destination_takes_goes_together_so_that_others_can_be_taken_meanwhile() {
    let bench = Bench::new();
    let (worker, mut groups) = Gathering::new();
    let runner = Runner::new(bench.store.clone(), Lane::Push);
    runner.set_limits(Limits { per_destination: 4, ..Limits::default() }).unwrap();
    for n in 0..4 {
        bench.add_job(together(&format!("done{n}"))).await;
    }
    runner.worker_for_all(worker).concurrency(256).start().unwrap();
    assert_eq!(totals(&runner, 4).await.done, 4);
    assert_eq!(groups.recv().await.unwrap(), ["done0", "done1"]);
    assert_eq!(groups.recv().await.unwrap(), ["done2", "done3"]);
}

#[tokio::test(start_paused = true)]
async fn each_has_an_outcome_of_its_own() {
    let bench = Bench::new();
    let (worker, _groups) = Gathering::new();
    let runner = pushing(&bench, ["done", "failed", "forgotten"].map(together), worker).await;
    let totals = totals(&runner, 3).await;
    assert_eq!((totals.done, totals.failed), (1, 2));
    let error = |id: &'static str| async { bench.job("t", id).await.last_error };
    assert_eq!(error("failed").await.as_deref(), Some("no"));
    assert_eq!(error("forgotten").await.as_deref(), Some("its worker said nothing of it"));
}

#[tokio::test(start_paused = true)]
async fn what_is_known_counts_at_once_though_others_take_too_long() {
    let bench = Bench::new();
    let (worker, _groups) = Gathering::new();
    let begun = tokio::time::Instant::now();
    let runner = pushing(&bench, ["done", "hangs"].map(together), worker).await;
    assert_eq!(totals(&runner, 1).await.done, 1);
    assert_eq!(begun.elapsed().as_secs(), 0);
    assert_eq!(totals(&runner, 2).await.failed, 1);
    assert_eq!(begun.elapsed().as_secs(), 10);
    let job = bench.job("t", "hangs").await;
    assert_eq!(job.last_error.as_deref(), Some("took longer than 10s"));
}

#[tokio::test(start_paused = true)]
async fn a_panic_fails_those_of_which_nothing_is_known_yet() {
    let bench = Bench::new();
    let (worker, _groups) = Gathering::new();
    let runner = pushing(&bench, ["done", "fuss", "failed"].map(together), worker).await;
    let totals = totals(&runner, 3).await;
    assert_eq!((totals.done, totals.failed), (1, 2));
    for id in ["fuss", "failed"] {
        let job = bench.job("t", id).await;
        assert_eq!(job.last_error.as_deref(), Some("handler panicked: fuss"));
    }
}

#[tokio::test(start_paused = true)]
async fn those_that_are_cut_off_are_given_back_and_what_is_known_is_told() {
    let bench = Bench::new();
    let (worker, mut groups) = Gathering::new();
    let jobs = ["done", "hangs1", "hangs2"].map(together);
    let runner = pushing(&bench, jobs, worker).await;
    assert_eq!(soon(groups.recv()).await.unwrap().len(), 3);
    let drained = soon(runner.stop()).await;
    assert_eq!((drained.released, runner.totals().done), (2, 1));
    for id in ["hangs1", "hangs2"] {
        let job = bench.job("t", id).await;
        assert_eq!((job.stage, job.attempt), (Stage::Ready, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_panics_when_it_is_asked_gets_the_job_by_itself() {
    let bench = Bench::new();
    let (worker, _groups) = Gathering::new();
    let runner = pushing(&bench, ["nobody knows", "done"].map(together), worker).await;
    let totals = totals(&runner, 2).await;
    assert_eq!((totals.done, totals.failed), (1, 1));
}
