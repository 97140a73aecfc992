//! `linger man`.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Command, CommandFactory};
use clap_mangen::Man;

use super::{Cli, End, note, output};

/// Print the manual page, or write those of all verbs
///
/// Without a folder the page of `linger` is printed. With one, `linger.1` and a page for each verb, such as
/// `linger-serve.1`, are written there.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ManPages {
    /// Write all pages to this folder, which is made if it is not there
    #[arg(long, value_name = "FOLDER")]
    dir: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  linger man | man -l -
  linger man --dir /usr/local/share/man/man1";

impl ManPages {
    pub(super) fn run(self) -> Result<End> {
        let mut all = Cli::command();
        all.build();
        let Some(folder) = self.dir else {
            output(page(&all)?)?;
            return Ok(End::Done);
        };
        let cannot = || format!("cannot write to `{}`", folder.display());
        std::fs::create_dir_all(&folder).with_context(cannot)?;
        let mut pages = vec![("linger".to_owned(), &all)];
        // Its own help is no verb of ours.
        let verbs = all.get_subcommands().filter(|verb| verb.get_name() != "help");
        pages.extend(verbs.map(|verb| (format!("linger-{}", verb.get_name()), verb)));
        for (name, command) in &pages {
            let path = folder.join(format!("{name}.1"));
            std::fs::write(path, page(command)?).with_context(cannot)?;
        }
        note(&format!("{} pages in {}", pages.len(), folder.display()));
        Ok(End::Done)
    }
}

fn page(command: &Command) -> Result<Vec<u8>> {
    let mut page = Vec::new();
    Man::new(command.clone()).render(&mut page)?;
    Ok(page)
}
