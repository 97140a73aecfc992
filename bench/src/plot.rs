//! Tables and pictures of what `compare` has measured.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::Result;
use crate::compare::{Figure, Row, Table};
use crate::report::{Unit, number, suffix};

/// A picture: some rows side by side.
struct Picture {
    name: String,
    title: String,
    rows: Vec<Row>,
}

/// Pictures: what their rows' names begin with, what they are called, and what stands above them.
const PICTURES: [(&str, &str, &str); 11] = [
    ("add, ", "adds", "Adds a second, by connections"),
    ("add in ", "batches", "Adds a second, 100 a call"),
    ("pop and finish, ", "consume", "Jobs popped and finished a second"),
    ("add, pop and finish, ", "round", "Jobs added, popped and finished a second"),
    ("cancel by id, ", "cancel", "Jobs cancelled a second, by id"),
    ("lateness at ", "lateness", "From due to the consumer"),
    ("50000 due at once, ", "burst", "Many due at once: when the last is finished"),
    ("20000 due at once, ", "burst-quick", "Many due at once: when the last is finished"),
    ("memory a job", "memory", "Memory a waiting job"),
    ("restart after kill -9", "restart", "Restart after kill -9"),
    ("cost against ", "growth", "What works cost with many waiting, against few"),
];

const WIDTH: f64 = 860.0;
const LABEL_WIDTH: f64 = 190.0;
const VALUE_WIDTH: f64 = 130.0;
const BAR: f64 = 14.0;
const GAP: f64 = 4.0;
const HEAD: f64 = 34.0;
const ROW_HEAD: f64 = 26.0;
/// From here on the longest bar would leave nothing of the shortest.
const LOG_FROM: f64 = 20.0;
const LINGER: &str = "#d97706";
const OTHER: &str = "#4f83b6";
/// Readable on white and on black.
const TEXT: &str = "#7d8590";

/// Text between these is made here.
const BEGIN: &str = "<!-- compare -->\n";
const END: &str = "<!-- /compare -->\n";

/// Makes the tables of some files, and puts their pictures into a folder. The tables are printed, or stand in
/// a document from then on.
pub(crate) fn run(files: &[PathBuf], out: Option<&Path>, into: Option<&Path>) -> Result<()> {
    let mut text = String::new();
    for file in files {
        let table: Table = serde_json::from_str(&std::fs::read_to_string(file)?)?;
        let stem = file.file_stem().unwrap_or_default().to_string_lossy();
        _ = writeln!(text, "Made by `linger-bench plot` of `{}`.\n", file.display());
        text.push_str(&table.markdown());
        let Some(out) = out else { continue };
        std::fs::create_dir_all(out)?;
        for picture in pictures(&table) {
            let to = out.join(format!("{stem}-{}.svg", picture.name));
            std::fs::write(&to, picture.svg())?;
            let shown = into.and_then(|into| to.strip_prefix(into.parent()?).ok()).unwrap_or(&to);
            _ = writeln!(text, "\n![{}]({})", picture.title, shown.display());
        }
    }
    let Some(into) = into else {
        print!("{text}");
        return Ok(());
    };
    let document = std::fs::read_to_string(into)?;
    let begin = document.find(BEGIN).map(|at| at + BEGIN.len());
    let place = begin.zip(document.find(END)).filter(|(begin, end)| begin <= end);
    let (begin, end) = place.ok_or_else(|| format!("{} has no place for it", into.display()))?;
    Ok(std::fs::write(into, format!("{}{text}{}", &document[..begin], &document[end..]))?)
}

fn pictures(table: &Table) -> Vec<Picture> {
    let mut pictures = Vec::new();
    for (_, name, title) in PICTURES {
        for class in ["synced", "relaxed"] {
            let is = |row: &&Row| row.class == class && picture_of(row) == Some(name);
            let rows: Vec<Row> = table.rows.iter().filter(is).cloned().collect();
            if !rows.is_empty() {
                let (name, title) = (format!("{name}-{class}"), format!("{title}, {class}"));
                pictures.push(Picture { name, title, rows });
            }
        }
    }
    pictures
}

/// The picture that a row is part of: of those that fit the one that says most.
fn picture_of(row: &Row) -> Option<&'static str> {
    let fits = |(begins, ..): &&(&str, &str, &str)| row.what.starts_with(begins);
    let (_, name, _) = PICTURES.iter().filter(fits).max_by_key(|(begins, ..)| begins.len())?;
    // A rate with many waiting is part of what that costs.
    let is_shown = row.unit != Unit::Count && (row.unit != Unit::PerSecond || row.waiting == 0);
    is_shown.then_some(name)
}

impl Picture {
    fn svg(&self) -> String {
        let bars: usize = self.rows.iter().map(|row| measured(row).count()).sum();
        let height = HEAD + self.rows.len() as f64 * ROW_HEAD + bars as f64 * (BAR + GAP) + 10.0;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
             font-family=\"system-ui, sans-serif\" font-size=\"12\" fill=\"{TEXT}\">\n"
        );
        let scale = Scale::of(&self.rows);
        let how = if scale.is_log { " (logarithmic)" } else { "" };
        _ = writeln!(
            svg,
            "<text x=\"8\" y=\"20\" font-size=\"15\" font-weight=\"600\">{}{how}</text>",
            escaped(&self.title)
        );
        let mut y = HEAD;
        for row in &self.rows {
            y += ROW_HEAD;
            let title = escaped(&row.title());
            _ = writeln!(svg, "<text x=\"8\" y=\"{}\">{title}</text>", y - 8.0);
            for figure in measured(row) {
                bar(&mut svg, row, figure, &scale, y);
                y += BAR + GAP;
            }
        }
        svg + "</svg>\n"
    }
}

/// Those of whom there is a figure.
fn measured(row: &Row) -> impl Iterator<Item = &Figure> {
    row.figures.iter().filter(|figure| figure.not.is_none() && figure.rounds.middle().is_finite())
}

/// How long a bar is.
struct Scale {
    low: f64,
    high: f64,
    is_log: bool,
}

impl Scale {
    fn of(rows: &[Row]) -> Scale {
        let ends = |figure: &Figure| {
            let middle = figure.rounds.middle();
            figure.rounds.ends().unwrap_or((middle, middle))
        };
        let ends: Vec<(f64, f64)> = rows.iter().flat_map(measured).map(ends).collect();
        let above_zero = ends.iter().map(|(low, _)| *low).filter(|low| *low > 0.0);
        let low = above_zero.fold(f64::INFINITY, f64::min);
        let high = ends.iter().map(|(_, high)| *high).fold(0.0, f64::max);
        let is_log = high > LOG_FROM * low;
        // The shortest bar is still one.
        Scale { low: low / 2.0, high, is_log }
    }

    fn width(&self, value: f64) -> f64 {
        let part = match self.is_log {
            true => (value.max(self.low) / self.low).ln() / (self.high / self.low).ln(),
            false => value / self.high,
        };
        part.clamp(0.0, 1.0) * (WIDTH - LABEL_WIDTH - VALUE_WIDTH)
    }
}

/// A bar with its name, its figure, and a line from the lowest round to the highest.
fn bar(svg: &mut String, row: &Row, figure: &Figure, scale: &Scale, y: f64) {
    let (value, text_y, middle_y) = (figure.rounds.middle(), y + BAR - 3.0, y + BAR / 2.0);
    let colour = if figure.is_linger() { LINGER } else { OTHER };
    let (x, width) = (LABEL_WIDTH, scale.width(value));
    let who = escaped(&figure.who);
    _ = writeln!(
        svg,
        "<text x=\"{}\" y=\"{text_y}\" text-anchor=\"end\">{who}</text>\
         <rect x=\"{x}\" y=\"{y}\" width=\"{width:.1}\" height=\"{BAR}\" fill=\"{colour}\"/>",
        x - 8.0
    );
    let mut end = x + width;
    if let Some((low, high)) = figure.rounds.ends() {
        let (from, to) = (x + scale.width(low), x + scale.width(high));
        _ = writeln!(
            svg,
            "<path d=\"M{from:.1} {middle_y}H{to:.1}M{from:.1} {}v6M{to:.1} {}v6\" stroke=\"{TEXT}\"/>",
            middle_y - 3.0,
            middle_y - 3.0
        );
        end = end.max(to);
    }
    let text = format!("{}{}", number(row.unit, value), suffix(row.unit));
    _ = writeln!(svg, "<text x=\"{:.1}\" y=\"{text_y}\">{text}</text>", end + 6.0);
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_that_are_far_apart_are_drawn_by_their_logarithms() {
        let scale = Scale { low: 1.0, high: 10_000.0, is_log: true };
        let full = scale.width(10_000.0);
        assert!((scale.width(100.0) - full / 2.0).abs() < 1e-6);
        assert_eq!(scale.width(0.0), 0.0);
        let scale = Scale { low: 1.0, high: 10.0, is_log: false };
        assert!((scale.width(5.0) - full / 2.0).abs() < 1e-6);
    }
}
