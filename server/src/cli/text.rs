//! Answers for people: tables, and lines of a name and a value.

use serde_json::value::RawValue;

use super::json::{Object, shown};

/// The most of a long text that stands in a table.
const CELL_CHARS_MAX: usize = 60;

/// A table that is written in parts: a later part is at least as wide as those before.
pub(super) struct Table {
    heads: Vec<&'static str>,
    widths: Vec<usize>,
    has_head: bool,
}

impl Table {
    /// A table with these columns.
    pub(super) fn new(heads: &[&'static str]) -> Table {
        let widths = heads.iter().map(|head| width(head)).collect();
        Table { heads: heads.to_vec(), widths, has_head: false }
    }

    /// The next rows; the first are under the heads.
    pub(super) fn rows(&mut self, rows: Vec<Vec<String>>) -> String {
        let rows: Vec<Vec<String>> =
            rows.into_iter().map(|row| row.iter().map(|text| cell(text)).collect()).collect();
        for row in &rows {
            for (widest, cell) in self.widths.iter_mut().zip(row) {
                *widest = width(cell).max(*widest);
            }
        }
        let mut out = String::new();
        if !rows.is_empty() && !std::mem::replace(&mut self.has_head, true) {
            self.put(&mut out, &self.heads);
        }
        rows.iter().for_each(|row| self.put(&mut out, row));
        out
    }

    fn put(&self, out: &mut String, row: &[impl AsRef<str>]) {
        let mut line = String::new();
        for (cell, widest) in row.iter().zip(&self.widths) {
            put_padded(&mut line, cell.as_ref(), *widest);
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
}

/// An object, a line a field.
pub(super) fn lines(object: &Object) -> String {
    lines_of(object.fields())
}

/// Fields, a line each.
pub(super) fn lines_of<'a>(fields: impl Iterator<Item = (&'a str, &'a RawValue)>) -> String {
    let fields: Vec<(&str, String)> = fields
        .map(|(name, value)| (name, shown(value)))
        .filter(|(_, text)| !text.is_empty())
        .collect();
    let widest = fields.iter().map(|(name, _)| width(name)).max().unwrap_or(0);
    let mut out = String::new();
    for (name, text) in &fields {
        let mut name = *name;
        for line in text.lines() {
            put_padded(&mut out, std::mem::take(&mut name), widest);
            out.push_str(&plain(line));
            out.push('\n');
        }
    }
    out
}

/// Text that does nothing to a terminal: other people's bodies and errors end up here.
pub(super) fn plain(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut out, c| {
        match c.is_control() && c != '\t' {
            true => out.extend(c.escape_default()),
            false => out.push(c),
        }
        out
    })
}

fn cell(text: &str) -> String {
    let end = text.char_indices().nth(CELL_CHARS_MAX).map(|(at, _)| at);
    match end {
        None => plain(text).replace('\t', "\\t"),
        Some(end) => plain(&text[..end]).replace('\t', "\\t") + "…",
    }
}

fn put_padded(out: &mut String, text: &str, widest: usize) {
    out.push_str(text);
    out.extend(std::iter::repeat_n(' ', widest - width(text) + 2));
}

/// How many columns of a terminal a text takes: two for the wide letters of East Asia.
fn width(text: &str) -> usize {
    let is_wide = |c: char| {
        matches!(c,
            '\u{1100}'..='\u{115f}' | '\u{2e80}'..='\u{a4cf}' | '\u{ac00}'..='\u{d7a3}'
            | '\u{f900}'..='\u{faff}' | '\u{fe30}'..='\u{fe6f}' | '\u{ff00}'..='\u{ff60}'
            | '\u{ffe0}'..='\u{ffe6}' | '\u{1f300}'..='\u{1faff}' | '\u{20000}'..='\u{3fffd}')
    };
    text.chars().map(|c| if is_wide(c) { 2 } else { 1 }).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(cells: &[&str]) -> Vec<String> {
        cells.iter().map(|cell| (*cell).to_owned()).collect()
    }

    #[test]
    fn columns_are_aligned_over_all_parts() {
        let mut table = Table::new(&["ID", "STATE", "ERROR"]);
        assert_eq!(table.rows(Vec::new()), "");
        let first = table.rows(vec![row(&["支付宝", "ready", ""]), row(&["1", "dead", "x\ny"])]);
        assert_eq!(first, "ID      STATE  ERROR\n支付宝  ready\n1       dead   x\\ny\n");
        assert_eq!(table.rows(vec![row(&["2", "retry", "z"])]), "2       retry  z\n");
    }

    #[test]
    fn a_long_cell_is_cut() {
        let long = "é".repeat(CELL_CHARS_MAX);
        assert_eq!(cell(&long), long);
        assert_eq!(cell(&format!("{long}x")), format!("{long}…"));
    }

    #[test]
    fn lines_show_every_field_that_is_not_empty() {
        let json = r#"{"id":"1","none":"","retry":{"attempts": 3},"body":"two\nlines\u001b[2J"}"#;
        let object = serde_json::from_str(json).unwrap();
        let right = "id     1\nretry  {\"attempts\": 3}\nbody   two\n       lines\\u{1b}[2J\n";
        assert_eq!(lines(&object), right);
    }
}
