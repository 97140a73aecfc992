//! Adding, looking at, changing and cancelling jobs.

use tonic::Code;

use super::client::{Server, new_job, ok, pb, refused, seconds};

#[tokio::test(flavor = "multi_thread")]
async fn a_job_comes_back_as_it_was_given() {
    let server = Server::start().await;
    let given = pb::NewJob {
        topic: "order.close".to_owned(),
        id: "1001".to_owned(),
        body: r#"{"order": 1001}"#.into(),
        body_form: pb::BodyForm::Json.into(),
        when: Some(pb::new_job::When::Delay(seconds(1800))),
        ttr: Some(prost_types::Duration { seconds: 20, nanos: 500_000_000 }),
        priority: Some(7),
        retry: Some(pb::Retry {
            attempts: Some(5),
            pace: Some(pb::retry::Pace::Ladder(pb::Ladder {
                steps: vec![seconds(15), seconds(180)],
                from_due: true,
            })),
        }),
        repeat: Some(pb::Repeat {
            rule: Some(pb::repeat::Rule::Cron(pb::Cron {
                expression: "0 9 * * *".to_owned(),
                tz: "Asia/Shanghai".to_owned(),
            })),
            until: Some(prost_types::Timestamp { seconds: 4_000_000_000, nanos: 0 }),
            count: 10,
            misfire: pb::Misfire::All.into(),
            misfire_all: 3,
            on_dead: pb::OnDead::Stop.into(),
        }),
        target: "https://example.com/hook".to_owned(),
        confirm: pb::Confirm::Finish.into(),
        envelope: pb::Envelope::Cloudevents.into(),
        held: true,
        on_conflict: pb::OnConflict::Reject.into(),
        retain: Some(seconds(60)),
        content_type: "application/vnd.order+json".to_owned(),
        traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned(),
    };
    let added = server.add_job(given.clone()).await;
    assert_eq!(added.state(), pb::State::Held);
    let request = pb::GetRequest { topic: given.topic.clone(), id: given.id.clone() };
    let job = ok(server.queue().get(request).await).job.expect("it is there");
    let ms = |time: Option<prost_types::Timestamp>| {
        let time = time.expect("it has one");
        time.seconds * 1000 + i64::from(time.nanos / 1_000_000)
    };
    // Rounded up, never down.
    assert!([1_800_000, 1_800_001].contains(&(ms(job.due) - ms(job.created))));
    let expected = pb::Job {
        topic: given.topic,
        id: given.id,
        number: job.number,
        state: pb::State::Held.into(),
        due: job.due,
        attempt: 0,
        version: job.version,
        priority: 7,
        created: job.created,
        occurrence: 0,
        reserved_until: None,
        last_error: String::new(),
        ttr: given.ttr,
        retry: given.retry,
        repeat: given.repeat,
        target: given.target,
        confirm: given.confirm,
        envelope: given.envelope,
        retain: given.retain,
        content_type: given.content_type,
        traceparent: given.traceparent,
        body: given.body,
        body_form: given.body_form,
    };
    assert_eq!(job, expected);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_trace_of_a_call_is_kept_with_jobs_that_bring_none() {
    let server = Server::start().await;
    let of_call = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let own = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";
    let mut many = tonic::Request::new(pb::AddManyRequest {
        jobs: vec![
            new_job("default", "many"),
            pb::NewJob { traceparent: own.to_owned(), ..new_job("default", "own") },
        ],
        ..Default::default()
    });
    many.metadata_mut().insert("traceparent", of_call.parse().unwrap());
    server.queue().add_many(many).await.unwrap();
    let job = Some(new_job("default", "one"));
    let mut one = tonic::Request::new(pb::AddRequest { job, ..Default::default() });
    one.metadata_mut().insert("traceparent", of_call.parse().unwrap());
    server.queue().add(one).await.unwrap();
    for (id, trace) in [("one", of_call), ("many", of_call), ("own", own)] {
        assert_eq!(server.get(id).await.job.unwrap().traceparent, trace, "{id}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_needs_nothing() {
    let server = Server::start().await;
    let job = server.add_job(pb::NewJob::default()).await;
    assert_eq!((job.topic.as_str(), job.priority), ("default", 1024));
    assert_eq!(job.id.len(), 36, "a UUID");
    assert_eq!(job.state(), pb::State::Ready);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_has_the_form_that_is_said() {
    let server = Server::start().await;
    let with = |id: &str, body: &'static [u8], form: pb::BodyForm| pb::NewJob {
        body: body.into(),
        body_form: form.into(),
        ..new_job("default", id)
    };
    for (id, body, said, kept) in [
        ("1", &b"text"[..], pb::BodyForm::Unspecified, pb::BodyForm::Text),
        ("2", b"\xff\0", pb::BodyForm::Unspecified, pb::BodyForm::Bytes),
        ("3", b"text", pb::BodyForm::Bytes, pb::BodyForm::Bytes),
        ("4", b" [1, 2]", pb::BodyForm::Json, pb::BodyForm::Json),
        ("5", b"text", pb::BodyForm::Text, pb::BodyForm::Text),
    ] {
        server.add_job(with(id, body, said)).await;
        let job = server.get(id).await.job.expect("it is there");
        assert_eq!((&job.body[..], job.body_form()), (body, kept));
    }
    for (body, said) in [(&b"\xff"[..], pb::BodyForm::Text), (b"{", pb::BodyForm::Json)] {
        let request = pb::AddRequest { job: Some(with("6", body, said)), ..Default::default() };
        let answer = server.queue().add(request).await;
        refused(answer, Code::InvalidArgument, "invalid", Some("body"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_there_already_is_refused_kept_or_replaced() {
    let server = Server::start().await;
    let first = server.add("1").await;
    let again = |on_conflict: pb::OnConflict| {
        let job = pb::NewJob { on_conflict: on_conflict.into(), ..new_job("default", "1") };
        pb::AddRequest { job: Some(job), ..Default::default() }
    };
    let answer = server.queue().add(again(pb::OnConflict::Unspecified)).await;
    refused(answer, Code::AlreadyExists, "already_exists", Some("id"));
    let kept = ok(server.queue().add(again(pb::OnConflict::Keep)).await);
    assert_eq!(kept.how(), pb::How::Kept);
    assert_eq!(kept.job.expect("a job").number, first.number);
    let replaced = ok(server.queue().add(again(pb::OnConflict::Replace)).await);
    assert_eq!(replaced.how(), pb::How::Replaced);
    assert!(replaced.job.expect("a job").number > first.number);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_adds_once() {
    let server = Server::start().await;
    let request = pb::AddRequest {
        job: Some(pb::NewJob::default()),
        idempotency_key: "payment 7".to_owned(),
    };
    let first = ok(server.queue().add(request.clone()).await);
    let second = ok(server.queue().add(request).await);
    assert_eq!((first.how(), second.how()), (pb::How::New, pb::How::Kept));
    assert_eq!(first.job.expect("a job").number, second.job.expect("a job").number);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_are_added_each_by_itself() {
    let server = Server::start().await;
    server.add("2").await;
    let jobs = vec![
        new_job("default", "1"),
        new_job("default", "2"),
        pb::NewJob { ttr: Some(seconds(-1)), ..new_job("default", "3") },
        new_job("default", "4"),
    ];
    let request = pb::AddManyRequest { jobs, ..Default::default() };
    let results = ok(server.queue().add_many(request).await).results;
    let told: Vec<String> = results
        .into_iter()
        .map(|result| match result.result.expect("a result") {
            pb::add_result::Result::Added(added) => added.job.expect("a job").id,
            pb::add_result::Result::Error(error) => format!("{} {}", error.code, error.field),
        })
        .collect();
    assert_eq!(told, ["1", "already_exists id", "invalid ttr", "4"]);

    let jobs = vec![pb::NewJob::default(); 1001];
    let answer = server.queue().add_many(pb::AddManyRequest { jobs, ..Default::default() }).await;
    refused(answer, Code::InvalidArgument, "too_large", Some("jobs"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_changed_and_cancelled() {
    let server = Server::start().await;
    let job = pb::NewJob { ttr: Some(seconds(5)), ..new_job("default", "1") };
    let job = server.add_job(job).await;
    let update = pb::UpdateRequest {
        id: "1".to_owned(),
        if_version: Some(job.version),
        when: Some(pb::update_request::When::Delay(seconds(600))),
        body: Some("new".into()),
        priority: Some(1),
        clear: vec!["ttr".to_owned()],
        ..Default::default()
    };
    let changed = ok(server.queue().update(update.clone()).await);
    assert!(changed.changed);
    assert_eq!(changed.job.expect("it is there").state(), pb::State::Delayed);
    let now = server.get("1").await;
    let job = now.job.expect("it is there");
    assert_eq!((&job.body[..], job.priority, job.ttr), (&b"new"[..], 1, None));
    assert_eq!(now.history.last().expect("one entry").what, "updated");

    let answer = server.queue().update(update).await;
    refused(answer, Code::Aborted, "version_mismatch", Some("if_version"));
    let wrong = pb::UpdateRequest {
        id: "1".to_owned(),
        clear: vec!["body".to_owned()],
        ..Default::default()
    };
    refused(server.queue().update(wrong).await, Code::InvalidArgument, "invalid", Some("clear"));
    let both = pb::UpdateRequest {
        id: "1".to_owned(),
        ttr: Some(seconds(1)),
        clear: vec!["ttr".to_owned()],
        ..Default::default()
    };
    refused(server.queue().update(both).await, Code::InvalidArgument, "invalid", Some("clear"));

    let delete = pb::DeleteRequest { id: "1".to_owned(), ..Default::default() };
    assert!(ok(server.queue().delete(delete.clone()).await).job.is_none());
    refused(server.queue().delete(delete).await, Code::NotFound, "not_found", None);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_is_said() {
    let server = Server::start().await;
    let wrong = |change: fn(&mut pb::NewJob)| {
        let mut job = new_job("default", "1");
        change(&mut job);
        pb::AddRequest { job: Some(job), ..Default::default() }
    };
    for (request, field) in [
        (wrong(|job| job.topic = " blank".to_owned()), "topic"),
        (wrong(|job| job.id = "a\nb".to_owned()), "id"),
        (wrong(|job| job.when = Some(pb::new_job::When::Delay(seconds(-1)))), "delay"),
        (
            wrong(|job| {
                let stamp = prost_types::Timestamp { seconds: -1, nanos: 0 };
                job.when = Some(pb::new_job::When::At(stamp));
            }),
            "at",
        ),
        (wrong(|job| job.ttr = Some(seconds(0))), "ttr"),
        (wrong(|job| job.body_form = 99), "body_form"),
        (wrong(|job| job.on_conflict = 99), "on_conflict"),
        (wrong(|job| job.confirm = 99), "confirm"),
        (wrong(|job| job.envelope = 99), "envelope"),
        (wrong(|job| job.retry = Some(pb::Retry::default())), "retry"),
        (wrong(|job| job.repeat = Some(pb::Repeat::default())), "repeat"),
        (wrong(|job| job.target = "nowhere".to_owned()), "target"),
        (wrong(|job| job.content_type = "nothing".to_owned()), "content_type"),
        (wrong(|job| job.traceparent = "nothing".to_owned()), "traceparent"),
        (wrong(|job| job.retain = Some(seconds(-5))), "retain"),
        (pb::AddRequest::default(), "job"),
    ] {
        let answer = server.queue().add(request).await;
        let message = refused(answer, Code::InvalidArgument, "invalid", Some(field));
        assert!(!message.is_empty());
    }
    let job = pb::NewJob { body: vec![b'x'; (1 << 20) + 1].into(), ..Default::default() };
    let request = pb::AddRequest { job: Some(job), ..Default::default() };
    let answer = server.queue().add(request).await;
    refused(answer, Code::InvalidArgument, "too_large", Some("body"));
    let answer = server.queue().get(pb::GetRequest::default()).await;
    refused(answer, Code::InvalidArgument, "invalid", Some("id"));
}
