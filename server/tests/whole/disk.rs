//! A small file system that a test has alone.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A file system of a set size, in memory. It lives in a mount namespace of its own, held by a
/// process that ends with the test, so that nothing is left behind however that ends.
pub(crate) struct SmallDisk {
    holder: Child,
    root: PathBuf,
    _mounted_on: tempfile::TempDir,
}

/// Mounts, says by which process it can be reached, and stays until nobody writes to it.
const HOLD: &str = r#"mount -t tmpfs -o "size=$1,mode=0777" tmpfs "$2" && echo $$ && exec $3 cat"#;

impl SmallDisk {
    /// Makes one. None, with a word why, if this machine does not let us; in CI that fails.
    pub(crate) fn new(bytes: u64) -> Option<SmallDisk> {
        let mounted_on = tempfile::tempdir().expect("a folder");
        let owner = fs::metadata(mounted_on.path()).expect("it is there");
        let (user, group) = (owner.uid(), owner.gid());
        let as_us = format!("setpriv --reuid={user} --regid={group} --clear-groups");
        // As root; as anyone, where the system lets people have namespaces; by those who may sudo.
        let ways: [(&[&str], &str); 3] = [
            (&["unshare", "-m"], ""),
            (&["unshare", "-Urm"], ""),
            (&["sudo", "-n", "unshare", "-m"], &as_us),
        ];
        let held = ways.iter().find_map(|(way, become_us)| {
            let mut holder = Command::new(way[0])
                .args(&way[1..])
                .args(["sh", "-c", HOLD, "sh", &bytes.to_string()])
                .arg(mounted_on.path())
                .arg(become_us)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .ok()?;
            let mut said = String::new();
            let _ = BufReader::new(holder.stdout.as_mut().expect("piped")).read_line(&mut said);
            let seen = Path::new("/proc").join(said.trim()).join("root");
            let root = seen.join(mounted_on.path().strip_prefix("/").expect("absolute"));
            if said.is_empty() || fs::write(root.join("probe"), "").is_err() {
                let _ = holder.kill();
                let _ = holder.wait();
                return None;
            }
            Some((holder, root))
        });
        let Some((holder, root)) = held else {
            assert!(std::env::var_os("CI").is_none(), "no small file system can be mounted");
            eprintln!("skipped: no small file system can be mounted (root, unshare -Urm or sudo)");
            return None;
        };
        Some(SmallDisk { holder, root, _mounted_on: mounted_on })
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Takes so much room away, or all that is left.
    pub(crate) fn take(&self, bytes: usize) {
        let mut ballast = File::create(self.path("ballast")).expect("a file");
        let piece = vec![0; 1 << 16];
        for _ in 0..bytes.div_ceil(piece.len()) {
            match ballast.write_all(&piece) {
                Err(cause) if cause.kind() == ErrorKind::StorageFull => return,
                written => written.expect("it can be written"),
            }
        }
    }

    /// Gives back what was taken.
    pub(crate) fn give_back(&self) {
        fs::remove_file(self.path("ballast")).expect("something was taken");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // It ends when nobody can write to it any more.
        drop(self.holder.stdin.take());
        let _ = self.holder.wait();
    }
}
