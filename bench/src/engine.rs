//! The embedded store, measured.

mod keep;
mod lateness;
mod rates;
mod stalls;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use linger::bench_support::record_bytes;
use linger::store::Options;
use linger::store::embedded::{Durability, Embedded, Settings};
use tokio::runtime::Runtime;

use crate::args::{Args, Effort, Part};
use crate::bare::{Bare, Sync};
use crate::report::{Names, Row, line, say, tail_rows};
use crate::spread::Tail;
use crate::work::Maker;
use crate::{Result, child, run};

/// What a job may cost with many waiting, against what it costs with few.
const FLAT_MAX: f64 = 2.0;
const NAMES: Names = Names { ours: "engine", peers: &["null"], floor: "bare file" };

/// What every part needs.
struct Bench {
    runtime: Runtime,
    maker: Maker,
    effort: Effort,
    /// Of the rates only those whose names have this in them.
    rates_with: String,
    /// How many bytes of the log a job takes.
    record_bytes: usize,
    /// Where this size's store is.
    store: PathBuf,
    /// Where everything else is.
    beside: PathBuf,
    /// The number of the next job that is not one of those that wait from the start.
    next: u64,
    rows: Vec<Row>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    run::run(args, NAMES, FLAT_MAX, Vec::new(), |folder| {
        let mut rows = bare_rows(folder, args.effort)?;
        for size in &args.sizes {
            rows.extend(at_size(folder, args, *size)?);
        }
        Ok(rows)
    })
}

fn at_size(folder: &Path, args: &Args, size: u64) -> Result<Vec<Row>> {
    let maker = Maker::new()?;
    let folder = folder.join(size.to_string());
    std::fs::create_dir(&folder)?;
    let mut bench = Bench {
        runtime: Runtime::new()?,
        record_bytes: record_bytes(&maker.waiting(0)),
        maker,
        effort: args.effort,
        rates_with: args.rates.clone(),
        store: folder.join("store"),
        beside: folder.clone(),
        next: 10 * size.max(1_000_000),
        rows: Vec::new(),
    };
    let asked = |part: Part| args.only.contains(&part);
    if asked(Part::Keep) {
        bench.keep(size)?;
    } else {
        say(size, "filling");
        let store = bench.open(Durability::Relaxed)?;
        child::fill(&bench.runtime, &store, &bench.maker, 0, size);
    }
    if asked(Part::Rates) {
        bench.rates(size)?;
    }
    if asked(Part::Lateness) {
        bench.lateness(size)?;
    }
    if asked(Part::Keep) {
        bench.open_killed(size)?;
    }
    if asked(Part::Stalls) {
        bench.stalls(size)?;
    }
    if asked(Part::Keep) {
        bench.thin_out(size)?;
    }
    std::fs::remove_dir_all(&folder)?;
    Ok(bench.rows)
}

impl Bench {
    fn open(&self, durability: Durability) -> Result<Arc<Embedded>> {
        self.open_with(self.settings(durability))
    }

    fn settings(&self, durability: Durability) -> Settings {
        let segment_bytes = self.effort.segment_bytes;
        Settings { durability, segment_bytes, ..Settings::default() }
    }

    fn open_with(&self, settings: Settings) -> Result<Arc<Embedded>> {
        Ok(Arc::new(Embedded::open(&self.store, Options::default(), settings)?))
    }

    /// Takes down a row, and shows it to those who watch.
    fn take_down(&mut self, row: Row) {
        eprintln!("  {}", line(&row, NAMES));
        self.rows.push(row);
    }

    /// Numbers for so many new jobs.
    fn numbers(&mut self, count: u64) -> u64 {
        let from = self.next;
        self.next += count;
        from
    }
}

/// The bare file by itself, as sizes of writes go.
fn bare_rows(folder: &Path, effort: Effort) -> Result<Vec<Row>> {
    let mut bare = Bare::create(folder)?;
    let mut rows = Vec::new();
    for (bytes, name) in [(4 << 10, "4 KiB"), (64 << 10, "64 KiB")] {
        let mut tail = Tail::default();
        for _ in 0..effort.rounds {
            tail.push(&bare.write(bytes, Sync::Each, effort.rate)?);
        }
        rows.extend(tail_rows(0, &format!("bare write and fdatasync of {name}"), &tail, None));
    }
    Ok(rows)
}
