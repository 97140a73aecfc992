//! BullMQ, driven by a program of its own in Node, or served by one.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::served::Redis;
use crate::load::Limit;
use crate::server::Server;
use crate::{Result, tools};

/// Node, and where it finds BullMQ.
pub(super) struct BullMq {
    node: PathBuf,
    modules: PathBuf,
}

/// What is done again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Load {
    /// Adds a job that is due in a day.
    Add,
    /// Takes a job that is due, and ends it.
    Work,
}

/// Where `./test` puts it. The number goes up with what is there.
const MODULES: &str = "bullmq-1/node_modules";

impl BullMq {
    pub(super) fn find() -> Option<BullMq> {
        let modules = tools::folder()?.join(MODULES);
        let node = tools::find("node")?;
        modules.join("bullmq").is_dir().then_some(BullMq { node, modules })
    }

    pub(super) fn version(&self) -> String {
        let about = std::fs::read_to_string(self.modules.join("bullmq/package.json"));
        let about: Option<Value> = about.ok().and_then(|text| serde_json::from_str(&text).ok());
        let version = about.and_then(|about| Some(about["version"].as_str()?.to_owned()));
        format!("{}, Node {}", version.unwrap_or_default(), tools::version(&self.node))
    }

    /// An HTTP server in front of it.
    pub(super) fn serve(&self, redis: &Redis) -> Result<Server> {
        Server::start_at(|port| {
            let mut command = Command::new(&self.node);
            command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/bullmq/serve.js"));
            command.args([redis.port().to_string(), port.to_string()]);
            command.env("NODE_PATH", &self.modules);
            command
        })
    }

    /// Jobs a second, by so many that are under way at once.
    pub(super) fn rate(
        &self,
        redis: &Redis,
        load: Load,
        at_once: usize,
        limit: Limit,
    ) -> Result<f64> {
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/bullmq/load.js");
        let output = Command::new(&self.node)
            .arg(program)
            .arg(redis.port().to_string())
            .arg(if load == Load::Add { "add" } else { "work" })
            .args([at_once.to_string(), limit.turns.to_string()])
            .arg(limit.time.as_millis().to_string())
            .env("NODE_PATH", &self.modules)
            .stderr(Stdio::inherit())
            .output()?;
        if !output.status.success() {
            return Err("the program that drives BullMQ failed".into());
        }
        let told: Value = serde_json::from_slice(&output.stdout)?;
        let rate = told["jobs"].as_f64().zip(told["seconds"].as_f64()).map(|(n, s)| n / s);
        Ok(rate.ok_or_else(|| format!("the program that drives BullMQ said {told}"))?)
    }
}
