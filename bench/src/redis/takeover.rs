//! How late jobs are whose instance is killed.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use super::Bench;
use super::lateness::due_job;
use super::served::Log;
use crate::Result;
use crate::consumer::{consume, joined};
use crate::report::{Budget, Row, Unit, say};
use crate::spread::Spread;
use crate::work::now_ms;

/// A job falls due so often, each time in another topic: who pops makes ready what is due in the topic,
/// so that one busy topic would not show who sees to the others.
const EVERY_MS: u64 = 100;
/// So many, about half of which lie with the one that is killed; each has a consumer that waits.
const TOPICS: u64 = 32;
/// Longer than any job takes to come: a pop that is made anew would find by itself what is due.
const ASK: &str = r#"{"wait":"20s"}"#;
/// Adding them all takes less.
const AHEAD_MS: u64 = 3000;
/// What may be added to the lease.
const OVER_MAX: Duration = Duration::from_secs(1);
/// All are handed out within this time, or never.
const PATIENCE: Duration = Duration::from_secs(120);

impl Bench {
    pub(super) fn takeover(&mut self) -> Result<()> {
        // By its poll an instance finds what is due for those who wait with it, whoever sees to it; what
        // is pushed has the lease alone.
        for (how, settings) in [("", &[][..]), (", without the poll", &["store.poll=1h"])] {
            let what = format!("takeover after SIGKILL{how}, the latest job");
            say(0, &what);
            let mut latest = Spread::default();
            for _ in 0..self.effort.rounds {
                latest.push(self.taken_over(settings)?.as_secs_f64());
            }
            let most = (self.effort.lease + OVER_MAX).as_secs_f64();
            let row = Row::new(0, what, Unit::Seconds, latest);
            self.take_down(row.budget([Budget::AtMost(most)]));
        }
        Ok(())
    }

    /// How late the latest of the jobs was that fell due while one of two instances was killed: some
    /// before that, the others until its lease was over twice.
    fn taken_over(&self, settings: &[&str]) -> Result<Duration> {
        let redis = self.start(Log::None)?;
        let [killed, other] = self.two_instances(&redis, settings)?;
        let (start, lease_ms) = (now_ms() + AHEAD_MS, self.effort.lease.as_millis() as u64);
        let count = 3 * lease_ms / EVERY_MS;
        let job = |n: u64| due_job(&topic(n), n, start + n * EVERY_MS);
        self.add_through(&other, (0..count).map(job))?;
        if now_ms() > start {
            return Err("adding took too long for lateness to mean anything".into());
        }
        let mut consumers = Vec::with_capacity(TOPICS as usize);
        for (n, to) in (0..TOPICS).zip(self.connect(other.address, TOPICS as usize)?) {
            // Each knows how many it is to have, so that none waits when all is over.
            let left = Arc::new(AtomicU64::new((n..count).step_by(TOPICS as usize).count() as u64));
            let path = format!("/v1/topics/{}/pop", topic(n));
            consumers.push(self.runtime.spawn(consume(to, path, ASK.into(), left)));
        }
        let (late_ns, _) = self.runtime.block_on(async {
            let before = (start + lease_ms).saturating_sub(now_ms());
            tokio::time::sleep(Duration::from_millis(before)).await;
            drop(killed);
            tokio::time::timeout(PATIENCE, joined(consumers)).await
        })?;
        Ok(Duration::from_nanos(late_ns.max()))
    }
}

fn topic(n: u64) -> String {
    format!("takeover-{}", n % TOPICS)
}
