//! Takes webhooks: for `linger-bench push`, which asks it what came and when.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use linger::time::Time;
use serde_json::json;
use tokio::sync::Notify;

// As the server's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// What came since it was last told.
#[derive(Default)]
struct Seen {
    /// From its due time until it was here, body included, of each job.
    late_us: Vec<u64>,
    /// Jobs that came again.
    again: u64,
    /// When the last came, since 1970.
    last: Duration,
    /// Connections that were made.
    connections: u64,
}

#[derive(Default)]
struct Receiver {
    seen: Mutex<Seen>,
    came: Notify,
}

// One thread: it shares the machine with those who are measured.
#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    let receiver = Arc::new(Receiver::default());
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let receiver = receiver.clone();
        receiver.seen.lock().expect("nobody panics holding it").connections += 1;
        tokio::spawn(async move {
            let answer = service_fn(|request| answer(receiver.clone(), request));
            // How it ends is told by who calls.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await;
        });
    }
}

async fn answer(
    receiver: Arc<Receiver>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let mut answer = Response::default();
    if request.method() == Method::GET {
        let count = request.uri().path().trim_start_matches('/').parse().unwrap_or(0);
        *answer.body_mut() = receiver.tell(count).await.into();
    } else {
        receiver.take(request).await;
        *answer.status_mut() = StatusCode::NO_CONTENT;
    }
    Ok(answer)
}

impl Receiver {
    async fn take(&self, request: Request<Incoming>) {
        let (parts, body) = request.into_parts();
        let header = |name| parts.headers.get(name).and_then(|value| value.to_str().ok());
        let due: Option<Time> = header("linger-due").and_then(|due| due.parse().ok());
        let again = header("linger-attempt") != Some("1");
        // One that broke off will come again.
        if body.collect().await.is_err() {
            return;
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let due = Duration::from_millis(due.map_or(0, Time::as_ms));
        let mut seen = self.seen.lock().expect("nobody panics holding it");
        seen.late_us.push(now.saturating_sub(due).as_micros() as u64);
        seen.again += u64::from(again);
        seen.last = now;
        drop(seen);
        self.came.notify_waiters();
    }

    /// Waits until so many jobs have come, and tells of them.
    async fn tell(&self, count: usize) -> String {
        loop {
            let came = self.came.notified();
            if let Some(Seen { late_us, again, last, connections }) = self.seen_if(count) {
                let told = json!({
                    "late_us": late_us, "again": again, "connections": connections,
                    "last_us": last.as_micros() as u64,
                });
                return told.to_string();
            }
            came.await;
        }
    }

    /// What came, if it is so much; from there it begins anew.
    fn seen_if(&self, count: usize) -> Option<Seen> {
        let mut seen = self.seen.lock().expect("nobody panics holding it");
        (seen.late_us.len() >= count).then(|| std::mem::take(&mut *seen))
    }
}
