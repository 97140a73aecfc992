//! What the doctor finds, on real folders and servers that are set wrongly.

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use serde_json::Value;

use crate::redis_servers::{Standalone, there};
use crate::run::{Ran, run, text};
use crate::served::Served;

/// What it says with `--json`.
struct Seen {
    code: i32,
    json: Value,
}

fn doctor(args: &[&str]) -> Seen {
    let free: &[&str] = if args.contains(&"--listen") { &[] } else { &["--listen", "127.0.0.1:0"] };
    let ran = run(&[&["doctor", "--json"], free, args].concat());
    let json = serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{ran:?}"));
    Seen { code: ran.code, json }
}

impl Seen {
    /// What is said of something at a level.
    fn says(&self, about: &str, level: &str) -> Vec<&str> {
        let all = self.json["findings"].as_array().expect("a list");
        let fits = |one: &&Value| one["about"] == about && one["level"] == level;
        let found: Vec<_> = all.iter().filter(fits).collect();
        for one in &found {
            assert_eq!(one["do"].is_string(), level != "well", "{one}");
        }
        found.iter().map(|one| one["says"].as_str().expect("text")).collect()
    }

    #[track_caller]
    fn has(&self, about: &str, level: &str, part: &str) {
        let said = self.says(about, level);
        assert!(said.iter().any(|says| says.contains(part)), "{about}: {}", self.json);
    }
}

#[test]
fn the_exit_code_is_that_of_the_worst_finding() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    for args in [vec![], vec!["--durability", "relaxed"], vec!["--set", "limits.body=0"]] {
        let seen = doctor(&[&["--store", text(&store)], &args[..]].concat());
        let level = match seen.code {
            0 => "well",
            1 => "warning",
            _ => "problem",
        };
        assert_eq!(seen.json["level"], level);
    }
    let wrong = doctor(&["--set", "limits.body=0"]);
    assert_eq!(wrong.code, 2);
    wrong.has("settings", "problem", "wrong setting `limits.body`");
    let relaxed = doctor(&["--store", text(&store), "--durability", "relaxed"]);
    relaxed.has("settings", "warning", "may lose the last 100 ms");
    assert!(!store.exists(), "it has changed something");
    let said = run(&["doctor", "--listen", "127.0.0.1:0", "--set", "limits.body=0"]);
    assert!(said.out.starts_with("PROBLEM  settings"), "{}", said.out);
    assert!(said.out.contains("→ put it right; `linger config` shows"), "{}", said.out);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_runs_and_its_store_are_recognised() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let none = doctor(&["--store", text(&store)]);
    none.has("store", "well", "will be made");
    none.has("writing", "well", "a synced write takes");
    let server = Served::start(&store, &[]).await;
    let seen = doctor(&["--store", text(&store), "--listen", &server.address]);
    seen.has("server", "well", "is ready");
    seen.has("store", "well", "format 1, in use by a server");
    server.kill();
    doctor(&["--store", text(&store)]).has("store", "well", "format 1, not in use");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "it left something");
}

#[test]
fn a_port_that_somebody_else_has_is_told() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    // Takes connections, and says nothing of use.
    std::thread::spawn(move || listener.incoming().for_each(drop));
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let seen = doctor(&["--store", text(&store), "--listen", &address]);
    seen.has("port", "problem", "by no Linger");
    let seen = doctor(&["--store", text(&store), "--beanstalkd", &address]);
    seen.has("beanstalkd port", "warning", "is in use");
    let seen = doctor(&["--store", text(&store), "--listen", "192.0.2.1:7300", "--insecure"]);
    seen.has("port", "problem", "cannot listen on 192.0.2.1:7300");
    seen.has("settings", "warning", "can be reached by others");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_that_is_no_store_or_not_as_it_should_be_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "x").unwrap();
    let at = |store: &Path| doctor(&["--store", text(store)]);
    at(&file).has("store", "problem", "is no folder");
    at(folder.path()).has("store", "problem", "has files in it and no store");

    let store = folder.path().join("store");
    Served::start(&store, &[]).await.kill();
    let lock = std::fs::File::options().write(true).open(store.join("LOCK")).unwrap();
    lock.set_modified(SystemTime::now() + Duration::from_secs(3600)).unwrap();
    at(&store).has("clock", "problem", "in the future");
    use std::os::unix::fs::PermissionsExt;
    let open = std::fs::Permissions::from_mode(0o644);
    std::fs::set_permissions(store.join("FORMAT"), open).unwrap();
    at(&store).has("permissions", "warning", "others may read `FORMAT` (mode 644)");
    std::fs::write(store.join("FORMAT"), "linger store, format 9\n").unwrap();
    let seen = at(&store);
    assert_eq!(seen.code, 2);
    seen.has("store", "problem", "format");
    // Where memory is a disk, one can be had to try it on.
    let memory = Path::new("/dev/shm");
    if memory.is_dir() {
        let seen = at(&memory.join(format!("linger-{}", std::process::id())));
        seen.has("disk", "problem", "tmpfs, in memory");
    }
}

#[test]
fn too_few_files_for_so_many_connections_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let script = "ulimit -n 300; exec \"$0\" doctor --json --listen 127.0.0.1:0 --store \"$1\"";
    let ran = Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_linger"), text(&folder.path().join("store"))])
        .output()
        .unwrap();
    let out = String::from_utf8(ran.stdout).unwrap();
    let seen = Seen { code: ran.status.code().unwrap(), json: serde_json::from_str(&out).unwrap() };
    seen.has("open files", "warning", "at most 300, and `limits.connections` = 10000");
}

#[test]
fn a_redis_that_would_lose_jobs_is_told_and_one_that_is_set_right_is_well() {
    if !there() {
        return;
    }
    let wrong = ["--maxmemory-policy", "allkeys-lru", "--save", "", "--appendonly", "no"];
    let redis = Standalone::start(&wrong);
    let url = redis.url();
    let seen = doctor(&["--store", &url, "--set", "store.wait=1"]);
    assert_eq!(seen.code, 2);
    seen.has("memory", "problem", "maxmemory-policy is `allkeys-lru`");
    seen.has("persistence", "problem", "its restart loses all jobs");
    seen.has("replicas", "problem", "0 connected, and `store.wait` is 1");
    seen.has("store", "well", "one will be made");
    let mut plain = redis.plain();
    for (name, value) in
        [("maxmemory-policy", "noeviction"), ("appendonly", "yes"), ("appendfsync", "no")]
    {
        plain.ask(&["CONFIG", "SET", name, value]);
    }
    let seen = doctor(&["--store", &url]);
    seen.has("persistence", "warning", "appendfsync is `no`");
    seen.has("redis", "well", "Redis");
    seen.has("clock", "well", "agrees");
    plain.ask(&["CONFIG", "SET", "appendfsync", "everysec"]);
    let seen = doctor(&["--store", &url]);
    assert_eq!(
        (seen.json["problems"].as_u64(), seen.says("memory", "warning").len()),
        (Some(0), 0)
    );
    // Nothing was made there.
    assert_eq!(plain.ask(&["DBSIZE"]).int(), 0);

    let seen = doctor(&["--store", &url.replace("redis://", "redis+cluster://")]);
    assert_eq!(seen.code, 2, "{}", seen.json);
}

#[test]
fn a_replica_and_a_redis_that_is_away_are_told_without_the_password() {
    if !there() {
        return;
    }
    let primary = Standalone::start(&[]);
    let port = primary.server.port.to_string();
    let replica = Standalone::start(&["--replicaof", "127.0.0.1", &port]);
    doctor(&["--store", &replica.url()]).has("redis", "problem", "it is a replica");
    let ran: Ran =
        run(&["doctor", "--listen", "127.0.0.1:0", "--store", "redis://app:geheim@127.0.0.1:1"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.out.contains("PROBLEM  redis") && !ran.out.contains("geheim"), "{ran:?}");
}
