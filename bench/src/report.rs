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
    pub(crate) engine: Spread,
    pub(crate) null: Option<Spread>,
    pub(crate) bare: Option<Spread>,
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
    /// At least this part of the null engine's.
    OfNull(f64),
    AtMost(f64),
}

impl Row {
    pub(crate) fn new(size: u64, what: impl Into<String>, unit: Unit, engine: Spread) -> Row {
        let what = what.into();
        Row { size, what, unit, engine, null: None, bare: None, budget: None }
    }

    pub(crate) fn beside(mut self, null: Option<Spread>, bare: Option<Spread>) -> Row {
        (self.null, self.bare) = (null, bare);
        self
    }

    pub(crate) fn budget(mut self, budget: Option<Budget>) -> Row {
        self.budget = budget;
        self
    }

    fn of_null(&self) -> Option<f64> {
        self.null.as_ref().map(|null| self.engine.middle() / null.middle())
    }

    fn of_bare(&self) -> Option<f64> {
        self.bare.as_ref().map(|bare| self.engine.middle() / bare.middle())
    }

    fn is_met(&self) -> Option<bool> {
        match self.budget? {
            Budget::OfNull(part) => self.of_null().map(|of_null| of_null >= part),
            Budget::AtMost(most) => Some(self.engine.middle() <= most),
        }
    }
}

/// The rows of a tail.
pub(crate) fn tail_rows(size: u64, what: &str, tail: &Tail, bare: Option<&Tail>) -> [Row; 4] {
    let row = |name: &str, of: fn(&Tail) -> &Spread| {
        Row::new(size, format!("{what}, {name}"), Unit::Ms, of(tail).clone())
            .beside(None, bare.map(|bare| of(bare).clone()))
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
        let head = ["waiting", "what", "engine", "", "null", "of null", "bare file", "budget"];
        let mut lines = vec![head.map(str::to_owned)];
        lines.extend(self.rows.iter().map(cells));
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
        let rows: Vec<_> = self.rows.iter().map(as_json).collect();
        let text = serde_json::to_string_pretty(&json!({ "machine": facts, "rows": rows }))?;
        Ok(std::fs::write(file, text + "\n")?)
    }
}

/// A row by itself, for those who watch.
pub(crate) fn line(row: &Row) -> String {
    cells(row).into_iter().filter(|cell| !cell.is_empty()).collect::<Vec<_>>().join("  ")
}

fn as_json(row: &Row) -> serde_json::Value {
    json!({
        "waiting": row.size,
        "what": row.what,
        "unit": unit_text(row.unit),
        "engine": row.engine,
        "null": row.null,
        "bare": row.bare,
        "of_null": row.of_null(),
        "of_bare": row.of_bare(),
        "budget_met": row.is_met(),
    })
}

fn cells(row: &Row) -> [String; 8] {
    let figure = |spread: &Spread| number(row.unit, spread.middle());
    let ends = row.engine.ends().map_or(String::new(), |(low, high)| {
        format!("({} – {})", number(row.unit, low), number(row.unit, high))
    });
    let size = if row.size == 0 { String::new() } else { size_text(row.size) };
    [
        size,
        row.what.clone(),
        format!("{}{}", figure(&row.engine), suffix(row.unit)),
        ends,
        row.null.as_ref().map_or(String::new(), figure),
        row.of_null().map_or(String::new(), |part| format!("{:.0} %", part * 100.0)),
        row.bare.as_ref().map_or(String::new(), figure),
        budget(row),
    ]
}

fn budget(row: &Row) -> String {
    let verdict = match row.is_met() {
        Some(true) => "met",
        Some(false) => "MISSED",
        None => return String::new(),
    };
    match row.budget {
        Some(Budget::OfNull(part)) => format!("≥ {:.0} % of null: {verdict}", part * 100.0),
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
