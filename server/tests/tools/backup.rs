//! A copy of a store in use, and what becomes of it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hyper::Method;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::redis_servers::{Standalone, there};
use crate::run::{Ran, done, exported, json, run, text};
use crate::served::{Caller, Served};

/// Runs a verb beside whatever else goes on.
async fn beside(args: &[&str]) -> Ran {
    let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
    let ran = move || run(&args.iter().map(String::as_str).collect::<Vec<_>>());
    tokio::task::spawn_blocking(ran).await.expect("it ends")
}

/// Adds many jobs that stay: alike in all but their ids, and due in an hour.
async fn fill(server: &Caller, jobs: usize, body_bytes: usize) {
    let body = "x".repeat(body_bytes);
    for first in (0..jobs).step_by(100) {
        let some: Vec<Value> = (first..jobs.min(first + 100))
            .map(|n| serde_json::json!({"topic": "stays", "id": n.to_string(), "delay": "1h", "body": body}))
            .collect();
        let some = serde_json::to_string(&some).unwrap();
        server.post("/v1/jobs", &some).await.ok(200);
    }
}

/// Hands a job on and on: before one is finished the next is there, so that there is always one.
async fn chain(server: Caller, over: Arc<AtomicBool>) -> u64 {
    let mut length = 0;
    server.post("/v1/jobs", r#"{"topic":"chain","id":"0"}"#).await.ok(201);
    while !over.load(Ordering::Relaxed) {
        let popped = server.post("/v1/topics/chain/pop", "{}").await.ok(200);
        let job = &popped["jobs"][0];
        length += 1;
        let next = format!(r#"{{"topic":"chain","id":"{length}"}}"#);
        server.post("/v1/jobs", &next).await.ok(201);
        let path = format!("/v1/topics/chain/jobs/{}/finish", job["id"].as_str().unwrap());
        server.post(&path, "{}").await.ok(200);
    }
    length
}

/// Jobs of an export by topic and id, each of which must be there once.
fn jobs(lines: &[Value]) -> BTreeMap<(String, String), &Value> {
    let mut jobs = BTreeMap::new();
    for line in lines.iter().filter(|line| line["kind"] == "job") {
        let name = |field: &str| line[field].as_str().expect("text").to_owned();
        let twice = jobs.insert((name("topic"), name("id")), line);
        assert!(twice.is_none(), "{line} is there twice");
    }
    jobs
}

/// Backs up a store in use, and restores it into another.
async fn there_and_back(from: &Path, to: &str, folder: &Path) {
    let server = Served::start(from, &[]).await;
    let caller = server.caller();
    fill(&caller, 3000, 500).await;
    caller.post("/v1/topics/asleep/pause", "{}").await.ok(200);
    let settings = r#"{"ttr":"90s","retain":"1d"}"#;
    caller.call(Method::PUT, "/v1/topics/kept", settings).await.unwrap().ok(200);
    caller.post("/v1/secrets", r#"{"topic":"stays"}"#).await.ok(201);
    let over = Arc::new(AtomicBool::new(false));
    let chains: Vec<_> =
        (0..1).map(|_| tokio::spawn(chain(caller.clone(), over.clone()))).collect();
    let url = format!("http://{}", server.address);
    let file = folder.join("all");
    let made = beside(&["backup", text(&file), "--secrets", "--server", &url, "--json"]).await;
    assert_eq!(made.code, 0, "{made:?}");
    over.store(true, Ordering::Relaxed);
    for chain in chains {
        assert!(chain.await.expect("it ends") > 0);
    }
    let told: Value = serde_json::from_str(&made.out).expect("JSON");
    assert_eq!((&told["topics"], &told["secrets"]), (&2.into(), &1.into()), "{told}");
    use std::os::unix::fs::PermissionsExt;
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);

    let taken = json(&["import", text(&file), "--store", to]);
    assert_eq!(taken["jobs"]["new"], told["jobs"]);
    assert_eq!(taken["secrets"], serde_json::json!({ "new": 1, "kept": 0 }));
    server.kill();
    let (source, restored) = (exported(text(from)), exported(to));
    let (source_jobs, restored_jobs) = (jobs(&source), jobs(&restored));
    let stays = |jobs: &BTreeMap<(String, String), &Value>| {
        let all: Vec<Value> = jobs
            .iter()
            .filter(|((topic, _), _)| topic == "stays")
            .map(|(_, job)| (*job).clone())
            .collect();
        all
    };
    assert_eq!(stays(&restored_jobs).len(), 3000);
    assert_eq!(stays(&restored_jobs), stays(&source_jobs));
    let settings = |lines: &[Value]| -> Vec<Value> {
        lines.iter().filter(|line| line["kind"] == "topic").cloned().collect()
    };
    assert_eq!(settings(&restored), settings(&source));
    let links = restored_jobs.keys().filter(|(topic, _)| topic == "chain").count();
    // A store in a folder is shown at one moment, and at every moment there is one or two.
    if from.is_dir() {
        assert!((1..=2).contains(&links), "{links} at one moment");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_in_use_is_backed_up_and_restored_on_redis() {
    if !there() {
        return;
    }
    let (folder, redis) = (tempfile::tempdir().unwrap(), Standalone::start(&[]));
    there_and_back(&folder.path().join("store"), &redis.url(), folder.path()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_in_use_is_backed_up_and_restored_into_a_folder() {
    if !there() {
        return;
    }
    let (folder, redis) = (tempfile::tempdir().unwrap(), Standalone::start(&[]));
    let to = folder.path().join("store");
    there_and_back(Path::new(&redis.url()), text(&to), folder.path()).await;
}

/// A way to a server that breaks after so many bytes of the answer.
async fn breaking(server: &str, after: usize) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, server) = (listener.local_addr().unwrap().to_string(), server.to_owned());
    tokio::spawn(async move {
        let (mut client, _) = listener.accept().await.unwrap();
        let mut there = TcpStream::connect(server).await.unwrap();
        let mut request = vec![0; 4096];
        let length = client.read(&mut request).await.unwrap();
        there.write_all(&request[..length]).await.unwrap();
        let mut some = there.take(after as u64);
        tokio::io::copy(&mut some, &mut client).await.unwrap();
    });
    address
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_that_breaks_off_leaves_no_file_and_the_next_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let server = Served::start(&folder.path().join("store"), &[]).await;
    fill(&server.caller(), 300, 100_000).await;
    let file = folder.path().join("all");
    let broken = format!("http://{}", breaking(&server.address, 1 << 20).await);
    let ran = beside(&["backup", text(&file), "--server", &broken]).await;
    assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{ran:?}");
    assert!(ran.err.contains("broke off"), "{ran:?}");
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().flatten().collect();
    assert_eq!(left.len(), 1, "{left:?}");

    let url = format!("http://{}", server.address);
    // The server may not have noticed yet that nobody reads the first.
    let ran = loop {
        let ran = beside(&["backup", text(&file), "--server", &url]).await;
        if !ran.err.contains("a backup is under way already") {
            break ran;
        }
    };
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.starts_with("backed up 300 jobs, "), "{ran:?}");
    assert!(ran.err.contains("--secrets takes them along"), "{ran:?}");
    let again = beside(&["backup", text(&file), "--server", &url]).await;
    assert!(again.code == 2 && again.err.contains("is there already"), "{again:?}");
    let out = beside(&["backup", "-", "--server", &url]).await;
    assert_eq!(out.out.lines().count(), std::fs::read_to_string(&file).unwrap().lines().count());
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_backup_that_is_not_whole_nothing_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let server = Served::start(&folder.path().join("store"), &[]).await;
    fill(&server.caller(), 10, 10).await;
    let (file, bad) = (folder.path().join("all"), folder.path().join("bad"));
    done(&["backup", text(&file), "--server", &format!("http://{}", server.address)]);
    let all = std::fs::read_to_string(&file).unwrap();
    let lines: Vec<_> = all.split_inclusive('\n').collect();
    let to = folder.path().join("other");
    let without_one = [&lines[..3], &lines[4..]].concat().concat();
    for (altered, told) in [
        (lines[..6].concat(), "it has no end after line 6"),
        (all.replacen("xxx", "yyy", 1), "not what its last line says"),
        (without_one, "not what its last line says"),
        (all.clone() + "\n", "not whole"),
    ] {
        std::fs::write(&bad, altered).unwrap();
        let refused = run(&["import", text(&bad), "--store", text(&to)]);
        assert_eq!((refused.code, refused.out.as_str()), (2, ""), "{refused:?}");
        assert!(refused.err.contains(told) && refused.err.contains("nothing"), "{refused:?}");
        assert!(!to.exists());
    }
    std::fs::write(&bad, lines[..6].concat()).unwrap();
    let some = run(&["import", text(&bad), "--skip-invalid", "--store", text(&to)]);
    assert_eq!(some.out.lines().next(), Some("imported 5 jobs, kept 0 that were there"));
    let rest = json(&["import", text(&file), "--store", text(&to)]);
    assert_eq!(rest["jobs"], serde_json::json!({ "new": 5, "kept": 5 }));
}
