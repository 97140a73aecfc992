//! `linger serve`.

use anyhow::Result;

use super::{End, load};
use crate::config::ServeFlags;

/// Run the server
///
/// Every setting can stand in linger.toml, in the environment (LINGER_LISTEN,
/// LINGER_LIMITS_BODY, …) or in a flag; the later of these wins.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Serve {
    #[command(flatten)]
    flags: ServeFlags,
}

const EXAMPLES: &str = "\
Examples:
  linger serve
  linger serve --config /etc/linger.toml --store /var/lib/linger
  linger serve --set limits.body=2MiB --set log.format=json
  linger serve --beanstalkd 127.0.0.1:11300         for clients of beanstalkd, on a port of its own
  linger serve --listen 0.0.0.0:7300 --insecure     no API keys: for a network without strangers

SIGHUP reads the settings again, all or nothing; `linger config` shows them.
SIGTERM and SIGINT stop it: waiting pops are answered, requests under way end within `drain`, what is
left then is cut off, and the exit code is 0. A second one ends it at once, with exit code 2; what was
acknowledged is safe all the same.
SIGUSR1 has the beanstalkd port take no new jobs any more, as beanstalkd does.";

impl Serve {
    pub(super) fn run(self) -> Result<End> {
        crate::serve::run(load(&self.flags)?)?;
        Ok(End::Done)
    }
}
