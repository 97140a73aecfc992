//! Receivers that verify what they get with packages that others wrote.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use crate::client::Server;
use crate::receiver::PATIENCE;

/// What `./test` installs.
fn tool(path: &str) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target = target.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../target"));
    target.join("tools").join(path)
}

/// A receiver as a process of its own, which ends with this.
struct Stranger {
    lines: Lines<BufReader<ChildStdout>>,
    _process: Child,
}

impl Stranger {
    fn start(program: &Path, needed: &Path, script: &str, secret: &str) -> Stranger {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/push");
        let mut process = Command::new(program)
            .arg(folder.join(script))
            .arg(secret)
            .env("NODE_PATH", needed)
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("it starts");
        let lines = BufReader::new(process.stdout.take().expect("piped")).lines();
        Stranger { lines, _process: process }
    }

    async fn says(&mut self) -> String {
        let line = tokio::time::timeout(PATIENCE, self.lines.next_line()).await;
        line.expect("it says something").expect("it can be read").expect("it runs")
    }
}

/// What is signed by the right secret is accepted, and by another refused.
async fn verifies(program: &Path, needed: &Path, script: &str) {
    if !needed.exists() {
        assert!(std::env::var_os("CI").is_none(), "{} is not there", needed.display());
        return eprintln!("skipped: {} is not there (./test installs it)", needed.display());
    }
    let server = Server::start().await;
    let secret = async |owner: serde_json::Value| {
        let made = server.post("/v1/secrets", &owner.to_string()).await.ok(201);
        made["secret"].as_str().unwrap().to_owned()
    };
    let right = secret(json!({"topic": "right"})).await;
    // A newer one signs as well, and the stranger knows only the old.
    secret(json!({"topic": "right"})).await;
    secret(json!({"topic": "wrong"})).await;
    let mut stranger = Stranger::start(program, needed, script, &right);
    let port = stranger.says().await;
    for (topic, said) in [("right", "accepted"), ("wrong", "refused"), ("unsigned", "refused")] {
        let job = json!({
            "topic": topic, "body": {"grüße": [1.0, "\u{1f600}"]},
            "target": format!("http://127.0.0.1:{port}/hooks"), "retry": {"attempts": 1},
        });
        server.add(&job.to_string()).await;
        let line = stranger.says().await;
        assert!(line.starts_with(said), "{topic}: {line}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn python_accepts_our_signatures() {
    let python = tool("webhooks-python-1/bin/python");
    verifies(&python, &python, "strangers.py").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_accepts_our_signatures() {
    let modules = tool("webhooks-node-1/node_modules");
    verifies(Path::new("node"), &modules, "strangers.js").await;
}
