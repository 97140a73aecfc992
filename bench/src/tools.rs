//! Programs that stand beside Linger.

use std::path::{Path, PathBuf};
use std::process::Command;

/// In PATH, or where `./test` puts it.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(folder().map(|tools| tools.join("bin")));
    folders.map(|at| at.join(name)).find(|at| at.is_file())
}

/// Where `./test` puts what it fetches: beside the folder that this program is in.
pub(crate) fn folder() -> Option<PathBuf> {
    Some(std::env::current_exe().ok()?.ancestors().nth(2)?.join("tools"))
}

/// What a program says that it is.
pub(crate) fn version(program: &Path) -> String {
    let said = Command::new(program).arg("-v").output();
    let said = said.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let text = said.unwrap_or_default();
    // Redis says more than anybody wants to know.
    let words: Vec<&str> = text.split_whitespace().take(3).collect();
    words.join(" ")
}
