//! The benchmark of the server runs, at sizes that prove nothing else.

use std::process::Command;

#[test]
fn every_part_of_the_benchmark_runs() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let json = folder.path().join("figures.json");
    let output = Command::new(env!("CARGO_BIN_EXE_linger-bench"))
        .args(["http", "--smoke", "--sizes", "300", "--folder"])
        .arg(folder.path())
        .arg("--json")
        .arg(&json)
        .output()
        .expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let text = std::fs::read_to_string(&json).expect("it writes JSON");
    let figures: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
    let rows = figures["rows"].as_array().expect("there are rows");
    let has = |what: &str| rows.iter().any(|row| row["what"].as_str().unwrap().starts_with(what));
    for what in [
        "add, synced, 256 connections",
        "add, relaxed, 64 connections in 100s",
        "in 100s against one by one",
        "pop and finish",
        "delete by id",
        "from add to the one who waits",
        "lateness",
        "500 due at once",
    ] {
        assert!(has(what), "no row `{what}`");
    }
}
