//! The benchmarks run, at sizes that prove nothing else.

use std::process::Command;

use serde_json::Value;

/// What `linger-bench` measured.
struct Figures(Vec<Value>);

impl Figures {
    fn of(what: &str) -> Figures {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let json = folder.path().join("figures.json");
        let output = Command::new(env!("CARGO_BIN_EXE_linger-bench"))
            .args([what, "--smoke", "--sizes", "300", "--folder"])
            .arg(folder.path())
            .arg("--json")
            .arg(&json)
            .output()
            .expect("it starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        let text = std::fs::read_to_string(&json).expect("it writes JSON");
        let figures: Value = serde_json::from_str(&text).expect("it is JSON");
        Figures(figures["rows"].as_array().expect("there are rows").clone())
    }

    fn have(&self, what: &str) {
        let has = |row: &Value| row["what"].as_str().unwrap().starts_with(what);
        assert!(self.0.iter().any(has), "no row `{what}`");
    }
}

#[test]
fn every_part_of_the_engine_is_measured() {
    let figures = Figures::of("engine");
    for what in ["add, synced", "pop and finish", "delete by id", "lateness", "synced add under"] {
        figures.have(what);
    }
    for what in ["memory a job", "disk a job", "idle CPU", "open after kill -9", "disk after that"]
    {
        figures.have(what);
    }
}

#[test]
fn every_part_of_the_server_is_measured() {
    let figures = Figures::of("http");
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
        figures.have(what);
    }
}
