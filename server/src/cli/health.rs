//! `linger health`.

use anyhow::Result;
use serde::Deserialize;

use super::client::Remote;
use super::{End, note, sentence};

/// Ask a server whether it is ready
///
/// For supervisors where there is no curl, such as the image's own health check. Exit code 1: it is not
/// ready, or there is none.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Health {
    #[command(flatten)]
    remote: Remote,
}

const EXAMPLES: &str = "\
Examples:
  linger health
  linger health --server http://10.0.0.5:7300
  until linger health 2>/dev/null; do sleep 1; done";

#[derive(Deserialize)]
struct Ready {
    warning: Option<String>,
}

impl Health {
    pub(super) fn run(self) -> Result<End> {
        let client = self.remote.client()?;
        let answer = match client.get("/readyz") {
            Ok(answer) => answer,
            // Whoever asks wants to know whether it is well, and takes 2 for a wrong question.
            Err(why) => {
                note(&sentence(&why));
                return Ok(End::No);
            }
        };
        let Ready { warning } = answer.read()?;
        answer.print(|| "ready\n".to_owned())?;
        if let Some(warning) = warning {
            note(&warning);
        }
        Ok(End::Done)
    }
}
