//! Clients of other languages, which know nothing but the description.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use super::client::{PATIENCE, Server};

/// What `./test` installs.
fn tool(path: &str) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target = target.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../target"));
    target.join("tools").join(path)
}

/// Has a story told against a server; without those who tell it, it is skipped, or fails in CI.
async fn tell(program: &Path, needed: &Path, story: &str) {
    if !needed.exists() {
        assert!(std::env::var_os("CI").is_none(), "{} is not there", needed.display());
        return eprintln!("skipped: {} is not there (./test installs it)", needed.display());
    }
    let server = Server::start().await;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let told = tokio::process::Command::new(program)
        .arg(folder.join("tests/grpc").join(story))
        .arg(server.address().to_string())
        .arg(folder.join("proto"))
        .env("NODE_PATH", needed)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .output();
    let told = tokio::time::timeout(PATIENCE, told).await.expect("it ends").expect("it starts");
    let (out, err) = (String::from_utf8_lossy(&told.stdout), String::from_utf8_lossy(&told.stderr));
    assert!(told.status.success() && out.contains("all well"), "{out}{err}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn python_works_from_the_description_alone() {
    let python = tool("grpc-python-1/bin/python");
    tell(&python, &python, "strangers.py").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_works_from_the_description_alone() {
    let modules = tool("grpc-node-1/node_modules");
    tell(Path::new("node"), &modules, "strangers.js").await;
}
