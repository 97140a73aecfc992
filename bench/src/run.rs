//! A run from its folder to its report, whatever is measured.

use std::path::Path;

use tempfile::TempDir;

use crate::args::{Args, size_text};
use crate::report::{Budget, Names, Report, Row, Unit};
use crate::spread::Spread;
use crate::{Result, machine};

/// Has everything measured in a folder of its own, and reports it. A rate may cost at most
/// `flat_max` times as much with many jobs waiting as with the fewest.
pub(crate) fn run(
    args: &Args,
    names: Names,
    flat_max: f64,
    peers: Vec<(&'static str, String)>,
    measure: impl FnOnce(&Path) -> Result<Vec<Row>>,
) -> Result<()> {
    let folder = folder(args)?;
    let mut facts = machine::facts(folder.path());
    facts.push(("effort", args.effort.name.to_owned()));
    facts.extend(peers);
    for (name, fact) in &facts {
        eprintln!("{name:<12} {fact}");
    }
    let mut rows = measure(folder.path())?;
    rows.extend(flat_rows(&rows, &args.sizes, flat_max));
    let report = Report { names, facts, rows };
    println!("{}", report.text());
    if let Some(file) = &args.json {
        report.write_json(file)?;
    }
    Ok(())
}

/// A folder for all that is made, which goes with it.
pub(crate) fn folder(args: &Args) -> Result<TempDir> {
    Ok(match &args.folder {
        Some(folder) => tempfile::tempdir_in(folder)?,
        None => tempfile::tempdir()?,
    })
}

/// What each rate costs at each size against the smallest.
fn flat_rows(rows: &[Row], sizes: &[u64], most: f64) -> Vec<Row> {
    let Some(smallest) = sizes.iter().min() else { return Vec::new() };
    let rates =
        |size: u64| rows.iter().filter(move |row| row.size == size && row.unit == Unit::PerSecond);
    let mut flat = Vec::new();
    for size in sizes.iter().filter(|size| *size != smallest) {
        for row in rates(*size) {
            if let Some(small) = rates(*smallest).find(|small| small.what == row.what) {
                let cost = small.ours.middle() / row.ours.middle();
                let what = format!("cost against {}: {}", size_text(*smallest), row.what);
                flat.push(
                    Row::new(*size, what, Unit::Times, Spread::one(cost))
                        .budget(Some(Budget::AtMost(most))),
                );
            }
        }
    }
    flat
}
