//! Who is measured beside Linger: beanstalkd and Redis, each started anew for every round.

use std::path::{Path, PathBuf};
use std::process::Command;

use linger::store::embedded::Durability;
use tempfile::TempDir;

use super::client::{Speaks, Target};
use crate::Result;
use crate::args::Args;
use crate::server::Server;
use crate::tools::{find, version};

/// What the columns are called. The first and the last are as durable as Linger in the same row.
pub(super) const NAMES: &[&str] = &["beanstalkd", "beanstalkd -f50", "Redis"];

/// The programs, as far as they are there.
pub(super) struct Programs {
    beanstalkd: Option<PathBuf>,
    redis: Option<PathBuf>,
}

/// A program and how it is to run.
pub(super) enum Peer {
    Beanstalkd(PathBuf, &'static [&'static str]),
    Redis(PathBuf, &'static str),
}

/// A peer that runs, and its folder; both end with this.
pub(super) struct Running {
    // Before its folder.
    server: Server,
    folder: TempDir,
    pub(super) target: Target,
}

const NO_LOG: &[&str] = &[];
const SYNC_EACH: &[&str] = &["-f0"];
const SYNC_AT_50_MS: &[&str] = &["-f50"];
const SYNC_NEVER: &[&str] = &["-F"];

impl Programs {
    pub(super) fn find(args: &Args) -> Programs {
        Programs {
            beanstalkd: args.beanstalkd.clone().or_else(|| find("beanstalkd")),
            redis: args.redis.clone().or_else(|| find("redis-server")),
        }
    }

    /// What they are, for the report.
    pub(super) fn facts(&self) -> Vec<(&'static str, String)> {
        let fact = |program: &Option<PathBuf>| match program {
            Some(program) => version(program),
            None => "not found: nothing stands in its columns".into(),
        };
        vec![("beanstalkd", fact(&self.beanstalkd)), ("redis", fact(&self.redis))]
    }

    /// Those that stand beside Linger of this durability, by column.
    pub(super) fn peers(&self, durability: Durability) -> [Option<Peer>; 3] {
        let beanstalkd = |how| self.beanstalkd.clone().map(|at| Peer::Beanstalkd(at, how));
        let redis = |how| self.redis.clone().map(|at| Peer::Redis(at, how));
        match durability {
            Durability::Sync => [beanstalkd(SYNC_EACH), None, redis("always")],
            Durability::Relaxed => {
                [beanstalkd(NO_LOG), beanstalkd(SYNC_AT_50_MS), redis("everysec")]
            }
        }
    }
}

impl Peer {
    pub(super) fn start(&self, within: &Path) -> Result<Running> {
        self.start_in(tempfile::tempdir_in(within)?, None)
    }

    /// Starts it with jobs that are put there first.
    pub(super) fn start_with(
        &self,
        within: &Path,
        put: impl FnOnce(Target) -> Result<()>,
    ) -> Result<Running> {
        // One that syncs each job by itself would take long; what it reads back is the same.
        let slow = matches!(self, Peer::Beanstalkd(_, how) if *how == SYNC_EACH);
        let filling = self.start_in(tempfile::tempdir_in(within)?, slow.then_some(SYNC_NEVER))?;
        put(filling.target)?;
        if !slow {
            return Ok(filling);
        }
        let Running { server, folder, .. } = filling;
        drop(server);
        self.start_in(folder, None)
    }

    fn start_in(
        &self,
        folder: TempDir,
        instead: Option<&'static [&'static str]>,
    ) -> Result<Running> {
        let server = Server::start_at(|port| match self {
            Peer::Beanstalkd(program, how) => {
                let mut command = Command::new(program);
                command.args(["-l", "127.0.0.1", "-p", &port.to_string()]);
                if *how != NO_LOG {
                    command.arg("-b").arg(folder.path()).args(instead.unwrap_or(how));
                }
                command
            }
            Peer::Redis(program, sync) => {
                let mut command = Command::new(program);
                command.args(["--bind", "127.0.0.1", "--port", &port.to_string()]);
                command.arg("--dir").arg(folder.path());
                command.args(["--appendonly", "yes", "--appendfsync", sync]);
                // No snapshots, and no rewriting of the log in the midst of a round.
                command.args(["--save", "", "--auto-aof-rewrite-percentage", "0"]);
                command
            }
        })?;
        let speaks = match self {
            Peer::Beanstalkd(..) => Speaks::Beanstalk,
            Peer::Redis(..) => Speaks::Redis,
        };
        let target = Target { address: server.address, speaks };
        Ok(Running { server, folder, target })
    }

    /// Whether one can wait for jobs there.
    pub(super) fn waits(&self) -> bool {
        matches!(self, Peer::Beanstalkd(..))
    }
}

impl Running {
    pub(super) fn server(&self) -> &Server {
        &self.server
    }
}
