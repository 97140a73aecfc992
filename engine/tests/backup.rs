//! A copy of the embedded store shows one moment, whatever happens while it is read.

use std::path::Path;
use std::sync::Arc;

use linger::dice::Dice;
use linger::error::Code;
use linger::job::{Body, Edit, Job, OnConflict, Patch, Ttr};
use linger::machine::Reach;
use linger::queue::{Action, Ask, Change, Key, Query, Queue, Settle, TopicChange, Verdict, Whole};
use linger::store::Options;
use linger::store::embedded::{Backup, Embedded, Settings};
use linger::testkit::SimClock;
use linger::time::{HOUR, MINUTE, SECOND};
use linger::topic::{Settings as TopicSettings, Topic};

const TOPICS: [&str; 4] = ["a", "b", "c", "d"];
/// Several pages of a copy.
const JOBS: u64 = 1500;

/// Chance that repeats (splitmix64).
struct Rng(u64);

impl Rng {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) % n
    }
}

fn open(folder: &Path, clock: &Arc<SimClock>) -> Embedded {
    let settings = Settings { segment_bytes: 1 << 20, ..Settings::default() };
    let options = Options { clock: clock.clone(), dice: Dice::secret(), ..Options::default() };
    Embedded::open(folder, options, settings).expect("the folder is a store")
}

fn topic(name: &str) -> Topic {
    name.parse().expect("a topic")
}

/// All jobs, by topic and id.
async fn dumped(store: &Embedded) -> Vec<Whole> {
    let mut all = Vec::new();
    for name in TOPICS {
        let mut query = Query { limit: 1000, ..Query::all(topic(name)) };
        loop {
            let page = store.dump(query.clone()).await.expect("a right query");
            all.extend(page.jobs);
            query.cursor = page.cursor;
            if query.cursor.is_none() {
                break;
            }
        }
    }
    sorted(all)
}

fn sorted(mut jobs: Vec<Whole>) -> Vec<Whole> {
    jobs.sort_by(|a, b| (&a.spec.topic, &a.spec.id).cmp(&(&b.spec.topic, &b.spec.id)));
    jobs
}

async fn rest(backup: &mut Backup) -> Vec<Whole> {
    let mut jobs = Vec::new();
    while let Some(job) = backup.next().await.expect("it is read") {
        jobs.push(job);
    }
    jobs
}

/// Does something or other to some job.
async fn stir(store: &Embedded, rng: &mut Rng) {
    let name = TOPICS[rng.below(4) as usize];
    let id = rng.below(JOBS + 200).to_string();
    let key = Key::Named(topic(name), id.parse().expect("an id"));
    let made = |action| Change::new(key.clone(), action);
    match rng.below(40) {
        0..8 => add(store, name, &id, rng).await,
        8..24 => {
            for job in store.pop(Ask::one(topic(name))).await.expect("a right pop") {
                let failed = Verdict::Fail { error: "no".into(), retry_in: Some(MINUTE) };
                let verdict = match rng.below(5) {
                    0 | 1 => Verdict::Finish,
                    2 => failed,
                    3 => Verdict::Bury { error: Some("broken".into()), priority: None },
                    _ => Verdict::Release { delay: SECOND, priority: Some(7) },
                };
                store.settle(vec![Settle::delivery(&job, verdict)]).await.expect("settled");
            }
        }
        24..26 => drop(store.pop(Ask::one(topic(name))).await.expect("a right pop")),
        26..31 => drop(store.change(vec![made(Action::Delete(Reach::Any))]).await.expect("done")),
        31..34 => {
            let patch = Patch {
                body: Some(Body::text("another body")),
                ttr: Edit::Set(Ttr::new(HOUR).expect("a ttr")),
                ..Patch::default()
            };
            drop(store.change(vec![made(Action::Update(patch))]).await.expect("done"));
        }
        34..36 => drop(store.change(vec![made(Action::Hold)]).await.expect("done")),
        36..39 => drop(store.change(vec![made(Action::Run)]).await.expect("done")),
        _ if rng.below(20) > 0 => {}
        _ => {
            let change = if rng.below(2) == 0 { TopicChange::Empty } else { TopicChange::Forget };
            let _ = store.configure(&topic(name), change).await;
        }
    }
}

async fn add(store: &Embedded, name: &str, id: &str, rng: &mut Rng) {
    let delay = [HOUR, std::time::Duration::ZERO][rng.below(2) as usize];
    let job = Job::new(name, format!("body of {id}")).id(id).delay(delay);
    let mut new = job.check(store.clock().now().time()).expect("a right job");
    new.on_conflict = [OnConflict::Keep, OnConflict::Replace][rng.below(2) as usize];
    store.add_all(vec![new]).await.expect("added").remove(0).expect("it is taken");
}

#[tokio::test]
async fn a_copy_shows_one_moment_whatever_happens_while_it_is_read() {
    for seed in 1..=6 {
        println!("seed {seed}");
        let mut rng = Rng(seed);
        let (folder, clock) = (tempfile::tempdir().unwrap(), SimClock::new());
        let store = open(folder.path(), &clock);
        for n in 0..JOBS {
            add(&store, TOPICS[rng.below(4) as usize], &n.to_string(), &mut rng).await;
        }
        for _ in 0..1000 {
            stir(&store, &mut rng).await;
        }
        let set = TopicSettings { retain: Some(HOUR), ..TopicSettings::default() };
        store.configure(&topic("a"), TopicChange::Set(Box::new(set.clone()))).await.unwrap();
        let before = dumped(&store).await;
        let mut backup = store.backup().await.expect("it begins");
        assert_eq!(backup.jobs(), before.len() as u64);
        store.configure(&topic("a"), TopicChange::Forget).await.unwrap();
        let mut copied = Vec::new();
        for _ in 0..3000 {
            stir(&store, &mut rng).await;
            if rng.below(4) == 0 {
                copied.extend(backup.next().await.expect("it is read"));
            }
        }
        copied.extend(rest(&mut backup).await);
        let copied = sorted(copied);
        for (copied, there) in copied.iter().zip(&before) {
            assert_eq!(copied, there, "seed {seed}");
        }
        assert_eq!(copied.len(), before.len(), "seed {seed}");
        assert_eq!(backup.topics()[0].settings, set);
        assert_ne!(dumped(&store).await, before, "nothing has changed meanwhile");
    }
}

#[tokio::test]
async fn there_is_one_copy_at_a_time_and_one_that_is_dropped_is_over() {
    let (folder, clock) = (tempfile::tempdir().unwrap(), SimClock::new());
    let (store, mut rng) = (open(folder.path(), &clock), Rng(1));
    add(&store, "a", "1", &mut rng).await;
    let mut first = store.backup().await.unwrap();
    let refused = store.backup().await.err().expect("there is one");
    assert_eq!(refused.code(), Code::Overloaded);
    drop(first.next().await.unwrap());
    drop(first);
    let mut second = store.backup().await.expect("the first is gone");
    assert_eq!(rest(&mut second).await.len(), 1);
    // One that was read to its end is not in the way of another, though it is held.
    let mut third = store.backup().await.expect("the second is over");
    assert_eq!(rest(&mut second).await.len(), 0);
    assert_eq!(rest(&mut third).await.len(), 1);
}
