//! The ladder: how long a job waits after each failure.

use linger::time::Time;
use serde_json::{Value, json};

use crate::client::Server;
use crate::job;
use crate::receiver::Receiver;

/// The classic: nine steps, each of them in hundredths of a second where it has minutes.
const STEPS_MS: [u64; 9] = [10, 20, 30, 40, 50, 60, 70, 80, 90];
/// A different one each time, so that their order shows.
const FAILURES: [u16; 9] = [500, 501, 502, 503, 504, 505, 507, 508, 511];

#[tokio::test]
async fn each_attempt_is_in_the_history_with_what_was_answered_and_none_is_early() {
    // All of them fail, and that is not what is tried here.
    let server = Server::with(|config| config.push.failures = 100).await;
    let mut receiver = Receiver::start().await;
    let ladder = STEPS_MS.map(|ms| format!("{ms}ms"));
    let added = json!({
        "topic": "order.close", "id": "1001", "retain": "1h", "target": receiver.url("/hooks"),
        "retry": {"ladder": ladder},
    });
    server.add(&added.to_string()).await;
    let mut due = Vec::new();
    for (attempt, status) in (1..).zip(FAILURES.into_iter().chain([200])) {
        let got = receiver.next().await;
        assert_eq!(got.header("linger-attempt"), attempt.to_string());
        due.push(got.header("linger-due").parse::<Time>().unwrap());
        got.answer(status);
    }
    assert_eq!(job::until(&server, "order.close", "1001", "finished").await["attempt"], 10);

    let history = job::history(&server, "order.close", "1001").await;
    let told = history.iter().map(|event| {
        let at = |name: &str| event[name].clone();
        (at("what"), at("attempt"), event["answer"]["status"].clone())
    });
    let failed = (1..).zip(FAILURES).map(|(attempt, status)| ("failed", attempt, status));
    let expected = failed.chain([("finished", 10, 200)]);
    let expected = expected.map(|(what, attempt, status)| {
        (Value::from(what), Value::from(attempt), Value::from(status))
    });
    assert_eq!(told.collect::<Vec<_>>(), expected.collect::<Vec<_>>());

    let at = |event: &Value| event["at"].as_str().unwrap().parse::<Time>().unwrap();
    for (n, step) in STEPS_MS.into_iter().enumerate() {
        // Due times are rounded up to the millisecond.
        let waits_ms = due[n + 1].as_ms() - at(&history[n]).as_ms();
        assert!([step, step + 1].contains(&waits_ms), "{waits_ms} after attempt {}", n + 1);
        assert!(at(&history[n + 1]) >= due[n + 1], "attempt {} was early", n + 2);
    }
    server.stop().await;
}
