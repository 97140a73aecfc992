//! The queue as library users know it.

use std::time::Duration;

use linger::error::Code;
use linger::job::{Body, Edit, Patch, Ttr, When};
use linger::machine::Stage;
use linger::time::{HOUR, MINUTE};
use linger::{Job, Linger, Outcome};

fn job(id: &str) -> Job {
    Job::new("t", "body").id(id)
}

#[tokio::test]
async fn a_job_can_be_looked_at_changed_and_cancelled() {
    let queue = Linger::memory();
    let added = queue.add(job("1").delay(HOUR)).await.unwrap().job;
    assert_eq!((added.stage, added.number), (Stage::Delayed, 1));
    let patch = Patch {
        body: Some(Body::text("new")),
        when: Some(When::In(2 * HOUR)),
        ttr: Edit::Set(Ttr::new(MINUTE).unwrap()),
        ..Patch::default()
    };
    assert!(queue.update("t", "1", patch).await.unwrap().changed);
    let seen = queue.get("t", "1").await.unwrap();
    assert_eq!(seen.body.unwrap().as_str(), Some("new"));
    assert!(seen.due > added.due);
    queue.delete("t", "1").await.unwrap();
    assert_eq!(queue.get("t", "1").await.unwrap_err().code(), Code::NotFound);
}

#[tokio::test]
async fn a_job_can_be_held_let_go_and_run() {
    let queue = Linger::memory();
    let stage = async || queue.get("t", "1").await.unwrap().stage;
    queue.add(job("1").delay(HOUR)).await.unwrap();
    queue.hold("t", "1").await.unwrap();
    assert_eq!(stage().await, Stage::Held);
    queue.unhold("t", "1").await.unwrap();
    assert_eq!(stage().await, Stage::Delayed);
    queue.run("t", "1").await.unwrap();
    assert_eq!(stage().await, Stage::Ready);
}

#[tokio::test]
async fn a_popped_job_is_settled_by_its_lease_or_finished_by_its_id() {
    let queue = Linger::memory();
    assert!(queue.pop("t").await.unwrap().is_none());
    queue.add(job("1")).await.unwrap();
    let first = queue.pop("t").await.unwrap().unwrap();
    queue.settle(&first, Outcome::release(Duration::ZERO)).await.unwrap();
    let second = queue.pop_wait("t", MINUTE).await.unwrap().unwrap();
    let late = queue.settle(&first, Outcome::done()).await.unwrap_err();
    assert_eq!(late.code(), Code::LeaseLost);
    queue.settle(&second, Outcome::leave()).await.unwrap();
    queue.finish("t", "1").await.unwrap();
    assert_eq!(queue.get("t", "1").await.unwrap_err().code(), Code::NotFound);
}

#[tokio::test]
async fn of_many_jobs_each_is_answered_in_its_place() {
    let queue = Linger::memory().body_bytes_max(10);
    let jobs = [
        job("1"),
        Job::new(" blank", "").id("2"),
        job("3"),
        Job::new("t", "eleven long").id("4"),
        job("1"),
        job("5"),
    ];
    let codes: Vec<_> = queue
        .add_all(jobs)
        .await
        .unwrap()
        .into_iter()
        .map(|added| added.map(|added| added.job.spec.id.to_string()).map_err(|e| e.code()))
        .collect();
    let ok = |id: &str| Ok(id.to_owned());
    let expected = [
        ok("1"),
        Err(Code::Invalid),
        ok("3"),
        Err(Code::TooLarge),
        Err(Code::AlreadyExists),
        ok("5"),
    ];
    assert_eq!(codes, expected);
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused_at_add_and_update() {
    let queue = Linger::memory();
    let big = "x".repeat(Body::BYTES_MAX_DEFAULT + 1);
    let refused = queue.add(Job::new("t", big.clone())).await.unwrap_err();
    assert_eq!((refused.code(), refused.at_field()), (Code::TooLarge, Some("body")));
    queue.add(job("1")).await.unwrap();
    let patch = Patch { body: Some(big.into()), ..Patch::default() };
    assert_eq!(queue.update("t", "1", patch).await.unwrap_err().code(), Code::TooLarge);
}

#[tokio::test]
async fn a_name_that_is_none_is_refused_with_its_field() {
    let queue = Linger::memory();
    assert_eq!(queue.get("", "1").await.unwrap_err().at_field(), Some("topic"));
    assert_eq!(queue.delete("t", "a\nb").await.unwrap_err().at_field(), Some("id"));
    assert_eq!(queue.pop(" t").await.unwrap_err().at_field(), Some("topic"));
    assert_eq!(queue.finish("t", "").await.unwrap_err().at_field(), Some("id"));
}
