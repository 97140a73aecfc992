//! The servers that are measured, each a process of its own.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use linger::store::embedded::Durability;
use serde_json::Value;

use crate::{Result, process};

/// The programs as they are now.
pub(super) struct Programs {
    linger: PathBuf,
    echo: PathBuf,
}

/// A server that runs; it ends with this.
pub(super) struct Server {
    process: Child,
    pub(super) address: SocketAddr,
}

impl Programs {
    /// Builds them, so that what is measured is what stands in the tree.
    pub(super) fn build(linger: Option<&Path>) -> Result<Programs> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut build = Command::new(cargo);
        build.args(["build", "-p", "linger-server", "--bin", "linger", "--example", "echo"]);
        build.args(["--message-format", "json-render-diagnostics"]);
        build.arg("--manifest-path").arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml"));
        if !cfg!(debug_assertions) {
            build.arg("--release");
        }
        let output = build.stderr(Stdio::inherit()).output()?;
        if !output.status.success() {
            return Err("the server could not be built".into());
        }
        let made: Vec<Value> = output
            .stdout
            .split(|byte| *byte == b'\n')
            .filter_map(|line| serde_json::from_slice(line).ok())
            .collect();
        let program = |name: &str| -> Result<PathBuf> {
            let of =
                |line: &&Value| line["target"]["name"] == name && line["executable"].is_string();
            let line = made.iter().find(of).ok_or_else(|| format!("{name} was not built"))?;
            Ok(line["executable"].as_str().unwrap_or_default().into())
        };
        let linger = linger.map_or_else(|| program("linger"), |linger| Ok(linger.to_owned()))?;
        Ok(Programs { linger, echo: program("echo")? })
    }

    /// Starts the echo.
    pub(super) fn echo(&self) -> Result<Server> {
        let mut process = Command::new(&self.echo).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        let out = process.stdout.take().ok_or("the echo has no output")?;
        BufReader::new(out).read_line(&mut line)?;
        Ok(Server { address: line.trim().parse()?, process })
    }

    /// Starts Linger on a store.
    pub(super) fn linger(&self, store: &Path, durability: Durability) -> Result<Server> {
        let durability = if durability == Durability::Sync { "sync" } else { "relaxed" };
        let mut process = Command::new(&self.linger)
            .args(["serve", "--listen", "127.0.0.1:0", "--durability", durability, "--store"])
            .arg(store)
            .stderr(Stdio::piped())
            .spawn()?;
        let mut said = BufReader::new(process.stderr.take().ok_or("linger has no output")?);
        let mut address = None;
        let mut line = String::new();
        while said.read_line(&mut line)? > 0 && !line.contains("ready") {
            let words = line.split_once("http://").and_then(|(_, rest)| rest.split_once(','));
            address = address.or(words.and_then(|(words, _)| words.parse().ok()));
            line.clear();
        }
        // What it says from now on is nobody's, but somebody has to take it.
        std::thread::spawn(move || said.read_to_end(&mut Vec::new()));
        let address = address.ok_or("linger did not say where it listens")?;
        Ok(Server { address, process })
    }
}

impl Server {
    /// The time that it has run for.
    pub(super) fn cpu(&self) -> Duration {
        process::cpu_of_process(self.process.id())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
