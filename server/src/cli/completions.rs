//! `linger completions`.

use anyhow::Result;
use clap::CommandFactory;
use clap_complete::Shell;

use super::{Cli, End, output};

/// Print what a shell needs to complete this command line
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Completions {
    /// The shell
    shell: Shell,
}

const EXAMPLES: &str = "\
Examples:
  linger completions bash > /etc/bash_completion.d/linger
  linger completions zsh > ~/.zfunc/_linger
  linger completions fish > ~/.config/fish/completions/linger.fish";

impl Completions {
    pub(super) fn run(self) -> Result<End> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "linger", &mut script);
        output(script)?;
        Ok(End::Done)
    }
}
