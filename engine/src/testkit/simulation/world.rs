//! One run: a disk, a clock, the store's parts and its callers, moved by chance.

use std::collections::VecDeque;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use super::call::{Answer, Call, Op};
use super::plan::Plan;
use super::reference::{Checked, End, Recovered, Reference};
use crate::dice::Dice;
use crate::error::{Code, Error};
use crate::queue::{How, UniqueIds};
use crate::store::Options;
use crate::store::embedded::files::Files;
use crate::store::embedded::trace::{Peeked, take_counts};
use crate::store::embedded::{Durability, Manual, Settings, read_in_full};
use crate::testkit::rng::Rng;
use crate::testkit::{Happened, SimClock, SimDisk};
use crate::time::{Clock, Now};

/// The smallest segments that a store has.
pub(super) const SEGMENT_BYTES: u32 = 64 << 10;
/// More bytes than a run ever writes.
const ROOMY: u64 = 1 << 40;
/// No more calls are under way at once.
const CALLS_MAX: usize = 6;
/// How much of what is done is told when a run fails.
const TOLD_MAX: usize = 300;
/// Far more rounds than it takes to answer everyone: one who is never answered is found out.
pub(super) const ROUNDS_MAX: usize = 500;

pub(super) struct World {
    pub(super) rng: Rng,
    pub(super) plan: Plan,
    pub(super) clock: Arc<SimClock>,
    pub(super) disk: SimDisk,
    pub(super) store: Option<Manual>,
    calls: Vec<Call>,
    pub(super) reference: Reference,
    options: Options,
    settings: Settings,
    /// Whether the wall clock is set now and then.
    jumps: bool,
    callers: u64,
    /// Whether the disk was made small.
    full: bool,
    /// Whether it was in this life.
    was_full: bool,
    happened: Happened,
    told: Option<VecDeque<String>>,
}

impl World {
    pub(super) fn new(seed: u64, tell: bool) -> World {
        let mut rng = Rng::new(seed);
        let durability = rng.pick(&[Durability::Sync, Durability::Sync, Durability::Relaxed]);
        let settings = Settings {
            durability,
            segment_bytes: SEGMENT_BYTES,
            checkpoint_records: rng.pick(&[5, 20, 60, 1000]),
        };
        let clock = SimClock::new();
        let options = Options {
            clock: clock.clone(),
            unique_ids: rng.pick(&[UniqueIds::PerTopic, UniqueIds::PerTopic, UniqueIds::Global]),
            ..Options::default()
        };
        let jumps = rng.percent(30);
        let mut reference = Reference::new(durability);
        reference.clock_shows(clock.now());
        World {
            plan: Plan::new(&mut rng),
            rng,
            clock,
            disk: SimDisk::new(),
            store: None,
            calls: Vec::new(),
            reference,
            options,
            settings,
            jumps,
            callers: 0,
            full: false,
            was_full: false,
            happened: Happened::new(),
            told: tell.then(VecDeque::new),
        }
    }

    /// A few lives of the store, and a last look at it.
    pub(super) fn run(&mut self) -> Result<Happened, String> {
        take_counts();
        let mut end = End::Killed;
        for _ in 0..1 + self.rng.below(4) {
            self.open(end)?;
            self.live()?;
            end = self.crash();
        }
        self.was_full = self.full;
        self.open(end)?;
        self.look_at_all()?;
        self.drain()?;
        for (what, count) in take_counts() {
            *self.happened.entry(what.into()).or_default() += count;
        }
        Ok(std::mem::take(&mut self.happened))
    }

    pub(super) fn told(&self) -> String {
        let mut text = String::new();
        for line in self.told.iter().flatten() {
            writeln!(text, "{line}").expect("a string takes any text");
        }
        text
    }

    pub(super) fn tell(&mut self, what: impl FnOnce() -> String) {
        if let Some(told) = &mut self.told {
            let mut what = what();
            if what.len() > 600 {
                what.truncate(what.floor_char_boundary(600));
            }
            if told.len() == TOLD_MAX {
                told.pop_front();
            }
            told.push_back(what);
        }
    }

    pub(super) fn count(&mut self, what: &str) {
        *self.happened.entry(what.into()).or_default() += 1;
    }

    pub(super) fn now(&self) -> Now {
        self.clock.now()
    }

    /// Opens what the last life left; it may crash in the midst of it, too.
    fn open(&mut self, mut end: End) -> Checked {
        for attempt in 0.. {
            // As a real process has another secret.
            let seed = self.rng.next();
            self.options.dice = Dice::seeded(seed);
            let fault = if attempt < 3 { self.rng.below(10) } else { 9 };
            match fault {
                0..3 => self.disk.cut_power_after(1 + self.rng.below(12) as u64),
                3 => self.disk.fail_sync_in(1 + self.rng.below(4) as u64),
                _ => {}
            }
            self.tell(|| format!("open, fault {fault}"));
            let files = Arc::new(self.disk.clone());
            match Manual::open(files, self.options.clone(), self.settings) {
                Ok(mut store) => {
                    store.watch();
                    let found = self.found(&store)?;
                    self.store = Some(store);
                    return self.reference.recovered(&found, end, self.clock.now());
                }
                Err(error) => self.check_not_opened(&error, fault)?,
            }
            if self.crash() == End::PowerCut {
                end = End::PowerCut;
            }
        }
        unreachable!("the last attempt has no fault")
    }

    fn check_not_opened(&mut self, error: &Error, fault: usize) -> Checked {
        if self.disk.is_off() {
            self.count("crash while opening");
        } else if fault == 3 && error.code() == Code::StorageFailed {
            self.count("failed sync while opening");
        } else {
            return Err(format!("the store cannot be opened after a crash: {error}"));
        }
        self.tell(|| format!("  failed: {error}"));
        Ok(())
    }

    /// What is there before anything is done to it.
    pub(super) fn found(&self, store: &Manual) -> Result<Recovered, String> {
        let Peeked { jobs, topics, kv, next_number, kv_version } = store.peek(self.now());
        let jobs: Result<Vec<_>, Error> = jobs.iter().map(read_in_full).collect();
        let jobs = jobs.map_err(|why| format!("a job cannot be read: {why}"))?;
        Ok(Recovered { jobs, topics, kv, next_number, kv_version, last_batch: store.last_batch() })
    }

    /// Ends the process in one way or another.
    fn crash(&mut self) -> End {
        self.calls.clear();
        self.store = None;
        let end = if self.rng.percent(60) { End::PowerCut } else { End::Killed };
        self.tell(|| format!("{end:?}"));
        self.count(if end == End::PowerCut { "power cut" } else { "kill" });
        self.disk = match end {
            End::PowerCut => self.disk.crash(self.rng.next()),
            End::Killed => self.disk.survives_kill(),
        };
        end
    }

    fn live(&mut self) -> Checked {
        self.was_full = self.full;
        self.plan_fault();
        if self.rng.percent(30) {
            self.look_at_all()?;
        }
        for _ in 0..10 + self.rng.below(100) {
            self.act()?;
            if self.disk.is_off() {
                self.count("cut in the midst");
                return Ok(());
            }
            if self.store().halted().is_some() {
                return self.check_halted();
            }
        }
        if self.rng.percent(20) { self.settle_down() } else { Ok(()) }
    }

    fn plan_fault(&mut self) {
        let soon = 1 + self.rng.below(80) as u64;
        let fault = self.rng.below(10);
        self.tell(|| format!("fault {fault} in {soon}"));
        match fault {
            0..3 => self.disk.cut_power_after(soon),
            3 => self.disk.fail_sync_in(soon),
            4 => self.disk.fail_write_in(soon),
            5 if !self.full => {
                self.disk.capacity(ROOMY);
                let used = ROOMY - self.disk.free_bytes().unwrap_or(ROOMY);
                let room = self.rng.below(5) as u64 * u64::from(SEGMENT_BYTES);
                self.disk.capacity(used + room + 1000);
                (self.full, self.was_full) = (true, true);
            }
            _ => {}
        }
    }

    pub(super) fn store(&mut self) -> &mut Manual {
        self.store.as_mut().expect("the store is open")
    }

    fn act(&mut self) -> Checked {
        match self.rng.below(100) {
            0..30 if self.calls.len() < CALLS_MAX => self.begin_call(),
            0..45 => self.poll_some(),
            45..60 => self.decide(),
            60..75 => self.sync(),
            75..85 => self.keep(),
            85..91 => {
                let by = self.rng.pick(&[1, 99, 500, 1_000, 1_000, 10_000, 61_000]);
                self.advance(Duration::from_millis(by));
                Ok(())
            }
            91 if self.jumps => {
                let by_ms = self.rng.pick(&[-3_600_000, -5_000, -100, 100, 5_000, 3_600_000]);
                self.tell(|| format!("jump {by_ms}"));
                self.clock.jump_ms(by_ms);
                self.reference.clock_jumped();
                self.reference.clock_shows(self.clock.now());
                Ok(())
            }
            92..94 => self.hang_up(),
            94..98 => self.keep_house(),
            _ if self.full => {
                self.make_room();
                Ok(())
            }
            _ => self.settle_down(),
        }
    }

    pub(super) fn make_room(&mut self) {
        self.tell(|| "room again".into());
        self.disk.capacity(ROOMY);
        self.full = false;
        self.count("room again");
    }

    pub(super) fn advance(&mut self, by: Duration) {
        self.tell(|| format!("advance {by:?}"));
        self.clock.advance(by);
        self.reference.clock_shows(self.clock.now());
    }

    fn begin_call(&mut self) -> Checked {
        let now = self.now();
        let op = self.plan.op(&mut self.rng, now);
        let call = self.call(op);
        self.calls.push(call);
        self.poll(self.calls.len() - 1).map(|_| ())
    }

    pub(super) fn call(&mut self, op: Op) -> Call {
        self.callers += 1;
        let caller = self.callers;
        self.tell(|| format!("call {caller}: {op:?}"));
        let store = self.store().store().clone();
        Call::new(caller, op, store)
    }

    fn poll_some(&mut self) -> Checked {
        if self.calls.is_empty() {
            return Ok(());
        }
        let at = self.rng.below(self.calls.len());
        self.poll(at).map(|_| ())
    }

    /// Polls one; answers whether it is done.
    fn poll(&mut self, at: usize) -> Result<bool, String> {
        let Some(answer) = self.calls[at].poll() else { return Ok(false) };
        let call = self.calls.swap_remove(at);
        self.answered(&call, &answer)?;
        Ok(true)
    }

    pub(super) fn answered(&mut self, call: &Call, answer: &Answer) -> Checked {
        let caller = call.caller;
        self.tell(|| format!("call {caller} is answered {answer:?}"));
        if answer.has(Code::StorageFull) {
            self.count("storage_full");
            if !self.was_full {
                return Err("storage_full, and the disk is not".into());
            }
        }
        if answer.has(Code::StorageFailed) && self.store().halted().is_none() {
            return Err(format!("storage_failed, and the store goes on: {answer:?}"));
        }
        let now = self.now();
        call.check(answer, &mut self.reference, now)?;
        for one in answer.deliveries() {
            let (topic, id) = (one.topic().clone(), one.id().clone());
            self.plan.was_handed_out(one.job.number, topic, id, one.lease);
            self.count("handed out");
        }
        if let Answer::Added(Ok(all)) = answer {
            for added in all.iter().flatten().filter(|added| added.how != How::Kept) {
                self.plan.was_added(added.job.number);
                self.count("added");
            }
        }
        Ok(())
    }

    pub(super) fn decide(&mut self) -> Checked {
        self.tell(|| "decide".into());
        self.store().decide();
        let steps = self.store().steps();
        if !steps.is_empty() {
            self.tell(|| {
                let batches = steps.iter().map(|step| step.batch).collect::<Vec<_>>();
                format!("  {} steps in batches {batches:?}", steps.len())
            });
        }
        self.reference.decided(steps)
    }

    pub(super) fn sync(&mut self) -> Checked {
        self.tell(|| "sync".into());
        self.store().sync();
        if !self.disk.is_off() && self.store().halted().is_none() {
            let now = self.now();
            self.reference.synced(now);
        }
        Ok(())
    }

    pub(super) fn keep(&mut self) -> Checked {
        self.tell(|| "keep".into());
        self.store().keep();
        Ok(())
    }

    /// A few seconds of housekeeping, with little else.
    fn keep_house(&mut self) -> Checked {
        // Most writes and syncs are the log's: these are the keeper's to try again.
        match self.rng.below(20) {
            0 => self.disk.fail_sync_in(1 + self.rng.below(3) as u64),
            1 => self.disk.fail_write_in(1 + self.rng.below(5) as u64),
            2 => self.disk.fail_sync_folder_in(1 + self.rng.below(2) as u64),
            _ => {}
        }
        for _ in 0..self.rng.pick(&[1, 1, 2, 4]) {
            self.advance(Duration::from_secs(1));
            for _ in 0..self.rng.below(40) {
                match self.rng.below(4) {
                    0..2 => self.keep()?,
                    2 => self.decide()?,
                    _ => self.sync()?,
                }
            }
        }
        Ok(())
    }

    /// A caller hangs up.
    fn hang_up(&mut self) -> Checked {
        let pops = self.calls.iter().enumerate();
        let pops: Vec<_> =
            pops.filter(|(_, call)| matches!(call.op, Op::Pop(_))).map(|(at, _)| at).collect();
        if !pops.is_empty() {
            let call = self.calls.swap_remove(self.rng.pick(&pops));
            self.tell(|| format!("call {} hangs up", call.caller));
            self.count("hung up");
        }
        Ok(())
    }

    /// Moves everything until all is quiet; only those who wait for jobs are still there then.
    pub(super) fn settle_down(&mut self) -> Checked {
        for _ in 0..ROUNDS_MAX {
            self.round()?;
            if self.disk.is_off() || self.store().halted().is_some() {
                return Ok(());
            }
            let mut at = 0;
            while at < self.calls.len() {
                if !self.poll(at)? {
                    at += 1;
                }
            }
            if self.calls.iter().all(|call| call.op.may_wait()) {
                return Ok(());
            }
        }
        let unanswered: Vec<_> = self.calls.iter().map(|call| &call.op).collect();
        Err(format!("never answered: {unanswered:?}"))
    }

    pub(super) fn round(&mut self) -> Checked {
        self.keep()?;
        self.decide()?;
        self.sync()
    }

    /// A store that has stopped says so to everyone.
    fn check_halted(&mut self) -> Checked {
        self.count("halted");
        self.tell(|| "halted".into());
        let now = self.now();
        for _ in 0..2 {
            let op = self.plan.op(&mut self.rng, now);
            let call = self.call(op);
            self.calls.push(call);
        }
        for mut call in std::mem::take(&mut self.calls) {
            let mut answer = call.poll();
            self.decide()?;
            answer = answer.or_else(|| call.poll());
            // What was answered before it stopped is still heard.
            let Some(answer) = answer else {
                return Err(format!("not answered by a store that has stopped: {:?}", call.op));
            };
            self.answered(&call, &answer)?;
        }
        Ok(())
    }
}
