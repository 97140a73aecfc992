//! Every request has a name, which stands in its answer and in the log.

use std::sync::atomic::{AtomicU64, Ordering};

use axum::http::{HeaderName, HeaderValue, Method, Request, Uri};
use axum::response::Response;
use linger::error::Code;
use linger::time::{Clock, SystemClock, Tick};
use tracing::Level;

/// The header that names a request.
static REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The longest name that a caller may give.
const LEN_MAX: usize = 128;

/// Names the requests that bring no name.
pub(crate) struct Names {
    clock: SystemClock,
    /// When the server started, so that no name comes again after a restart.
    started_ms: u64,
    next: AtomicU64,
    /// When the log was last told that the server could not do something, and how often it could
    /// not since: many may fail at once, and one line a second says as much as all of them.
    failed_us: AtomicU64,
    failed: AtomicU64,
}

/// A request under way.
pub(crate) struct Asked<'a> {
    names: &'a Names,
    name: HeaderValue,
    method: Method,
    uri: Uri,
    since: Tick,
}

const SECOND_US: u64 = 1_000_000;

impl Names {
    pub(crate) fn new() -> Names {
        let clock = SystemClock::default();
        let (started_ms, next) = (clock.now().time().as_ms(), AtomicU64::new(0));
        Names { clock, started_ms, next, failed_us: AtomicU64::new(0), failed: AtomicU64::new(0) }
    }

    /// Takes down a request.
    pub(crate) fn asked<B>(&self, request: &Request<B>) -> Asked<'_> {
        let given = request.headers().get(&REQUEST_ID).filter(|name| name.len() <= LEN_MAX);
        Asked {
            names: self,
            name: given.cloned().unwrap_or_else(|| self.made()),
            method: request.method().clone(),
            uri: request.uri().clone(),
            since: self.clock.now().tick,
        }
    }

    fn made(&self) -> HeaderValue {
        let (run, number) = (self.started_ms, self.next.fetch_add(1, Ordering::Relaxed));
        HeaderValue::try_from(format!("{run:x}-{number:x}")).expect("these are digits")
    }
}

/// Whether a call of gRPC could not be served: `INTERNAL` or `UNAVAILABLE`.
fn is_failed_call(answer: &Response) -> bool {
    let status = answer.headers().get("grpc-status");
    status.is_some_and(|status| status == "13" || status == "14")
}

impl Asked<'_> {
    /// Puts its name into the answer, and tells the log.
    pub(crate) fn answered(mut self, answer: &mut Response) {
        if answer.status().is_server_error() || is_failed_call(answer) {
            self.tell_failed(answer);
        } else if tracing::enabled!(Level::DEBUG) {
            let (path, request) = (self.uri.path(), self.name.to_str().unwrap_or_default());
            let (method, status) = (&self.method, answer.status().as_u16());
            let took_us = self.now_us() - self.since.as_us();
            tracing::debug!(%method, path, status, took_us, request, "answered");
        }
        // Each is another: HTTP/2 need not remember it for the next.
        self.name.set_sensitive(true);
        answer.headers_mut().insert(&REQUEST_ID, self.name);
    }

    fn tell_failed(&self, answer: &Response) {
        let (told, now) = (self.names.failed_us.load(Ordering::Relaxed), self.now_us());
        let due = told == 0 || now - told >= SECOND_US;
        let swap = |names: &Names| {
            names.failed_us.compare_exchange(told, now, Ordering::Relaxed, Ordering::Relaxed)
        };
        if !due || swap(self.names).is_err() {
            self.names.failed.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let code = match answer.headers().get("linger-code") {
            Some(code) => code.to_str().unwrap_or_default(),
            None => answer.extensions().get::<Code>().map_or("", |code| code.as_str()),
        };
        let (path, request) = (self.uri.path(), self.name.to_str().unwrap_or_default());
        let (method, others) = (&self.method, self.names.failed.swap(0, Ordering::Relaxed));
        tracing::warn!(%method, path, code, request, others, "a request could not be served");
    }

    fn now_us(&self) -> u64 {
        self.names.clock.now().tick.as_us()
    }
}
