//! Clients that others wrote, as they are published.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use super::peers::{Linger, PATIENCE};

/// The Python that has them.
fn python() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target = target.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../target"));
    target.join("tools/beanstalk-clients-1/bin/python")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn greenstalk_and_pystalk_work_as_they_are() {
    let python = python();
    if !python.exists() {
        assert!(std::env::var_os("CI").is_none(), "{} is not there", python.display());
        return eprintln!("skipped: greenstalk and pystalk are not there (./test installs them)");
    }
    let linger = Linger::start().await;
    let story = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/beanstalk/strangers.py");
    let told = tokio::process::Command::new(python)
        .arg(story)
        .arg(linger.address.ip().to_string())
        .arg(linger.address.port().to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .output();
    let told = tokio::time::timeout(PATIENCE, told).await.expect("it ends").expect("it starts");
    let (out, err) = (String::from_utf8_lossy(&told.stdout), String::from_utf8_lossy(&told.stderr));
    assert!(told.status.success() && out.contains("all well"), "{out}{err}");
}
