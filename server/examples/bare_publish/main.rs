//! Publishes what Linger would publish, from nothing: what a broker costs by itself, for
//! `linger-bench push` to compare with. Started with the kind of the broker, its URL and where in it to
//! publish; told by HTTP how many and what.

mod kafka;
mod nats;
mod rabbitmq;
mod redis;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::Router;
use axum::extract::{Json, State};
use axum::routing::post;
use bytes::Bytes;
use serde::Deserialize;

// As the server's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const CONTENT_TYPE: &str = "application/json";
/// As long as those of a job.
const HEADERS: [(&str, &str); 5] = [
    ("linger-topic", "round-1"),
    ("linger-job", "1800000000000-123456"),
    ("linger-attempt", "1"),
    ("linger-due", "2026-12-01T09:00:00.000Z"),
    ("linger-lease", "0123456789abcdef"),
];

/// A connection to a broker.
trait Publish: Send + Sync + Sized + 'static {
    /// Connects, to publish there.
    fn connect(url: &str, to: &str) -> impl Future<Output = Self> + Send;

    /// Publishes a message, and waits until the broker says that it has it.
    fn publish(&self, message: Message) -> impl Future<Output = ()> + Send;
}

/// What is published.
struct Message {
    number: u64,
    body: Bytes,
}

impl Message {
    /// No two have the same: a broker may drop what it knows.
    fn id(&self) -> String {
        format!("lg_{}_1", self.number)
    }

    /// Names and values.
    fn headers(&self) -> impl Iterator<Item = (&'static str, String)> {
        let id = ("webhook-id", self.id());
        HEADERS.iter().map(|(name, value)| (*name, (*value).to_owned())).chain([id])
    }
}

#[derive(Deserialize)]
struct Wanted {
    count: u64,
    /// So many wait for the broker's word at once.
    at_once: usize,
    body: String,
}

/// The broker, and the number of the next message.
struct Loop<P> {
    broker: P,
    next: AtomicU64,
}

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let [kind, url, to] = given.as_slice() else { panic!("give a kind, a URL and where to") };
    match kind.as_str() {
        "rabbitmq" => serve(rabbitmq::RabbitMq::connect(url, to).await).await,
        "kafka" => serve(kafka::Kafka::connect(url, to).await).await,
        "nats" => serve(nats::Nats::connect(url, to).await).await,
        "redis" => serve(redis::Redis::connect(url, to).await).await,
        other => panic!("there is no kind `{other}`"),
    }
}

async fn serve<P: Publish>(broker: P) -> std::io::Result<()> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    let publishing = Arc::new(Loop { broker, next: AtomicU64::new(0) });
    axum::serve(listener, Router::new().route("/", post(begin::<P>)).with_state(publishing)).await
}

/// Begins to publish so many. Whoever asked looks at the broker to see them all there.
async fn begin<P: Publish>(State(publishing): State<Arc<Loop<P>>>, Json(wanted): Json<Wanted>) {
    let end = publishing.next.load(Ordering::Relaxed) + wanted.count;
    let body = Bytes::from(wanted.body);
    for _ in 0..wanted.at_once {
        tokio::spawn(publish_until(end, publishing.clone(), body.clone()));
    }
}

/// One at a time, up to this number.
async fn publish_until<P: Publish>(end: u64, publishing: Arc<Loop<P>>, body: Bytes) {
    let next = || {
        let below = |next: u64| (next < end).then_some(next + 1);
        publishing.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, below).ok()
    };
    while let Some(number) = next() {
        publishing.broker.publish(Message { number, body: body.clone() }).await;
    }
}
