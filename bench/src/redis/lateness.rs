//! How late jobs are that fall due while two instances share a store.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde_json::Value;

use super::served::{Log, Redis};
use super::{Bench, body};
use crate::Result;
use crate::consumer::{consume, joined};
use crate::report::{Budget, say, tail_rows};
use crate::server::Server;
use crate::spread::Tail;
use crate::work::now_ms;

const TOPICS: u64 = 10;
/// Half of them on each instance.
const CONSUMERS: usize = 16;
/// Jobs that fall due a second.
const PACE: u64 = 2000;
const P99_MAX_MS: f64 = 20.0;
/// From when the first is added to when it is due, so that all are there before.
const AHEAD_MS: u64 = 3000;
/// Within this time each instance has its share, or never.
const SHARE_MAX: Duration = Duration::from_secs(60);

impl Bench {
    pub(super) fn lateness(&mut self) -> Result<()> {
        let what = format!("lateness at {PACE} due/s, two instances, {CONSUMERS} consumers");
        say(0, &what);
        let mut tail = Tail::default();
        for _ in 0..self.effort.rounds {
            tail.push(&self.late_round()?);
        }
        let [p50, p99, p999, max] = tail_rows(0, &what, &tail, None);
        for row in [p50, p99.budget([Budget::AtMost(P99_MAX_MS)]), p999, max] {
            self.take_down(row);
        }
        Ok(())
    }

    fn late_round(&self) -> Result<Histogram<u64>> {
        let redis = self.start(Log::None)?;
        let instances = self.two_instances(&redis, &[])?;
        let count = (PACE as f64 * self.effort.lateness.as_secs_f64()) as u64;
        let start = now_ms() + AHEAD_MS + count / 10;
        let job = |n: u64| due_job(&format!("late-{}", n % TOPICS), n, start + n * 1000 / PACE);
        self.add_through(&instances[0], (0..count).map(job))?;
        if now_ms() > start {
            return Err("adding took too long for lateness to mean anything".into());
        }
        let topics: Vec<String> = (0..TOPICS).map(|n| format!(r#""late-{n}""#)).collect();
        let ask = format!(r#"{{"topics":[{}],"wait":"500ms"}}"#, topics.join(","));
        let left = Arc::new(AtomicU64::new(count));
        let mut consumers = Vec::with_capacity(CONSUMERS);
        for instance in &instances {
            for to in self.connect(instance.address, CONSUMERS / instances.len())? {
                let consumer = consume(to, "/v1/pop".into(), ask.clone(), left.clone());
                consumers.push(self.runtime.spawn(consumer));
            }
        }
        Ok(self.runtime.block_on(joined(consumers)).0)
    }

    /// Two instances, each of which sees to its share of the buckets.
    pub(super) fn two_instances(&self, redis: &Redis, settings: &[&str]) -> Result<[Server; 2]> {
        let lease = format!("store.lease={}ms", self.effort.lease.as_millis());
        let settings = [&[lease.as_str()], settings].concat();
        let instances = [self.linger_on(redis, &settings)?, self.linger_on(redis, &settings)?];
        let start = Instant::now();
        while !self.is_shared(&instances[0])? {
            if start.elapsed() > SHARE_MAX {
                return Err("the instances do not share the buckets".into());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(instances)
    }

    /// Whether two instances have as good as the same number of buckets.
    fn is_shared(&self, one: &Server) -> Result<bool> {
        let mut connections = self.connect(one.address, 1)?;
        let asked = self.runtime.block_on(connections[0].call("GET", "/v1/nodes", ""))?;
        let told: Value = serde_json::from_str(asked.body)?;
        let nodes = told["nodes"].as_array().ok_or("there are no nodes")?;
        let held: Vec<u64> =
            nodes.iter().filter_map(|node| node["bucket_count"].as_u64()).collect();
        Ok(matches!(held[..], [one, other] if one.abs_diff(other) <= 1 && one > 0))
    }

    pub(super) fn add_through(
        &self,
        instance: &Server,
        jobs: impl Iterator<Item = String>,
    ) -> Result<()> {
        let mut connections = self.connect(instance.address, 1)?;
        self.runtime.block_on(connections[0].add_all(jobs));
        Ok(())
    }
}

/// Job number `n`, as JSON. Its due time stands in its id, for those who take down how late it is.
pub(super) fn due_job(topic: &str, n: u64, due_ms: u64) -> String {
    let body = body(n);
    format!(r#"{{"topic":"{topic}","id":"{due_ms}-{n}","at":{due_ms},"body":"{body}"}}"#)
}
