//! A store on Redis, measured beside a bare queue of scripts on the same Redis, BullMQ and lmstfy.

mod bullmq;
mod http;
mod keep;
mod lateness;
mod lmstfy;
mod moves;
mod rates;
mod served;
mod takeover;

use std::path::{Path, PathBuf};

use tokio::runtime::Runtime;

use crate::args::{Args, Effort, Part};
use crate::report::{Names, Row, line};
use crate::server::Linger;
use crate::work::mix;
use crate::{Result, run, tools};
use bullmq::BullMq;
use lmstfy::Lmstfy;
use served::{Log, Redis};

const NAMES: Names = Names {
    ours: "linger",
    peers: &["raw Lua", "BullMQ", "BullMQ, HTTP", "lmstfy"],
    floor: "PING",
};
/// The columns of the peers.
const RAW: usize = 0;
/// BullMQ behind an HTTP server, as Linger is; the column before has it in a program of its own.
const BULLMQ_SERVED: usize = 2;
const LMSTFY: usize = 3;
/// Nothing is measured at several sizes here, so that nothing can be dearer at one.
const FLAT_MAX: f64 = 1.0;
/// What a job's body has.
const BODY_BYTES: usize = 200;

/// What every part needs.
struct Bench {
    runtime: Runtime,
    effort: Effort,
    rates_with: String,
    redis: PathBuf,
    bullmq: Option<BullMq>,
    lmstfy: Option<Lmstfy>,
    linger: Linger,
    /// Where everything is.
    folder: PathBuf,
    rows: Vec<Row>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let redis = args.redis.clone().or_else(|| tools::find("redis-server"));
    let bullmq = BullMq::find();
    run::run(args, NAMES, FLAT_MAX, facts(redis.as_deref(), bullmq.as_ref()), |folder| {
        redis.map_or(Ok(Vec::new()), |redis| measured(args, redis, bullmq, folder))
    })
}

/// What stands beside Linger, and what does not.
fn facts(redis: Option<&Path>, bullmq: Option<&BullMq>) -> Vec<(&'static str, String)> {
    let redis = redis.map_or("not found: nothing is measured".into(), tools::version);
    let bullmq = bullmq.map_or("not found: nothing stands in its column".into(), BullMq::version);
    let lmstfy = Lmstfy::find().map(|lmstfy| lmstfy.version());
    let lmstfy = lmstfy.unwrap_or("not found: nothing stands in its column".into());
    vec![
        ("redis", redis),
        ("in memory", Log::None.args().join(" ")),
        ("synced", Log::Synced.args().join(" ")),
        ("bullmq", bullmq),
        ("lmstfy", lmstfy),
    ]
}

fn measured(
    args: &Args,
    redis: PathBuf,
    bullmq: Option<BullMq>,
    folder: &Path,
) -> Result<Vec<Row>> {
    let mut bench = Bench {
        runtime: Runtime::new()?,
        effort: args.effort,
        rates_with: args.rates.clone(),
        redis,
        bullmq,
        lmstfy: Lmstfy::find(),
        linger: Linger::build(args.linger.as_deref())?,
        folder: folder.to_owned(),
        rows: Vec::new(),
    };
    for part in &args.only {
        match part {
            Part::Keep => args.sizes.iter().try_for_each(|size| bench.keep(*size))?,
            Part::Rates => {
                bench.rates()?;
                bench.rates_over_http()?;
            }
            Part::Lateness => bench.lateness()?,
            Part::Takeover => bench.takeover()?,
            // Stores in files have those.
            Part::Stalls => {}
        }
    }
    Ok(bench.rows)
}

impl Bench {
    /// Starts a Redis that has nothing in it.
    fn start(&self, log: Log) -> Result<Redis> {
        Redis::start(&self.redis, &self.folder, log)
    }

    /// Takes down a row, and shows it to those who watch.
    fn take_down(&mut self, row: Row) {
        eprintln!("  {}", line(&row, NAMES));
        self.rows.push(row);
    }
}

/// The body of job number `n`. No two are alike: Lua keeps equal strings once, and would have less to
/// do with them.
fn body(n: u64) -> String {
    let mut text = String::with_capacity(BODY_BYTES + 16);
    let mut word = n;
    while text.len() < BODY_BYTES {
        word = mix(word);
        text.push_str(&format!("{word:016x}"));
    }
    text.truncate(BODY_BYTES);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_bodies_are_alike() {
        let bodies: std::collections::HashSet<String> = (0..10_000).map(body).collect();
        assert_eq!(bodies.len(), 10_000);
        assert!(bodies.iter().all(|body| body.len() == BODY_BYTES));
    }
}
