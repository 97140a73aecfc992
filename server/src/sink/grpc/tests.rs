//! Attempts at a service on this machine.

use std::net::SocketAddr;

use linger::Linger;
use linger::job::Job;
use linger::queue::{Ask, Lane, Queue, Verdict};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

use super::*;
use crate::config::{Config, Networks};
use crate::proto::tasks::callback_server::{Callback, CallbackServer};

const PATIENCE: Duration = Duration::from_secs(60);
const SECRET: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

/// Answers calls as it was told, one after the other.
struct Service {
    answers: tokio::sync::Mutex<mpsc::UnboundedReceiver<Result<Response<()>, Status>>>,
    calls: mpsc::UnboundedSender<Request<CallBackReq>>,
}

#[tonic::async_trait]
impl Callback for Service {
    async fn send(&self, request: Request<CallBackReq>) -> Result<Response<()>, Status> {
        self.calls.send(request).map_err(|_| Status::internal("nobody listens"))?;
        match self.answers.lock().await.recv().await {
            Some(answer) => answer,
            None => std::future::pending().await,
        }
    }
}

struct Receiver {
    address: SocketAddr,
    calls: mpsc::UnboundedReceiver<Request<CallBackReq>>,
    answers: mpsc::UnboundedSender<Result<Response<()>, Status>>,
    serving: JoinHandle<Result<(), tonic::transport::Error>>,
}

impl Receiver {
    async fn start() -> Receiver {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (send, calls) = mpsc::unbounded_channel();
        let (answers, given) = mpsc::unbounded_channel();
        let service = Service { answers: tokio::sync::Mutex::new(given), calls: send };
        let (health, health_service) = tonic_health::server::health_reporter();
        health.set_service_status("1001", tonic_health::ServingStatus::Serving).await;
        let serving = tokio::spawn(
            Server::builder()
                .add_service(CallbackServer::new(service))
                .add_service(health_service)
                .serve_with_incoming(TcpIncoming::from(listener)),
        );
        Receiver { address, calls, answers, serving }
    }

    fn target(&self, path: &str) -> String {
        format!("grpc://{}{path}", self.address)
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

fn grpc(change: impl FnOnce(&mut Webhooks)) -> Grpc {
    let mut config = Config::defaults().webhooks;
    config.connect_time = PATIENCE;
    change(&mut config);
    let secrets = Secrets::new(config.secret.clone());
    Grpc::new(&config, Arc::new(secrets))
}

/// A job as it is handed out to be pushed.
async fn delivery(target: &str) -> Delivery {
    let linger = Linger::memory();
    let job = Job::new("订单 close", r#"{"order":1001}"#).id("1001").target(target);
    let topic = linger.add(job).await.unwrap().job.spec.topic;
    let ask = Ask { lane: Lane::Push, ..Ask::one(topic) };
    linger.store().pop(ask).await.unwrap().pop().unwrap()
}

async fn called(grpc: &Grpc, job: &Delivery) -> Outcome {
    grpc.call(job.target.as_ref().unwrap().as_str(), job, PATIENCE).await
}

fn verdict(outcome: Outcome, job: &Delivery) -> Verdict {
    outcome.settle(job).verdict
}

fn fail(error: impl Into<String>) -> Verdict {
    Verdict::Fail { error: error.into().into(), retry_in: None }
}

#[tokio::test]
async fn a_job_is_sent_in_the_shape_of_tasks_with_who_it_is() {
    let mut receiver = Receiver::start().await;
    let grpc = grpc(|config| config.secret = vec![SECRET.parse().unwrap()]);
    for path in ["", "/", "/pb.Callback/Send"] {
        let job = delivery(&receiver.target(path)).await;
        receiver.answers.send(Ok(Response::new(()))).unwrap();
        let outcome = called(&grpc, &job).await;
        assert_eq!(verdict(outcome, &job), Verdict::Finish, "{path}");
        let call = receiver.calls.recv().await.unwrap();
        let expected = CallBackReq {
            uid: "1001".into(),
            name: "订单 close".into(),
            url: receiver.target(path),
            args: r#"{"order":1001}"#.into(),
        };
        assert_eq!(call.get_ref(), &expected);
        let metadata = |name: &str| call.metadata().get(name).unwrap().to_str().unwrap();
        for (name, value) in [
            ("linger-topic", "%E8%AE%A2%E5%8D%95%20close"),
            ("linger-job", "1001"),
            ("linger-attempt", "1"),
            ("linger-lease", &job.lease.to_string()),
            ("webhook-id", "lg_1_0"),
        ] {
            assert_eq!(metadata(name), value, "{name}");
        }
        let timestamp_s = metadata("webhook-timestamp").parse().unwrap();
        let keys = [SECRET.parse().unwrap()];
        let signed =
            crate::secrets::signatures(&keys, "lg_1_0", timestamp_s, expected.args.as_bytes());
        assert_eq!(Some(metadata("webhook-signature")), signed.as_deref());
    }
    assert_eq!(grpc.tools.load().channels.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn another_method_is_called_if_the_target_names_one() {
    let receiver = Receiver::start().await;
    // It takes a name where we have the id, and answers something that we do not look into.
    let job = delivery(&receiver.target("/grpc.health.v1.Health/Check")).await;
    let grpc = grpc(|_| {});
    assert_eq!(verdict(called(&grpc, &job).await, &job), Verdict::Finish);
    let job = delivery(&receiver.target("/pb.Callback/Other")).await;
    let outcome = called(&grpc, &job).await;
    assert!(!outcome.is_down());
    assert_eq!(verdict(outcome, &job), fail("answered Unimplemented"));
}

#[tokio::test]
async fn a_status_says_what_becomes_of_the_job() {
    let receiver = Receiver::start().await;
    let job = delivery(&receiver.target("")).await;
    let grpc = grpc(|_| {});
    for (status, error, down) in [
        (Status::unavailable("in a minute"), "answered Unavailable: in a minute", true),
        (Status::deadline_exceeded(""), "answered DeadlineExceeded", true),
        (Status::internal("oops"), "answered Internal: oops", false),
        (Status::not_found("no order"), "answered NotFound: no order", false),
    ] {
        let code = status.code();
        receiver.answers.send(Err(status)).unwrap();
        let outcome = called(&grpc, &job).await;
        assert_eq!(outcome.is_down(), down, "{error}");
        let settle = outcome.settle(&job);
        assert_eq!(settle.verdict, fail(error));
        assert_eq!(settle.report.unwrap().status, Some(code as i32 as u16));
    }
}

#[tokio::test]
async fn a_job_to_be_confirmed_is_left_to_whoever_finishes_it() {
    let receiver = Receiver::start().await;
    let mut job = delivery(&receiver.target("")).await;
    let grpc = grpc(|_| {});
    let mut asks = Response::new(());
    asks.metadata_mut().insert("linger-confirm", "finish".parse().unwrap());
    receiver.answers.send(Ok(asks)).unwrap();
    assert_eq!(verdict(called(&grpc, &job).await, &job), Verdict::Leave);
    job.confirm = Confirm::Finish;
    receiver.answers.send(Ok(Response::new(()))).unwrap();
    assert_eq!(verdict(called(&grpc, &job).await, &job), Verdict::Leave);
    receiver.answers.send(Err(Status::internal(""))).unwrap();
    assert_eq!(verdict(called(&grpc, &job).await, &job), fail("answered Internal"));
}

#[tokio::test]
async fn who_does_not_answer_in_time_or_is_not_there_is_down() {
    let receiver = Receiver::start().await;
    let job = delivery(&receiver.target("")).await;
    let grpc = grpc(|_| {});
    let outcome = grpc.call(&receiver.target(""), &job, Duration::from_millis(50)).await;
    assert_eq!(outcome, Outcome::down("took longer than 50ms"));

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let gone = listener.local_addr().unwrap();
    drop(listener);
    let outcome = grpc.call(&format!("grpc://{gone}"), &job, PATIENCE).await;
    assert!(outcome.is_down());
    let expected = format!("could not connect to {gone}: connection refused");
    assert_eq!(verdict(outcome, &job), fail(expected));
}

#[tokio::test]
async fn an_address_or_target_that_is_refused_is_a_failed_attempt() {
    let receiver = Receiver::start().await;
    let port = receiver.address.port();
    let job = delivery(&receiver.target("")).await;
    let grpc = grpc(|config| config.networks = Networks::Public);
    for (target, why) in [
        (format!("grpc://127.0.0.1:{port}"), "127.0.0.1 is a loopback address"),
        (format!("grpc://localhost:{port}"), " is a loopback address"),
        // Not a name to the parser, and an address to the system.
        (format!("grpc://0x7f.1:{port}"), "127.0.0.1 is a loopback address"),
        (format!("grpc://[::ffff:127.0.0.1]:{port}"), "is a loopback address"),
        ("grpc://169.254.169.254:80".into(), "169.254.169.254 is a link-local address"),
        ("grpc://8.8.8.8".into(), "names no port"),
        ("grpc://8.8.8.8:1/a".into(), "names no method"),
        ("grpc://8.8.8.8:1/a/b/c".into(), "names no method"),
        ("grpc://8.8.8.8:1//b".into(), "names no method"),
        ("grpc://me@8.8.8.8:1".into(), "user name or password"),
    ] {
        let outcome = grpc.call(&target, &job, PATIENCE).await;
        assert!(!outcome.is_down(), "{target}");
        match verdict(outcome, &job) {
            Verdict::Fail { error, .. } if error.contains(why) => {}
            other => panic!("{target}: {other:?}"),
        }
    }
    assert!(receiver.calls.is_empty());
}
