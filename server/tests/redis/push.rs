//! Jobs are pushed by whichever server may.

use std::collections::BTreeSet;

use crate::fleet::{Fleet, add, until};
use crate::receiver::Receiver;

#[tokio::test]
async fn each_job_is_pushed_once_by_whichever_server() {
    const JOBS: usize = 20;
    let Some(fleet) = Fleet::start() else { return };
    let (one, other) = (fleet.server(&[]).await, fleet.server(&[]).await);
    let (one, other) = (one.caller(), other.caller());
    let mut receiver = Receiver::start().await;
    let url = receiver.url("/hooks");
    for id in 0..JOBS {
        let job = format!(r#"{{"topic":"orders","id":"{id}","target":"{url}"}}"#);
        add(if id % 2 == 0 { &one } else { &other }, &job).await;
    }
    let mut pushed = BTreeSet::new();
    for _ in 0..JOBS {
        let request = receiver.next().await;
        assert_eq!((request.path.as_str(), request.header("linger-attempt")), ("/hooks", "1"));
        assert!(pushed.insert(request.header("linger-job").to_owned()), "twice: {pushed:?}");
        request.answer(200);
    }
    for id in 0..JOBS {
        let path = format!("/v1/topics/orders/jobs/{id}");
        until(&one, &path, |answer| answer.code() == "not_found").await;
    }
    assert!(receiver.is_empty());
}

#[tokio::test]
async fn what_a_server_that_does_not_push_takes_in_another_pushes() {
    let Some(fleet) = Fleet::start() else { return };
    let api = fleet.server(&["--role", "api"]).await;
    let _worker = fleet.server(&["--role", "timer,worker"]).await;
    let mut receiver = Receiver::start().await;
    let url = receiver.url("/hooks");
    let job = format!(r#"{{"topic":"orders","id":"1","delay":"200ms","target":"{url}"}}"#);
    add(&api.caller(), &job).await;
    receiver.next().await.answer(200);
    let path = "/v1/topics/orders/jobs/1";
    until(&api.caller(), path, |answer| answer.code() == "not_found").await;
}
