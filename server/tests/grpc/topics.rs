//! Looking at topics and at their jobs, and changing how they behave.

use tonic::Code;

use super::client::{Server, new_job, ok, pb, refused, seconds};

fn named(topic: &str) -> pb::GetTopicRequest {
    pb::GetTopicRequest { topic: topic.to_owned() }
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_are_kept_as_they_are_given() {
    let server = Server::start().await;
    let settings = pb::Settings {
        ttr: Some(seconds(5)),
        retry: Some(pb::Retry {
            attempts: Some(0),
            pace: Some(pb::retry::Pace::Backoff(pb::Backoff {
                base: Some(seconds(2)),
                max: Some(seconds(60)),
                jitter: Some(0.5),
            })),
        }),
        target: "http://localhost:1/".to_owned(),
        confirm: pb::Confirm::Delivery.into(),
        envelope: pb::Envelope::Task.into(),
        timeout: Some(seconds(10)),
        archive: "files".to_owned(),
        headers: [("x-shop".to_owned(), "1".to_owned())].into(),
        retain: Some(seconds(60)),
        retain_dead: Some(seconds(120)),
        rate: "10/1m".to_owned(),
        concurrency: 4,
        partitions: 16,
        jobs_max: 1000,
        bytes_max: 1 << 40,
    };
    let set = pb::SetTopicRequest { topic: "t".to_owned(), settings: Some(settings.clone()) };
    let topic = ok(server.topics().set(set).await);
    assert_eq!(topic.settings, Some(settings));
    assert_eq!(ok(server.topics().get(named("t")).await), topic);
    let settings = pb::Settings { rate: "fast".to_owned(), ..Default::default() };
    let set = pb::SetTopicRequest { topic: "t".to_owned(), settings: Some(settings) };
    refused(server.topics().set(set).await, Code::InvalidArgument, "invalid", Some("rate"));
    let cleared = pb::SetTopicRequest { topic: "t".to_owned(), settings: None };
    let topic = ok(server.topics().set(cleared).await);
    assert!(topic.settings.unwrap_or_default() == pb::Settings::default());
    refused(server.topics().get(named("t")).await, Code::NotFound, "not_found", None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_is_paused_resumed_emptied_and_forgotten() {
    let server = Server::start().await;
    server.add_job(new_job("t", "1")).await;
    let pause = pb::PauseTopicRequest { topic: "t".to_owned(), pause_for: Some(seconds(60)) };
    let topic = ok(server.topics().pause(pause).await);
    assert!(topic.paused && topic.paused_for.is_some());
    let pop = pb::PopRequest { topics: vec!["t".to_owned()], ..Default::default() };
    assert!(ok(server.queue().pop(pop.clone()).await).jobs.is_empty());
    let resume = pb::ResumeTopicRequest { topic: "t".to_owned() };
    assert!(!ok(server.topics().resume(resume).await).paused);
    assert_eq!(ok(server.queue().pop(pop).await).jobs.len(), 1);
    let empty = pb::EmptyTopicRequest { topic: "t".to_owned() };
    assert_eq!(ok(server.topics().empty(empty).await).count, 1);
    let forget = pb::ForgetTopicRequest { topic: "t".to_owned() };
    refused(server.topics().forget(forget).await, Code::NotFound, "not_found", None);
}

#[tokio::test(flavor = "multi_thread")]
async fn topics_are_listed_a_page_at_a_time() {
    let server = Server::start().await;
    for topic in ["a1", "a2", "a3", "b"] {
        server.add_job(new_job(topic, "1")).await;
    }
    let list =
        |cursor: String| pb::ListTopicsRequest { prefix: "a".to_owned(), limit: Some(2), cursor };
    let names = |page: &pb::ListTopicsResponse| {
        page.topics.iter().map(|topic| topic.topic.clone()).collect::<Vec<_>>()
    };
    let page = ok(server.topics().list(list(String::new())).await);
    assert_eq!(names(&page), ["a1", "a2"]);
    assert_eq!(page.topics[0].counts.expect("counts").ready, 1);
    let page = ok(server.topics().list(list(page.cursor)).await);
    assert_eq!((names(&page), page.cursor.as_str()), (vec!["a3".to_owned()], ""));
    let wrong = server.topics().list(list("\n".to_owned())).await;
    refused(wrong, Code::InvalidArgument, "invalid", Some("cursor"));
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_are_browsed_and_swept() {
    let server = Server::start().await;
    for id in ["x1", "x2", "y1"] {
        let when = Some(pb::new_job::When::Delay(seconds(600)));
        server.add_job(pb::NewJob { when, ..new_job("t", id) }).await;
    }
    let filter = pb::Filter {
        state: pb::State::Delayed.into(),
        id_prefix: "x".to_owned(),
        ..Default::default()
    };
    let list = |cursor: String, bodies| pb::ListJobsRequest {
        topic: "t".to_owned(),
        filter: Some(filter.clone()),
        limit: Some(1),
        cursor,
        bodies,
    };
    let page = ok(server.topics().jobs(list(String::new(), false)).await);
    assert_eq!((page.jobs[0].id.as_str(), page.jobs[0].body.len()), ("x1", 0));
    let page = ok(server.topics().jobs(list(page.cursor, true)).await);
    assert_eq!((page.jobs[0].id.as_str(), &page.jobs[0].body[..]), ("x2", &b"body of x2"[..]));

    let sweep = |filter, bulk: pb::Bulk, dry_run| pb::SweepRequest {
        topic: "t".to_owned(),
        filter,
        bulk: bulk.into(),
        limit: None,
        dry_run,
    };
    let all = || Some(filter.clone());
    let count = ok(server.topics().sweep(sweep(all(), pb::Bulk::Delete, true)).await).count;
    assert_eq!(count, 2, "only counted");
    let count = ok(server.topics().sweep(sweep(all(), pb::Bulk::Run, false)).await).count;
    assert_eq!(count, 2);
    let counts = ok(server.topics().get(named("t")).await).counts.expect("counts");
    assert_eq!((counts.ready, counts.delayed), (2, 1));
    let wrong = server.topics().sweep(sweep(None, pb::Bulk::Delete, false)).await;
    refused(wrong, Code::InvalidArgument, "invalid", Some("filter"));
    let wrong = server.topics().sweep(sweep(all(), pb::Bulk::Unspecified, false)).await;
    refused(wrong, Code::InvalidArgument, "invalid", Some("bulk"));
    let redriven = server.topics().sweep(sweep(None, pb::Bulk::Redrive, false)).await;
    assert_eq!(ok(redriven).count, 0);
}
