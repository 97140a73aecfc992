//! Whoever takes pushed jobs, whatever they speak: a [`Peer`] for each kind of target.

use std::net::SocketAddr;

use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use linger_server::proto::tasks::CallBackReq;
use linger_server::proto::tasks::callback_server::{Callback, CallbackServer};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tonic::metadata::MetadataMap;
use tonic::{Request, Response, Status};

use crate::client::Caller;
use crate::receiver::{Breaks, PATIENCE, Received, Receiver};

/// Takes jobs of topic `order.close` until it is dropped.
pub(crate) trait Peer: Sized {
    /// Whether this is what the history says of an answer that is [`Answer::Ok`].
    fn is_ok(answer: &Value) -> bool;
    /// What [`Answer::Transient`] is called in an error.
    const TRANSIENT: &str;
    /// What [`Answer::Permanent`] is called in an error.
    const PERMANENT: &str;
    /// Whether it can say that no further attempt would help.
    const CAN_REFUSE_FOR_GOOD: bool;

    /// None if what it takes is not installed here.
    async fn start() -> Option<Self>;

    /// What a server's settings must say of it.
    fn settings(&self) -> String {
        String::new()
    }

    /// The target of jobs for it. It makes itself known to the server, if that is how it is found.
    async fn target(&self, server: &Caller) -> String;

    /// The next job that is brought to it.
    async fn next(&mut self) -> Brought;

    /// The next connection breaks while a job comes by it.
    fn break_next(&self);

    /// Whether nothing has been brought that was not taken.
    fn is_empty(&self) -> bool;
}

/// A job that was brought, and waits for the answer. Dropped, the connection ends without one.
pub(crate) struct Brought {
    /// What is the same each time a job is brought.
    pub(crate) webhook_id: String,
    pub(crate) attempt: String,
    pub(crate) lease: String,
    pub(crate) answer: Box<dyn FnOnce(Answer) + Send>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Answer {
    Ok,
    /// Failed, but it may go well another time.
    Transient,
    /// Failed, and it always will.
    Permanent,
}

impl Brought {
    pub(crate) fn answer(self, answer: Answer) {
        (self.answer)(answer);
    }

    /// Ends the connection without an answer.
    pub(crate) fn drop_connection(self) {}
}

/// A target such as `http://host:port/path`.
pub(crate) struct Webhook(Receiver);

impl Peer for Webhook {
    fn is_ok(answer: &Value) -> bool {
        *answer == json!({"status": 200, "excerpt": "thanks"})
    }
    const TRANSIENT: &str = "answered 503 Service Unavailable";
    const PERMANENT: &str = "answered 410 Gone";
    const CAN_REFUSE_FOR_GOOD: bool = true;

    async fn start() -> Option<Webhook> {
        Some(Webhook(Receiver::start().await))
    }

    async fn target(&self, _: &Caller) -> String {
        self.0.url("/hooks")
    }

    async fn next(&mut self) -> Brought {
        let got = self.0.next().await;
        let header = |name| got.header(name).to_owned();
        Brought {
            webhook_id: header("webhook-id"),
            attempt: header("linger-attempt"),
            lease: header("linger-lease"),
            answer: Box::new(|answer| answer_http(got, answer)),
        }
    }

    fn break_next(&self) {
        self.0.break_next();
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn answer_http(got: Received, answer: Answer) {
    match answer {
        Answer::Ok => got.answer_with(200, &[], "thanks"),
        Answer::Transient => got.answer(503),
        Answer::Permanent => got.answer(410),
    }
}

/// A target such as `grpc://host:port`: a service `pb.Callback`.
pub(crate) struct Grpc {
    address: SocketAddr,
    calls: mpsc::UnboundedReceiver<Called>,
    breaks: Breaks,
    listening: JoinHandle<()>,
}

/// A call that waits for its answer.
struct Called {
    metadata: MetadataMap,
    answer: oneshot::Sender<Result<Response<()>, Status>>,
}

/// The service, to one connection.
struct Service {
    calls: mpsc::UnboundedSender<Called>,
    /// Ends the connection.
    end: CancellationToken,
}

#[tonic::async_trait]
impl Callback for Service {
    async fn send(&self, request: Request<CallBackReq>) -> Result<Response<()>, Status> {
        let (answer, answered) = oneshot::channel();
        let metadata = request.into_parts().0;
        // Nobody may want to know any more.
        let _ = self.calls.send(Called { metadata, answer });
        match answered.await {
            Ok(answer) => answer,
            Err(_) => {
                self.end.cancel();
                std::future::pending().await
            }
        }
    }
}

impl Peer for Grpc {
    fn is_ok(answer: &Value) -> bool {
        *answer == json!({"status": 0})
    }
    const TRANSIENT: &str = "answered Unavailable: in a minute";
    const PERMANENT: &str = "answered InvalidArgument: no such order";
    const CAN_REFUSE_FOR_GOOD: bool = false;

    async fn start() -> Option<Grpc> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (send, calls) = mpsc::unbounded_channel();
        let breaks = Breaks::default();
        let breaking = breaks.clone();
        let listening = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (calls, end) = (send.clone(), CancellationToken::new());
                let service = CallbackServer::new(Service { calls, end: end.clone() });
                let breaks = breaking.clone();
                connections.spawn(end.run_until_cancelled_owned(async move {
                    let Some(stream) = breaks.pass(stream).await else { return };
                    let server = auto::Builder::new(TokioExecutor::new());
                    let service = TowerToHyperService::new(service);
                    // How it ends is told by who calls.
                    let _ = server.serve_connection(TokioIo::new(stream), service).await;
                }));
            }
        });
        Some(Grpc { address, calls, breaks, listening })
    }

    async fn target(&self, _: &Caller) -> String {
        format!("grpc://{}", self.address)
    }

    async fn next(&mut self) -> Brought {
        let next = tokio::time::timeout(PATIENCE, self.calls.recv()).await;
        let Called { metadata, answer } = next.expect("a call comes").expect("it listens");
        let said = |name| metadata.get(name).map_or("", |value| value.to_str().unwrap()).to_owned();
        Brought {
            webhook_id: said("webhook-id"),
            attempt: said("linger-attempt"),
            lease: said("linger-lease"),
            // Whoever called may have given up.
            answer: Box::new(|how| drop(answer.send(answer_grpc(how)))),
        }
    }

    fn break_next(&self) {
        self.breaks.next();
    }

    fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }
}

impl Drop for Grpc {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

fn answer_grpc(answer: Answer) -> Result<Response<()>, Status> {
    match answer {
        Answer::Ok => Ok(Response::new(())),
        Answer::Transient => Err(Status::unavailable("in a minute")),
        Answer::Permanent => Err(Status::invalid_argument("no such order")),
    }
}

/// A target `worker:shop`: one that registers with where it is.
pub(crate) struct Worker<P>(P);

impl<P: Peer> Peer for Worker<P> {
    fn is_ok(answer: &Value) -> bool {
        P::is_ok(answer)
    }
    const TRANSIENT: &str = P::TRANSIENT;
    const PERMANENT: &str = P::PERMANENT;
    const CAN_REFUSE_FOR_GOOD: bool = P::CAN_REFUSE_FOR_GOOD;

    async fn start() -> Option<Worker<P>> {
        P::start().await.map(Worker)
    }

    async fn target(&self, server: &Caller) -> String {
        let url = self.0.target(server).await;
        register(server, "shop-1", &url).await;
        "worker:shop".into()
    }

    async fn next(&mut self) -> Brought {
        self.0.next().await
    }

    fn break_next(&self) {
        self.0.break_next();
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Registers an instance of `shop` for `order.close`.
pub(crate) async fn register(server: &Caller, id: &str, url: &str) {
    let instance =
        json!({"id": id, "app": "shop", "topics": ["order.close"], "url": url, "lease": "10m"});
    server.post("/v1/workers", &instance.to_string()).await.ok(201);
}
