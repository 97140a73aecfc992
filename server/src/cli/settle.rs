//! `linger finish`, `fail`, `release` and `touch`: what a worker says about a job it was given.

use anyhow::Result;

use super::End;
use super::json::Object;
use super::one::One;

/// Say that a job is done
#[derive(clap::Args)]
#[command(after_help = FINISH_EXAMPLES)]
pub(super) struct Finish {
    #[command(flatten)]
    one: One,
    #[command(flatten)]
    held_by: HeldBy,
}

/// Say that an attempt failed, so that the job is tried again later
#[derive(clap::Args)]
#[command(after_help = FAIL_EXAMPLES)]
pub(super) struct Fail {
    #[command(flatten)]
    one: One,
    #[command(flatten)]
    held_by: HeldBy,
    /// Why
    #[arg(long, value_name = "TEXT", conflicts_with = "again")]
    error: Option<String>,
    /// When to try again, from now [default: the next step of its ladder]
    #[arg(long, value_name = "DURATION")]
    retry_in: Option<String>,
    /// Not a failure, only not yet: a payment that is still open, say
    #[arg(long)]
    again: bool,
}

/// Give a job back; the attempt does not count
#[derive(clap::Args)]
#[command(after_help = RELEASE_EXAMPLES)]
pub(super) struct Release {
    #[command(flatten)]
    one: One,
    #[command(flatten)]
    held_by: HeldBy,
    /// When it is due again, from now [default: at once]
    #[arg(long, value_name = "DURATION")]
    delay: Option<String>,
}

/// Ask for more time to run
#[derive(clap::Args)]
#[command(after_help = TOUCH_EXAMPLES)]
pub(super) struct Touch {
    #[command(flatten)]
    one: One,
    #[command(flatten)]
    held_by: HeldBy,
    /// How much, from now [default: as much as the pop gave]
    #[arg(long, value_name = "DURATION")]
    ttr: Option<String>,
}

#[derive(clap::Args)]
struct HeldBy {
    /// The lease that the pop gave; a lost one changes nothing [default: whoever holds the job]
    #[arg(long)]
    lease: Option<String>,
}

const FINISH_EXAMPLES: &str = "\
Examples:
  linger finish orders 42
  linger finish orders 42 --lease 9f1c22d07e6ab345";

const FAIL_EXAMPLES: &str = "\
Examples:
  linger fail orders 42 --error 'bank is closed' --retry-in 2h
  linger fail payments 42 --again";

const RELEASE_EXAMPLES: &str = "\
Examples:
  linger release orders 42
  linger release orders 42 --delay 5m";

const TOUCH_EXAMPLES: &str = "\
Examples:
  linger touch orders 42
  linger touch orders 42 --ttr 10m";

impl HeldBy {
    fn fields(self) -> Object {
        Object::default().with_some("lease", self.lease)
    }
}

impl Finish {
    pub(super) fn run(self) -> Result<End> {
        self.one.act("finish", &self.held_by.fields())
    }
}

impl Fail {
    pub(super) fn run(self) -> Result<End> {
        let fields = self
            .held_by
            .fields()
            .with_some("error", self.error)
            .with_some("retry_in", self.retry_in)
            .with_some("again", self.again.then_some(true));
        self.one.act("fail", &fields)
    }
}

impl Release {
    pub(super) fn run(self) -> Result<End> {
        self.one.act("release", &self.held_by.fields().with_some("delay", self.delay))
    }
}

impl Touch {
    pub(super) fn run(self) -> Result<End> {
        self.one.act("touch", &self.held_by.fields().with_some("ttr", self.ttr))
    }
}
