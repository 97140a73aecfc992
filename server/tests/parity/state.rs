//! What is in a store at the end of a story, seen by one neutral eye: version 1 of the HTTP
//! interface. What differs from run to run is taken out.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;

use linger::stats::Stats;
use linger::time::{HOUR, Time, parse_duration};
use serde_json::{Value, json};

use crate::fronts::call;

/// What is in a store.
#[derive(Debug, PartialEq)]
pub(crate) struct State {
    pub(crate) topics: Value,
    /// By number.
    pub(crate) jobs: BTreeMap<u64, Value>,
    pub(crate) counted: Counted,
}

/// How often what happened.
pub(crate) type Counted = BTreeMap<String, u64>;

impl State {
    /// As seen by one who cannot tell finished from deleted.
    pub(crate) fn blurred(&self) -> State {
        let mut counted = self.counted.clone();
        let deleted = counted.remove("deleted").unwrap_or_default();
        *counted.entry("finished".to_owned()).or_default() += deleted;
        State { topics: self.topics.clone(), jobs: self.jobs.clone(), counted }
    }
}

/// What a server has counted.
pub(crate) fn counted_by(address: SocketAddr) -> Counted {
    let (_, text) = call(address, "GET", "/metrics", "");
    let text = text.as_str().expect("text");
    let counters = counted(&Stats::default()).into_keys();
    counters
        .map(|name| {
            let line = format!("linger_{name}_total ");
            let count = text.lines().find_map(|told| told.strip_prefix(&line));
            (name, count.and_then(|count| count.parse().ok()).expect("a counter"))
        })
        .collect()
}

/// What the library has counted.
pub(crate) fn counted(stats: &Stats) -> Counted {
    let counters = [
        ("added", stats.added),
        ("handed_out", stats.handed_out),
        ("finished", stats.finished),
        ("failed", stats.failed),
        ("again", stats.again),
        ("timed_out", stats.timed_out),
        ("died", stats.died),
        ("deleted", stats.deleted),
    ];
    counters.map(|(name, count)| (name.to_owned(), count)).into()
}

/// Looks at all there is. `names` are what stories call jobs, by their id or number.
pub(crate) fn look(
    address: SocketAddr,
    names: &HashMap<String, String>,
    counted: Counted,
) -> State {
    let get = |path: &str| {
        let (status, answer) = call(address, "GET", path, "");
        assert_eq!(status, 200, "{path}: {answer}");
        answer
    };
    let mut topics = get("/v1/topics")["topics"].take();
    let mut jobs = BTreeMap::new();
    for topic in topics.as_array_mut().expect("topics") {
        if let Some(left) = topic.get_mut("paused_for") {
            let length = parse_duration(left.as_str().expect("text")).expect("a duration");
            *left = hours(length.as_millis() as u64);
        }
        let path = format!("/v1/topics/{}/jobs", topic["topic"].as_str().expect("a name"));
        let page = get(&format!("{path}?body=true"));
        for job in page["jobs"].as_array().expect("jobs") {
            let (id, number) = (job["id"].as_str().expect("an id"), job["number"].as_u64());
            let mut history = get(&format!("{path}/{id}/history"))["history"].take();
            for entry in history.as_array_mut().expect("entries") {
                take_out(entry, &["at", "took"]);
            }
            let number = number.expect("a number");
            let name = names.get(id).or_else(|| names.get(&number.to_string()));
            let name = name.unwrap_or_else(|| panic!("nobody knows {job}"));
            let mut seen = job.clone();
            seen["id"] = name.as_str().into();
            seen["history"] = history;
            since_created(&mut seen);
            jobs.insert(number, seen);
        }
    }
    State { topics, jobs, counted }
}

fn take_out(value: &mut Value, fields: &[&str]) {
    let object = value.as_object_mut().expect("an object");
    fields.iter().for_each(|field| drop(object.remove(*field)));
}

/// Has times as whole hours since the job was made: stories give hours or next to nothing.
fn since_created(job: &mut Value) {
    let created = time(&job["created"]);
    for field in ["due", "reserved_until"] {
        if let Some(at) = job.get_mut(field) {
            *at = hours(time(at).ms_since(created));
        }
    }
    take_out(job, &["created"]);
}

fn time(value: &Value) -> Time {
    value.as_str().and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("{value}"))
}

/// To the nearest.
fn hours(ms: u64) -> Value {
    let hour_ms = HOUR.as_millis() as u64;
    json!(format!("{} h", (ms + hour_ms / 2) / hour_ms))
}
