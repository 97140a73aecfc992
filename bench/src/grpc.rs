//! The server over gRPC, measured beside a bare echo of gRPC and beside its own HTTP.

mod client;
mod lateness;
mod rates;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use linger::store::embedded::Durability;
use tokio::runtime::Runtime;
use tonic::transport::Channel;

use crate::args::{Args, Effort, Part};
use crate::client::Connection;
use crate::report::{Names, Row, line, say};
use crate::server::{Ports, Programs, Server};
use crate::work::Maker;
use crate::{Result, child, run};

const NAMES: Names = Names { ours: "linger", peers: &["echo", "HTTP"], floor: "bare file" };
/// What a job may cost with many waiting, against what it costs with few.
const FLAT_MAX: f64 = 1.25;

/// What every part needs.
struct Bench {
    runtime: Runtime,
    maker: Maker,
    effort: Effort,
    rates_with: String,
    echo: Server,
    size: u64,
    /// The next round's number: each has a topic of its own, which is emptied after it.
    round: u64,
    rows: Vec<Row>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    run::run(args, NAMES, FLAT_MAX, Vec::new(), |folder| {
        let programs = Programs::build(args.linger.as_deref())?;
        let mut rows = Vec::new();
        for size in &args.sizes {
            rows.extend(at_size(folder, args, &programs, *size)?);
        }
        Ok(rows)
    })
}

fn at_size(folder: &Path, args: &Args, programs: &Programs, size: u64) -> Result<Vec<Row>> {
    let folder: PathBuf = folder.join(size.to_string());
    std::fs::create_dir(&folder)?;
    let mut bench = Bench {
        runtime: Runtime::new()?,
        maker: Maker::new()?,
        effort: args.effort,
        rates_with: args.rates.clone(),
        echo: programs.grpc_echo()?,
        size,
        round: 0,
        rows: Vec::new(),
    };
    let store = folder.join("store");
    say(size, "filling");
    child::fill_folder(&bench.runtime, &store, &bench.maker, size)?;
    for durability in [Durability::Sync, Durability::Relaxed] {
        let server = programs.linger(&store, durability, Ports::Http)?;
        if args.only.contains(&Part::Rates) {
            bench.rates(&server, durability)?;
        }
        if args.only.contains(&Part::Lateness) {
            bench.lateness(&server, durability)?;
        }
    }
    std::fs::remove_dir_all(&folder)?;
    Ok(bench.rows)
}

impl Bench {
    fn connect(&self, address: SocketAddr, count: usize) -> Result<Vec<Channel>> {
        self.runtime.block_on(async {
            let mut channels = Vec::with_capacity(count);
            for _ in 0..count {
                let to = Channel::from_shared(format!("http://{address}"))?.tcp_nodelay(true);
                channels.push(to.connect().await?);
            }
            Ok(channels)
        })
    }

    /// Adds jobs that are due at set times, by HTTP.
    fn add_due(&self, to: SocketAddr, topic: &str, count: u64, due: &str) -> Result<()> {
        let body = self.maker.body();
        let job = |_| format!(r#"{{"topic":"{topic}",{due},"body":{body}}}"#);
        self.runtime.block_on(async {
            Connection::open(to).await?.add_all((0..count).map(job)).await;
            Ok::<(), std::io::Error>(())
        })?;
        Ok(())
    }

    /// Empties a topic, and lets the server put away what that leaves to do.
    fn empty(&self, to: SocketAddr, topic: &str) -> Result<()> {
        self.runtime.block_on(async {
            let mut http = Connection::open(to).await?;
            let emptied = http.post(&format!("/v1/topics/{topic}/empty"), "{}").await;
            // A topic whose last job is gone may be gone, too.
            assert!([200, 404].contains(&emptied.status), "{}", emptied.body);
            Ok::<(), std::io::Error>(())
        })?;
        std::thread::sleep(self.effort.rate / 4);
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

fn name_of(durability: Durability) -> &'static str {
    if durability == Durability::Sync { "synced" } else { "relaxed" }
}
