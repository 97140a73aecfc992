//! Rules of the house that the compiler does not check.

use std::fs;
use std::path::{Path, PathBuf};

/// Files that hold decisions only, with the folders of their names: time and chance come in as
/// arguments.
const PURE: [&str; 7] =
    ["job.rs", "topic.rs", "name.rs", "machine.rs", "retry.rs", "schedule.rs", "error.rs"];

/// Past this a file is more than one idea.
const LINES_MAX: usize = 800;

#[test]
fn every_path_the_pages_name_exists() {
    for page in ["docs/ARCHITECTURE.md", "README.md"] {
        let named = repo_paths(&read(&root().join(page)));
        assert!(!named.is_empty(), "{page} names no path of the repository in backticks");
        let gone: Vec<_> = named.iter().filter(|path| !root().join(path).exists()).collect();
        assert!(gone.is_empty(), "{page} names {gone:?}; paths are written from the root");
    }
}

#[test]
fn a_pure_file_knows_no_runtime_file_clock_or_chance() {
    let known: Vec<_> =
        PURE.iter().map(|name| src().join(name)).filter(|path| path.exists()).collect();
    assert!(!known.is_empty(), "none of {PURE:?} is in {}", src().display());
    let folders: Vec<_> = known.iter().map(|file| file.with_extension("")).collect();
    let within = folders.iter().filter(|folder| folder.is_dir()).flat_map(|folder| files(folder));
    for file in known.iter().cloned().chain(within) {
        refuse(&file, &read(&file), &["tokio", "std::fs", "rand", "getrandom"]);
    }
}

#[test]
fn only_time_rs_reads_a_clock() {
    for file in files(&src()).iter().filter(|file| **file != src().join("time.rs")) {
        let mut text = read(file);
        if ["worker", "store/redis/conn"].iter().any(|name| file.starts_with(src().join(name))) {
            // Tests pause tokio's clock, so a worker may wait by it, and so may who dials again.
            text = text.replace("tokio::time::Instant::now", "");
        }
        // jiff and uuid are doors to the same clock.
        let doors = ["SystemTime", "Instant::now", "Timestamp::now", "Zoned::now", "now_v7"];
        refuse(file, &text, &doors);
    }
}

#[test]
fn no_file_holds_a_leftover() {
    // Put together here, so that this file does not hold them either.
    let leftovers = ["dbg", "todo", "unimplemented"].map(|name| format!("{name}!("));
    for file in files(&root()) {
        let bytes = fs::read(&file).expect("the file was listed");
        let text = String::from_utf8_lossy(&bytes);
        refuse(&file, &text, &leftovers.each_ref().map(String::as_str));
    }
}

#[test]
fn no_rust_file_is_longer_than_800_lines() {
    for file in files(&root()).iter().filter(|file| file.extension().is_some_and(|e| e == "rs")) {
        let lines = read(file).lines().count();
        assert!(lines <= LINES_MAX, "{} has {lines} lines; split it by idea", file.display());
    }
}

/// Fails if `text` has one of `words`, standing by itself: `rand`, not `operand`.
fn refuse(file: &Path, text: &str, words: &[&str]) {
    let in_a_name = |c: char| c.is_alphanumeric() || c == '_';
    for (number, line) in (1..).zip(text.lines()) {
        for word in words {
            let found = line.match_indices(word).any(|(at, _)| {
                let after = &line[at + word.len()..];
                !line[..at].ends_with(in_a_name)
                    && (word.ends_with('(') || !after.starts_with(in_a_name))
            });
            assert!(!found, "{}:{number} mentions `{word}`", file.display());
        }
    }
}

/// The paths of this repository that a page names in backticks, outside of code blocks.
fn repo_paths(page: &str) -> Vec<String> {
    let mut in_block = false;
    let mut paths = Vec::new();
    for line in page.lines() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
        } else if !in_block {
            let quoted = line.split('`').skip(1).step_by(2);
            paths.extend(quoted.flat_map(expand).filter(|word| is_repo_path(word)));
        }
    }
    paths
}

/// `src/{job,topic}.rs` is two paths.
fn expand(word: &str) -> Vec<String> {
    let braces = word.split_once('{').and_then(|(head, rest)| Some((head, rest.split_once('}')?)));
    match braces {
        Some((head, (names, tail))) => {
            names.split(',').map(|name| format!("{head}{}{tail}", name.trim())).collect()
        }
        None => vec![word.to_owned()],
    }
}

/// Tells `engine/src/job.rs` and `docs/` from `application/json`, `/v1/jobs` and `./linger-data`.
fn is_repo_path(word: &str) -> bool {
    let plain = word.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-/".contains(&b));
    let kinds = ["rs", "toml", "md", "lua", "proto", "json", "py", "sh", "html", "js", "css"];
    let is_file = word.rsplit_once('.').is_some_and(|(_, kind)| kinds.contains(&kind));
    let in_a_folder_of_ours = word
        .split('/')
        .next()
        .is_some_and(|top| !top.is_empty() && !top.starts_with('.') && root().join(top).is_dir());
    plain
        && word.contains('/')
        && !word.starts_with('/')
        && (is_file || word.ends_with('/') || in_a_folder_of_ours)
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate is in a folder").to_owned()
}

fn src() -> PathBuf {
    root().join("engine/src")
}

fn read(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_else(|cause| panic!("{}: {cause}", file.display()))
}

/// Every file below `folder` but those that tools make.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("the folder exists") {
        let entry = entry.expect("the folder can be read");
        let name = entry.file_name().to_string_lossy().into_owned();
        let made = name.starts_with('.') || name == "target" || name == "node_modules";
        if made {
            continue;
        }
        let kind = entry.file_type().expect("the entry was listed");
        if kind.is_dir() {
            found.extend(files(&entry.path()));
        } else if kind.is_file() {
            found.push(entry.path());
        }
    }
    found
}
