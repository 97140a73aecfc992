//! A Redis of our own, started anew for every round.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use ::redis::aio::MultiplexedConnection;
use ::redis::io::tcp::TcpSettings;
use ::redis::{AsyncConnectionConfig, Client, IntoConnectionInfo};
use tempfile::TempDir;

use crate::Result;
use crate::server::Server;

/// How Redis keeps what it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Log {
    /// In memory alone.
    None,
    /// In a log that is synced before anything is answered.
    Synced,
}

/// A Redis that runs, and its folder; both end with this.
pub(super) struct Redis {
    // Before its folder.
    server: Server,
    _folder: TempDir,
}

/// Longer than any answer takes here.
const ANSWER_MAX: Duration = Duration::from_secs(60);

impl Log {
    pub(super) fn name(self) -> &'static str {
        match self {
            Log::None => "in memory",
            Log::Synced => "synced",
        }
    }

    /// What Redis is told about it: no snapshots, and no rewriting of the log in the midst of a round.
    pub(super) fn args(self) -> &'static [&'static str] {
        match self {
            Log::None => &["--save", "", "--appendonly", "no"],
            Log::Synced => &[
                "--save",
                "",
                "--appendonly",
                "yes",
                "--appendfsync",
                "always",
                "--auto-aof-rewrite-percentage",
                "0",
            ],
        }
    }
}

impl Redis {
    pub(super) fn start(program: &Path, within: &Path, log: Log) -> Result<Redis> {
        let folder = tempfile::tempdir_in(within)?;
        let server = Server::start_at(|port| {
            let mut command = Command::new(program);
            command.args(["--bind", "127.0.0.1", "--port", &port.to_string()]);
            command.arg("--dir").arg(folder.path()).args(log.args());
            command
        })?;
        Ok(Redis { server, _folder: folder })
    }

    pub(super) fn port(&self) -> u16 {
        self.server.address.port()
    }

    pub(super) fn url(&self) -> String {
        format!("redis://{}", self.server.address)
    }

    /// The time that it has run for.
    pub(super) fn cpu(&self) -> Duration {
        self.server.cpu()
    }

    /// A connection that many callers share, as the store has it.
    pub(super) async fn connect(&self) -> Result<MultiplexedConnection> {
        let settings = TcpSettings::default().set_nodelay(true);
        let info = self.url().into_connection_info()?.set_tcp_settings(settings);
        let config = AsyncConnectionConfig::new().set_response_timeout(Some(ANSWER_MAX));
        Ok(Client::open(info)?.get_multiplexed_async_connection_with_config(&config).await?)
    }

    /// Has it keep a log from now on, or none.
    pub(super) async fn set_log(&self, kept: &str) -> Result<()> {
        let mut conn = self.connect().await?;
        let set = ["SET", "appendonly", kept];
        Ok(::redis::cmd("CONFIG").arg(&set).query_async(&mut conn).await?)
    }

    /// What all that it keeps takes, in bytes.
    pub(super) async fn used_memory(&self) -> Result<u64> {
        let mut conn = self.connect().await?;
        let info: String = ::redis::cmd("INFO").arg("memory").query_async(&mut conn).await?;
        let bytes = info.lines().find_map(|line| line.strip_prefix("used_memory:"));
        Ok(bytes.ok_or("Redis does not say what memory it uses")?.trim().parse()?)
    }
}
