//! What `stats…` and `list-tubes` say.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use linger::error::{Code, Error};
use linger::history::What;
use linger::machine::Stage;
use linger::queue::{JobInfo, Key, PAGE_MAX, PausedFor, Queue, TopicInfo, Topics};
use linger::topic::{Counts, Topic};

use super::Server;
use super::parse::Op;
use super::tube::tube_of;

/// What is said of a tube that is paused until someone resumes it.
const PAUSED_FOR_EVER_S: u64 = u32::MAX as u64;

/// A text of names and values.
struct Yaml(String);

impl Yaml {
    fn new() -> Yaml {
        Yaml("---\n".to_owned())
    }

    fn number(&mut self, name: &str, number: u64) {
        writeln!(self.0, "{name}: {number}").expect("a string takes everything");
    }

    fn word(&mut self, name: &str, word: &str) {
        writeln!(self.0, "{name}: {word}").expect("a string takes everything");
    }

    fn quoted(&mut self, name: &str, text: &str) {
        writeln!(self.0, "{name}: \"{text}\"").expect("a string takes everything");
    }
}

/// A list of tubes.
pub(super) fn list(tubes: impl Iterator<Item = String>) -> String {
    let mut text = String::from("---\n");
    tubes.for_each(|tube| writeln!(text, "- {tube}").expect("a string takes everything"));
    text
}

/// Whether a tube is there though no topic need be: it is used or watched, or `default`.
pub(super) fn is_known(server: &Server, tube: &Topic) -> bool {
    tube.as_str() == Topic::default().as_str() || server.tubes.is_referenced(tube)
}

/// All tubes there are, by name.
pub(super) async fn tubes(server: &Server) -> linger::Result<Option<String>> {
    let bytes_max = server.config().limits.answer_bytes;
    let mut names = BTreeSet::from_iter(server.tubes.referenced());
    names.insert(Topic::default());
    let (mut after, mut bytes) = (None, 0);
    loop {
        let which = Topics::Page { prefix: Arc::from(""), after, limit: PAGE_MAX };
        let page = server.store.topics(which).await?;
        let is_last = page.len() < PAGE_MAX;
        bytes += page.iter().map(|topic| topic.topic.as_str().len() + 3).sum::<usize>();
        if bytes > bytes_max {
            let message = format!("the list of tubes is over the limit of {bytes_max} bytes");
            return Err(Error::new(Code::Overloaded, message));
        }
        after = page.last().map(|topic| topic.topic.clone());
        names.extend(page.into_iter().map(|topic| topic.topic));
        if is_last {
            return Ok(Some(list(names.iter().map(tube_of))));
        }
    }
}

/// What is known of a job.
pub(super) async fn of_job(server: &Server, number: u64) -> linger::Result<Option<String>> {
    let job = match server.store.get(&Key::Number(number)).await {
        Ok(job) => job,
        Err(error) if error.code() == Code::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let now = server.store.clock().now().time();
    let (state, until) = match job.stage {
        Stage::Finished => return Ok(None),
        Stage::Delayed | Stage::Retry => ("delayed", Some(job.due)),
        Stage::Ready => ("ready", None),
        Stage::Reserved => ("reserved", job.reserved_until),
        // Set aside until someone lets it go: as good as buried.
        Stage::Held | Stage::Dead => ("buried", None),
    };
    let ttr = match job.spec.ttr {
        Some(ttr) => ttr,
        None => {
            let topic = server.store.topics(Topics::One(job.spec.topic.clone())).await?;
            let set = topic.first().and_then(|topic| topic.settings.ttr);
            set.unwrap_or(server.config().defaults.ttr)
        }
    };
    let mut yaml = Yaml::new();
    yaml.number("id", job.number);
    yaml.quoted("tube", &tube_of(&job.spec.topic));
    yaml.word("state", state);
    yaml.number("pri", job.priority.into());
    yaml.number("age", now.ms_since(job.created) / 1000);
    yaml.number("delay", delay_ms(&job) / 1000);
    yaml.number("ttr", ttr.as_ms() / 1000);
    // Whole seconds that are left for sure: both moments were rounded to milliseconds.
    let left_ms = until.map_or(0, |until| until.ms_since(now).saturating_sub(2));
    yaml.number("time-left", left_ms / 1000);
    yaml.number("file", 0);
    yaml.number("reserves", job.tally.reserves.into());
    yaml.number("timeouts", job.tally.timeouts.into());
    yaml.number("releases", job.tally.releases.into());
    yaml.number("buries", job.tally.buries.into());
    yaml.number("kicks", job.tally.kicks.into());
    Ok(Some(yaml.0))
}

/// How long it was to wait, by its `put` or its last `release`.
fn delay_ms(job: &JobInfo) -> u64 {
    let moved = |what| matches!(what, What::Released | What::Run | What::Redriven | What::Updated);
    let last = job.history.iter().rfind(|entry| moved(entry.what));
    match last {
        None => job.base.ms_since(job.created),
        Some(entry) if entry.what == What::Released => job.due.ms_since(entry.at),
        Some(_) => 0,
    }
}

/// What is known of a tube.
pub(super) async fn of_tube(server: &Server, tube: &Topic) -> linger::Result<Option<String>> {
    let info = server.store.topics(Topics::One(tube.clone())).await?.pop();
    if info.is_none() && !is_known(server, tube) {
        return Ok(None);
    }
    let known = server.tubes.get(tube);
    let counts = info.as_ref().map(|info| info.counts).unwrap_or_default();
    let (pause_s, pause_left_s) = info.as_ref().map_or((0, 0), |info| pause(info, known.pause_s));
    let mut yaml = Yaml::new();
    yaml.quoted("name", &tube_of(tube));
    put_counts(&mut yaml, counts);
    // A topic without jobs is forgotten, its count with it; a tube that is in use is not.
    yaml.number("total-jobs", info.as_ref().map_or(0, |info| info.added).max(known.puts));
    yaml.number("current-using", known.using.into());
    yaml.number("current-watching", known.watching.into());
    yaml.number("current-waiting", info.as_ref().map_or(0, |info| info.waiting));
    yaml.number("cmd-delete", known.deletes);
    yaml.number("cmd-pause-tube", known.pauses);
    yaml.number("pause", pause_s);
    yaml.number("pause-time-left", pause_left_s);
    Ok(Some(yaml.0))
}

/// For how long a tube is paused in all, and how much of that is left.
fn pause(info: &TopicInfo, asked_s: u32) -> (u64, u64) {
    match info.paused {
        None => (0, 0),
        Some(PausedFor::Ever) => (PAUSED_FOR_EVER_S, PAUSED_FOR_EVER_S),
        Some(PausedFor::Only(left)) => {
            // Others may have paused it for longer.
            let whole = Duration::from_secs(asked_s.into()).max(left);
            (whole.as_secs(), left.as_secs())
        }
    }
}

fn put_counts(yaml: &mut Yaml, counts: Counts) {
    yaml.number("current-jobs-urgent", counts.urgent);
    yaml.number("current-jobs-ready", counts.ready);
    yaml.number("current-jobs-reserved", counts.reserved);
    yaml.number("current-jobs-delayed", counts.delayed + counts.retry);
    yaml.number("current-jobs-buried", counts.dead + counts.held);
}

/// What is known of the whole.
pub(super) async fn of_server(server: &Server) -> linger::Result<String> {
    let stats = server.store.stats().await?;
    let tubes = stats.topics + unseen(server).await?;
    let tally = &server.tally;
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let mut yaml = Yaml::new();
    put_counts(&mut yaml, stats.counts);
    for (name, op) in Op::NAMES.iter().zip(&tally.ops) {
        yaml.number(&format!("cmd-{name}"), count(op));
    }
    yaml.number("job-timeouts", stats.timed_out);
    yaml.number("total-jobs", stats.added);
    yaml.number("max-job-size", server.config().limits.beanstalkd_body_bytes as u64);
    yaml.number("current-tubes", tubes);
    yaml.number("current-connections", count(&tally.connections));
    yaml.number("current-producers", count(&tally.producers));
    yaml.number("current-workers", count(&tally.workers));
    yaml.number("current-waiting", stats.waiting);
    yaml.number("total-connections", count(&tally.total_connections));
    yaml.number("pid", std::process::id().into());
    yaml.quoted("version", env!("CARGO_PKG_VERSION"));
    let (user, system) = cpu_times();
    yaml.word("rusage-utime", &user);
    yaml.word("rusage-stime", &system);
    yaml.number("uptime", server.started.elapsed().as_secs());
    for name in ["oldest-index", "current-index", "records-migrated", "records-written", "max-size"]
    {
        yaml.number(&format!("binlog-{name}"), 0);
    }
    yaml.word("draining", if server.is_draining() { "true" } else { "false" });
    yaml.word("id", &format!("{:016x}", server.run));
    let host = rustix::system::uname();
    for (name, text) in
        [("hostname", host.nodename()), ("os", host.version()), ("platform", host.machine())]
    {
        yaml.quoted(name, &text.to_string_lossy());
    }
    Ok(yaml.0)
}

/// How many tubes are there though no topic is, looked at so far as there are not very many.
async fn unseen(server: &Server) -> linger::Result<u64> {
    let mut tubes = server.tubes.referenced();
    if !server.tubes.is_referenced(&Topic::default()) {
        tubes.push(Topic::default());
    }
    let mut unseen = 0;
    for tube in tubes.into_iter().take(PAGE_MAX) {
        unseen += u64::from(server.store.topics(Topics::One(tube)).await?.is_empty());
    }
    Ok(unseen)
}

/// The time that the process has had, as itself and as the system for it.
fn cpu_times() -> (String, String) {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name, in brackets, may have blanks in it; what comes after has none.
    let mut fields = stat.rsplit(')').next().unwrap_or_default().split_ascii_whitespace();
    let per_second = rustix::param::clock_ticks_per_second().max(1);
    let mut next = |at: usize| {
        let ticks: u64 = fields.nth(at).and_then(|field| field.parse().ok()).unwrap_or(0);
        let us = ticks * 1_000_000 / per_second;
        format!("{}.{:06}", us / 1_000_000, us % 1_000_000)
    };
    (next(11), next(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_has_had_some_time() {
        let (user, system) = cpu_times();
        for time in [&user, &system] {
            let (whole, part) = time.split_once('.').unwrap();
            assert!(whole.parse::<u64>().is_ok() && part.len() == 6, "{time}");
        }
    }

    #[test]
    fn a_list_is_yaml() {
        assert_eq!(list(["a", "b"].map(str::to_owned).into_iter()), "---\n- a\n- b\n");
    }
}
