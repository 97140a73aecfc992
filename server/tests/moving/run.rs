//! The binary, run to its end.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

/// What a verb did.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

pub(crate) fn run(args: &[&str]) -> Ran {
    let ran = Command::new(env!("CARGO_BIN_EXE_linger"))
        .env_clear()
        .args(args)
        .stdin(Stdio::null())
        .output()
        .expect("it starts");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    let code = ran.status.code().expect("it was not killed");
    Ran { code, out: text(ran.stdout), err: text(ran.stderr) }
}

/// Runs a verb that must do as it is told, and answers what it prints.
#[track_caller]
pub(crate) fn done(args: &[&str]) -> String {
    let ran = run(args);
    assert_eq!(ran.code, 0, "{args:?}: {}", ran.err);
    ran.out
}

#[track_caller]
pub(crate) fn json(args: &[&str]) -> Value {
    serde_json::from_str(&done(&[args, &["--json"]].concat())).expect("JSON")
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// The lines of an export, each as an object.
#[track_caller]
pub(crate) fn exported(store: &str) -> Vec<Value> {
    let out = done(&["export", "--store", store]);
    out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}
