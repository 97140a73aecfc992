//! Decides what happens next, from a seed and what is known of the story so far.

use std::time::Duration;

use bytes::Bytes;

use super::chance::{Cast, beginning};
use super::op::{ChangeOp, ExpectOp, KvOp, Op, Proof, SettleOp, Step, Then, Who};
use crate::job::{Id, NewJob};
use crate::machine::{Reach, Stage};
use crate::queue::{
    Action, Ask, Bodies, Bulk, Cursor, Forecast, JobInfo, KvQuery, Lane, LetGo, Mode, Query,
    Source, Sweep, TopicChange, Topics, Verdict,
};
use crate::testkit::rng::Rng;
use crate::time::{Now, Time};
use crate::topic::Topic;

/// What is known of the story so far.
pub(super) struct View {
    pub(super) now: Now,
    /// The jobs there are.
    pub(super) jobs: Vec<JobInfo>,
    /// Names that were handed out, the latest last.
    pub(super) handed_out: Vec<(Topic, Id)>,
    /// Places of the waiting pops that were given something and not polled since.
    pub(super) unseen: Vec<usize>,
}

impl View {
    fn names(&self, fits: impl Fn(Stage) -> bool) -> Vec<(Topic, Id)> {
        let fitting = self.jobs.iter().filter(|job| fits(job.stage));
        fitting.map(|job| (job.spec.topic.clone(), job.spec.id.clone())).collect()
    }
}

/// Makes up a story. Each seed has its own cast and its own likings.
pub(super) struct Plan {
    rng: Rng,
    cast: Cast,
    weights: Vec<(Kind, usize)>,
    plot: Plot,
    /// What happens first, the last one first.
    prelude: Vec<Op>,
}

/// What a story is about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Plot {
    /// Anything.
    Free,
    /// Jobs that are ready and callers who wait, with a limit or a pause between them.
    Limits,
}

#[derive(Clone, Copy)]
enum Kind {
    Add,
    Pop,
    Settle,
    Change,
    Reserve,
    Sweep,
    LetGo,
    HangUp,
    Advance,
    Jump,
    Configure,
    SetDefaults,
    Kv,
    Look,
}

/// A century: Lua, which counts microseconds in a shared store, is exact until the year 2255.
const ADVANCE_US_MAX: u64 = 100 * 365 * 86_400 * 1_000_000;

const WEIGHTS: [(Kind, usize); 14] = [
    (Kind::Add, 16),
    (Kind::Pop, 20),
    (Kind::Settle, 16),
    (Kind::Change, 10),
    (Kind::Reserve, 4),
    (Kind::Sweep, 4),
    (Kind::LetGo, 2),
    (Kind::HangUp, 4),
    (Kind::Advance, 14),
    (Kind::Jump, 2),
    (Kind::Configure, 8),
    (Kind::SetDefaults, 1),
    (Kind::Kv, 4),
    (Kind::Look, 6),
];

impl Plan {
    pub(super) fn new(seed: u64) -> Plan {
        let mut rng = Rng::new(seed);
        let cast = rng.cast();
        // Stories that leave something out go deeper into the rest.
        let mut liking = |(kind, weight)| (kind, weight * rng.pick(&[0, 1, 1, 1, 2]));
        let mut weights: Vec<_> = WEIGHTS.into_iter().map(&mut liking).collect();
        weights.push((Kind::Add, 4));
        let plot = rng.pick(&[Plot::Free, Plot::Free, Plot::Limits]);
        let mut plan = Plan { rng, cast, weights, plot, prelude: Vec::new() };
        if plot == Plot::Limits {
            plan.begin_with_limits();
        }
        plan
    }

    fn begin_with_limits(&mut self) {
        for topic in self.cast.topics.clone() {
            let change = match self.rng.below(3) {
                0 => TopicChange::Pause(Some(self.rng.length())),
                _ => TopicChange::Set(Box::new(self.rng.limits())),
            };
            self.prelude.push(Op::Configure(topic, change));
        }
        // Whatever undoes them comes seldom.
        self.weights.retain(|(kind, _)| !matches!(kind, Kind::Configure | Kind::Sweep));
        self.weights.extend([(Kind::Configure, 2), (Kind::Advance, 14), (Kind::Pop, 10)]);
    }

    pub(super) fn next(&mut self, view: &View) -> Step {
        let op = self.op(view);
        let then = if self.rng.percent(30) { Then::Leave } else { Then::Poll };
        Step { op, then }
    }

    fn op(&mut self, view: &View) -> Op {
        if let Some(op) = self.prelude.pop() {
            return op;
        }
        if !view.unseen.is_empty() && self.rng.percent(50) {
            return Op::HangUp(self.rng.pick(&view.unseen));
        }
        match self.kind() {
            Kind::Add => {
                let count = self.rng.pick(&[1, 1, 1, 3]);
                Op::Add((0..count).map(|_| self.new_job(view)).collect())
            }
            Kind::Pop => Op::Pop(self.ask(view)),
            Kind::Settle if view.handed_out.is_empty() => Op::Pop(self.ask(view)),
            Kind::Settle => Op::Settle(self.few(|plan| plan.settle(view))),
            Kind::Change => Op::Change(self.few(|plan| plan.change(view))),
            Kind::Reserve => Op::Reserve(self.who(view), self.rng.terms()),
            Kind::Sweep => Op::Sweep(self.sweep(view)),
            Kind::LetGo => {
                Op::LetGo(self.rng.owner(), self.rng.pick(&[LetGo::Lost, LetGo::Released]))
            }
            Kind::HangUp => Op::HangUp(self.rng.below(8)),
            Kind::Advance => Op::Advance(self.advance(view)),
            Kind::Jump => {
                let ms = self.rng.pick(&[99, 100, 5_000, 3_600_000]);
                Op::Jump(if self.rng.percent(50) { ms } else { -ms })
            }
            Kind::Configure => Op::Configure(self.topic(), self.topic_change()),
            Kind::SetDefaults => Op::SetDefaults(self.rng.defaults()),
            Kind::Kv => self.kv(),
            Kind::Look => self.look(view),
        }
    }

    fn new_job(&mut self, view: &View) -> NewJob {
        let mut job = self.rng.new_job(&self.cast, view.now.time());
        if self.plot == Plot::Limits {
            (job.when, job.held) = (None, false);
            (job.spec.repeat, job.spec.target) = (None, None);
        }
        job
    }

    fn kind(&mut self) -> Kind {
        let total = self.weights.iter().map(|(_, weight)| weight).sum();
        let mut drawn = self.rng.below(total);
        for (kind, weight) in &self.weights {
            if drawn < *weight {
                return *kind;
            }
            drawn -= weight;
        }
        Kind::Add
    }

    fn few<T>(&mut self, make: impl Fn(&mut Plan) -> T) -> Vec<T> {
        let count = self.rng.pick(&[1, 1, 1, 1, 2, 4]);
        (0..count).map(|_| make(self)).collect()
    }

    fn topic(&mut self) -> Topic {
        self.rng.pick(&self.cast.topics)
    }

    /// A job, mostly one that is there.
    fn who(&mut self, view: &View) -> Who {
        self.one_of(&view.names(|_| true), 85)
    }

    /// A job, mostly one that somebody holds or held.
    fn holder(&mut self, view: &View) -> Who {
        let held = view.names(|stage| stage == Stage::Reserved);
        if !held.is_empty() && self.rng.percent(60) {
            return self.one_of(&held, 100);
        }
        let latest = view.handed_out.len().saturating_sub(6);
        self.one_of(&view.handed_out[latest..], 70)
    }

    /// One of these in so many of a hundred, else any.
    fn one_of(&mut self, names: &[(Topic, Id)], percent: usize) -> Who {
        let (topic, id) = match names {
            [_, ..] if self.rng.percent(percent) => self.rng.pick(names),
            _ => (self.topic(), self.rng.pick(&self.cast.ids)),
        };
        match self.rng.below(10) {
            0..5 => Who::Named(topic, id),
            5..9 => Who::Number(topic, id, 0),
            _ => Who::Number(topic, id, 1),
        }
    }

    fn ask(&mut self, view: &View) -> Ask {
        let any = self.rng.percent(20);
        let mut topics: Vec<_> = (0..self.rng.pick(&[1, 1, 2, 3])).map(|_| self.topic()).collect();
        let ready = view.names(|stage| stage == Stage::Ready);
        if !ready.is_empty() && self.rng.percent(50) {
            topics.push(self.rng.pick(&ready).0);
        }
        let max = self.rng.pick(&[1, 1, 1, 1, 2, 5, 1000]);
        let (from, max) = match self.rng.below(50) {
            0 => (Source::These(Vec::new()), max),
            1 => (Source::Any, self.rng.pick(&[0, 1001])),
            _ if any => (Source::Any, max),
            _ => (Source::These(topics), max),
        };
        let (push, at_once) = if self.plot == Plot::Limits { (5, 10) } else { (20, 50) };
        let lane = if self.rng.percent(push) { Lane::Push } else { Lane::Pull };
        let wait = if self.rng.percent(at_once) { Duration::ZERO } else { self.rng.term() };
        let terms = self.rng.terms();
        let limited = self.rng.percent(if lane == Lane::Push { 60 } else { 1 });
        let room = limited.then(|| self.rng.room(&self.cast));
        Ask { from, lane, max, wait, terms, room }
    }

    fn settle(&mut self, view: &View) -> SettleOp {
        let who = self.holder(view);
        let proof = match self.rng.below(10) {
            0..6 => Proof::Lease(0),
            6 => Proof::Lease(1),
            7 => Proof::MadeUp,
            _ => Proof::None,
        };
        let (report, by) = (self.rng.report(), self.rng.caller());
        SettleOp { who, proof, verdict: self.verdict(), report, by }
    }

    fn verdict(&mut self) -> Verdict {
        let rng = &mut self.rng;
        match rng.below(12) {
            0..2 => Verdict::Finish,
            2..4 => Verdict::Fail { error: rng.error(), retry_in: rng.maybe(30, Rng::term) },
            4 => Verdict::Again { retry_in: rng.maybe(30, Rng::term) },
            5..7 => {
                let delay = if rng.percent(60) { Duration::ZERO } else { rng.term() };
                Verdict::Release { delay, priority: rng.maybe(30, Rng::priority) }
            }
            7 => Verdict::Touch { ttr: rng.maybe_ttr() },
            8 => Verdict::Leave,
            9 => Verdict::Recall,
            _ => Verdict::Bury {
                error: rng.maybe(50, Rng::error),
                priority: rng.maybe(30, Rng::priority),
            },
        }
    }

    fn change(&mut self, view: &View) -> ChangeOp {
        let who = self.who(view);
        let now = view.now.time();
        let action = match self.rng.below(10) {
            0..4 => Action::Update(self.rng.patch(now)),
            4 => Action::Hold,
            5 => Action::Unhold,
            6 => Action::Run,
            7 => Action::Redrive,
            _ => Action::Delete(self.rng.pick(&[Reach::Any, Reach::Unreserved])),
        };
        let version_off = self.rng.maybe(20, |rng| rng.pick(&[0, 0, -1, 1]));
        ChangeOp { who, version_off, action, by: self.rng.caller() }
    }

    fn sweep(&mut self, view: &View) -> Sweep {
        let all = [Bulk::Finish, Bulk::Delete, Bulk::Run, Bulk::Hold, Bulk::Unhold, Bulk::Redrive];
        Sweep {
            topic: self.topic(),
            filter: self.rng.filter(&self.cast, view.now.time()),
            bulk: self.rng.pick(&all),
            limit: self.rng.maybe(50, |rng| rng.below(4) as u64),
            mode: if self.rng.percent(20) { Mode::DryRun } else { Mode::Apply },
            by: self.rng.caller(),
        }
    }

    fn topic_change(&mut self) -> TopicChange {
        match self.rng.below(12) {
            0..6 => TopicChange::Set(Box::new(self.rng.settings())),
            6..9 => TopicChange::Pause(self.rng.maybe(70, Rng::term)),
            9..11 => TopicChange::Resume,
            _ => self.rng.pick(&[TopicChange::Empty, TopicChange::Forget]),
        }
    }

    /// Some time, or up to just before or exactly when something is bound to happen.
    fn advance(&mut self, view: &View) -> Duration {
        let expected = |job: &JobInfo| match job.stage {
            Stage::Delayed | Stage::Retry => Some(job.due),
            Stage::Reserved => job.reserved_until,
            _ => None,
        };
        let ahead = |at: Time| (at.as_ms() * 1000).checked_sub(view.now.wall_us);
        let is_near = |us: &u64| (1..ADVANCE_US_MAX).contains(us);
        let next = view.jobs.iter().filter_map(expected).filter_map(ahead).filter(is_near);
        match next.min() {
            Some(us) if self.rng.percent(50) => {
                Duration::from_micros(us - self.rng.pick(&[0, 0, 0, 1]))
            }
            _ => self.rng.length(),
        }
    }

    fn kv(&mut self) -> Op {
        let key = self.rng.pick(&["k", "k/1", "k/2", "", "ключ"]).into();
        match self.rng.below(4) {
            0 => Op::KvRead(KvQuery::Key(key)),
            1 => {
                let prefix = beginning(&key);
                let (after, limit) = (self.rng.maybe(30, |_| key), self.rng.below(4));
                Op::KvRead(KvQuery::Prefix { prefix, after, limit })
            }
            _ => {
                let value = self.rng.maybe(75, |rng| Bytes::from(vec![rng.below(9) as u8]));
                let expect = match self.rng.below(6) {
                    0 => ExpectOp::Absent,
                    1 => ExpectOp::VersionOff(0),
                    2 => ExpectOp::VersionOff(1),
                    _ => ExpectOp::Any,
                };
                Op::KvWrite(KvOp { key, value, expect, ttl: self.rng.maybe(40, Rng::term) })
            }
        }
    }

    fn look(&mut self, view: &View) -> Op {
        match self.rng.below(8) {
            0 => Op::Get(self.who(view)),
            1 => Op::Find(self.rng.pick(&self.cast.ids)),
            2 => Op::Browse(self.query(view)),
            3 => Op::Page(Some(Box::new(self.query(view)))),
            4 => Op::Page(None),
            5 => {
                let now = view.now.time();
                let topic = self.rng.maybe(50, |rng| rng.pick(&self.cast.topics));
                let (from, to) = (self.rng.near(now), self.rng.near(now));
                Op::Forecast(Forecast { topic, from, to, buckets: self.rng.below(6) as u32 })
            }
            6 => Op::DeadByError(self.topic()),
            _ => Op::Topics(self.topics()),
        }
    }

    fn topics(&mut self) -> Topics {
        let topic = self.topic();
        if self.rng.percent(30) {
            return Topics::One(topic);
        }
        let prefix = beginning(topic.as_str());
        Topics::Page { prefix, after: self.rng.maybe(30, |_| topic), limit: self.rng.below(4) }
    }

    fn query(&mut self, view: &View) -> Query {
        let garbage = self.rng.maybe(5, |rng| Cursor(rng.pick(&["", "x", "-", "次"]).into()));
        Query {
            topic: self.topic(),
            filter: self.rng.filter(&self.cast, view.now.time()),
            bodies: self.rng.pick(&[Bodies::With, Bodies::Without]),
            limit: self.rng.pick(&[1, 2, 1000, 0]),
            cursor: garbage,
        }
    }
}
