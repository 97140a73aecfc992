//! The figures, for people and for programs.

use std::fmt::Write as _;
use std::path::Path;

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
    /// The same, of something that does less.
    pub(crate) peer: Option<Spread>,
    /// The same, of the machine itself.
    pub(crate) floor: Option<Spread>,
    pub(crate) budget: Option<Budget>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// At least this part of the peer's.
    OfPeer(f64),
    AtLeast(f64),
    AtMost(f64),
}

/// What the columns are called.
#[derive(Clone, Copy)]
pub(crate) struct Names {
    pub(crate) ours: &'static str,
    pub(crate) peer: &'static str,
    pub(crate) floor: &'static str,
}

impl Row {
    pub(crate) fn new(size: u64, what: impl Into<String>, unit: Unit, ours: Spread) -> Row {
        let what = what.into();
        Row { size, what, unit, ours, peer: None, floor: None, budget: None }
    }

    pub(crate) fn beside(mut self, peer: Option<Spread>, floor: Option<Spread>) -> Row {
        (self.peer, self.floor) = (peer, floor);
        self
    }

    pub(crate) fn budget(mut self, budget: Option<Budget>) -> Row {
        self.budget = budget;
        self
    }

    fn of_peer(&self) -> Option<f64> {
        self.peer.as_ref().map(|peer| self.ours.middle() / peer.middle())
    }

    fn of_floor(&self) -> Option<f64> {
        self.floor.as_ref().map(|floor| self.ours.middle() / floor.middle())
    }

    fn is_met(&self) -> Option<bool> {
        match self.budget? {
            Budget::OfPeer(part) => self.of_peer().map(|of_peer| of_peer >= part),
            Budget::AtLeast(least) => Some(self.ours.middle() >= least),
            Budget::AtMost(most) => Some(self.ours.middle() <= most),
        }
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
        let Names { ours, peer, floor } = self.names;
        let of_peer = format!("of {peer}");
        let head = ["waiting", "what", ours, "", peer, &of_peer, floor, "budget"];
        let mut lines = vec![head.map(str::to_owned)];
        lines.extend(self.rows.iter().map(|row| cells(row, self.names)));
        let wide = |column: usize| lines.iter().map(|line| line[column].chars().count()).max();
        let widths: Vec<usize> = (0..head.len()).map(|column| wide(column).unwrap_or(0)).collect();
        for line in &lines {
            let mut out = String::new();
            for (column, (cell, width)) in line.iter().zip(&widths).enumerate() {
                match column {
                    1 | 3 | 7 => _ = write!(out, "{cell:<width$}  "),
                    _ => _ = write!(out, "{cell:>width$}  "),
                }
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

/// A row by itself, for those who watch.
pub(crate) fn line(row: &Row, names: Names) -> String {
    cells(row, names).into_iter().filter(|cell| !cell.is_empty()).collect::<Vec<_>>().join("  ")
}

fn as_json(row: &Row, names: Names) -> serde_json::Value {
    json!({
        "waiting": row.size,
        "what": row.what,
        "unit": unit_text(row.unit),
        names.ours: row.ours,
        names.peer: row.peer,
        names.floor: row.floor,
        format!("of {}", names.peer): row.of_peer(),
        format!("of {}", names.floor): row.of_floor(),
        "budget_met": row.is_met(),
    })
}

fn cells(row: &Row, names: Names) -> [String; 8] {
    let figure = |spread: &Spread| number(row.unit, spread.middle());
    let ends = row.ours.ends().map_or(String::new(), |(low, high)| {
        format!("({} – {})", number(row.unit, low), number(row.unit, high))
    });
    let size = if row.size == 0 { String::new() } else { size_text(row.size) };
    [
        size,
        row.what.clone(),
        format!("{}{}", figure(&row.ours), suffix(row.unit)),
        ends,
        row.peer.as_ref().map_or(String::new(), figure),
        row.of_peer().map_or(String::new(), |part| format!("{:.0} %", part * 100.0)),
        row.floor.as_ref().map_or(String::new(), figure),
        budget(row, names.peer),
    ]
}

fn budget(row: &Row, peer: &str) -> String {
    let verdict = match row.is_met() {
        Some(true) => "met",
        Some(false) => "MISSED",
        None => return String::new(),
    };
    match row.budget {
        Some(Budget::OfPeer(part)) => format!("≥ {:.0} % of {peer}: {verdict}", part * 100.0),
        Some(Budget::AtLeast(least)) => {
            format!("≥ {}{}: {verdict}", number(row.unit, least), suffix(row.unit))
        }
        Some(Budget::AtMost(most)) => {
            format!("≤ {}{}: {verdict}", number(row.unit, most), suffix(row.unit))
        }
        None => String::new(),
    }
}

fn number(unit: Unit, value: f64) -> String {
    match unit {
        Unit::PerSecond if value >= 10_000.0 => format!("{:.0} k", value / 1000.0),
        Unit::PerSecond if value >= 1000.0 => format!("{:.1} k", value / 1000.0),
        Unit::PerSecond | Unit::Count => format!("{value:.0}"),
        Unit::Us | Unit::Ms | Unit::Seconds | Unit::Times => format!("{value:.2}"),
        Unit::Bytes | Unit::MiB => format!("{value:.0}"),
        Unit::Percent => format!("{value:.2}"),
    }
}

fn suffix(unit: Unit) -> &'static str {
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
