//! `linger hold`, `unhold` and `run`.

use anyhow::Result;

use super::End;
use super::json::Object;
use super::one::One;

/// Set a job aside: it is kept, and not handed out
#[derive(clap::Args)]
#[command(after_help = "Example:\n  linger hold orders 42")]
pub(super) struct Hold {
    #[command(flatten)]
    one: One,
}

/// Let a job go that was set aside
#[derive(clap::Args)]
#[command(after_help = "Example:\n  linger unhold orders 42")]
pub(super) struct Unhold {
    #[command(flatten)]
    one: One,
}

/// Make a job due now
#[derive(clap::Args)]
#[command(after_help = "Example:\n  linger run orders 42")]
pub(super) struct Run {
    #[command(flatten)]
    one: One,
}

impl Hold {
    pub(super) fn run(self) -> Result<End> {
        self.one.act("hold", &Object::default())
    }
}

impl Unhold {
    pub(super) fn run(self) -> Result<End> {
        self.one.act("unhold", &Object::default())
    }
}

impl Run {
    pub(super) fn run(self) -> Result<End> {
        self.one.act("run", &Object::default())
    }
}
