//! `linger bench`.

use std::fmt::Write;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use hyper::Method;
use linger::time::{Time, format_duration, parse_duration};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::client::{Client, Patience, Remote};
use super::json::Object;
use super::progress::Progress;
use super::{End, note, output, path};

/// Put a bounded load on a running server, and measure it
///
/// Adds jobs to a topic of its own at a steady rate, pops and finishes them when they are due, and forgets the
/// topic in the end, also when it is interrupted. Safe beside other work: 500 jobs a second for 10 seconds unless
/// it is told otherwise, and the first refusal ends it.
///
/// Exit code 2: it was refused, or interrupted; what was measured until then is told.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Bench {
    /// How many jobs a second
    #[arg(long, value_name = "N", default_value = "500")]
    rate: NonZeroU64,
    /// For how long they are added
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = for_long)]
    time: Duration,
    /// At most so many jobs
    #[arg(long, value_name = "N")]
    jobs: Option<NonZeroU64>,
    /// How long after it was added a job is due
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = due_after)]
    delay: Duration,
    /// The bytes of each body
    #[arg(long, value_name = "BYTES", default_value = "200", value_parser = clap::value_parser!(u32).range(..=65536))]
    body: u32,
    /// Calls under way at once, for adding and for popping each
    #[arg(long, value_name = "N", default_value = "16", value_parser = clap::value_parser!(u32).range(1..=1024))]
    connections: u32,
    #[command(flatten)]
    remote: Remote,
}

const EXAMPLES: &str = "\
Examples:
  linger bench
  linger bench --rate 5000 --time 30s --connections 64
  linger bench --json | jq .late.p99_ms

If it is killed its topic is left: linger topics linger.bench. shows it, and
curl -X DELETE http://127.0.0.1:7300/v1/topics/NAME forgets it.";

const TOPIC: &str = "linger.bench.";
const TIME_MAX: Duration = Duration::from_secs(3600);
const DELAY_MAX: Duration = Duration::from_secs(600);
/// More would be held in memory for their percentiles.
const JOBS_MAX: u64 = 50_000_000;
/// How long one pop waits, and for how many jobs at most.
const WAIT: &str = "1s";
const AT_ONCE: u32 = 10;
const TTR: Duration = Duration::from_secs(60);
/// How long jobs may take to come back after the last was due.
const GRACE: Duration = Duration::from_secs(30);

fn for_long(text: &str) -> Result<Duration, String> {
    within(text, Duration::from_millis(1), TIME_MAX)
}

fn due_after(text: &str) -> Result<Duration, String> {
    within(text, Duration::ZERO, DELAY_MAX)
}

fn within(text: &str, least: Duration, most: Duration) -> Result<Duration, String> {
    let time = parse_duration(text).map_err(|why| why.to_string())?;
    let [shown, from, to] = [time, least, most].map(format_duration);
    match (least..=most).contains(&time) {
        true => Ok(time),
        false => Err(format!("{shown} is out of range; give {from} to {to}")),
    }
}

impl Bench {
    pub(super) fn run(self) -> Result<End> {
        let client = Arc::new(self.remote.client()?);
        let by_time = (self.time.as_secs_f64() * self.rate.get() as f64).ceil() as u64;
        let jobs = self.jobs.map_or(by_time, |jobs| jobs.get().min(by_time)).max(1);
        if jobs > JOBS_MAX {
            bail!(
                "that would be {jobs} jobs, over the limit of {JOBS_MAX}; lower --rate or --time"
            );
        }
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let load = Load {
            topic: format!("{TOPIC}{}", random()),
            jobs,
            delay: self.delay,
            rate: self.rate.get(),
            body: "x".repeat(self.body as usize),
            connections: self.connections,
            client,
            added: AtomicU64::new(0),
            finished: AtomicU64::new(0),
        };
        let load = Arc::new(load);
        let ran = runtime.block_on(run(&load));
        drop(runtime);
        let (measured, why) = ran?;
        let json = load.client.prints_json();
        output(if json { measured.as_json(&load, &why) } else { measured.as_text(&load) })?;
        match why {
            None => Ok(End::Done),
            Some(why) => {
                note(&format!("it ended early: {why}"));
                Ok(End::Failed)
            }
        }
    }
}

/// A name that nobody else has.
fn random() -> String {
    format!("{:016x}", crate::front::somewhere())
}

/// What is to be done, and how far it has come.
struct Load {
    topic: String,
    jobs: u64,
    rate: u64,
    delay: Duration,
    body: String,
    connections: u32,
    client: Arc<Client>,
    added: AtomicU64,
    finished: AtomicU64,
}

/// How long things took, each in microseconds.
#[derive(Default)]
struct Measured {
    adds: Vec<u32>,
    finishes: Vec<u32>,
    /// How late each job was handed out, by the server's clock.
    late: Vec<u32>,
    adding: Duration,
    took: Duration,
    /// How many were there when the topic was forgotten.
    left: Option<u64>,
}

/// Why a load ended early.
type Early = Option<String>;

/// Puts the load on the server, and clears up whatever came of it.
async fn run(load: &Arc<Load>) -> Result<(Measured, Early)> {
    // A first call that changes nothing: whoever has no server or no key learns it here.
    load.client.ask(Method::GET, "/v1/stats", None, Patience::Probe).await?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    note(&format!("{} jobs in the topic {}", load.jobs, load.topic));
    let stop = CancellationToken::new();
    let mut loading = tokio::spawn(put(load.clone(), stop.clone()));
    let mut why: Early = None;
    let (mut measured, refused) = tokio::select! {
        ended = &mut loading => ended?,
        _ = interrupt.recv() => {
            why = Some("interrupted".into());
            stop.cancel();
            loading.await?
        }
        _ = terminate.recv() => {
            why = Some("terminated".into());
            stop.cancel();
            loading.await?
        }
    };
    let forgotten = forget(load).await;
    measured.left = forgotten.as_ref().ok().copied();
    forgotten.with_context(|| format!("the topic `{}` could not be forgotten", load.topic))?;
    Ok((measured, why.or(refused)))
}

/// Forgets the topic; answers how many jobs were in it. It is none's if no job was ever added.
async fn forget(load: &Load) -> Result<u64> {
    #[derive(Deserialize)]
    struct Count {
        count: u64,
    }
    let path = path::topic(&load.topic);
    match load.client.ask(Method::DELETE, &path, None, Patience::Usual).await {
        Ok(answer) => Ok(answer.read::<Count>()?.count),
        Err(why) => match why.downcast_ref::<super::client::Refused>() {
            Some(refused) if refused.is_not_found() => Ok(0),
            _ => Err(why),
        },
    }
}

async fn put(load: Arc<Load>, stop: CancellationToken) -> (Measured, Early) {
    let start = Instant::now();
    let (mut adding, mut popping) = (JoinSet::new(), JoinSet::new());
    for n in 0..u64::from(load.connections) {
        adding.spawn(add(load.clone(), start, n, stop.clone()));
        popping.spawn(work(load.clone(), stop.clone()));
    }
    let showing = tokio::spawn(show(load.clone()));
    let (mut measured, mut why) = (Measured::default(), None);
    while let Some(added) = adding.join_next().await {
        match added.map_err(anyhow::Error::from).and_then(|added| added) {
            Ok(times) => measured.adds.extend(times),
            Err(refused) => {
                stop.cancel();
                why = why.or(Some(super::sentence(&refused)));
            }
        }
    }
    measured.adding = start.elapsed();
    // They may only come back when they are due.
    let patience = load.delay + GRACE;
    let last = async {
        while let Some(worked) = popping.join_next().await {
            match worked.map_err(anyhow::Error::from).and_then(|worked| worked) {
                Ok((finishes, late)) => {
                    measured.finishes.extend(finishes);
                    measured.late.extend(late);
                }
                Err(refused) => {
                    stop.cancel();
                    why = why.take().or(Some(super::sentence(&refused)));
                }
            }
        }
    };
    if tokio::time::timeout(patience, last).await.is_err() {
        why = why.or(Some("not all jobs came back in time".into()));
    }
    measured.took = start.elapsed();
    showing.abort();
    let _ = showing.await;
    (measured, why)
}

/// Shows how far it has come, until it is aborted.
async fn show(load: Arc<Load>) {
    let mut progress = Progress::of(Some(load.jobs));
    let mut ticks = tokio::time::interval(Duration::from_millis(100));
    loop {
        ticks.tick().await;
        let finished = load.finished.load(Ordering::Relaxed);
        progress.at(finished, finished);
    }
}

/// Adds every so many-th job at its time; answers how long each took.
async fn add(
    load: Arc<Load>,
    start: Instant,
    first: u64,
    stop: CancellationToken,
) -> Result<Vec<u32>> {
    let mut times = Vec::new();
    for n in (first..load.jobs).step_by(load.connections as usize) {
        let at = start + Duration::from_secs_f64(n as f64 / load.rate as f64);
        tokio::select! {
            () = tokio::time::sleep_until(at.into()) => {}
            () = stop.cancelled() => break,
        }
        let job = Object::default()
            .with("topic", &load.topic)
            .with("id", n.to_string())
            .with("delay", format_duration(load.delay))
            .with("body", &load.body);
        let begun = Instant::now();
        load.client.ask(Method::POST, "/v1/jobs", Some(&job), Patience::Usual).await?;
        times.push(micros(begun.elapsed()));
        load.added.fetch_add(1, Ordering::Relaxed);
    }
    Ok(times)
}

/// Pops and finishes until all is done; answers how long each finish took, and how late each job was.
async fn work(load: Arc<Load>, stop: CancellationToken) -> Result<(Vec<u32>, Vec<u32>)> {
    #[derive(Deserialize)]
    struct Popped {
        jobs: Vec<Job>,
    }
    #[derive(Deserialize)]
    struct Job {
        id: String,
        lease: String,
        due: String,
        reserved_until: String,
    }
    let (mut finishes, mut late) = (Vec::new(), Vec::new());
    let pop = path::topic(&load.topic) + "/pop";
    let ask =
        Object::default().with("max", AT_ONCE).with("wait", WAIT).with("ttr", format_duration(TTR));
    while load.finished.load(Ordering::Relaxed) < load.jobs {
        let popping = load.client.ask(Method::POST, &pop, Some(&ask), Patience::Server);
        let popped = tokio::select! {
            popped = popping => popped?,
            () = stop.cancelled() => break,
        };
        for job in popped.read::<Popped>()?.jobs {
            let [due, until] = [&job.due, &job.reserved_until].map(|time| time.parse::<Time>());
            if let (Ok(due), Ok(until)) = (due, until) {
                // The server's clock alone has a say: it was handed out so long before its lease ends.
                let handed_out = until.as_ms().saturating_sub(TTR.as_millis() as u64);
                late.push(handed_out.saturating_sub(due.as_ms()).saturating_mul(1000) as u32);
            }
            let path = path::job(&load.topic, &job.id) + "/finish";
            let lease = Object::default().with("lease", job.lease);
            let begun = Instant::now();
            load.client.ask(Method::POST, &path, Some(&lease), Patience::Usual).await?;
            finishes.push(micros(begun.elapsed()));
            load.finished.fetch_add(1, Ordering::Relaxed);
        }
    }
    Ok((finishes, late))
}

fn micros(time: Duration) -> u32 {
    u32::try_from(time.as_micros()).unwrap_or(u32::MAX)
}

/// Of some times: half were under the first, and so on.
struct Percentiles {
    p50: f64,
    p90: f64,
    p99: f64,
    max: f64,
}

impl Percentiles {
    /// In milliseconds; none if nothing was measured.
    fn of(times: &[u32]) -> Option<Percentiles> {
        let mut sorted = times.to_vec();
        sorted.sort_unstable();
        let at = |share: f64| {
            let rank = (sorted.len() as f64 * share).ceil() as usize;
            sorted.get(rank.max(1) - 1).map(|us| f64::from(*us) / 1000.0)
        };
        Some(Percentiles { p50: at(0.5)?, p90: at(0.9)?, p99: at(0.99)?, max: at(1.0)? })
    }

    fn as_json(times: &[u32]) -> Value {
        match Percentiles::of(times) {
            None => Value::Null,
            Some(Percentiles { p50, p90, p99, max }) => {
                json!({ "p50_ms": p50, "p90_ms": p90, "p99_ms": p99, "max_ms": max })
            }
        }
    }
}

impl Measured {
    fn per_second(count: usize, took: Duration) -> f64 {
        let rate = count as f64 / took.as_secs_f64().max(1e-9);
        (rate * 10.0).round() / 10.0
    }

    fn as_json(&self, load: &Load, why: &Early) -> String {
        let told = json!({
            "topic": load.topic,
            "jobs": load.jobs,
            "added": self.adds.len(),
            "finished": self.finishes.len(),
            "left": self.left,
            "seconds": self.took.as_secs_f64(),
            "adds_per_second": Measured::per_second(self.adds.len(), self.adding),
            "finishes_per_second": Measured::per_second(self.finishes.len(), self.took),
            "add": Percentiles::as_json(&self.adds),
            "finish": Percentiles::as_json(&self.finishes),
            "late": Percentiles::as_json(&self.late),
            "ended_early": why,
        });
        format!("{told}\n")
    }

    fn as_text(&self, load: &Load) -> String {
        let mut text = String::new();
        let (added, finished) = (self.adds.len(), self.finishes.len());
        let _ = writeln!(
            text,
            "added     {added} of {} jobs, {} a second",
            load.jobs,
            Measured::per_second(added, self.adding)
        );
        let _ = writeln!(text, "finished  {finished} in {:.1} s", self.took.as_secs_f64());
        let _ =
            writeln!(text, "{:<10}{:>10}{:>10}{:>10}{:>10}", "in ms", "p50", "p90", "p99", "max");
        for (name, times) in [("add", &self.adds), ("finish", &self.finishes), ("late", &self.late)]
        {
            if let Some(Percentiles { p50, p90, p99, max }) = Percentiles::of(times) {
                let _ = writeln!(text, "{name:<10}{p50:>10.2}{p90:>10.2}{p99:>10.2}{max:>10.2}");
            }
        }
        let left = self.left.unwrap_or(0);
        let _ = writeln!(text, "the topic is forgotten, with {left} jobs that were left");
        text
    }
}
