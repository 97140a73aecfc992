//! What the embedded store promises beyond every store: it is there again when it is opened again.

use std::path::Path;
use std::sync::Arc;

use linger::dice::Dice;
use linger::error::Code;
use linger::job::Job;
use linger::machine::{Owner, Stage};
use linger::queue::{
    Ask, Expect, Filter, JobInfo, KvQuery, KvWrite, Query, Queue, Settle, Terms, TopicChange,
    Topics, Verdict,
};
use linger::store::Options;
use linger::store::embedded::files::Files;
use linger::store::embedded::{Durability, Embedded, Manual, Settings};
use linger::testkit::{SimClock, SimDisk};
use linger::time::{HOUR, MINUTE, SECOND};
use linger::topic::{Settings as TopicSettings, Topic};

fn open(folder: &Path, clock: &Arc<SimClock>) -> Embedded {
    let settings =
        Settings { segment_bytes: 1 << 20, checkpoint_records: 50, ..Settings::default() };
    let options = Options { clock: clock.clone(), dice: Dice::secret(), ..Options::default() };
    Embedded::open(folder, options, settings).expect("the folder is a store")
}

fn topic(name: &str) -> Topic {
    name.parse().expect("a topic")
}

async fn add(store: &Embedded, job: Job) {
    let new = job.check(store.clock().now().time()).expect("a right job");
    store.add_all(vec![new]).await.unwrap().pop().unwrap().expect("it is taken");
}

async fn all(store: &Embedded, name: &str) -> Vec<JobInfo> {
    let query = Query { limit: 1000, ..Query::all(topic(name)) };
    store.browse(query).await.expect("a right query").jobs
}

async fn full(store: &Embedded, name: &str) -> Vec<JobInfo> {
    let mut jobs = Vec::new();
    for job in all(store, name).await {
        let key = linger::queue::Key::Named(topic(name), job.spec.id.clone());
        jobs.push(store.get(&key).await.expect("it was listed"));
    }
    jobs
}

/// One job in every state, with some history.
async fn fill(store: &Embedded, clock: &SimClock) {
    let settings = TopicSettings { retain: Some(HOUR), ..TopicSettings::default() };
    store.configure(&topic("t"), TopicChange::Set(Box::new(settings))).await.unwrap();
    for id in ["finished", "dead", "retry", "released", "reserved"] {
        add(store, Job::new("t", format!("body of {id}")).id(id)).await;
        let popped = store.pop(Ask::one(topic("t"))).await.unwrap().remove(0);
        let verdict = match id {
            "finished" => Verdict::Finish,
            "dead" => Verdict::Bury { error: Some("broken".into()), priority: None },
            "retry" => Verdict::Fail { error: "not now".into(), retry_in: Some(MINUTE) },
            "released" => Verdict::Release { delay: HOUR, priority: Some(7) },
            _ => continue,
        };
        clock.advance(SECOND);
        store.settle(vec![Settle::delivery(&popped, verdict)]).await.unwrap().remove(0).unwrap();
    }
    add(store, Job::new("t", "held").id("held").held()).await;
    add(store, Job::new("t", "delayed").id("delayed").delay(HOUR).ttr(5 * SECOND)).await;
    add(store, Job::new("t", "ready").id("ready").priority(3)).await;
}

#[tokio::test]
async fn jobs_of_another_store_are_there_when_it_is_opened_again() {
    let (folder, clock) = (tempfile::tempdir().unwrap(), SimClock::new());
    let first = open(&folder.path().join("first"), &clock);
    fill(&first, &clock).await;
    let jobs = first.dump(Query::all(topic("t"))).await.unwrap().jobs;
    assert_eq!(jobs.len(), 8);
    let second = folder.path().join("second");
    let store = open(&second, &clock);
    let taken = store.restore(jobs.clone()).await.unwrap();
    assert!(taken.iter().all(|taken| matches!(taken, Ok(true))), "{taken:?}");
    drop(store);
    // From the log, and then from a checkpoint.
    for _ in 0..2 {
        let store = open(&second, &clock);
        assert_eq!(store.dump(Query::all(topic("t"))).await.unwrap().jobs, jobs);
        let taken = store.restore(jobs.clone()).await.unwrap();
        assert!(taken.iter().all(|taken| matches!(taken, Ok(false))), "{taken:?}");
        for n in 0..60 {
            add(&store, Job::new("other", "x").id(n.to_string())).await;
            store.configure(&topic("other"), TopicChange::Empty).await.unwrap();
        }
    }
}

#[tokio::test]
async fn what_the_disk_does_is_measured() {
    let (folder, clock) = (tempfile::tempdir().unwrap(), SimClock::new());
    let store = open(folder.path(), &clock);
    let before = store.measured().await.unwrap();
    assert_eq!((before.syncs.total(), before.appended_bytes, before.live_bytes), (0, 0, 0));
    for n in 0..200 {
        add(&store, Job::new("t", "x".repeat(1000)).id(n.to_string())).await;
    }
    let measured = store.measured().await.unwrap();
    // Each was added alone, and nobody was answered before a sync.
    assert_eq!(measured.syncs.total(), 200);
    assert_eq!((measured.batches.counts()[0], measured.batches.sum()), (200, 200));
    assert!(measured.appended_bytes > 200_000, "{measured:?}");
    assert_eq!(measured.live_bytes, measured.appended_bytes);
    assert_eq!(measured.log_bytes, 1 << 20);
    // So many records call for a checkpoint, when the house is looked over.
    let made = (0..100_000).find(|_| {
        clock.advance(SECOND);
        std::thread::yield_now();
        checkpoint_bytes(folder.path()) > 0
    });
    assert!(made.is_some(), "no checkpoint was made");
    drop(store);
    let again = open(folder.path(), &clock).measured().await.unwrap();
    assert_eq!(again.checkpoint_bytes, checkpoint_bytes(folder.path()));
    assert_eq!(again.live_bytes, measured.live_bytes);
}

/// Bytes of the checkpoints that are whole.
#[tokio::test]
async fn a_relaxed_store_syncs_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let settings = Settings { durability: Durability::Relaxed, ..Settings::default() };
    let store = Embedded::open(folder.path(), Options::default(), settings).unwrap();
    add(&store, Job::new("t", "body")).await;
    let synced = async {
        while store.measured().await.unwrap().syncs.total() == 0 {
            tokio::task::yield_now().await;
        }
    };
    // Only to fail rather than hang.
    tokio::time::timeout(MINUTE, synced).await.expect("it syncs");
}

fn checkpoint_bytes(folder: &Path) -> u64 {
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap());
    let name = |file: &std::fs::DirEntry| file.file_name().to_string_lossy().into_owned();
    let checkpoints =
        files.filter(|file| name(file).starts_with("checkpoint-") && !name(file).ends_with(".tmp"));
    checkpoints.filter_map(|file| Some(file.metadata().ok()?.len())).sum()
}

#[tokio::test]
async fn every_state_is_there_again_with_its_history() {
    let (folder, clock) = (tempfile::tempdir().unwrap(), SimClock::new());
    let store = open(folder.path(), &clock);
    fill(&store, &clock).await;
    let before = full(&store, "t").await;
    assert_eq!(before.len(), 8);
    let topics = store.topics(Topics::One(topic("t"))).await.unwrap();
    drop(store);
    for round in 0..3 {
        let store = open(folder.path(), &clock);
        assert_eq!(full(&store, "t").await, before, "round {round}");
        assert_eq!(store.topics(Topics::One(topic("t"))).await.unwrap(), topics);
        drop(store);
    }
}

#[tokio::test]
async fn a_checkpoint_and_the_log_after_it_make_the_whole() {
    let (folder, clock) = (tempfile::tempdir().unwrap(), SimClock::new());
    let mut store = open(folder.path(), &clock);
    for round in 0..6 {
        for n in 0..100 {
            let id = format!("{round}-{n}");
            add(&store, Job::new("t", format!("body {id}")).id(id).delay(HOUR)).await;
        }
        let filter = Filter { id_prefix: Some(format!("{round}-1").into()), ..Filter::default() };
        let sweep = linger::queue::Sweep {
            topic: topic("t"),
            filter,
            bulk: linger::queue::Bulk::Delete,
            limit: None,
            mode: linger::queue::Mode::Apply,
            by: None,
        };
        assert_eq!(store.sweep(sweep).await.unwrap(), 11);
        // Time for the keeper to look, and a chance to work.
        clock.advance(2 * SECOND);
        let before = full(&store, "t").await;
        assert_eq!(before.len(), (round + 1) * 89);
        drop(store);
        store = open(folder.path(), &clock);
        assert_eq!(full(&store, "t").await, before, "round {round}");
    }
    let names = std::fs::read_dir(folder.path()).unwrap();
    let names: Vec<_> = names.map(|one| one.unwrap().file_name().into_string().unwrap()).collect();
    assert!(names.iter().any(|name| name.starts_with("checkpoint-")), "{names:?}");
}

#[tokio::test]
async fn a_lease_outlives_the_process_unless_it_is_tied_to_a_connection() {
    let (folder, clock) = (tempfile::tempdir().unwrap(), SimClock::new());
    let store = open(folder.path(), &clock);
    add(&store, Job::new("t", "free").id("1")).await;
    add(&store, Job::new("t", "tied").id("2")).await;
    let free = store.pop(Ask::one(topic("t"))).await.unwrap().remove(0);
    let terms = Terms { ttr: None, owner: Some(Owner(7)), grace: None };
    let tied = store.pop(Ask { terms, ..Ask::one(topic("t")) }).await.unwrap().remove(0);
    drop(store);

    let store = open(folder.path(), &clock);
    let lost =
        store.settle(vec![Settle::delivery(&tied, Verdict::Finish)]).await.unwrap().remove(0);
    assert_eq!(lost.unwrap_err().code(), Code::LeaseLost);
    let again = store.pop(Ask::one(topic("t"))).await.unwrap().remove(0);
    assert_eq!((again.id().as_str(), again.job.attempt), ("2", 2));
    assert!(store.pop(Ask::one(topic("t"))).await.unwrap().is_empty(), "the other is held");
    let done =
        store.settle(vec![Settle::delivery(&free, Verdict::Finish)]).await.unwrap().remove(0);
    assert!(done.unwrap().changed);
}

#[tokio::test]
async fn a_lease_that_ran_out_meanwhile_is_over_and_a_clock_set_back_makes_none_longer() {
    let (folder, clock) = (tempfile::tempdir().unwrap(), SimClock::new());
    let store = open(folder.path(), &clock);
    add(&store, Job::new("t", "x").id("1")).await;
    add(&store, Job::new("t", "x").id("2").ttr(HOUR)).await;
    for _ in 0..2 {
        store.pop(Ask::one(topic("t"))).await.unwrap().remove(0);
    }
    drop(store);
    clock.advance(2 * MINUTE);
    clock.jump_ms(-10 * 60_000);
    let store = open(folder.path(), &clock);
    clock.advance(MINUTE);
    assert_eq!(store.pop(Ask::one(topic("t"))).await.unwrap().remove(0).id().as_str(), "1");
    clock.advance(HOUR - MINUTE);
    let both = store.pop(Ask { max: 2, ..Ask::one(topic("t")) }).await.unwrap();
    assert_eq!(both.iter().map(|one| one.id().as_str()).collect::<Vec<_>>(), ["1", "2"]);
}

#[tokio::test]
async fn keys_and_what_was_emptied_stay_as_they_were() {
    let (folder, clock) = (tempfile::tempdir().unwrap(), SimClock::new());
    let store = open(folder.path(), &clock);
    let put = |key: &str, ttl| KvWrite {
        key: key.into(),
        value: Some(key.to_owned().into()),
        expect: Expect::Any,
        ttl,
    };
    for (key, ttl) in [("a", None), ("b", Some(HOUR)), ("c", Some(SECOND)), ("d", None)] {
        store.kv_write(put(key, ttl)).await.unwrap();
    }
    let version = store.kv_write(KvWrite { value: None, ..put("d", None) }).await.unwrap();
    for n in 0..10 {
        add(&store, Job::new("t", "x").id(n.to_string())).await;
    }
    assert_eq!(store.configure(&topic("t"), TopicChange::Empty).await.unwrap(), 10);
    add(&store, Job::new("t", "new").id("3")).await;
    drop(store);

    clock.advance(MINUTE);
    let store = open(folder.path(), &clock);
    let query = KvQuery::Prefix { prefix: "".into(), after: None, limit: 10 };
    let keys = store.kv_read(query).await.unwrap();
    assert_eq!(keys.iter().map(|one| &*one.key).collect::<Vec<_>>(), ["a", "b"]);
    assert!(store.kv_write(put("d", None)).await.unwrap() > version, "versions are never reused");
    let jobs = full(&store, "t").await;
    assert_eq!(jobs.len(), 1);
    assert_eq!((jobs[0].stage, jobs[0].number), (Stage::Ready, 11));
}

#[tokio::test]
async fn a_second_process_is_kept_out_and_a_newer_format_is_refused() {
    let (folder, clock) = (tempfile::tempdir().unwrap(), SimClock::new());
    let store = open(folder.path(), &clock);
    let again = Embedded::open(folder.path(), Options::default(), Settings::default());
    assert_eq!(again.err().map(|refused| refused.code()), Some(Code::Unavailable));
    drop(store);
    let format = folder.path().join("FORMAT");
    let text = std::fs::read_to_string(&format).unwrap();
    std::fs::write(&format, text.replace("format 1", "format 2")).unwrap();
    let newer = Embedded::open(folder.path(), Options::default(), Settings::default());
    let refused = newer.err().expect("it is refused");
    assert!(refused.message().contains("use a newer version"), "{refused}");
}

/// A store that moves only when it is told, on a disk of its own.
struct Told {
    manual: Manual,
    clock: Arc<SimClock>,
}

impl Told {
    fn open(disk: &SimDisk, clock: &Arc<SimClock>) -> Told {
        let options = Options { clock: clock.clone(), dice: Dice::secret(), ..Options::default() };
        let settings = Settings { segment_bytes: 1 << 20, ..Settings::default() };
        let manual = Manual::open(Arc::new(disk.clone()), options, settings).expect("a store");
        Told { manual, clock: clock.clone() }
    }

    fn settle_down(&mut self) {
        while self.manual.decide() | self.manual.sync() | self.manual.keep() {}
    }

    fn call<T>(&mut self, call: impl AsyncFnOnce(&Embedded) -> T) -> T {
        // Borrowed apart from the parts that are moved meanwhile.
        let store = self.manual.handle();
        let mut call = std::pin::pin!(call(&store));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        loop {
            if let std::task::Poll::Ready(answer) = call.as_mut().poll(&mut context) {
                return answer;
            }
            self.settle_down();
        }
    }

    /// Lets the keeper look over the house as often as it takes until it has nothing left to do.
    fn tidy_up(&mut self) {
        for _ in 0..20 {
            self.clock.advance(2 * SECOND);
            self.settle_down();
        }
    }
}

fn names(disk: &SimDisk, beginning: &str) -> Vec<String> {
    let mut names = disk.list().unwrap();
    names.retain(|name| name.starts_with(beginning) && !name.ends_with(".tmp"));
    names.sort();
    names
}

fn many(range: std::ops::Range<u32>) -> Vec<linger::job::NewJob> {
    let now = linger::time::Time::from_ms(linger::testkit::START_MS).unwrap();
    let body = "x".repeat(200);
    let job = |n: u32| Job::new("t", body.clone()).id(n.to_string()).delay(24 * HOUR);
    range.map(|n| job(n).check(now).expect("a right job")).collect()
}

#[test]
fn chunks_that_have_not_changed_are_named_and_not_copied() {
    let (disk, clock) = (SimDisk::new(), SimClock::new());
    let mut store = Told::open(&disk, &clock);
    store.call(async |store| store.add_all(many(0..20_000)).await).unwrap();
    store.tidy_up();
    let first = names(&disk, "checkpoint-");
    assert_eq!(first.len(), 1, "{first:?}");
    let size = |name: &str| disk.open(name).unwrap().size().unwrap();
    // Enough for another checkpoint, and all of it in the last chunks.
    for n in 0..20 {
        let range = 20_000 + n * 1000..21_000 + n * 1000;
        store.call(async |store| store.add_all(many(range)).await).unwrap();
    }
    store.tidy_up();
    let then = names(&disk, "checkpoint-");
    assert!(then.len() == 2 && then[0] == first[0], "the first is named: {then:?}");
    assert!(size(&then[1]) < size(&then[0]) * 3 / 2, "half of the jobs are only named");
    drop(store);

    let mut store = Told::open(&disk, &clock);
    let topics = store.call(async |store| store.topics(Topics::One(topic("t"))).await).unwrap();
    assert_eq!(topics[0].counts.delayed, 40_000);
    let key = linger::queue::Key::Named(topic("t"), "17".parse().unwrap());
    let job = store.call(async |store| store.get(&key).await).unwrap();
    assert_eq!(job.body.unwrap().as_bytes().len(), 200);
    // What it names is kept until there is a newer one.
    store.tidy_up();
    assert_eq!(names(&disk, "checkpoint-").len(), 2);
}
