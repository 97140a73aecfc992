//! Jobs whose life is over, on their way to an archive.

use std::num::NonZeroU32;
use std::time::Duration;

use super::trial::{failed, topic};
use super::{Subject, Trial, suite};
use crate::history::{Report, What};
use crate::job::Job;
use crate::machine::Reach;
use crate::queue::{Action, Bulk, End, Ended, Filter, Queue, Settle, TopicChange, Verdict};
use crate::retry::Retry;
use crate::schedule::Repeat;
use crate::time::{HOUR, SECOND};
use crate::topic::{Archive, Settings};

suite! {
    async fn what_ends_in_a_topic_with_an_archive_is_handed_to_it_once(t) {
        t.set("orders", archived()).await;
        for id in ["finished", "deleted", "dead"] {
            t.add(Job::new("orders", id).id(id).retry(Retry::none())).await;
        }
        let finished = t.popped("orders").await;
        t.finish(&finished).await;
        t.change("orders", "deleted", Action::Delete(Reach::Any)).await.unwrap();
        let dead = t.popped("orders").await;
        t.fail(&dead, "no").await;
        let ended = take(&t, 3).await;
        let told: Vec<_> = ended.iter().map(|one| (one.job.spec.id.as_str(), one.how)).collect();
        assert_eq!(told, [("finished", End::Finished), ("deleted", End::Deleted), ("dead", End::Dead)]);
        for one in &ended {
            assert_eq!(one.job.body.as_ref().unwrap().as_bytes(), one.job.spec.id.as_str().as_bytes());
            assert_eq!((one.at, &one.archive), (t.now(), &Archive::Files));
        }
        assert_eq!(ended[2].job.history.last().unwrap().what, What::Died);
        t.change("orders", "dead", Action::Delete(Reach::Any)).await.unwrap();
        nothing_left(&t).await;
    }

    async fn a_kept_job_is_archived_when_it_ends_and_not_when_it_lapses(t) {
        let archive = "sink:events".parse().ok();
        t.set("orders", Settings { archive, retain: Some(SECOND), ..Settings::default() }).await;
        t.add(Job::new("orders", "x").id("1")).await;
        let held = t.popped("orders").await;
        let report = Some(Report { status: Some(200), excerpt: Some("thanks".into()) });
        let finish = Settle { report: report.clone(), by: "ops".parse().ok(), ..Settle::delivery(&held, Verdict::Finish) };
        t.settle_by(finish).await.unwrap();
        let ended = take(&t, 1).await.remove(0);
        assert_eq!((ended.how, &ended.report), (End::Finished, &report));
        assert_eq!(ended.by, "ops".parse().ok());
        assert_eq!(ended.archive, Archive::Target("sink:events".parse().unwrap()));
        t.finish(&held).await;
        t.pass(2 * SECOND).await;
        assert_eq!(t.stage("orders", "1").await, None);
        nothing_left(&t).await;
    }

    async fn a_repeating_job_is_archived_at_its_end(t) {
        t.set("orders", archived()).await;
        let twice = Repeat::every(SECOND).unwrap().count(NonZeroU32::new(2).unwrap());
        t.add(Job::new("orders", "x").id("1").repeat(twice)).await;
        for _ in 0..2 {
            t.pass(SECOND).await;
            let held = t.popped("orders").await;
            t.finish(&held).await;
        }
        assert_eq!(take(&t, 1).await[0].job.occurrence, 1);
        nothing_left(&t).await;
    }

    async fn bulk_deletes_are_archived_and_emptied_topics_are_not(t) {
        t.set("orders", archived()).await;
        t.add_many(["1", "2", "3"].map(|id| Job::new("orders", "x").id(id).delay(HOUR))).await;
        let those = Filter { id_prefix: Some("1".into()), ..Filter::default() };
        t.sweep("orders", those, Bulk::Delete).await;
        t.configure("orders", TopicChange::Empty).await.unwrap();
        let ended = take(&t, 1).await;
        assert_eq!((ended.len(), ended[0].job.spec.id.as_str()), (1, "1"));
        nothing_left(&t).await;
    }

    async fn without_an_archive_nothing_is_handed_to_one(t) {
        t.add(Job::new("orders", "x").id("1")).await;
        let held = t.popped("orders").await;
        t.settle(&held, failed("no")).await.unwrap();
        t.change("orders", "1", Action::Delete(Reach::Any)).await.unwrap();
        nothing_left(&t).await;
    }
}

fn archived() -> Settings {
    Settings { archive: Some(Archive::Files), ..Settings::default() }
}

/// Takes so many, however many calls that needs.
async fn take<S: Subject>(t: &Trial<S>, count: usize) -> Vec<Ended> {
    let mut ended = Vec::new();
    while ended.len() < count {
        ended.extend(t.queue.ended(10).await.unwrap());
    }
    ended
}

/// The next to end is the first that is handed out: nothing else waits.
async fn nothing_left<S: Subject>(t: &Trial<S>) {
    t.configure("last", TopicChange::Set(Box::new(archived()))).await.unwrap();
    t.add(Job::new("last", "x").id("last").delay(Duration::from_secs(60))).await;
    t.change("last", "last", Action::Delete(Reach::Any)).await.unwrap();
    let ended = t.queue.ended(10).await.unwrap();
    let topics: Vec<_> = ended.iter().map(|one| one.job.spec.topic.clone()).collect();
    assert_eq!(topics, [topic("last")]);
}
