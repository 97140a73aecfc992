//! Clients that others wrote, as they are published: each tells a story of `strangers/`, and one
//! brings its own suite along.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::Command;

use super::peers::{Linger, PATIENCE};

/// Where `./test` puts what it fetches.
fn tools() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target = target.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../target"));
    target.join("tools")
}

fn python() -> Command {
    Command::new(tools().join("beanstalk-clients-1/bin/python"))
}

fn node_modules() -> PathBuf {
    tools().join("beanstalk-node-1/node_modules")
}

fn node() -> Command {
    let mut node = Command::new("node");
    node.env("NODE_PATH", node_modules());
    node
}

fn story(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/beanstalk/strangers").join(name)
}

/// What a command says, if it succeeds within three times our patience.
async fn said(command: &mut Command) -> Result<String, String> {
    let said = command.stdin(Stdio::null()).kill_on_drop(true).output();
    let said = tokio::time::timeout(3 * PATIENCE, said).await.map_err(|_| "it never ends")?;
    let said = said.map_err(|cause| cause.to_string())?;
    let (out, err) = (String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
    if said.status.success() { Ok(out.into_owned()) } else { Err(format!("{out}{err}")) }
}

/// Whether a client is there; if not, that is said, and fails in CI.
async fn is_there(client: &str, look: &mut Command) -> bool {
    let missing = said(look).await.err();
    if let Some(why) = &missing {
        assert!(std::env::var_os("CI").is_none(), "{client} is not there: {why}");
        eprintln!("skipped: {client} is not there (./test installs it)");
    }
    missing.is_none()
}

/// Has a story told to a server of its own.
async fn tell(teller: &mut Command, name: &str) {
    let linger = Linger::start().await;
    let (host, port) = (linger.address.ip().to_string(), linger.address.port().to_string());
    let told = said(teller.arg(story(name)).args([host, port])).await;
    let told = told.unwrap_or_else(|why| panic!("{why}"));
    assert!(told.contains("all well"), "{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn greenstalk_and_pystalk_for_python_work_as_they_are() {
    if is_there("pystalk", python().args(["-c", "import greenstalk, pystalk"])).await {
        tell(&mut python(), "python.py").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jackd_for_node_works_as_it_is() {
    if is_there("jackd", node().args(["-e", "require('jackd')"])).await {
        tell(&mut node(), "jackd.js").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pheanstalk_for_php_works_as_it_is() {
    let look = ["-r", "require 'Pheanstalk/autoload.php';"];
    if is_there("pheanstalk", Command::new("php").args(look)).await {
        tell(&mut Command::new("php"), "pheanstalk.php").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn beaneater_for_ruby_works_as_it_is() {
    if is_there("beaneater", Command::new("ruby").args(["-e", "require 'beaneater'"])).await {
        tell(&mut Command::new("ruby"), "beaneater.rb").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fivebeans_for_node_passes_the_suite_that_it_brings_along() {
    let look = ["-e", "require('fivebeans'), require('mocha'), require('must')"];
    if !is_there("fivebeans", node().args(look)).await {
        return;
    }
    let linger = Linger::start().await;
    let mut mocha = node();
    mocha
        .current_dir(node_modules().join("fivebeans"))
        .env("BEANSTALKD_PORT", linger.address.port().to_string())
        .arg("--require")
        .arg(story("redirect.js"))
        .arg(node_modules().join("mocha/bin/_mocha"))
        .args(["--timeout", "60000", "--reporter", "spec"])
        // This one talks to nobody, and wants an errno that Node has changed since.
        .args(["--grep", "emits the error event on failure", "--invert", "test/"]);
    let told = said(&mut mocha).await.unwrap_or_else(|why| panic!("{why}"));
    assert!(told.contains("53 passing"), "{told}");
}
