//! What a call costs must not grow with what else is there.

use std::time::{Duration, Instant};

use linger::Job;
use linger::job::NewJob;
use linger::machine::Reach;
use linger::queue::{
    Action, Ask, Bulk, Change, Filter, Key, Mode, Queue, Settle, Source, Sweep, Verdict,
};
use linger::store::memory::Memory;
use linger::time::Time;
use linger::topic::Topic;

const FEW: u64 = 100;
const MANY: u64 = 10_000;
/// Trees deepen and caches overflow; what grows with the number grows by 100.
const GROWTH_MAX: u32 = 15;
/// The quickest of so many tries counts: whatever else the machine does only adds.
const TRIES: u64 = 20;

fn topic(n: u64) -> Topic {
    format!("topic {n}").parse().expect("a test names topics rightly")
}

fn job(topic: u64, id: &str) -> NewJob {
    let job = Job::new(format!("topic {topic}"), "x").id(id);
    job.check(Time::MIN).expect("a test writes jobs rightly")
}

/// Fails if `call` costs more with many of what `jobs` makes than with few.
async fn stays_flat(jobs: impl Fn(u64) -> NewJob, call: impl AsyncFn(&Memory, u64)) {
    let mut costs = [FEW, MANY].map(|n| (n, Duration::MAX));
    for (n, least) in &mut costs {
        let store = Memory::default();
        store.add_all((0..*n).map(&jobs).collect()).await.unwrap();
        for n in *n..*n + TRIES {
            let start = Instant::now();
            call(&store, n).await;
            *least = start.elapsed().min(*least);
        }
    }
    let [(_, few), (_, many)] = costs;
    assert!(many < few * GROWTH_MAX, "{few:?} with {FEW}, {many:?} with {MANY}");
}

#[tokio::test]
async fn one_id_may_stand_in_any_number_of_topics() {
    let add_and_cancel = async |store: &Memory, n| {
        store.add_all(vec![job(n, "1")]).await.unwrap().remove(0).unwrap();
        let key = Key::Named(topic(n), "1".parse().unwrap());
        let cancel = Change::new(key, Action::Delete(Reach::Any));
        store.change(vec![cancel]).await.unwrap().remove(0).unwrap();
    };
    stays_flat(|n| job(n, "1"), add_and_cancel).await;
}

#[tokio::test]
async fn a_pop_from_every_topic_does_not_look_at_them_all() {
    let pop_and_finish = async |store: &Memory, _| {
        let ask = Ask { from: Source::Any, ..Ask::one(Topic::default()) };
        let delivery = store.pop(ask).await.unwrap().remove(0);
        let finish = Settle::delivery(&delivery, Verdict::Finish);
        store.settle(vec![finish]).await.unwrap().remove(0).unwrap();
    };
    stays_flat(|n| job(n, &n.to_string()), pop_and_finish).await;
}

#[tokio::test]
async fn a_sweep_with_a_limit_goes_no_further() {
    let cancel_one = async |store: &Memory, _| {
        let sweep = Sweep {
            topic: topic(0),
            filter: Filter::default(),
            bulk: Bulk::Delete,
            limit: Some(1),
            mode: Mode::Apply,
            by: None,
        };
        assert_eq!(store.sweep(sweep).await, Ok(1));
    };
    stays_flat(|n| job(0, &n.to_string()), cancel_one).await;
}
