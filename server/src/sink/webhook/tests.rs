//! Attempts at a receiver on this machine, over real sockets.

use std::net::IpAddr;
use std::path::Path;

use axum::http::Version;
use linger::Linger;
use linger::job::{Confirm, Envelope, Job};
use linger::queue::{Ask, Lane, Queue, Settle, Verdict};
use linger::time::{HOUR, MINUTE, SECOND};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::super::dial::Found;
use super::*;
use crate::config::{Config, Networks};
use crate::secrets::SigningKey;
use receiver::{Certificate, PATIENCE, Received, Receiver};

#[path = "../../../tests/push/receiver.rs"]
#[allow(dead_code, reason = "the tests of whole servers call more of it")]
mod receiver;

const SECRET: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

/// Every name is this machine's.
struct Here;

impl Names for Here {
    fn look_up<'a>(&'a self, _: &'a str) -> Found<'a> {
        Box::pin(async { Ok(vec![IpAddr::from([127, 0, 0, 1])]) })
    }
}

fn webhook(change: impl FnOnce(&mut Webhooks)) -> Webhook {
    let mut config = Config::defaults().webhooks;
    // Nobody waits for it unless something is broken.
    config.connect_time = PATIENCE;
    change(&mut config);
    let secrets = Arc::new(Secrets::new(config.secret.clone()));
    Webhook::with_names(&config, secrets, Arc::new(Here)).unwrap()
}

/// A job as it is handed out to be pushed.
async fn delivery(job: Job) -> Delivery {
    let linger = Linger::memory();
    let topic = linger.add(job).await.unwrap().job.spec.topic;
    let ask = Ask { lane: Lane::Push, ..Ask::one(topic) };
    linger.store().pop(ask).await.unwrap().pop().unwrap()
}

fn plain(url: &str) -> Job {
    Job::new("order.close", r#"{"order":1001}"#).id("1001").target(url)
}

/// Posts a job, and answers it like this.
async fn pushed(
    webhook: &Webhook,
    receiver: &mut Receiver,
    job: &Delivery,
    answer: impl FnOnce(Received),
) -> Outcome {
    let url = job.target.clone().unwrap();
    let (outcome, ()) = tokio::join!(webhook.post(url.as_str(), job), async {
        answer(receiver.next().await);
    });
    outcome
}

/// What becomes of a plain job that is answered like this.
async fn becomes(status: u16, headers: &[(&str, &str)], body: &str) -> (Settle, Delivery) {
    let mut receiver = Receiver::start().await;
    let job = delivery(plain(&receiver.url("/"))).await;
    let outcome = pushed(&webhook(|_| {}), &mut receiver, &job, |got| {
        got.answer_with(status, headers, body.to_owned());
    })
    .await;
    (outcome.settle(&job), job)
}

fn error_of(outcome: Outcome, job: &Delivery) -> String {
    match outcome.settle(job).verdict {
        Verdict::Fail { error, .. } => error.to_string(),
        other => panic!("{other:?} is no failure"),
    }
}

#[tokio::test]
async fn a_job_is_posted_as_it_is_with_who_it_is() {
    let mut receiver = Receiver::start().await;
    let mut job = delivery(plain(&receiver.url("/hooks?a=b#c")).content_type("text/x-order")).await;
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    job.job.spec.traceparent = Some(trace.parse().unwrap());
    let webhook = webhook(|config| config.secret = vec![SECRET.parse().unwrap()]);
    let outcome = pushed(&webhook, &mut receiver, &job, |got| {
        assert_eq!((got.method.as_str(), got.path.as_str()), ("POST", "/hooks?a=b"));
        assert_eq!(&got.body[..], br#"{"order":1001}"#);
        for (name, value) in [
            ("content-type", "text/x-order"),
            ("webhook-id", "lg_1_0"),
            ("linger-topic", "order.close"),
            ("linger-job", "1001"),
            ("linger-attempt", "1"),
            ("linger-due", &job.job.due.to_string()),
            ("linger-lease", &job.lease.to_string()),
            ("traceparent", trace),
            ("user-agent", concat!("linger/", env!("CARGO_PKG_VERSION"))),
            ("content-length", "14"),
        ] {
            assert_eq!(got.header(name), value, "{name}");
        }
        assert!(got.headers.keys().all(|name| !name.as_str().starts_with("ce-")));
        let timestamp_s: u64 = got.header("webhook-timestamp").parse().unwrap();
        let signed = crate::secrets::signatures(
            &[SECRET.parse().unwrap()],
            "lg_1_0",
            timestamp_s,
            br#"{"order":1001}"#,
        );
        assert_eq!(Some(got.header("webhook-signature")), signed.as_deref());
        got.answer(204);
    })
    .await;
    let settle = outcome.settle(&job);
    assert_eq!(settle.verdict, Verdict::Finish);
    assert_eq!(settle.report.unwrap().status, Some(204));
}

#[tokio::test]
async fn without_a_key_nothing_is_signed_and_names_are_encoded() {
    let mut receiver = Receiver::start().await;
    let job = Job::new("支付 宝", "hello").id("a/b%\"c").target(receiver.url("/"));
    let job = delivery(job).await;
    pushed(&webhook(|_| {}), &mut receiver, &job, |got| {
        assert!(got.headers.get("webhook-signature").is_none());
        assert_eq!(got.header("content-type"), "text/plain; charset=utf-8");
        assert_eq!(got.header("linger-topic"), "%E6%94%AF%E4%BB%98%20%E5%AE%9D");
        assert_eq!(got.header("linger-job"), "a%2Fb%25%22c");
        got.answer(200);
    })
    .await;
}

#[tokio::test]
async fn a_topic_adds_headers_of_its_own() {
    let mut receiver = Receiver::start().await;
    let mut job = delivery(plain(&receiver.url("/"))).await;
    let own = [("Authorization", "Bearer abc"), ("user-agent", "shop")];
    job.headers = linger::topic::Headers::new(own).unwrap();
    pushed(&webhook(|_| {}), &mut receiver, &job, |got| {
        assert_eq!(got.header("authorization"), "Bearer abc");
        assert_eq!(got.header("user-agent"), "shop");
        assert_eq!(got.header("linger-job"), "1001");
        got.answer(200);
    })
    .await;
}

#[tokio::test]
async fn a_cloud_event_says_so_in_headers() {
    let mut receiver = Receiver::start().await;
    let job = Job::new("支付 宝", "hello").id("a b").target(receiver.url("/"));
    let mut job = delivery(job).await;
    job.envelope = Envelope::CloudEvents;
    pushed(&webhook(|_| {}), &mut receiver, &job, |got| {
        assert_eq!(&got.body[..], b"hello");
        for (name, value) in [
            ("ce-specversion", "1.0"),
            ("ce-id", "lg_1_0"),
            ("ce-source", "/topics/%E6%94%AF%E4%BB%98%20%E5%AE%9D"),
            ("ce-type", "%E6%94%AF%E4%BB%98%20%E5%AE%9D"),
            ("ce-time", &job.job.due.to_string()),
            ("ce-subject", "a%20b"),
            ("content-type", "text/plain; charset=utf-8"),
            ("webhook-id", "lg_1_0"),
        ] {
            assert_eq!(got.header(name), value, "{name}");
        }
        got.answer(200);
    })
    .await;
}

#[tokio::test]
async fn a_task_is_posted_in_its_own_shape_and_below_400_is_done() {
    let mut receiver = Receiver::start().await;
    let mut job = delivery(plain(&receiver.url("/back")).content_type("text/x-order")).await;
    job.envelope = Envelope::Task;
    let webhook = webhook(|_| {});
    for (status, done) in [(200, true), (302, true), (304, true), (400, false), (500, false)] {
        let url = receiver.url("/back");
        let outcome = pushed(&webhook, &mut receiver, &job, |got| {
            let body: serde_json::Value = serde_json::from_slice(&got.body).unwrap();
            let expected = serde_json::json!({
                "uid": "1001", "name": "order.close", "url": url, "args": r#"{"order":1001}"#,
            });
            assert_eq!(body, expected);
            assert_eq!(got.header("content-type"), "application/json");
            assert_eq!(got.header("linger-job"), "1001");
            got.answer_with(status, &[("location", "/elsewhere")], "");
        })
        .await;
        let verdict = outcome.settle(&job).verdict;
        assert_eq!(verdict == Verdict::Finish, done, "{status}: {verdict:?}");
        assert!(receiver.is_empty(), "{status} was followed");
    }
}

#[tokio::test]
async fn an_answer_says_what_becomes_of_the_job() {
    let fail = |error: &str, retry_in| Verdict::Fail { error: error.into(), retry_in };
    let dead = |error: &str| Verdict::Bury { error: Some(error.into()), priority: None };
    let soon = httpdate::fmt_http_date(std::time::SystemTime::now() - MINUTE);
    let far = httpdate::fmt_http_date(std::time::SystemTime::now() + 400 * 24 * HOUR);
    for (status, headers, body, expected) in [
        (200, &[][..], "", Verdict::Finish),
        (204, &[], "", Verdict::Finish),
        (299, &[], "thanks", Verdict::Finish),
        (200, &[], r#"{"outcome":"done"}"#, Verdict::Finish),
        (200, &[], r#"{"outcome":5}"#, Verdict::Finish),
        (200, &[], r#"{"outcome":"again"}"#, Verdict::Again { retry_in: None }),
        (
            202,
            &[],
            r#" {"outcome":"again","retry_in":"5m","more":1}"#,
            Verdict::Again { retry_in: Some(5 * MINUTE) },
        ),
        (
            200,
            &[],
            r#"{"outcome":"again","retry_in":90}"#,
            Verdict::Again { retry_in: Some(90 * SECOND) },
        ),
        (
            200,
            &[],
            r#"{"outcome":"again","retry_in":"9d"}"#,
            Verdict::Again { retry_in: Some(24 * HOUR) },
        ),
        (200, &[], r#"{"outcome":"failed","error":"no money"}"#, fail("no money", None)),
        (200, &[], r#"{"outcome":"dead","error":"no order"}"#, dead("no order")),
        (500, &[], r#"{"outcome":"again"}"#, fail("answered 500 Internal Server Error", None)),
        (410, &[], "", dead("answered 410 Gone")),
        (400, &[], "", fail("answered 400 Bad Request", None)),
        (404, &[("retry-after", "5")], "", fail("answered 404 Not Found", None)),
        (429, &[], "", fail("answered 429 Too Many Requests", None)),
        (
            429,
            &[("retry-after", "120")],
            "",
            fail("answered 429 Too Many Requests", Some(2 * MINUTE)),
        ),
        (
            503,
            &[("retry-after", "999999999")],
            "",
            fail("answered 503 Service Unavailable", Some(24 * HOUR)),
        ),
        (
            503,
            &[("retry-after", &far)],
            "",
            fail("answered 503 Service Unavailable", Some(24 * HOUR)),
        ),
        (
            503,
            &[("retry-after", &soon)],
            "",
            fail("answered 503 Service Unavailable", Some(Duration::ZERO)),
        ),
        (503, &[("retry-after", "soon")], "", fail("answered 503 Service Unavailable", None)),
        (502, &[], "", fail("answered 502 Bad Gateway", None)),
        (599, &[], "", fail("answered 599", None)),
        (
            302,
            &[("location", "http://169.254.169.254/")],
            "",
            fail("answered 302 Found; redirects are not followed", None),
        ),
        (304, &[], "", fail("answered 304 Not Modified; redirects are not followed", None)),
    ] {
        let (settle, _) = becomes(status, headers, body).await;
        assert_eq!(settle.verdict, expected, "{status} {headers:?} {body}");
        let report = settle.report.unwrap();
        assert_eq!(report.status, Some(status));
        let excerpt = (!body.is_empty()).then(|| body.trim());
        assert_eq!(report.excerpt.as_deref(), excerpt, "{status} {body}");
    }
}

#[tokio::test]
async fn an_outcome_counts_though_its_answer_is_cut() {
    let long = "x".repeat(100_000);
    for (body, expected) in [
        (format!(r#"{{"outcome":"failed","error":"{long}"}}"#), "the receiver says so"),
        (format!(r#"{{"error":"no money","outcome":"failed","more":["{long}"]}}"#), "no money"),
    ] {
        let verdict = becomes(200, &[], &body).await.0.verdict;
        let fail = Verdict::Fail { error: expected.into(), retry_in: None };
        assert_eq!(verdict, fail, "{}", &body[..40]);
    }
    for body in [
        // What comes too late is not heard, and what is broken rather than cut is nothing.
        format!(r#"{{"more":"{long}","outcome":"failed"}}"#),
        r#"{"outcome":"failed","#.to_owned(),
        r#"{"outcome":"failed"} "again""#.to_owned(),
    ] {
        let verdict = becomes(200, &[], &body).await.0.verdict;
        assert_eq!(verdict, Verdict::Finish, "{}", &body[..20]);
    }
}

#[tokio::test]
async fn only_who_cannot_be_reached_or_fails_itself_is_down() {
    let mut receiver = Receiver::start().await;
    let job = delivery(plain(&receiver.url("/"))).await;
    let webhook = webhook(|_| {});
    for (status, headers, down) in [
        (500, &[][..], true),
        (503, &[], true),
        (599, &[], true),
        (503, &[("retry-after", "5")], false),
        (200, &[], false),
        (302, &[], false),
        (404, &[], false),
        (410, &[], false),
        (429, &[], false),
    ] {
        let outcome = pushed(&webhook, &mut receiver, &job, |got| {
            got.answer_with(status, headers, "");
        })
        .await;
        assert_eq!(outcome.is_down(), down, "{status} {headers:?}");
    }
    let outcome = pushed(&webhook, &mut receiver, &job, Received::hang_up).await;
    assert!(outcome.is_down(), "{outcome:?}");
    let error = error_of(outcome, &job);
    assert_eq!(
        error,
        "the call to 127.0.0.1 broke off: connection closed before message completed"
    );
}

#[tokio::test]
async fn a_job_to_be_confirmed_is_left_to_whoever_finishes_it() {
    let mut receiver = Receiver::start().await;
    let job = delivery(plain(&receiver.url("/"))).await;
    let mut confirmed = job.clone();
    confirmed.confirm = Confirm::Finish;
    let webhook = webhook(|_| {});
    let asks = [("linger-confirm", "finish")];
    for (job, headers, status, left) in [
        (&job, &[][..], 200, false),
        (&job, &asks, 200, true),
        (&job, &[("linger-confirm", "delivery")], 200, false),
        (&confirmed, &[], 200, true),
        (&confirmed, &[], 500, false),
        (&job, &asks, 500, false),
    ] {
        let outcome = pushed(&webhook, &mut receiver, job, |got| {
            got.answer_with(status, headers, "");
        })
        .await;
        assert_eq!(outcome.settle(job).verdict == Verdict::Leave, left, "{status} {headers:?}");
    }
    let again = pushed(&webhook, &mut receiver, &confirmed, |got| {
        got.answer_with(200, &[], r#"{"outcome":"again"}"#);
    })
    .await;
    let again = again.settle(&confirmed).verdict;
    assert_eq!(again, Verdict::Again { retry_in: None });
}

#[tokio::test]
async fn a_long_answer_is_read_to_the_limit_and_kept_in_part() {
    let mut receiver = Receiver::start().await;
    let job = delivery(plain(&receiver.url("/"))).await;
    let webhook = webhook(|config| config.answer_bytes = 4096);
    let long = format!("{}\u{1b}[31m\0 ä{}", "é".repeat(500), "x".repeat(1 << 20));
    let outcome = pushed(&webhook, &mut receiver, &job, |got| {
        got.answer_with(500, &[], long);
    })
    .await;
    let excerpt = outcome.settle(&job).report.unwrap().excerpt.unwrap();
    let expected = format!("{}[31m ä{}", "é".repeat(500), "x".repeat(15));
    assert_eq!(&*excerpt, expected);
    let cut = pushed(&webhook, &mut receiver, &job, |got| {
        got.answer_with(500, &[], "aé".repeat(1000));
    })
    .await;
    let excerpt = cut.settle(&job).report.unwrap().excerpt.unwrap();
    assert_eq!(&*excerpt, format!("{}a", "aé".repeat(341)));
}

#[tokio::test]
async fn what_is_answered_beyond_the_limit_is_not_waited_for() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let job = delivery(plain(&url)).await;
    let webhook = webhook(|config| config.answer_bytes = 4096);
    // It says that there is more, and keeps us waiting for it.
    let answers = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        // An answer before the question would be none.
        assert!(stream.read(&mut [0; 1024]).await.unwrap() > 0);
        let head = "HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n";
        let answer = format!("{head}{}", "x".repeat(5000));
        stream.write_all(answer.as_bytes()).await.unwrap();
        stream
    };
    let (outcome, _open) = tokio::join!(webhook.post(&url, &job), answers);
    assert_eq!(outcome.settle(&job).verdict, Verdict::Finish);
}

#[tokio::test]
async fn a_connection_is_used_again() {
    let mut receiver = Receiver::start().await;
    let job = delivery(plain(&receiver.url("/"))).await;
    let webhook = webhook(|_| {});
    for _ in 0..5 {
        pushed(&webhook, &mut receiver, &job, |got| {
            assert_eq!((got.connection, got.version), (0, Version::HTTP_11));
            got.answer_with(200, &[], "x".repeat(10_000));
        })
        .await;
    }
    // Other settings may say that it should not be there.
    webhook.set_config(&Webhooks { connect_time: PATIENCE, ..Config::defaults().webhooks });
    pushed(&webhook, &mut receiver, &job, |got| {
        assert_eq!(got.connection, 1);
        got.answer(200);
    })
    .await;
}

#[tokio::test]
async fn who_takes_a_connection_and_says_nothing_of_tls_is_given_up() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://localhost:{}/", listener.local_addr().unwrap().port());
    let job = delivery(plain(&url)).await;
    let webhook = webhook(|config| config.connect_time = Duration::from_millis(50));
    let outcome = webhook.post(&url, &job).await;
    assert!(outcome.is_down());
    assert_eq!(error_of(outcome, &job), "could not connect to localhost within 50ms");
}

#[tokio::test]
async fn an_address_or_url_that_is_refused_is_a_failed_attempt_and_nobody_is_called() {
    let receiver = Receiver::start().await;
    let port = receiver.address().port();
    let job = delivery(plain(&receiver.url("/"))).await;
    let webhook = webhook(|config| config.networks = Networks::Public);
    for (url, why) in [
        (format!("http://127.0.0.1:{port}/"), "127.0.0.1 is a loopback address"),
        (format!("http://2130706433:{port}/"), "127.0.0.1 is a loopback address"),
        (format!("http://[::ffff:7f00:1]:{port}/"), "::ffff:127.0.0.1 is a loopback address"),
        // A name that leads there.
        (format!("http://shop.example:{port}/"), "127.0.0.1 is a loopback address"),
        ("http://169.254.169.254/".into(), "169.254.169.254 is a link-local address"),
        (format!("http://me:pw@shop.example:{port}/"), "has a user name or password"),
        ("http://a:b/".into(), "is no URL: invalid port"),
    ] {
        let outcome = webhook.post(&url, &job).await;
        assert!(!outcome.is_down(), "{url}");
        let error = error_of(outcome, &job);
        assert!(error.contains(why), "{url}: {error}");
    }
    assert!(receiver.is_empty());
}

#[tokio::test]
async fn who_is_not_there_is_down() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let gone = listener.local_addr().unwrap();
    drop(listener);
    let url = format!("http://{gone}/");
    let job = delivery(plain(&url)).await;
    let outcome = webhook(|_| {}).post(&url, &job).await;
    assert!(outcome.is_down());
    let expected = format!("could not connect to {gone}: connection refused");
    assert_eq!(error_of(outcome, &job), expected);
}

#[tokio::test]
async fn over_tls_http_2_is_spoken_and_one_connection_is_enough() {
    let certificate = Certificate::for_localhost();
    let folder = tempfile::tempdir().unwrap();
    let ca = folder.path().join("ca.pem");
    std::fs::write(&ca, &certificate.pem).unwrap();
    let mut receiver = Receiver::start_tls(&certificate).await;
    let job = delivery(plain(&receiver.url("/"))).await;
    let webhook = webhook(|config| config.ca = Some(ca));
    for _ in 0..3 {
        let outcome = pushed(&webhook, &mut receiver, &job, |got| {
            assert_eq!((got.connection, got.version), (0, Version::HTTP_2));
            assert_eq!(got.header("webhook-id"), "lg_1_0");
            got.answer(200);
        })
        .await;
        assert_eq!(outcome.settle(&job).verdict, Verdict::Finish);
    }
}

#[tokio::test]
async fn a_certificate_that_nobody_vouches_for_is_a_failed_attempt() {
    let receiver = Receiver::start_tls(&Certificate::for_localhost()).await;
    let job = delivery(plain(&receiver.url("/"))).await;
    let outcome = webhook(|_| {}).post(&receiver.url("/"), &job).await;
    assert!(outcome.is_down());
    let error = error_of(outcome, &job);
    let why = "could not make a secure connection to localhost: invalid peer certificate";
    assert!(error.starts_with(why), "{error}");
}

#[test]
fn a_file_without_certificates_is_refused_by_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.pem");
    let config = |file: &Path| {
        let config = Webhooks { ca: Some(file.into()), ..Config::defaults().webhooks };
        let made = Webhook::new(&config, Arc::new(Secrets::new(Vec::<SigningKey>::new())));
        format!("{:#}", made.err().expect("it is refused"))
    };
    assert!(config(&file).contains("cannot read the certificates in"), "{}", config(&file));
    std::fs::write(&file, "no PEM").unwrap();
    assert!(config(&file).contains("there are none in it"), "{}", config(&file));
}
