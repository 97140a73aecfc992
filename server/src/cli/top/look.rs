//! What a server says of itself at one moment, and what two of these tell.

use std::collections::HashMap;

use anyhow::Result;
use linger::time::Time;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::cli::client::Client;
use crate::cli::path;

/// How many topics are looked at: the most that one call gives.
const TOPICS: &str = "1000";
/// What falls due is looked at so far ahead, in so many parts.
const AHEAD_MS: u64 = 3_600_000;
const PARTS: &str = "60";

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wish {
    /// Only topics whose names begin so.
    pub(super) prefix: String,
}

/// All that is shown, as of one moment.
#[derive(Clone, Debug)]
pub(super) struct Look {
    pub(super) stats: Stats,
    pub(super) topics: Vec<Topic>,
    pub(super) has_more_topics: bool,
    pub(super) due: Vec<u64>,
    pub(super) nodes: Vec<Node>,
    answers: Value,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Stats {
    pub(super) now: String,
    pub(super) version: String,
    pub(super) started: String,
    pub(super) counts: Counts,
    pub(super) topics: u64,
    pub(super) waiting: u64,
    pub(super) totals: HashMap<String, u64>,
    pub(super) lateness: Lateness,
    pub(super) oldest_ready: Option<Oldest>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(super) struct Counts {
    pub(super) delayed: u64,
    pub(super) ready: u64,
    pub(super) reserved: u64,
    pub(super) retry: u64,
    pub(super) held: u64,
    pub(super) dead: u64,
    pub(super) finished: u64,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Lateness {
    bounds_ms: Vec<f64>,
    due_to_ready: Vec<u64>,
    ready_to_handed_out: Vec<u64>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Oldest {
    pub(super) topic: String,
    pub(super) due: String,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Topic {
    pub(super) topic: String,
    pub(super) paused: bool,
    pub(super) counts: Counts,
    pub(super) waiting: u64,
    added: u64,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Node {
    pub(super) name: String,
    pub(super) roles: Vec<String>,
    pub(super) address: Option<String>,
    pub(super) version: String,
    pub(super) load: u64,
    pub(super) bucket_count: u64,
    pub(super) heard: String,
}

/// So many jobs a second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Flow {
    pub(super) into: f64,
    pub(super) out: f64,
}

impl Look {
    /// Asks a server.
    pub(super) fn at(client: &Client, wish: &Wish) -> Result<Look> {
        let stats = client.get("/v1/stats")?;
        let prefix = Some(&*wish.prefix).filter(|prefix| !prefix.is_empty());
        let topics = [("limit", Some(TOPICS)), ("prefix", prefix)];
        let topics = client.get(&path::with_query("/v1/topics", &topics))?;
        let parsed: Stats = stats.read()?;
        let from = ms(&parsed.now);
        let [from, to] = [from, from + AHEAD_MS].map(|ms| ms.to_string());
        let due = [("from", Some(&*from)), ("to", Some(&to)), ("buckets", Some(PARTS))];
        let due = client.get(&path::with_query("/v1/due", &due))?;
        let nodes = client.get("/v1/nodes")?;
        Look::of([stats.read()?, topics.read()?, due.read()?, nodes.read()?])
    }

    /// The answers of `/v1/stats`, `/v1/topics`, `/v1/due` and `/v1/nodes`.
    pub(super) fn of([stats, topics, due, nodes]: [Value; 4]) -> Result<Look> {
        #[derive(Deserialize)]
        struct Topics {
            topics: Vec<Topic>,
            cursor: Option<String>,
        }
        #[derive(Deserialize)]
        struct Due {
            buckets: Vec<Bucket>,
        }
        #[derive(Deserialize)]
        struct Bucket {
            count: u64,
        }
        #[derive(Deserialize)]
        struct Nodes {
            nodes: Vec<Node>,
        }
        let answers = json!({ "stats": stats, "topics": topics, "due": due, "nodes": nodes });
        let Topics { topics, cursor } = serde_json::from_value(topics)?;
        let Due { buckets } = serde_json::from_value(due)?;
        let Nodes { nodes } = serde_json::from_value(nodes)?;
        Ok(Look {
            stats: serde_json::from_value(stats)?,
            topics,
            has_more_topics: cursor.is_some(),
            due: buckets.iter().map(|bucket| bucket.count).collect(),
            nodes,
            answers,
        })
    }

    pub(super) fn as_json(&self) -> String {
        self.answers.to_string()
    }

    pub(super) fn now_ms(&self) -> u64 {
        ms(&self.stats.now)
    }

    /// How long before this look something was, in milliseconds.
    pub(super) fn ms_since(&self, moment: &str) -> u64 {
        self.now_ms().saturating_sub(ms(moment))
    }

    fn seconds_since(&self, earlier: &Look) -> Option<f64> {
        // One that was started anew counts from nothing.
        let is_same = self.stats.started == earlier.stats.started;
        let ms = self.now_ms().saturating_sub(earlier.now_ms());
        (is_same && ms > 0).then_some(ms as f64 / 1000.0)
    }

    /// How often something that is counted has happened a second, since an earlier look.
    pub(super) fn rate(&self, earlier: &Look, name: &str) -> Option<f64> {
        let count = |look: &Look| look.stats.totals.get(name).copied().unwrap_or(0);
        let more = count(self).saturating_sub(count(earlier));
        Some(more as f64 / self.seconds_since(earlier)?)
    }

    /// What went into each topic and out of it since an earlier look.
    pub(super) fn flows(&self, earlier: &Look) -> HashMap<&str, Flow> {
        let Some(seconds) = self.seconds_since(earlier) else { return HashMap::new() };
        let before: HashMap<&str, &Topic> =
            earlier.topics.iter().map(|topic| (topic.topic.as_str(), topic)).collect();
        let flow = |topic: &Topic| {
            let (added, there) = match before.get(topic.topic.as_str()) {
                // Counted anew: it was gone in between.
                Some(before) if before.added <= topic.added => (before.added, before.counts.live()),
                _ => (0, 0),
            };
            let into = topic.added - added;
            let out = (there + into).saturating_sub(topic.counts.live());
            Flow { into: into as f64 / seconds, out: out as f64 / seconds }
        };
        self.topics.iter().map(|topic| (topic.topic.as_str(), flow(topic))).collect()
    }

    /// The bounds under which half and 99 of 100 were late in milliseconds, since an earlier look or else
    /// ever; none if there were none. First the server's part of it, then the consumers'.
    pub(super) fn lateness(&self, earlier: &Look) -> [Option<[f64; 2]>; 2] {
        let (now, before) = (&self.stats.lateness, &earlier.stats.lateness);
        let is_same = self.stats.started == earlier.stats.started;
        let of = |now: &[u64], before: &[u64]| {
            let recent: Vec<u64> =
                now.iter().zip(before).map(|(now, before)| now.saturating_sub(*before)).collect();
            let counts = if is_same && recent.iter().sum::<u64>() > 0 { &recent } else { now };
            percentiles(counts, &self.stats.lateness.bounds_ms)
        };
        [
            of(&now.due_to_ready, &before.due_to_ready),
            of(&now.ready_to_handed_out, &before.ready_to_handed_out),
        ]
    }
}

impl Counts {
    /// All that are not finished.
    pub(super) fn live(&self) -> u64 {
        let Counts { delayed, ready, reserved, retry, held, dead, finished: _ } = self;
        delayed + ready + reserved + retry + held + dead
    }
}

fn percentiles(counts: &[u64], bounds: &[f64]) -> Option<[f64; 2]> {
    let total: u64 = counts.iter().sum();
    let at = |share: f64| {
        let rank = (total as f64 * share).ceil().max(1.0) as u64;
        let mut sum = 0;
        let class = counts.iter().position(|count| {
            sum += count;
            sum >= rank
        });
        class.and_then(|class| bounds.get(class)).copied().unwrap_or(f64::INFINITY)
    };
    (total > 0).then(|| [at(0.5), at(0.99)])
}

/// A moment as the server writes it, in milliseconds.
fn ms(moment: &str) -> u64 {
    moment.parse::<Time>().map_or(0, Time::as_ms)
}
