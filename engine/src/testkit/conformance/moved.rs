//! Moves of which nobody is told one by one.

use super::trial::{failed, topic};
use super::{Subject, Trial, suite};
use crate::history::What;
use crate::job::Job;
use crate::machine::{CONNECTION_LOST, Owner, Stage, TTR_RAN_OUT};
use crate::queue::{Ask, Bulk, Filter, LetGo, Moved, Queue, Settle, Terms, Verdict};
use crate::retry::Retry;
use crate::time::SECOND;

suite! {
    async fn a_lease_that_runs_out_is_told_and_a_death_by_it(t) {
        t.add(Job::new("mail", "x").id("1").ttr(SECOND).retry(Retry::default().attempts(2))).await;
        for attempt in 1..=2 {
            let held = t.popped("mail").await;
            t.pass(SECOND).await;
            let told = take(&t, 1).await.remove(0);
            assert_eq!((told.topic.as_str(), told.id.as_str()), ("mail", "1"));
            assert_eq!((told.what, told.at), (Some(What::TimedOut), t.now()));
            assert_eq!((told.was.number, told.was.attempt), (held.job.number, attempt));
            assert_eq!((told.was.took_ms, told.was.died), (Some(1000), attempt == 2));
            assert_eq!(told.error.as_deref(), Some(TTR_RAN_OUT));
        }
        nothing_left(&t).await;
    }

    async fn what_is_let_go_with_its_connection_is_told(t) {
        t.add_many(["1", "2"].map(|id| Job::new("mail", "x").id(id))).await;
        let ours = |owner| Terms { owner: Some(Owner(owner)), ..Terms::default() };
        for owner in 1..=2 {
            let ask = Ask { terms: ours(owner), ..Ask::one(topic("mail")) };
            assert_eq!(t.queue.pop(ask).await.unwrap().len(), 1);
        }
        t.queue.let_go(Owner(1), LetGo::Lost).await.unwrap();
        t.queue.let_go(Owner(2), LetGo::Released).await.unwrap();
        let told = take(&t, 2).await;
        let what: Vec<_> = told.iter().map(|one| (one.id.as_str(), one.what)).collect();
        assert_eq!(what, [("1", Some(What::Lost)), ("2", Some(What::Released))]);
        assert_eq!(told[0].error.as_deref(), Some(CONNECTION_LOST));
        assert_eq!(told[1].error, None);
        nothing_left(&t).await;
    }

    async fn each_job_of_a_sweep_is_told(t) {
        t.add_many(["1", "2"].map(|id| Job::new("mail", "x").id(id).delay(SECOND))).await;
        for (bulk, what) in [
            (Bulk::Hold, Some(What::Held)),
            (Bulk::Unhold, Some(What::Unheld)),
            (Bulk::Run, Some(What::Run)),
            (Bulk::Delete, None),
        ] {
            t.sweep("mail", Filter::default(), bulk).await;
            let mut told: Vec<_> =
                take(&t, 2).await.into_iter().map(|one| (one.id.to_string(), one.what)).collect();
            told.sort_by(|a, b| a.0.cmp(&b.0));
            assert_eq!(told, [("1".to_owned(), what), ("2".to_owned(), what)]);
        }
        nothing_left(&t).await;
    }

    async fn who_is_answered_is_not_told_again(t) {
        t.add(Job::new("mail", "x").id("1")).await;
        let held = t.popped("mail").await;
        t.settle(&held, failed("no")).await.unwrap();
        t.change("mail", "1", crate::queue::Action::Run).await.unwrap();
        let held = t.popped("mail").await;
        t.finish(&held).await;
        nothing_left(&t).await;
    }

    async fn an_answer_says_what_the_job_was(t) {
        t.add(Job::new("mail", "x").id("1").retry(Retry::default().attempts(2))).await;
        let held = t.popped("mail").await;
        t.pass(SECOND).await;
        let was = t.fail(&held, "no").await.was.unwrap();
        assert_eq!((was.number, was.attempt), (held.job.number, 1));
        assert_eq!((was.took_ms, was.died), (Some(1000), false));
        t.change("mail", "1", crate::queue::Action::Run).await.unwrap();
        let held = t.popped("mail").await;
        let was = t.fail(&held, "no").await.was.unwrap();
        assert_eq!((was.attempt, was.took_ms, was.died), (2, Some(0), true));
        assert_eq!(t.stage("mail", "1").await, Some(Stage::Dead));

        t.add(Job::new("mail", "x").id("2")).await;
        let held = t.popped("mail").await;
        t.pass(2 * SECOND).await;
        let was = t.settle_by(Settle::delivery(&held, Verdict::Finish)).await.unwrap().was.unwrap();
        assert_eq!((was.number, was.attempt), (held.job.number, 1));
        assert_eq!((was.took_ms, was.died), (Some(2000), false));
    }
}

/// Takes so many, however many calls that needs.
async fn take<S: Subject>(t: &Trial<S>, count: usize) -> Vec<Moved> {
    let mut told = Vec::new();
    while told.len() < count {
        told.extend(t.queue.moved(10).await.unwrap().moves);
    }
    told
}

/// The next that is swept is the first that is told: nothing else waits.
async fn nothing_left<S: Subject>(t: &Trial<S>) {
    t.add(Job::new("last", "x").id("last").delay(SECOND)).await;
    t.sweep("last", Filter::default(), Bulk::Delete).await;
    let told = t.queue.moved(10).await.unwrap();
    let ids: Vec<_> = told.moves.iter().map(|one| one.id.as_str()).collect();
    assert_eq!((ids, told.lost), (vec!["last"], 0));
}
