//! Popping jobs, and saying what became of them.

use tonic::Code;

use super::client::{PATIENCE, Server, new_job, ok, pb, refused, seconds};

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_popped_and_finished() {
    let server = Server::start().await;
    server.add("1").await;
    let popped = server.pop().await;
    let job = popped.job.expect("a job");
    assert_eq!((job.id.as_str(), &job.body[..], job.attempt), ("1", &b"body of 1"[..], 1));
    assert!(job.reserved_until.is_some());
    let finish = |lease: &str| pb::FinishRequest {
        id: "1".to_owned(),
        lease: lease.to_owned(),
        ..Default::default()
    };
    let other = server.queue().finish(finish("0000000000000000")).await;
    refused(other, Code::FailedPrecondition, "lease_lost", None);
    let wrong = server.queue().finish(finish("nonsense")).await;
    refused(wrong, Code::InvalidArgument, "invalid", Some("lease"));
    assert!(ok(server.queue().finish(finish(&popped.lease)).await).job.is_none());
    let gone = server.queue().finish(finish(&popped.lease)).await;
    refused(gone, Code::NotFound, "not_found", None);
    assert!(ok(server.queue().pop(pb::PopRequest::default()).await).jobs.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pop_waits_for_the_first_of_several_topics() {
    let server = Server::start().await;
    let mut queue = server.queue();
    let waiting = tokio::spawn(async move {
        let request = pb::PopRequest {
            topics: vec!["a".to_owned(), "b".to_owned()],
            wait: Some(seconds(60)),
            ttr: Some(seconds(7)),
            ..Default::default()
        };
        ok(queue.pop(request).await).jobs
    });
    server.add_job(new_job("b", "1")).await;
    let jobs = tokio::time::timeout(PATIENCE, waiting).await.expect("in time").expect("no panic");
    let job = jobs[0].job.clone().expect("a job");
    assert_eq!(job.topic, "b");

    let request = pb::PopRequest { wait: Some(seconds(86_400)), ..Default::default() };
    refused(server.queue().pop(request).await, Code::InvalidArgument, "invalid", Some("wait"));
    let request = pb::PopRequest { max: Some(0), ..Default::default() };
    refused(server.queue().pop(request).await, Code::InvalidArgument, "invalid", Some("max"));
    let request = pb::PopRequest { ttr: Some(seconds(0)), ..Default::default() };
    refused(server.queue().pop(request).await, Code::InvalidArgument, "invalid", Some("ttr"));
}

#[tokio::test(flavor = "multi_thread")]
async fn attempts_end_as_their_holder_says() {
    let server = Server::start().await;
    server.add("1").await;
    let popped = server.pop().await;
    let touch = pb::TouchRequest {
        id: "1".to_owned(),
        lease: popped.lease.clone(),
        ttr: Some(seconds(3600)),
        ..Default::default()
    };
    let touched = ok(server.queue().touch(touch).await).job.expect("it is there");
    assert!(
        touched.reserved_until.expect("an end").seconds
            > popped.job.expect("a job").reserved_until.expect("an end").seconds
    );

    let release = pb::ReleaseRequest {
        id: "1".to_owned(),
        lease: popped.lease,
        give_back: Some(pb::GiveBack { delay: None, priority: Some(3) }),
        ..Default::default()
    };
    let released = ok(server.queue().release(release).await).job.expect("it is there");
    assert_eq!((released.state(), released.priority), (pb::State::Ready, 3));

    let popped = server.pop().await;
    assert_eq!(popped.job.expect("a job").attempt, 1, "a release gives the attempt back");
    let failure =
        pb::Failure { error: "no luck".to_owned(), retry_in: Some(seconds(0)), again: false };
    let fail = pb::FailRequest {
        id: "1".to_owned(),
        lease: popped.lease,
        failure: Some(failure),
        ..Default::default()
    };
    ok(server.queue().fail(fail).await);
    let popped = server.pop().await;
    let job = popped.job.expect("a job");
    assert_eq!((job.attempt, job.last_error.as_str()), (2, "no luck"));

    let failure = pb::Failure { again: true, ..Default::default() };
    let fail = pb::FailRequest {
        id: "1".to_owned(),
        lease: popped.lease,
        failure: Some(failure),
        ..Default::default()
    };
    let failed = ok(server.queue().fail(fail).await).job.expect("it is there");
    assert_eq!(failed.state(), pb::State::Retry);
    let history: Vec<String> =
        server.get("1").await.history.into_iter().map(|entry| entry.what).collect();
    assert_eq!(history, ["added", "released", "failed", "again"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_are_held_let_go_and_run() {
    let server = Server::start().await;
    let job = pb::NewJob {
        when: Some(pb::new_job::When::Delay(seconds(600))),
        ..new_job("default", "1")
    };
    server.add_job(job).await;
    let hold = pb::HoldRequest { id: "1".to_owned(), ..Default::default() };
    let held = ok(server.queue().hold(hold).await).job.expect("it is there");
    assert_eq!(held.state(), pb::State::Held);
    let unhold = pb::UnholdRequest { id: "1".to_owned(), ..Default::default() };
    let let_go = ok(server.queue().unhold(unhold).await).job.expect("it is there");
    assert_eq!(let_go.state(), pb::State::Delayed);
    let run = pb::RunRequest { id: "1".to_owned(), if_version: Some(1), ..Default::default() };
    refused(server.queue().run(run).await, Code::Aborted, "version_mismatch", Some("if_version"));
    let run = pb::RunRequest { id: "1".to_owned(), ..Default::default() };
    let ran = ok(server.queue().run(run).await).job.expect("it is there");
    assert_eq!(ran.state(), pb::State::Ready);
    server.pop().await;
    let hold = pb::HoldRequest { id: "1".to_owned(), ..Default::default() };
    refused(server.queue().hold(hold).await, Code::FailedPrecondition, "wrong_state", None);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_ends_at_its_limit_and_the_rest_is_given_back() {
    let server = Server::start().await;
    for id in 1..=5 {
        let body = vec![b'x'; 1 << 20].into();
        server.add_job(pb::NewJob { body, ..new_job("default", &id.to_string()) }).await;
    }
    let request = pb::PopRequest { max: Some(5), ..Default::default() };
    let jobs = ok(server.queue().pop(request.clone()).await).jobs;
    assert_eq!(jobs.len(), 2);
    let jobs = ok(server.queue().pop(request).await).jobs;
    assert_eq!(jobs.len(), 2);
    assert_eq!(jobs[0].job.as_ref().expect("a job").attempt, 1, "it counts as given back");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_who_hung_up_gets_nothing_leased() {
    let server = Server::start().await;
    let mut queue = server.queue();
    let waiting = tokio::spawn(async move {
        let request = pb::PopRequest { wait: Some(seconds(60)), ..Default::default() };
        queue.pop(request).await
    });
    let request = pb::GetTopicRequest::default();
    let waits = async { while server.topics().get(request.clone()).await.is_err() {} };
    tokio::time::timeout(PATIENCE, waits).await.expect("somebody waits");
    waiting.abort();
    let gone = async { while server.topics().get(request.clone()).await.is_ok() {} };
    tokio::time::timeout(PATIENCE, gone).await.expect("nobody waits any more");
    server.add("1").await;
    assert_eq!(server.pop().await.job.expect("a job").attempt, 1);
}
