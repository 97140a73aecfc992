//! Posts what Linger would post, from nothing: what webhooks cost by themselves, for
//! `linger-bench push` to compare with. Told by HTTP how many, where to and what.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::Json;
use axum::http::header::{CONTENT_TYPE, USER_AGENT};
use axum::http::{HeaderMap, HeaderValue, Method, Request, Uri};
use axum::routing::post;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use serde::Deserialize;

// As the server's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Deserialize)]
struct Wanted {
    to: String,
    count: u64,
    connections: usize,
    body: String,
}

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    axum::serve(listener, Router::new().route("/", post(push))).await
}

/// Posts so often, on each connection one at a time.
async fn push(Json(wanted): Json<Wanted>) -> String {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    let client = Client::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(Duration::from_secs(30))
        .pool_max_idle_per_host(wanted.connections)
        .build(connector);
    let to: Uri = wanted.to.parse().expect("it is a URL");
    let body = Bytes::from(wanted.body);
    let next = Arc::new(AtomicU64::new(0));
    let posting = (0..wanted.connections).map(|_| {
        let (to, body, next) = (to.clone(), body.clone(), next.clone());
        tokio::spawn(post_all(client.clone(), to, body, next, wanted.count))
    });
    for one in posting.collect::<Vec<_>>() {
        one.await.expect("it does not panic");
    }
    wanted.count.to_string()
}

async fn post_all(
    client: Client<HttpConnector, Full<Bytes>>,
    to: Uri,
    body: Bytes,
    next: Arc<AtomicU64>,
    count: u64,
) {
    let headers = headers();
    while next.fetch_add(1, Ordering::Relaxed) < count {
        let mut request = Request::new(Full::new(body.clone()));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = to.clone();
        *request.headers_mut() = headers.clone();
        let answer = client.request(request).await.expect("it is answered");
        assert!(answer.status().is_success(), "{}", answer.status());
        answer.into_body().collect().await.expect("all of it comes");
    }
}

/// As long as those of a job.
fn headers() -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(16);
    let mut put = |name, value| headers.insert(name, HeaderValue::from_static(value));
    for (name, value) in [
        ("linger-topic", "round-1"),
        ("linger-job", "1800000000000-123456"),
        ("linger-attempt", "1"),
        ("linger-due", "2026-12-01T09:00:00.000Z"),
        ("linger-lease", "0123456789abcdef"),
        ("webhook-id", "lg_1000000_1"),
        ("webhook-timestamp", "1800000000"),
    ] {
        put(name.parse().expect("it is a name"), value);
    }
    put(CONTENT_TYPE, "application/json");
    put(USER_AGENT, concat!("linger/", env!("CARGO_PKG_VERSION")));
    headers
}
