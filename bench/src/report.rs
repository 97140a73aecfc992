//! The figures, for people and for programs.

use std::fmt::Write as _;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::Result;
use crate::args::size_text;
use crate::spread::{Spread, Tail};

/// One figure and what stands beside it.
pub(crate) struct Row {
    /// Jobs that wait; 0 where that does not matter.
    pub(crate) size: u64,
    pub(crate) what: String,
    pub(crate) unit: Unit,
    /// What was measured.
    pub(crate) ours: Spread,
    /// The same, of others: as many as have a column, or fewer.
    pub(crate) peers: Vec<Option<Spread>>,
    /// The same, of the machine itself.
    pub(crate) floor: Option<Spread>,
    pub(crate) budgets: Vec<Budget>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Unit {
    PerSecond,
    Us,
    Ms,
    Seconds,
    /// A job.
    Bytes,
    MiB,
    Percent,
    Count,
    /// Of the cost at the smallest size.
    Times,
}

/// What the figure is to be.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Budget {
    /// At least this part of what the peer of that column does.
    OfPeer(usize, f64),
    AtLeast(f64),
    AtMost(f64),
}

/// What the columns are called.
#[derive(Clone, Copy)]
pub(crate) struct Names {
    pub(crate) ours: &'static str,
    pub(crate) peers: &'static [&'static str],
    pub(crate) floor: &'static str,
}

impl Row {
    pub(crate) fn new(size: u64, what: impl Into<String>, unit: Unit, ours: Spread) -> Row {
        let what = what.into();
        Row { size, what, unit, ours, peers: Vec::new(), floor: None, budgets: Vec::new() }
    }

    pub(crate) fn beside(mut self, peer: Option<Spread>, floor: Option<Spread>) -> Row {
        (self.peers, self.floor) = (vec![peer], floor);
        self
    }

    pub(crate) fn beside_all(mut self, peers: Vec<Option<Spread>>) -> Row {
        self.peers = peers;
        self
    }

    /// One more thing that it is to be.
    pub(crate) fn budget(mut self, budget: impl IntoIterator<Item = Budget>) -> Row {
        self.budgets.extend(budget);
        self
    }

    fn peer(&self, at: usize) -> Option<&Spread> {
        self.peers.get(at)?.as_ref()
    }

    fn of_peer(&self, at: usize) -> Option<f64> {
        self.peer(at).map(|peer| self.ours.middle() / peer.middle())
    }

    fn of_floor(&self) -> Option<f64> {
        self.floor.as_ref().map(|floor| self.ours.middle() / floor.middle())
    }

    /// None where there is no such peer.
    fn meets(&self, budget: Budget) -> Option<bool> {
        match budget {
            Budget::OfPeer(at, part) => self.of_peer(at).map(|of_peer| of_peer >= part),
            Budget::AtLeast(least) => Some(self.ours.middle() >= least),
            Budget::AtMost(most) => Some(self.ours.middle() <= most),
        }
    }

    /// Whether it meets all that it can be held to.
    fn is_met(&self) -> Option<bool> {
        self.budgets.iter().filter_map(|budget| self.meets(*budget)).reduce(|all, one| all && one)
    }
}

/// The rows of a tail.
pub(crate) fn tail_rows(size: u64, what: &str, tail: &Tail, floor: Option<&Tail>) -> [Row; 4] {
    let row = |name: &str, of: fn(&Tail) -> &Spread| {
        Row::new(size, format!("{what}, {name}"), Unit::Ms, of(tail).clone())
            .beside(None, floor.map(|floor| of(floor).clone()))
    };
    [
        row("p50", |tail| &tail.p50),
        row("p99", |tail| &tail.p99),
        row("p99.9", |tail| &tail.p999),
        row("max", |tail| &tail.max),
    ]
}

/// The rows of how late jobs are that fall due at this pace, held to the project's budgets.
pub(crate) fn lateness_rows(
    size: u64,
    what: &str,
    pace: u64,
    tail: &Tail,
    bare: &Tail,
) -> [Row; 4] {
    let [p50, p99, p999, max] = tail_rows(size, what, tail, Some(bare));
    let p99_ms = if pace <= 2000 { 2.0 } else { 10.0 };
    let p50 = p50.budget((pace <= 2000).then_some(Budget::AtMost(0.5)));
    // A disk that is slow itself is nobody's fault.
    let p99 = p99.budget([Budget::AtMost(f64::max(p99_ms, 3.0 * bare.p99.middle()))]);
    [p50, p99, p999, max]
}

/// Everything that was measured.
pub(crate) struct Report {
    pub(crate) names: Names,
    pub(crate) facts: Vec<(&'static str, String)>,
    pub(crate) rows: Vec<Row>,
}

impl Report {
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for (name, fact) in &self.facts {
            let _ = writeln!(text, "{name:<12} {fact}");
        }
        text.push('\n');
        let Names { ours, peers, floor } = self.names;
        let mut head = vec!["waiting", "what", ours, ""];
        head.extend(peers.iter().flat_map(|peer| [peer, "of it"]));
        head.extend([floor, "budget"]);
        let mut lines = vec![head.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()];
        lines.extend(self.rows.iter().map(|row| cells(row, self.names)));
        let wide = |column: usize| lines.iter().map(|line| line[column].chars().count()).max();
        let widths: Vec<usize> = (0..head.len()).map(|column| wide(column).unwrap_or(0)).collect();
        for line in &lines {
            let mut out = String::new();
            for (column, (cell, width)) in line.iter().zip(&widths).enumerate() {
                // Text to the left, figures to the right.
                let is_text = [1, 3, widths.len() - 1].contains(&column);
                _ = match is_text {
                    true => write!(out, "{cell:<width$}  "),
                    false => write!(out, "{cell:>width$}  "),
                };
            }
            text.push_str(out.trim_end());
            text.push('\n');
        }
        text
    }

    pub(crate) fn write_json(&self, file: &Path) -> Result<()> {
        let facts: serde_json::Map<_, _> =
            self.facts.iter().map(|(name, fact)| ((*name).to_owned(), json!(fact))).collect();
        let rows: Vec<_> = self.rows.iter().map(|row| as_json(row, self.names)).collect();
        let text = serde_json::to_string_pretty(&json!({ "machine": facts, "rows": rows }))?;
        Ok(std::fs::write(file, text + "\n")?)
    }
}

/// Says what is under way.
pub(crate) fn say(size: u64, what: &str) {
    eprintln!("{} waiting: {what}", size_text(size));
}

/// A row by itself, for those who watch.
pub(crate) fn line(row: &Row, names: Names) -> String {
    cells(row, names).into_iter().filter(|cell| !cell.is_empty()).collect::<Vec<_>>().join("  ")
}

fn as_json(row: &Row, names: Names) -> serde_json::Value {
    let mut json = json!({
        "waiting": row.size,
        "what": row.what,
        "unit": unit_text(row.unit),
        names.ours: row.ours,
        names.floor: row.floor,
        format!("of {}", names.floor): row.of_floor(),
        "budget_met": row.is_met(),
    });
    for (at, peer) in names.peers.iter().enumerate() {
        json[*peer] = json!(row.peer(at));
        json[format!("of {peer}")] = json!(row.of_peer(at));
    }
    json
}

fn cells(row: &Row, names: Names) -> Vec<String> {
    let figure = |spread: &Spread| number(row.unit, spread.middle());
    let ends = row.ours.ends().map_or(String::new(), |(low, high)| {
        format!("({} – {})", number(row.unit, low), number(row.unit, high))
    });
    let size = if row.size == 0 { String::new() } else { size_text(row.size) };
    let ours = format!("{}{}", figure(&row.ours), suffix(row.unit));
    let mut cells = vec![size, row.what.clone(), ours, ends];
    for at in 0..names.peers.len() {
        cells.push(row.peer(at).map_or(String::new(), figure));
        let percent = row.of_peer(at).map(|part| format!("{:.0} %", part * 100.0));
        cells.push(percent.unwrap_or_default());
    }
    cells.push(row.floor.as_ref().map_or(String::new(), figure));
    let budgets = row.budgets.iter().filter_map(|one| budget(row, *one, names));
    cells.push(budgets.collect::<Vec<_>>().join("; "));
    cells
}

/// A budget and whether it is met.
fn budget(row: &Row, budget: Budget, names: Names) -> Option<String> {
    let verdict = if row.meets(budget)? { "met" } else { "MISSED" };
    let limit = |value| format!("{}{}", number(row.unit, value), suffix(row.unit));
    Some(match budget {
        Budget::OfPeer(at, part) => {
            format!("≥ {:.0} % of {}: {verdict}", part * 100.0, names.peers[at])
        }
        Budget::AtLeast(least) => format!("≥ {}: {verdict}", limit(least)),
        Budget::AtMost(most) => format!("≤ {}: {verdict}", limit(most)),
    })
}

pub(crate) fn number(unit: Unit, value: f64) -> String {
    match unit {
        Unit::PerSecond if value >= 10_000.0 => format!("{:.0} k", value / 1000.0),
        Unit::PerSecond if value >= 1000.0 => format!("{:.1} k", value / 1000.0),
        Unit::PerSecond | Unit::Count => format!("{value:.0}"),
        Unit::Us | Unit::Ms | Unit::Seconds | Unit::Times => format!("{value:.2}"),
        Unit::Bytes | Unit::MiB => format!("{value:.0}"),
        Unit::Percent => format!("{value:.2}"),
    }
}

pub(crate) fn suffix(unit: Unit) -> &'static str {
    match unit {
        Unit::PerSecond => "/s",
        Unit::Us => " µs",
        Unit::Ms => " ms",
        Unit::Seconds => " s",
        Unit::Bytes => " B",
        Unit::MiB => " MiB",
        Unit::Percent => " %",
        Unit::Count => "",
        Unit::Times => " ×",
    }
}

fn unit_text(unit: Unit) -> &'static str {
    match unit {
        Unit::PerSecond => "1/s",
        Unit::Us => "us",
        Unit::Ms => "ms",
        Unit::Seconds => "s",
        Unit::Bytes => "B/job",
        Unit::MiB => "MiB",
        Unit::Percent => "%",
        Unit::Count => "",
        Unit::Times => "x",
    }
}
