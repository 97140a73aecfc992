//! How soon jobs that are due all at once are done.

use std::time::Duration;

use linger::store::embedded::Durability;

use super::client::{Work, work};
use super::rates::STREAMS;
use super::{Bench, name_of};
use crate::Result;
use crate::report::{Budget, Row, Unit, say};
use crate::server::Server;
use crate::spread::Spread;
use crate::work::{now_ms, since_1970};

const BURST: u64 = 50_000;
/// Jobs under way at once on each stream.
const CREDIT: u32 = 64;
const BURST_MAX_S: f64 = 1.0;
/// From when the first is added to when it is due, so that all are there before.
const AHEAD_MS: u64 = 1000;

impl Bench {
    pub(super) fn lateness(&mut self, server: &Server, durability: Durability) -> Result<()> {
        let count = BURST.min(self.effort.jobs_max);
        let what = format!("{count} due at once, {}, the last finished", name_of(durability));
        say(self.size, &what);
        let mut last = Spread::default();
        for _ in 0..self.effort.rounds {
            let (topic, to) = (self.next_topic(), server.address);
            let start = now_ms() + AHEAD_MS + count / 20;
            self.add_due(to, &topic, count, &format!(r#""at":{start}"#))?;
            let channels = self.connect(to, STREAMS)?;
            let early = Duration::from_millis(start).saturating_sub(since_1970());
            if early.is_zero() {
                return Err("adding took too long for lateness to mean anything".into());
            }
            let wanted =
                Work { topic: topic.clone(), credit: CREDIT, count, time: Duration::from_secs(60) };
            let (finished, took) = work(&self.runtime, channels, wanted);
            assert_eq!(finished, count, "not all were finished in a minute");
            last.push(took.saturating_sub(early).as_secs_f64());
        }
        let row = Row::new(self.size, what, Unit::Seconds, last);
        self.take_down(row.budget([Budget::AtMost(BURST_MAX_S)]));
        Ok(())
    }
}
