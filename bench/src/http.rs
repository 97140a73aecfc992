//! The server over HTTP, measured beside a bare echo.

mod lateness;
mod rates;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use linger::store::embedded::Durability;
use tokio::runtime::Runtime;

use crate::args::{Args, Effort, Part};
use crate::client::Connection;
use crate::report::{Names, Row, line, say};
use crate::server::{Ports, Programs, Server};
use crate::work::{Maker, mix};
use crate::{Result, child, run};

const NAMES: Names = Names { ours: "linger", peers: &["echo"], floor: "bare file" };
/// What a job may cost with many waiting, against what it costs with few.
const FLAT_MAX: f64 = 1.25;
const DAY_S: u64 = 86_400;

/// What every part needs.
struct Bench {
    runtime: Runtime,
    maker: Maker,
    effort: Effort,
    rates_with: String,
    programs: Programs,
    echo: Server,
    /// Where this size's store is.
    store: PathBuf,
    /// Where everything else is.
    beside: PathBuf,
    /// The next round's number: each has topics of its own, which are emptied after it.
    round: u64,
    rows: Vec<Row>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    run::run(args, NAMES, FLAT_MAX, Vec::new(), |folder| {
        let mut rows = Vec::new();
        for size in &args.sizes {
            rows.extend(at_size(folder, args, *size)?);
        }
        Ok(rows)
    })
}

fn at_size(folder: &Path, args: &Args, size: u64) -> Result<Vec<Row>> {
    let programs = Programs::build(args.linger.as_deref())?;
    let beside = folder.join(size.to_string());
    std::fs::create_dir(&beside)?;
    let mut bench = Bench {
        runtime: Runtime::new()?,
        maker: Maker::new()?,
        effort: args.effort,
        rates_with: args.rates.clone(),
        echo: programs.echo()?,
        programs,
        store: beside.join("store"),
        beside: beside.clone(),
        round: 0,
        rows: Vec::new(),
    };
    say(size, "filling");
    child::fill_folder(&bench.runtime, &bench.store, &bench.maker, size)?;
    for durability in [Durability::Sync, Durability::Relaxed] {
        let server = bench.programs.linger(&bench.store, durability, Ports::Http)?;
        if args.only.contains(&Part::Rates) {
            bench.rates(size, &server, durability)?;
        }
        if args.only.contains(&Part::Lateness) && durability == Durability::Sync {
            bench.lateness(size, &server)?;
        }
    }
    std::fs::remove_dir_all(&beside)?;
    Ok(bench.rows)
}

impl Bench {
    fn connect(&self, address: SocketAddr, count: usize) -> Result<Vec<Connection>> {
        self.runtime.block_on(async {
            let mut connections = Vec::with_capacity(count);
            for _ in 0..count {
                connections.push(Connection::open(address).await?);
            }
            Ok(connections)
        })
    }

    /// Takes down a row, and shows it to those who watch.
    fn take_down(&mut self, row: Row) {
        eprintln!("  {}", line(&row, NAMES));
        self.rows.push(row);
    }

    fn next_round(&mut self) -> u64 {
        self.round += 1;
        self.round
    }
}

/// Job number `n` of a round, which waits, as JSON.
fn waiting(body: &str, round: u64, n: u64) -> String {
    let (topic, delay) = (topic(round, n), DAY_S + mix(n) % (9 * DAY_S));
    format!(r#"{{"topic":"{topic}","id":"{}","delay":{delay},"body":{body}}}"#, id(n))
}

/// The topic of job number `n` of a round.
fn topic(round: u64, n: u64) -> String {
    format!("round-{round}-{}", n % TOPICS)
}

fn id(n: u64) -> String {
    format!("order-{n:08}")
}

/// Topics of a round.
const TOPICS: u64 = 10;
