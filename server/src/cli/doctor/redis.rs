//! A store on Redis: whether it can be reached, and keeps what it is given.

use std::collections::HashMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use linger::error::Result;
use linger::store::redis::{Address, Answer, Foreign, is_there};

use super::Findings;
use crate::config::Config;

/// The first version with functions, which all moves of jobs are.
const VERSION_MIN: u32 = 7;
/// How far clocks may be apart before it is worth a word.
const DRIFT_MAX_MS: i128 = 1000;
const ROUND_TRIPS: usize = 15;
/// A round trip that takes longer makes every call late.
const SLOW: Duration = Duration::from_millis(5);
/// So much of its memory may be used before it is worth a word, in hundredths.
const MEMORY_MAX: u64 = 80;

pub(super) fn look(address: &Address, config: &Config, findings: &mut Findings) {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return;
    };
    runtime.block_on(async {
        let redis = match Foreign::connect(address).await {
            Ok(redis) => redis,
            Err(why) => {
                let remedy = "start it, or put `store` right: host, port, user, password, TLS";
                return findings.problem("redis", why.to_string(), remedy);
            }
        };
        if let Err(why) = all(&redis, address, config, findings).await {
            findings.problem("redis", why.to_string(), "give the user of `store` leave to do this");
        }
    });
}

async fn all(
    redis: &Foreign,
    address: &Address,
    config: &Config,
    findings: &mut Findings,
) -> Result<()> {
    let info = info(redis).await?;
    version(&info, findings);
    kind(&info, address, findings);
    replicas(&info, config, findings);
    memory(&info, redis, findings).await;
    persistence(&info, redis, findings).await;
    drift(redis, findings).await?;
    round_trips(redis, findings).await?;
    let prefix = config.shared.prefix.as_str();
    match is_there(address, prefix).await? {
        true => findings.well("store", format!("its keys begin with `{prefix}`")),
        false => findings.well("store", format!("none yet: one will be made under `{prefix}`")),
    }
    Ok(())
}

type Info = HashMap<String, String>;

async fn info(redis: &Foreign) -> Result<Info> {
    let text = text(redis.command(&[b"INFO"]).await?);
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    Ok(lines.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect())
}

fn text(answer: Answer) -> String {
    match answer {
        Answer::Bytes(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Answer::Int(number) => number.to_string(),
        _ => String::new(),
    }
}

fn number(info: &Info, name: &str) -> u64 {
    info.get(name).and_then(|value| value.parse().ok()).unwrap_or(0)
}

fn word<'a>(info: &'a Info, name: &str) -> &'a str {
    info.get(name).map_or("", String::as_str)
}

/// What a setting is; none if it may not be asked.
async fn setting(redis: &Foreign, name: &str) -> Option<String> {
    match redis.command(&[b"CONFIG", b"GET", name.as_bytes()]).await.ok()? {
        Answer::List(pair) => pair.into_iter().nth(1).map(text),
        _ => None,
    }
}

fn version(info: &Info, findings: &mut Findings) {
    // Valkey says for which Redis it stands in.
    let (about, version) = ("redis", word(info, "redis_version"));
    let name = if info.contains_key("valkey_version") { "Valkey" } else { "Redis" };
    let shown = info.get("valkey_version").map_or(version, String::as_str);
    let first = version.split('.').next().and_then(|first| first.parse::<u32>().ok());
    if first.is_some_and(|first| first >= VERSION_MIN) {
        findings.well(about, format!("{name} {shown}"));
    } else {
        let says = format!("{name} {shown} is too old");
        findings.problem(about, says, format!("use {VERSION_MIN}.0 or newer, or Valkey"));
    }
}

/// Whether it is what its address says.
fn kind(info: &Info, address: &Address, findings: &mut Findings) {
    let about = "redis";
    match (word(info, "cluster_enabled") == "1", address.is_cluster()) {
        (true, false) => {
            let says = "it is a node of a cluster, and the address is that of a single server";
            findings.problem(about, says, "write redis+cluster:// in `store`");
        }
        (false, true) => {
            let says = "it is no cluster, and the address is that of one";
            findings.problem(about, says, "write redis:// in `store`");
        }
        _ => {}
    }
    if word(info, "role") == "slave" {
        let says = "it is a replica, which takes no changes";
        findings.problem(about, says, "give the address of the primary, or of its sentinels");
    }
    if word(info, "loading") == "1" {
        findings.problem(about, "it is loading its data", "wait until it is done");
    }
}

fn replicas(info: &Info, config: &Config, findings: &mut Findings) {
    let about = "replicas";
    let (there, wanted) = (number(info, "connected_slaves"), config.shared.wait as u64);
    let says = format!("{there} connected, and `store.wait` is {wanted}");
    if there < wanted {
        let remedy = "connect more replicas, or lower `store.wait`: until then every change is \
                      answered late, and as unknown";
        findings.problem(about, says, remedy);
    } else if there > 0 && wanted == 0 {
        let remedy = "set `store.wait` = 1, or live with it: a failover may undo the last moments";
        findings.warning(about, says, remedy);
    } else {
        findings.well(about, says);
    }
}

async fn memory(info: &Info, redis: &Foreign, findings: &mut Findings) {
    let about = "memory";
    let asked = setting(redis, "maxmemory-policy").await;
    let told = info.get("maxmemory_policy").cloned();
    match asked.or(told).as_deref() {
        Some("noeviction") => {}
        Some(policy) => {
            let says =
                format!("maxmemory-policy is `{policy}`: when memory is used up, jobs are lost");
            findings.problem(
                about,
                says,
                "CONFIG SET maxmemory-policy noeviction, and in redis.conf",
            );
        }
        None => {
            let says = "maxmemory-policy cannot be asked for";
            findings.warning(about, says, "see to it that it is noeviction");
        }
    }
    let (used, most) = (number(info, "used_memory"), number(info, "maxmemory"));
    let says = match most {
        0 => format!("{} MiB used, without limit", used >> 20),
        _ => format!("{} of {} MiB used", used >> 20, most >> 20),
    };
    if most > 0 && used > most / 100 * MEMORY_MAX {
        findings.warning(about, says, "give it more memory: at the limit new jobs are refused");
    } else {
        findings.well(about, says);
    }
}

async fn persistence(info: &Info, redis: &Foreign, findings: &mut Findings) {
    let about = "persistence";
    for (name, what) in [
        ("rdb_last_bgsave_status", "the last snapshot failed"),
        ("aof_last_write_status", "the last write to the append-only file failed"),
        ("aof_last_bgrewrite_status", "the append-only file could not be written anew"),
    ] {
        if info.get(name).is_some_and(|status| status != "ok") {
            let remedy =
                "look at the log of Redis and at its disk: it may refuse changes until then";
            findings.problem(about, what, remedy);
        }
    }
    let keeps_file = word(info, "aof_enabled") == "1";
    let saves = setting(redis, "save").await;
    let syncs = setting(redis, "appendfsync").await;
    match (keeps_file, saves.as_deref(), syncs.as_deref()) {
        (true, _, Some("no")) => {
            let says = "appendfsync is `no`: a power cut may lose half a minute";
            findings.warning(about, says, "CONFIG SET appendfsync everysec (or always)");
        }
        (true, _, Some("always")) => findings.well(about, "append-only file, synced always"),
        (true, _, _) => {
            findings.well(about, "append-only file, synced every second: a power cut may lose one");
        }
        (false, Some(""), _) => {
            let says = "it keeps nothing: its restart loses all jobs";
            findings.problem(about, says, "CONFIG SET appendonly yes, and in redis.conf");
        }
        (false, _, _) => {
            let says = "it keeps snapshots alone: its restart loses what came after the last";
            findings.warning(about, says, "CONFIG SET appendonly yes, and in redis.conf");
        }
    }
}

/// How far its clock is from ours.
async fn drift(redis: &Foreign, findings: &mut Findings) -> Result<()> {
    let about = "clock";
    let before = now_ms();
    let Answer::List(time) = redis.command(&[b"TIME"]).await? else { return Ok(()) };
    let after = now_ms();
    let mut parts = time.into_iter().map(|part| text(part).parse::<i128>().unwrap_or(0));
    let (seconds, micros) = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    let drift = seconds * 1000 + micros / 1000 - i128::midpoint(before, after);
    if drift.abs() > DRIFT_MAX_MS + (after - before) {
        let says = format!("that of Redis is {drift} ms away from this machine's");
        let remedy =
            "have both kept right (chrony, systemd-timesyncd): jobs are due by that of Redis";
        findings.warning(about, says, remedy);
    } else {
        findings.well(about, "that of Redis agrees with this machine's");
    }
    Ok(())
}

fn now_ms() -> i128 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i128)
}

async fn round_trips(redis: &Foreign, findings: &mut Findings) -> Result<()> {
    let mut took = Vec::with_capacity(ROUND_TRIPS);
    for _ in 0..ROUND_TRIPS {
        let start = Instant::now();
        redis.command(&[b"PING"]).await?;
        took.push(start.elapsed());
    }
    took.sort();
    let median = took[ROUND_TRIPS / 2];
    let says = format!("a round trip takes {} µs", median.as_micros());
    if median > SLOW {
        findings.warning("network", says, "have servers and Redis near each other");
    } else {
        findings.well("network", says);
    }
    Ok(())
}
