//! What was measured of everybody, for people and for programs.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::peer::{Class, HTTP, PORT};
use crate::args::size_text;
use crate::report::{Unit, number, suffix};
use crate::spread::Spread;

/// Everything of a run. It is what `--json` writes and `plot` reads.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Table {
    /// Where the figures are from, and who was found.
    pub(crate) machine: BTreeMap<String, String>,
    /// How everybody was run.
    pub(crate) settings: BTreeMap<String, String>,
    pub(crate) rows: Vec<Row>,
}

/// One work, and what it came to with each.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Row {
    /// Jobs that wait; 0 where none do.
    pub(crate) waiting: u64,
    pub(crate) what: String,
    /// Whether answers mean that it is on the disk: `synced` or `relaxed`.
    pub(crate) class: String,
    pub(crate) unit: Unit,
    pub(crate) figures: Vec<Figure>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Figure {
    pub(crate) who: String,
    /// Each round's, from the lowest to the highest.
    pub(crate) rounds: Spread,
    /// Why there is none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) not: Option<String>,
    /// Linger over HTTP against it, and Linger's beanstalkd port: more than 1 means that Linger is ahead.
    #[serde(default)]
    pub(crate) http_ahead: Option<f64>,
    #[serde(default)]
    pub(crate) port_ahead: Option<f64>,
}

/// A machine as noisy as most does not tell smaller differences.
const NEWS: f64 = 1.1;

impl Table {
    /// The row, which is made if there is none.
    pub(super) fn row(&mut self, waiting: u64, what: &str, class: Class, unit: Unit) -> &mut Row {
        let class = class.name();
        let is = |row: &Row| row.waiting == waiting && row.what == what && row.class == class;
        let at = self.rows.iter().position(is).unwrap_or_else(|| {
            let (what, class) = (what.to_owned(), class.to_owned());
            self.rows.push(Row { waiting, what, class, unit, figures: Vec::new() });
            self.rows.len() - 1
        });
        &mut self.rows[at]
    }

    /// Says of each figure how Linger stands to it.
    pub(super) fn set_ratios(&mut self) {
        // What costs whom more with many waiting is between it and itself.
        for row in self.rows.iter_mut().filter(|row| row.unit != Unit::Times) {
            let of = |who: &str| row.figure(who).map(|figure| figure.rounds.middle());
            let (http, port) = (of(HTTP), of(PORT));
            let more_is_better = row.more_is_better();
            for figure in row.figures.iter_mut().filter(|one| !one.is_linger()) {
                let theirs = figure.rounds.middle();
                let ahead = |ours: f64| match more_is_better {
                    true => ours / theirs,
                    false => theirs / ours,
                };
                // Of nothing nobody is a multiple.
                let ratio = |ours: Option<f64>| ours.map(ahead).filter(|ratio| ratio.is_normal());
                (figure.http_ahead, figure.port_ahead) = (ratio(http), ratio(port));
            }
        }
    }

    /// For people who look at a terminal.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for (name, fact) in self.machine.iter().chain(&self.settings) {
            _ = writeln!(text, "{name:<12} {fact}");
        }
        for row in &self.rows {
            _ = writeln!(text, "\n{}", row.title());
            for figure in &row.figures {
                _ = writeln!(text, "  {}", row.line(figure));
            }
        }
        text
    }

    /// For those who read `docs/BENCHMARKS.md`: works by columns, everybody by rows.
    pub(crate) fn markdown(&self) -> String {
        let mut text = String::from("| | |\n|---|---|\n");
        for (name, fact) in &self.machine {
            _ = writeln!(text, "| {name} | {fact} |");
        }
        text.push_str("\n| who | settings |\n|---|---|\n");
        for (name, fact) in &self.settings {
            _ = writeln!(text, "| {name} | `{fact}` |");
        }
        for (title, rows) in self.groups() {
            _ = write!(text, "\n### {title}\n\n{}", group(&rows));
        }
        text.push_str("\n### Where a peer is ahead\n\n");
        text.push_str(&self.behind());
        text
    }

    /// Rows that belong side by side.
    fn groups(&self) -> Vec<(String, Vec<&Row>)> {
        let mut groups: Vec<(String, Vec<&Row>)> = Vec::new();
        for row in &self.rows {
            let title = row.group();
            match groups.iter_mut().find(|(other, _)| *other == title) {
                Some((_, rows)) => rows.push(row),
                None => groups.push((title, vec![row])),
            }
        }
        groups
    }

    /// Whoever does better than each of Linger's doors.
    fn behind(&self) -> String {
        let mut text = String::new();
        for row in &self.rows {
            for figure in &row.figures {
                if let Some(times) = figure.best_ahead().filter(|ahead| ahead * NEWS < 1.0) {
                    let theirs = 1.0 / times;
                    let (who, title) = (&figure.who, row.title());
                    _ = writeln!(text, "- {title}: {who}, {theirs:.2} times as good");
                }
            }
        }
        if text.is_empty() { "Nowhere, by more than a tenth.\n".into() } else { text }
    }
}

impl Row {
    pub(super) fn figure(&self, who: &str) -> Option<&Figure> {
        self.figures.iter().find(|figure| figure.who == who)
    }

    pub(super) fn figure_mut(&mut self, who: &str) -> &mut Figure {
        let at = self.figures.iter().position(|figure| figure.who == who).unwrap_or_else(|| {
            self.figures.push(Figure {
                who: who.to_owned(),
                rounds: Spread::default(),
                not: None,
                http_ahead: None,
                port_ahead: None,
            });
            self.figures.len() - 1
        });
        &mut self.figures[at]
    }

    pub(crate) fn more_is_better(&self) -> bool {
        self.unit == Unit::PerSecond
    }

    pub(crate) fn title(&self) -> String {
        let waiting = match self.waiting {
            0 => String::new(),
            waiting => format!(", {} waiting", size_text(waiting)),
        };
        format!("{}, {}{waiting}", self.what, self.class)
    }

    /// What the rows are about that it stands beside.
    fn group(&self) -> String {
        let part = match self.unit {
            _ if self.waiting > 0 => "with many waiting",
            Unit::PerSecond => "jobs a second",
            _ => "lateness",
        };
        let class = &self.class;
        match self.waiting {
            0 => format!("{part}, {class}"),
            waiting => format!("{part}, {class}, {}", size_text(waiting)),
        }
    }

    /// A figure, with everything that is to be said of it.
    pub(super) fn line(&self, figure: &Figure) -> String {
        let mut text = format!("{:<24} {}", figure.who, self.cell(figure));
        let times = |ahead: f64| match ahead {
            ahead if ahead >= 1.0 => format!("{ahead:.2} × ahead"),
            ahead => format!("{:.2} × behind", 1.0 / ahead),
        };
        if let Some(ahead) = figure.http_ahead {
            _ = write!(text, "  HTTP {}", times(ahead));
        }
        if let Some(ahead) = figure.port_ahead {
            _ = write!(text, ", port {}", times(ahead));
        }
        text
    }

    /// The middle, the lowest and the highest.
    fn cell(&self, figure: &Figure) -> String {
        if let Some(why) = &figure.not {
            return format!("– ({why})");
        }
        let middle = number(self.unit, figure.rounds.middle());
        let ends = figure.rounds.ends().map_or(String::new(), |(low, high)| {
            format!(" ({} – {})", number(self.unit, low), number(self.unit, high))
        });
        format!("{middle}{}{ends}", suffix(self.unit))
    }
}

impl Figure {
    pub(crate) fn is_linger(&self) -> bool {
        self.who == HTTP || self.who == PORT
    }

    /// How far the better of Linger's doors is ahead.
    fn best_ahead(&self) -> Option<f64> {
        self.http_ahead.into_iter().chain(self.port_ahead).reduce(f64::max)
    }
}

/// A table of rows that belong side by side: everybody's figures, and how far Linger is ahead of each, over
/// HTTP and on its beanstalkd port.
fn group(rows: &[&Row]) -> String {
    let mut who: Vec<&str> = Vec::new();
    for figure in rows.iter().flat_map(|row| &row.figures) {
        if !who.contains(&figure.who.as_str()) {
            who.push(&figure.who);
        }
    }
    let mut text = String::from("| |");
    rows.iter().for_each(|row| _ = write!(text, " {} |", row.what));
    text.push_str("\n|---|");
    rows.iter().for_each(|_| text.push_str("---|"));
    text.push('\n');
    let mut notes: Vec<&str> = Vec::new();
    for who in who {
        _ = write!(text, "| {who} |");
        for row in rows {
            let Some(figure) = row.figure(who) else {
                text.push_str(" |");
                continue;
            };
            if let Some(why) = &figure.not {
                let at = notes.iter().position(|note| note == why).unwrap_or_else(|| {
                    notes.push(why);
                    notes.len() - 1
                });
                _ = write!(text, " – ({}) |", at + 1);
                continue;
            }
            let cell = row.cell(figure);
            let ratios = [figure.http_ahead, figure.port_ahead];
            let ratios: Vec<String> = ratios.iter().flatten().map(|one| ratio(*one)).collect();
            let mark = if figure.best_ahead().is_some_and(|best| best < 1.0) { "**" } else { "" };
            let under = if ratios.is_empty() { "" } else { "<br>" };
            _ = write!(text, " {mark}{cell}{mark}{under}{} |", ratios.join(" / "));
        }
        text.push('\n');
    }
    for (at, note) in notes.iter().enumerate() {
        _ = write!(text, "\n({}) {note}", at + 1);
    }
    if notes.is_empty() { text } else { text + "\n" }
}

fn ratio(ahead: f64) -> String {
    if ahead >= 10.0 { format!("× {ahead:.0}") } else { format!("× {ahead:.2}") }
}
