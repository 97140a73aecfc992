//! The server beside all of its peers that are installed: the same work for everybody, in turn.

mod ask;
mod bytes;
mod driven;
mod http;
mod keep;
mod peer;
mod postgres;
mod rabbitmq;
mod table;
mod works;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use crate::args::{Args, Effort, Part};
use crate::load::Limit;
use crate::report::Unit;
use crate::{Result, machine, run};
use ask::{Ask, BATCH, Told, Work};
use peer::{Class, Peer, Peers};
pub(crate) use table::{Figure, Row, Table};

/// What every part needs.
struct Bench {
    effort: Effort,
    rates_with: String,
    peers: Vec<Peer>,
    /// Where everything is.
    folder: PathBuf,
    table: Table,
}

/// A work, and how many do it at once.
type Load = (Work, usize);

const QUICK_LOADS: [Load; 8] = [
    (Work::Add, 1),
    (Work::Add, 16),
    (Work::Add, 64),
    (Work::Add, 256),
    (Work::Batch, 64),
    (Work::Consume, 64),
    (Work::Round, 64),
    (Work::Cancel, 64),
];
/// Those that a run has besides, if it may take its time.
const MORE_LOADS: [Load; 5] = [
    (Work::Batch, 16),
    (Work::Consume, 1),
    (Work::Consume, 16),
    (Work::Consume, 256),
    (Work::Round, 16),
];
/// Batches are put so fast that a round would be over at once: so many times as many jobs.
const BATCH_TIMES: u64 = 4;
/// Jobs that fall due a second.
const PACE: u64 = 2000;
const CONSUMERS: usize = 16;
/// Consumers of the jobs that are due all at once.
const BURST_CONSUMERS: usize = 64;
const BURST: u64 = 50_000;
const QUICK_BURST: u64 = 20_000;
/// Jobs that are due are gone within so many times the time of a round that is about lateness, or within this
/// time if that is more; or it is said how many were not.
const LATE_TIMES: u32 = 10;
const LATE_LEAST: Duration = Duration::from_secs(10);

pub(crate) fn run(args: &Args) -> Result<()> {
    let folder = run::folder(args)?;
    let Peers { all, facts } = Peers::find(args, folder.path())?;
    let mut machine: BTreeMap<String, String> = machine::facts(folder.path())
        .into_iter()
        .map(|(name, fact)| (name.to_owned(), fact))
        .collect();
    machine.insert("effort".into(), args.effort.name.into());
    machine.insert("command".into(), command());
    machine.extend(facts);
    let setting =
        |peer: &Peer| (format!("{}, {}", peer.name, peer.class.name()), peer.settings.clone());
    let settings: BTreeMap<_, _> = all.iter().map(setting).collect();
    for (name, fact) in machine.iter().chain(&settings) {
        eprintln!("{name:<12} {fact}");
    }
    let mut bench = Bench {
        effort: args.effort,
        rates_with: args.rates.clone(),
        peers: all,
        folder: folder.path().to_owned(),
        table: Table { machine, settings, rows: Vec::new() },
    };
    for part in &args.only {
        match part {
            Part::Rates => bench.rates(),
            Part::Lateness => bench.lateness(),
            Part::Keep => bench.keep(&args.sizes),
            // These are about Linger alone.
            Part::Stalls | Part::Takeover => {}
        }
    }
    bench.table.set_ratios();
    println!("{}", bench.table.text());
    if let Some(file) = &args.json {
        std::fs::write(file, serde_json::to_string_pretty(&bench.table)? + "\n")?;
    }
    Ok(())
}

/// As it was given, so that it can be given again.
fn command() -> String {
    let given: Vec<String> = std::env::args().skip(1).collect();
    format!("linger-bench {}", given.join(" "))
}

impl Bench {
    fn rates(&mut self) {
        let more: &[Load] = if self.effort.is_full() { &MORE_LOADS } else { &[] };
        for class in Class::ALL {
            for (work, at_once) in QUICK_LOADS.iter().chain(more) {
                let what = text(*work, *at_once);
                if format!("{what}, {}", class.name()).contains(&self.rates_with) {
                    self.in_turn(class, &what, self.ask(*work, *at_once));
                }
            }
        }
    }

    fn lateness(&mut self) {
        let paces: &[u64] = if self.effort.is_full() { &[PACE, 10 * PACE] } else { &[PACE] };
        for class in Class::ALL {
            for pace in paces {
                let what = format!("lateness at {pace} due/s, {CONSUMERS} consumers");
                self.in_turn(class, &what, self.ask(Work::Lateness(*pace), CONSUMERS));
            }
            let ask = self.ask(Work::Burst, BURST_CONSUMERS);
            let what = format!("{} due at once, the last finished", ask.limit.turns);
            self.in_turn(class, &what, ask);
        }
    }

    fn ask(&self, work: Work, at_once: usize) -> Ask {
        let Effort { rate, jobs_max, lateness, .. } = self.effort;
        let late = (lateness * LATE_TIMES).max(LATE_LEAST);
        let (turns, time) = match work {
            Work::Add | Work::Round => (jobs_max, rate),
            Work::Batch => (BATCH_TIMES * jobs_max, rate),
            Work::Consume | Work::Cancel => (jobs_max / 2, rate),
            Work::Fill => (jobs_max, Duration::MAX),
            Work::Lateness(pace) => ((pace as f64 * lateness.as_secs_f64()) as u64, late),
            Work::Burst if self.effort.is_full() => (BURST, late),
            Work::Burst => (QUICK_BURST.min(jobs_max), late),
        };
        Ask { work, at_once, limit: Limit { turns, time } }
    }

    /// Everybody of a class, round by round, each with a server that was just started.
    fn in_turn(&mut self, class: Class, what: &str, ask: Ask) {
        eprintln!("{what}, {}", class.name());
        let peers: Vec<Peer> =
            self.peers.iter().filter(|one| one.class == class).cloned().collect();
        let mut given_up = vec![false; peers.len()];
        for round in 0..self.effort.rounds {
            for (peer, given_up) in peers.iter().zip(&mut given_up) {
                if *given_up {
                    continue;
                }
                let told = match peer.start(&self.folder) {
                    Ok(mut running) => running.ask(ask),
                    Err(wrong) => Told::Not(format!("does not start: {wrong}")),
                };
                // One that could before may do so again.
                *given_up = round == 0 && matches!(told, Told::Not(_));
                self.take_down(0, what, peer, told);
            }
        }
        let is_it = |row: &&Row| row.class == class.name() && row.what.starts_with(what);
        self.table.rows.iter().filter(|row| row.waiting == 0).filter(is_it).for_each(show);
    }

    /// Takes down what came of a work.
    fn take_down(&mut self, size: u64, what: &str, peer: &Peer, told: Told) {
        let figures = match told {
            Told::PerSecond(rate) => vec![(what.to_owned(), Unit::PerSecond, rate)],
            Told::LastMs(ms) => vec![(what.to_owned(), Unit::Seconds, ms / 1e3)],
            Told::Late(late) => vec![
                (format!("{what}, p50"), Unit::Ms, late.p50_ms),
                (format!("{what}, p99"), Unit::Ms, late.p99_ms),
                (format!("{what}, max"), Unit::Ms, late.max_ms),
                (format!("{what}, handed out early"), Unit::Count, late.early),
            ],
            Told::Not(why) => return self.cannot(size, what, peer, &why),
        };
        for (what, unit, value) in figures {
            let row = self.table.row(size, &what, peer.class, unit);
            row.figure_mut(&peer.name).rounds.push(value);
        }
    }

    /// Takes down that there is no figure, in every row that would have one: those of others are there
    /// already, since Linger is the first.
    fn cannot(&mut self, size: u64, what: &str, peer: &Peer, why: &str) {
        eprintln!("  {}: {why}", peer.name);
        let class = peer.class.name();
        let of = |row: &&mut Row| {
            row.waiting == size && row.class == class && row.what.starts_with(what)
        };
        for figure in self.table.rows.iter_mut().filter(of).map(|row| row.figure_mut(&peer.name)) {
            if !figure.rounds.middle().is_finite() {
                figure.not = Some(why.to_owned());
            }
        }
    }
}

/// Shows a row to those who watch.
fn show(row: &Row) {
    eprintln!("  {}", row.what);
    row.figures.iter().for_each(|figure| eprintln!("    {}", row.line(figure)));
}

fn text(work: Work, at_once: usize) -> String {
    let plural = if at_once == 1 { "" } else { "s" };
    let connections = format!("{at_once} connection{plural}");
    match work {
        Work::Add => format!("add, {connections}"),
        Work::Batch => format!("add in {BATCH}s, {connections}"),
        Work::Consume => format!("pop and finish, {connections}"),
        Work::Round => format!("add, pop and finish, {connections} each"),
        Work::Cancel => format!("cancel by id, {connections}"),
        Work::Fill | Work::Lateness(_) | Work::Burst => unreachable!("these are no rates"),
    }
}
