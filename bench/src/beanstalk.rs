//! The server's beanstalkd port, measured beside beanstalkd itself and beside Redis with scripts.

pub(crate) mod client;
mod lateness;
mod peer;
mod rates;

use std::path::{Path, PathBuf};

use linger::store::embedded::Durability;
use tokio::runtime::{Builder, Runtime};

use crate::args::{Args, Effort, Part};
use crate::client::Connection;
use crate::report::{Names, Row, line, say};
use crate::server::{self, Ports, Server};
use crate::work::Maker;
use crate::{Result, child, run};
use client::{Client, Speaks, Target};
use peer::Programs;

const NAMES: Names = Names { ours: "linger", peers: peer::NAMES, floor: "bare file" };
/// What a job may cost with many waiting, against what it costs with few.
const FLAT_MAX: f64 = 1.25;

/// What every part needs.
struct Bench {
    /// One thread for all connections: what it costs is taken from the server.
    runtime: Runtime,
    effort: Effort,
    rates_with: String,
    programs: Programs,
    /// Where everything is.
    folder: PathBuf,
    size: u64,
    /// The next round's number: each has a tube of its own, which is emptied after it.
    round: u64,
    rows: Vec<Row>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let facts = Programs::find(args).facts();
    run::run(args, NAMES, FLAT_MAX, facts, |folder| {
        let linger = server::Programs::build(args.linger.as_deref())?;
        let mut rows = Vec::new();
        for size in &args.sizes {
            rows.extend(at_size(folder, args, &linger, *size)?);
        }
        Ok(rows)
    })
}

fn at_size(folder: &Path, args: &Args, linger: &server::Programs, size: u64) -> Result<Vec<Row>> {
    let folder = folder.join(size.to_string());
    std::fs::create_dir(&folder)?;
    let mut bench = Bench {
        runtime: Builder::new_current_thread().enable_all().build()?,
        effort: args.effort,
        rates_with: args.rates.clone(),
        programs: Programs::find(args),
        folder: folder.clone(),
        size,
        round: 0,
        rows: Vec::new(),
    };
    let store = folder.join("store");
    say(size, "filling");
    child::fill_folder(&bench.runtime, &store, &Maker::new()?, size)?;
    for durability in [Durability::Sync, Durability::Relaxed] {
        let linger = linger.linger(&store, durability, Ports::HttpAndBeanstalkd)?;
        if args.only.contains(&Part::Rates) {
            bench.rates(&linger, durability)?;
        }
        if args.only.contains(&Part::Lateness) {
            bench.lateness(&linger, durability)?;
        }
    }
    std::fs::remove_dir_all(&folder)?;
    Ok(bench.rows)
}

impl Bench {
    fn connect(&self, target: Target, tube: &str, count: usize) -> Vec<Client> {
        self.runtime.block_on(async {
            let mut clients = Vec::with_capacity(count);
            for _ in 0..count {
                clients.push(Client::open(target, tube).await);
            }
            clients
        })
    }

    /// Empties a tube of Linger's, and lets the server put away what that leaves to do.
    fn empty(&self, linger: &Server, tube: &str) -> Result<()> {
        self.runtime.block_on(async {
            let mut http = Connection::open(linger.address).await?;
            let emptied = http.post(&format!("/v1/topics/{tube}/empty"), "{}").await;
            // A topic whose last job is gone may be gone, too.
            assert!([200, 404].contains(&emptied.status), "{}", emptied.body);
            Ok::<(), std::io::Error>(())
        })?;
        std::thread::sleep(self.effort.rate / 4);
        Ok(())
    }

    fn next_tube(&mut self) -> String {
        self.round += 1;
        format!("round-{}", self.round)
    }

    /// Takes down a row, and shows it to those who watch.
    fn take_down(&mut self, row: Row) {
        eprintln!("  {}", line(&row, NAMES));
        self.rows.push(row);
    }
}

/// Where Linger speaks beanstalkd's protocol.
fn port_of(linger: &Server) -> Result<Target> {
    let address = linger.beanstalkd.ok_or("linger did not say where its beanstalkd port is")?;
    Ok(Target { address, speaks: Speaks::Beanstalk })
}

fn name_of(durability: Durability) -> &'static str {
    if durability == Durability::Sync { "synced" } else { "relaxed" }
}
