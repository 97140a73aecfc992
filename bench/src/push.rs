//! What the server pushes, measured beside bare loops of the same clients.

pub(crate) mod broker;
mod lateness;
mod rates;
mod sinks;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use linger::store::embedded::Durability;
use serde::Deserialize;
use tokio::runtime::Runtime;

use crate::args::{Args, Effort, Part};
use crate::client::Connection;
use crate::report::{Names, Row, line, say};
use crate::server::{Ports, Programs, Server};
use crate::work::Maker;
use crate::{Result, child, run};

const NAMES: Names = Names { ours: "linger", peers: &["bare loop"], floor: "bare file" };
/// What a push may cost with many waiting, against what it costs with few.
const FLAT_MAX: f64 = 1.25;
/// Posts under way at once, of either. The first are for lateness, too.
const CONNECTIONS: [usize; 2] = [64, 256];
/// How often somebody is asked how far it is.
const ASK_EVERY: Duration = Duration::from_millis(5);
/// What was pushed is finished within this time.
const FINISHED_MAX: Duration = Duration::from_secs(30);

/// What every part needs.
struct Bench {
    runtime: Runtime,
    maker: Maker,
    effort: Effort,
    rates_with: String,
    receiver: Server,
    bare: Server,
    size: u64,
    /// Where everything else is.
    beside: PathBuf,
    /// The next round's number: each has a topic of its own.
    round: u64,
    rows: Vec<Row>,
}

/// What the receiver has seen since it was last asked.
#[derive(Deserialize)]
struct Seen {
    /// How late each job came.
    late_us: Vec<u64>,
    /// Jobs that were no first attempts.
    again: u64,
    /// When the last came, since 1970.
    last_us: u64,
    /// Connections that were made.
    connections: u64,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let brokers = broker::Programs::of(args);
    run::run(args, NAMES, FLAT_MAX, brokers.facts(), |folder| {
        let programs = Programs::build(args.linger.as_deref())?;
        let mut rows = Vec::new();
        for size in &args.sizes {
            rows.extend(at_size(folder, args, &programs, &brokers, *size)?);
        }
        Ok(rows)
    })
}

fn at_size(
    folder: &Path,
    args: &Args,
    programs: &Programs,
    brokers: &broker::Programs,
    size: u64,
) -> Result<Vec<Row>> {
    let beside = folder.join(size.to_string());
    std::fs::create_dir(&beside)?;
    let mut bench = Bench {
        runtime: Runtime::new()?,
        maker: Maker::new()?,
        effort: args.effort,
        rates_with: args.rates.clone(),
        receiver: programs.receiver()?,
        bare: programs.bare_push()?,
        size,
        beside: beside.clone(),
        round: 0,
        rows: Vec::new(),
    };
    let store = beside.join("store");
    say(size, "filling");
    child::fill_folder(&bench.runtime, &store, &bench.maker, size)?;
    for durability in [Durability::Sync, Durability::Relaxed] {
        for connections in CONNECTIONS {
            let settings = settings(connections);
            let settings = settings.each_ref().map(String::as_str);
            let server = programs.linger_with(&store, durability, Ports::Http, &settings)?;
            if args.only.contains(&Part::Rates) {
                bench.rates(&server, durability, connections)?;
            }
            if args.only.contains(&Part::Lateness) && connections == CONNECTIONS[0] {
                bench.lateness(&server, durability)?;
            }
        }
    }
    if args.only.contains(&Part::Rates) {
        bench.sinks(programs, brokers, &store)?;
    }
    std::fs::remove_dir_all(&beside)?;
    Ok(bench.rows)
}

impl Bench {
    /// Adds jobs for a target; `when` says when each is due.
    fn add(
        &self,
        to: SocketAddr,
        topic: &str,
        target: &str,
        count: u64,
        when: impl Fn(u64) -> String,
    ) -> Result<()> {
        let body = self.maker.body();
        let job = |n| {
            let when = when(n);
            format!(r#"{{"topic":"{topic}","target":"{target}",{when},"body":{body}}}"#)
        };
        self.runtime.block_on(async {
            Connection::open(to).await?.add_all((0..count).map(job)).await;
            Ok::<(), std::io::Error>(())
        })?;
        Ok(())
    }

    /// Adds jobs that are all due and held back; answers the path of their topic.
    fn hold(&mut self, to: SocketAddr, target: &str, count: u64) -> Result<String> {
        let topic = self.next_topic();
        self.post(to, &format!("/v1/topics/{topic}/pause"), r#"{"for":"1h"}"#)?;
        self.add(to, &topic, target, count, |_| r#""delay":0"#.to_owned())?;
        Ok(format!("/v1/topics/{topic}"))
    }

    /// Waits until the jobs of a topic are finished, too: one that was pushed and is not would come again from
    /// the next server.
    fn finished(&self, to: SocketAddr, topic: &str) -> Result<()> {
        let start = Instant::now();
        self.runtime.block_on(async {
            let mut server = Connection::open(to).await?;
            // It goes with its last job.
            while server.call("GET", topic, "").await?.status != 404 {
                if start.elapsed() > FINISHED_MAX {
                    return Err(format!("{topic} is not empty after {FINISHED_MAX:?}").into());
                }
                tokio::time::sleep(ASK_EVERY).await;
            }
            Ok(())
        })
    }

    /// Where the receiver takes jobs.
    fn target(&self) -> String {
        format!("http://{}/hooks", self.receiver.address)
    }

    /// Waits until the receiver has so many jobs, each once.
    fn seen(&self, count: u64) -> Result<Seen> {
        let seen: Seen = self.runtime.block_on(async {
            let mut receiver = Connection::open(self.receiver.address).await?;
            let answer = receiver.call("GET", &format!("/{count}"), "").await?;
            serde_json::from_str(answer.body).map_err(std::io::Error::other)
        })?;
        assert_eq!((seen.late_us.len() as u64, seen.again), (count, 0), "each comes once");
        Ok(seen)
    }

    /// Posts something that must be taken.
    fn post(&self, to: SocketAddr, path: &str, body: &str) -> Result<()> {
        self.runtime.block_on(async {
            Connection::open(to).await?.post_ok(path, body).await;
            Ok::<(), std::io::Error>(())
        })?;
        Ok(())
    }

    fn next_topic(&mut self) -> String {
        self.round += 1;
        format!("round-{}", self.round)
    }

    /// Takes down a row, and shows it to those who watch.
    fn take_down(&mut self, row: Row) {
        eprintln!("  {}", line(&row, NAMES));
        self.rows.push(row);
    }
}

/// A topic has half of `push.concurrency` at most.
fn settings(connections: usize) -> [String; 2] {
    [format!("push.per_destination={connections}"), format!("push.concurrency={}", connections * 4)]
}

fn name_of(durability: Durability) -> &'static str {
    if durability == Durability::Sync { "synced" } else { "relaxed" }
}
