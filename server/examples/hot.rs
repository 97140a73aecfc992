//! Does one hot operation so many times, for `bench/instructions-check` to count what it costs.
//!
//! Whatever else could be counted stands still or is left out: there is one thread, which moves the
//! store's parts itself, the clock is moved by hand, and nothing is synced.

// Calls of every store nest in the future of a request, and here nothing between is boxed.
#![recursion_limit = "256"]

use std::future::poll_fn;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::pin::{Pin, pin};
use std::process::ExitCode;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use axum::http::{Request, StatusCode};
use bytes::Bytes;
use http_body_util::Full;
use linger::job::{Body, NewJob, When};
use linger::queue::{Ask, Queue, Settle, Verdict};
use linger::store::Options;
use linger::store::embedded::files::Folder;
use linger::store::embedded::{Durability, Embedded, Manual, Settings};
use linger::testkit::SimClock;
use linger::topic::Topic;
use linger_server::bench_support::Fronts;
use tempfile::TempDir;
use tokio::runtime::Runtime;

// As the server's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// An operation, done so many times.
type Operation = fn(u64) -> Result<()>;

const OPERATIONS: [(&str, Operation); 6] = [
    ("add", add),
    ("pop-finish", pop_finish),
    ("promote", promote),
    ("open", open),
    ("http-add", http_add),
    ("beanstalk-put", beanstalk_put),
];

/// So many jobs are there from the start, however many operations follow; and so many of these there
/// may be.
const JOBS: u64 = 4000;
/// Jobs that are added in one call, and become due at one moment.
const AT_ONCE: u64 = 100;

/// All that any of these writes fits into one file of the log.
const LOG_BYTES: u32 = 4 << 20;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let asked = match args.as_slice() {
        [name, count] => OPERATIONS
            .iter()
            .find(|(known, _)| known == name)
            .zip(count.parse().ok().filter(|count| *count <= JOBS)),
        _ => None,
    };
    let Some(((_, operation), count)) = asked else {
        let names: Vec<_> = OPERATIONS.iter().map(|(name, _)| *name).collect();
        eprintln!("usage: hot OPERATION COUNT, at most {JOBS} times one of {}", names.join(", "));
        return ExitCode::from(2);
    };
    match operation(count) {
        Ok(()) => ExitCode::SUCCESS,
        Err(wrong) => {
            eprintln!("hot: {wrong}");
            ExitCode::FAILURE
        }
    }
}

/// A job to the store: encoded, decided, indexed, written and answered.
fn add(count: u64) -> Result<()> {
    let mut hot = Hot::with(JOBS, waiting)?;
    let jobs: Vec<_> = (JOBS..2 * JOBS).map(waiting).collect();
    jobs.into_iter().take(count as usize).try_for_each(|job| hot.add(vec![job?]))
}

/// A job that is due: popped with its body, then finished.
fn pop_finish(count: u64) -> Result<()> {
    let mut hot = Hot::with(JOBS, |n| job(0, n, Duration::ZERO))?;
    let (store, topic) = (hot.store.clone(), topic(0)?);
    for _ in 0..count {
        let popped = hot.moved(store.pop(Ask::one(topic.clone())))?;
        let [job] = popped.as_slice() else { return Err("nothing was popped".into()) };
        let finish = vec![Settle::delivery(job, Verdict::Finish)];
        hot.moved(store.settle(finish))?.remove(0)?;
    }
    Ok(())
}

/// A job whose time comes, among others with the same.
fn promote(count: u64) -> Result<()> {
    let second = |n| Duration::from_secs(1 + n / AT_ONCE);
    let mut hot = Hot::with(JOBS, |n| job(n, n, second(n)))?;
    for _ in 0..count / AT_ONCE {
        hot.clock.advance(Duration::from_secs(1));
        while hot.parts.decide() {}
    }
    Ok(())
}

/// A job of a log that is read back.
fn open(count: u64) -> Result<()> {
    // The end of a file is looked through for what may lie behind a gap: these jobs nearly fill it.
    const LOG: (u64, u32) = (1000, 384 << 10);
    let (jobs, log_bytes) = LOG;
    let Hot { folder, clock, .. } = Hot::in_log(log_bytes, jobs, waiting)?;
    for _ in 0..count / jobs {
        drop(parts(&folder, &clock, log_bytes)?);
    }
    Ok(())
}

/// A request to add a job: let in, read, stored and answered.
fn http_add(count: u64) -> Result<()> {
    let mut hot = Hot::with(JOBS, waiting)?;
    let runtime = runtime()?;
    let _entered = runtime.enter();
    let fronts = hot.fronts()?;
    let requests: Vec<_> = (JOBS..2 * JOBS).map(request).collect();
    for request in requests.into_iter().take(count as usize) {
        let status = hot.moved(fronts.http(request?)).status();
        if status != StatusCode::CREATED {
            return Err(format!("answered {status}").into());
        }
    }
    Ok(())
}

/// A put on a connection: read, stored and answered.
fn beanstalk_put(count: u64) -> Result<()> {
    let mut hot = Hot::with(JOBS, waiting)?;
    let runtime = runtime()?;
    let _entered = runtime.enter();
    let fronts = hot.fronts()?;
    let (mut client, served) = connection()?;
    let mut serving = pin!(fronts.beanstalk(served));
    let put = format!("put 1024 129600 60 {}\r\n{}\r\n", body().len(), body());
    for _ in 0..count {
        client.write_all(put.as_bytes())?;
        let answer = runtime.block_on(hot.answer(&mut client, serving.as_mut()))?;
        if !answer.starts_with("INSERTED ") {
            return Err(format!("answered {answer}").into());
        }
    }
    Ok(())
}

/// A store whose parts move when they are told.
struct Hot {
    parts: Manual,
    store: Arc<Embedded>,
    clock: Arc<SimClock>,
    folder: TempDir,
}

impl Hot {
    /// A store with so many jobs.
    fn with(jobs: u64, job: impl Fn(u64) -> Result<NewJob>) -> Result<Hot> {
        Hot::in_log(LOG_BYTES, jobs, job)
    }

    fn in_log(bytes: u32, jobs: u64, job: impl Fn(u64) -> Result<NewJob>) -> Result<Hot> {
        let (folder, clock) = (tempfile::tempdir()?, SimClock::new());
        let mut parts = parts(&folder, &clock, bytes)?;
        while parts.keep() {}
        let mut hot = Hot { store: parts.store().clone(), parts, clock, folder };
        for first in (0..jobs).step_by(AT_ONCE as usize) {
            hot.add((first..first + AT_ONCE).map(&job).collect::<Result<_>>()?)?;
        }
        Ok(hot)
    }

    fn add(&mut self, jobs: Vec<NewJob>) -> Result<()> {
        let store = self.store.clone();
        for added in self.moved(store.add_all(jobs))? {
            added?;
        }
        Ok(())
    }

    fn fronts(&mut self) -> Result<Fronts> {
        let fronts = Fronts::new(self.parts.handle());
        Ok(self.moved(fronts)?)
    }

    /// Has a call done: the store moves while it waits.
    fn moved<T>(&mut self, call: impl Future<Output = T>) -> T {
        let (mut call, mut context) = (pin!(call), Context::from_waker(Waker::noop()));
        loop {
            match call.as_mut().poll(&mut context) {
                Poll::Ready(done) => return done,
                Poll::Pending => self.parts.decide(),
            };
        }
    }

    /// What a client is answered by whoever serves it.
    async fn answer(
        &mut self,
        client: &mut TcpStream,
        mut serving: Pin<&mut impl Future<Output = ()>>,
    ) -> Result<String> {
        let mut answer = [0; 256];
        let read = poll_fn(|context| {
            if serving.as_mut().poll(context).is_ready() {
                return Poll::Ready(Err(std::io::ErrorKind::ConnectionAborted.into()));
            }
            self.parts.decide();
            match client.read(&mut answer) {
                Err(cause) if cause.kind() == std::io::ErrorKind::WouldBlock => {
                    context.waker().wake_by_ref();
                    Poll::Pending
                }
                read => Poll::Ready(read),
            }
        });
        let read = read.await?;
        Ok(String::from_utf8_lossy(&answer[..read]).into_owned())
    }
}

/// The store in this folder. Relaxed, so that no answer waits for a sync.
fn parts(folder: &TempDir, clock: &Arc<SimClock>, segment_bytes: u32) -> Result<Manual> {
    let files = Arc::new(Folder::open(folder.path())?);
    let options = Options { clock: clock.clone(), ..Options::default() };
    let durability = Durability::Relaxed;
    let settings = Settings { durability, segment_bytes, ..Settings::default() };
    Ok(Manual::open(files, options, settings)?)
}

fn runtime() -> Result<Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}

/// Both ends of a connection; neither waits.
fn connection() -> Result<(TcpStream, tokio::net::TcpStream)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let client = TcpStream::connect(listener.local_addr()?)?;
    let (served, _) = listener.accept()?;
    client.set_nodelay(true)?;
    client.set_nonblocking(true)?;
    served.set_nonblocking(true)?;
    Ok((client, tokio::net::TcpStream::from_std(served)?))
}

/// Job number `n`, which waits for days.
fn waiting(n: u64) -> Result<NewJob> {
    const HOUR: u64 = 3600;
    let by_chance = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (216 * HOUR);
    job(n, n, Duration::from_secs(24 * HOUR + by_chance))
}

fn job(of_topic: u64, n: u64, delay: Duration) -> Result<NewJob> {
    let id = format!("order-{n:08}").parse()?;
    let mut job = NewJob::new(topic(of_topic)?, id, Body::json(body())?);
    job.when = Some(When::In(delay));
    Ok(job)
}

/// One of ten.
fn topic(n: u64) -> Result<Topic> {
    Ok(format!("orders-{}", n % 10).parse()?)
}

/// A request to add job number `n`.
fn request(n: u64) -> Result<Request<Full<Bytes>>> {
    let (topic, body) = (topic(n)?, body());
    let text = format!(r#"{{"topic":"{topic}","id":"order-{n:08}","delay":"36h","body":{body}}}"#);
    let request = Request::post("/v1/jobs")
        .header("host", "127.0.0.1:7300")
        .header("content-type", "application/json");
    Ok(request.body(Full::new(text.into()))?)
}

/// 200 bytes of JSON.
fn body() -> &'static str {
    concat!(
        r#"{"order":"00001234","customer":"c-8812","items":[{"sku":"A-100","count":2}],"note":""#,
        "close unless paid close unless paid close unless paid close unless paid ",
        r#"close unless paid close unless paid close"}"#,
    )
}
