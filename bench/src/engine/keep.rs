//! What it costs to keep jobs: memory, disk, idle CPU, and the time to open.

use serde_json::Value;

use super::Bench;
use crate::child::Child;
use crate::report::{Budget, Row, Unit, say};
use crate::spread::Spread;
use crate::{Result, disk};

const MIB: f64 = (1 << 20) as f64;
/// Budgets that are told for this size hold from there on.
const LARGE: u64 = 10_000_000;

impl Bench {
    /// Fills the store, and looks at what it takes and how soon it is open again.
    pub(super) fn keep(&mut self, size: u64) -> Result<()> {
        say(size, "filling");
        let mut child = self.start()?;
        let start = std::time::Instant::now();
        let filled = child.ask(&format!("fill 0 {size}"))?;
        let rate = size as f64 / start.elapsed().as_secs_f64();
        self.push(size, "filled in 1,000s, relaxed", Unit::PerSecond, rate, None);
        let each_us = number(&filled, "decider_s") * 1e6 / size as f64;
        self.push(size, "the decider's CPU time for each of them", Unit::Us, each_us, None);
        say(size, "idling");
        // What filling left to do is done first.
        child.ask(&format!("idle {}", self.effort.idle.as_millis()))?;
        let idle = child.ask(&format!("idle {}", self.effort.idle.as_millis()))?;
        let large = |budget: f64| (size >= LARGE).then_some(Budget::AtMost(budget));
        let each = |bytes: f64| bytes / size as f64;
        let bytes = each(number(&idle, "grown"));
        self.push(size, "memory a job, after filling", Unit::Bytes, bytes, large(96.0));
        let bytes = each(number(&filled, "peak"));
        self.push(size, "memory a job at the peak, all included", Unit::Bytes, bytes, None);
        let taken = disk::taken(&self.store)?;
        let bytes = each(taken.allocated as f64);
        self.push(size, "disk a job", Unit::Bytes, bytes, large(300.0));
        let cpu = number(&idle, "cpu") * 100.0;
        self.push(size, "idle CPU, of one core", Unit::Percent, cpu, Some(Budget::AtMost(1.0)));
        child.stop()?;

        say(size, "opening after a clean stop");
        let mut seconds = Spread::default();
        for round in 0..self.effort.rounds.min(3) {
            let child = self.start()?;
            seconds.push(number(&child.opened, "open_s"));
            if round == 0 {
                let bytes = each(number(&child.opened, "grown"));
                let what = "memory a job, after opening";
                self.push(size, what, Unit::Bytes, bytes, large(96.0));
            }
            child.stop()?;
        }
        self.take_down(
            Row::new(size, "open after a clean stop", Unit::Seconds, seconds).budget(large(2.0)),
        );
        Ok(())
    }

    /// Adds a sixth more, kills the store, and looks how soon it is open again.
    pub(super) fn open_killed(&mut self, size: u64) -> Result<()> {
        say(size, "opening after kill -9");
        let mut seconds = Spread::default();
        for _ in 0..self.effort.rounds.min(3) {
            let count = (size / 6 / self.effort.rounds as u64).max(1);
            let from = self.numbers(count);
            let mut child = self.start()?;
            let before = number(&child.opened, "waiting");
            child.ask(&format!("fill {from} {count}"))?;
            child.kill()?;
            let child = self.start()?;
            seconds.push(number(&child.opened, "open_s"));
            let after = number(&child.opened, "waiting");
            if after != before + count as f64 {
                return Err(format!("{before} and {count} more jobs became {after}").into());
            }
            // As if this process had been killed too: what was replayed is replayed again.
            child.kill()?;
        }
        let budget = (size >= LARGE).then_some(Budget::AtMost(4.0));
        self.take_down(Row::new(size, "open after kill -9", Unit::Seconds, seconds).budget(budget));
        Ok(())
    }

    /// Deletes nine of ten jobs, waits, and looks what is left on the disk.
    pub(super) fn thin_out(&mut self, size: u64) -> Result<()> {
        say(size, "deleting nine of ten, then idling");
        let mut child = self.start()?;
        let thinned = child.ask(&format!("thin {size}"))?;
        child.ask(&format!("idle {}", self.effort.rest.as_millis()))?;
        let taken = disk::taken(&self.store)?;
        let live = number(&thinned, "waiting") * self.record_bytes as f64;
        let bound = 2.0 * live
            + 2.0 * taken.checkpoints as f64
            + 4.0 * f64::from(self.effort.segment_bytes);
        let what = "live bytes after nine of ten are gone";
        self.push(size, what, Unit::MiB, live / MIB, None);
        let (what, budget) = ("disk after that and a rest", Some(Budget::AtMost(bound / MIB)));
        self.push(size, what, Unit::MiB, taken.allocated as f64 / MIB, budget);
        child.stop()
    }

    fn start(&self) -> Result<Child> {
        Child::start(&self.store, self.effort.segment_bytes)
    }

    fn push(&mut self, size: u64, what: &str, unit: Unit, value: f64, budget: Option<Budget>) {
        self.take_down(Row::new(size, what, unit, Spread::one(value)).budget(budget));
    }
}

fn number(told: &Value, name: &str) -> f64 {
    told[name].as_f64().unwrap_or(f64::NAN)
}
