//! How late a job is with its receiver.

use hdrhistogram::Histogram;
use linger::store::embedded::Durability;

use super::{Bench, name_of};
use crate::Result;
use crate::bare::{Bare, Sync};
use crate::load::histogram;
use crate::report::{Budget, say, tail_rows};
use crate::server::Server;
use crate::spread::Tail;
use crate::work::now_ms;

/// Jobs that fall due a second.
const PACE: u64 = 2000;
/// How late all but one of a hundred are at most.
const P99_MAX_MS: f64 = 10.0;
/// From when the first is added to when it is due, so that all are there before.
const AHEAD_MS: u64 = 1000;

impl Bench {
    pub(super) fn lateness(&mut self, server: &Server, durability: Durability) -> Result<()> {
        let what = format!("lateness at {PACE} due/s, {}", name_of(durability));
        say(self.size, &what);
        let mut file = Bare::create(&self.beside)?;
        let (mut tail, mut beside) = (Tail::default(), Tail::default());
        for _ in 0..self.effort.rounds {
            tail.push(&self.late(server)?);
            beside.push(&file.write(4096, Sync::Each, self.effort.rate / 4)?);
        }
        let [p50, p99, p999, max] = tail_rows(self.size, &what, &tail, Some(&beside));
        for row in [p50, p99.budget([Budget::AtMost(P99_MAX_MS)]), p999, max] {
            self.take_down(row);
        }
        Ok(())
    }

    /// From its due time until the receiver has it, of each job.
    fn late(&mut self, server: &Server) -> Result<Histogram<u64>> {
        let topic = self.next_topic();
        let count = (PACE as f64 * self.effort.lateness.as_secs_f64()) as u64;
        // Adding takes a while too.
        let start = now_ms() + AHEAD_MS + count / 20;
        let when = |n: u64| format!(r#""at":{}"#, start + (n * 1000).div_ceil(PACE));
        self.add(server.address, &topic, &self.target(), count, when)?;
        if now_ms() > start {
            return Err("adding took too long for lateness to mean anything".into());
        }
        let mut late_ns = histogram();
        for late_us in self.seen(count)?.late_us {
            late_ns.saturating_record(late_us * 1000);
        }
        self.finished(server.address, &format!("/v1/topics/{topic}"))?;
        Ok(late_ns)
    }
}
