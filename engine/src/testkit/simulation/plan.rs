//! Makes up calls, from a seed and what was handed out so far.

use std::time::Duration;

use bytes::Bytes;

use super::call::Op;
use crate::dice::Lease;
use crate::history::ERROR_BYTES_MAX;
use crate::job::{Body, Edit, Id, NewJob, OnConflict, Patch};
use crate::machine::Reach;
use crate::queue::{
    Action, Ask, Bodies, Bulk, Change, Expect, Key, KvWrite, Lane, LetGo, Mode, Query, Settle,
    Source, Sweep, TopicChange, Verdict,
};
use crate::testkit::model::chance::Cast;
use crate::testkit::rng::Rng;
use crate::time::{Now, SECOND};
use crate::topic::{Settings, Topic};

/// Who takes part, and what they know.
pub(super) struct Plan {
    cast: Cast,
    /// How large bodies get.
    body_bytes: usize,
    /// The latest hand-outs.
    held: Vec<(u64, Topic, Id, Lease)>,
    numbers: Vec<u64>,
    bodies: u64,
}

const NAMES: [&str; 5] = ["a", "b", "支付宝", "a crab 🦀", "default"];
/// No more hand-outs are kept in mind.
const HELD_MAX: usize = 12;

impl Plan {
    pub(super) fn new(rng: &mut Rng) -> Plan {
        let (topics, ids) = (rng.pick(&[1, 2, 3, 5]), rng.pick(&[3, 8, 20, 60]));
        let cast = Cast {
            topics: NAMES.iter().take(topics).map(|name| name.parse().expect("a topic")).collect(),
            ids: (0..ids).map(|n: usize| n.to_string().parse().expect("an id")).collect(),
        };
        let body_bytes = rng.pick(&[100, 2_000, 8_000, 14_000]);
        Plan { cast, body_bytes, held: Vec::new(), numbers: Vec::new(), bodies: 0 }
    }

    pub(super) fn topics(&self) -> &[Topic] {
        &self.cast.topics
    }

    pub(super) fn was_handed_out(&mut self, number: u64, topic: Topic, id: Id, lease: Lease) {
        if self.held.len() == HELD_MAX {
            self.held.remove(0);
        }
        self.held.push((number, topic, id, lease));
    }

    pub(super) fn was_added(&mut self, number: u64) {
        if self.numbers.len() == 4 * HELD_MAX {
            self.numbers.remove(0);
        }
        self.numbers.push(number);
    }

    pub(super) fn op(&mut self, rng: &mut Rng, now: Now) -> Op {
        match rng.below(100) {
            0..34 => {
                let count = rng.pick(&[1, 1, 1, 1, 2, 5]);
                Op::Add((0..count).map(|_| self.new_job(rng, now)).collect())
            }
            34..52 => Op::Pop(self.ask(rng)),
            52..68 => Op::Settle(self.few(rng, Plan::settle)),
            68..84 => Op::Change(self.few(rng, |plan, rng| plan.change(rng, now))),
            84..87 => Op::Reserve(self.key(rng), rng.terms()),
            87..89 => Op::Sweep(self.sweep(rng, now)),
            89 => Op::LetGo(rng.owner(), rng.pick(&[LetGo::Lost, LetGo::Released])),
            90..93 => Op::Configure(rng.pick(&self.cast.topics), self.topic_change(rng)),
            93..96 => Op::Kv(self.kv(rng)),
            96..98 => Op::Get(self.key(rng)),
            _ => Op::Browse(Query {
                limit: rng.pick(&[3, 100]),
                bodies: Bodies::With,
                ..Query::all(rng.pick(&self.cast.topics))
            }),
        }
    }

    fn few<T>(&mut self, rng: &mut Rng, make: impl Fn(&mut Plan, &mut Rng) -> T) -> Vec<T> {
        let count = rng.pick(&[1, 1, 1, 1, 2, 4]);
        (0..count).map(|_| make(self, rng)).collect()
    }

    pub(super) fn new_job(&mut self, rng: &mut Rng, now: Now) -> NewJob {
        let mut job = rng.new_job(&self.cast, now.time());
        job.on_conflict = rng.pick(&[
            OnConflict::Reject,
            OnConflict::Keep,
            OnConflict::Replace,
            OnConflict::Replace,
        ]);
        job.body = self.body(rng);
        // Most are plain.
        if rng.percent(50) {
            job.spec.repeat = None;
            job.spec.target = None;
        }
        job
    }

    /// A body unlike any other, so that none can stand for another.
    fn body(&mut self, rng: &mut Rng) -> Body {
        self.bodies += 1;
        let bytes = if rng.percent(40) { rng.below(60) } else { rng.below(self.body_bytes) };
        let filler = ["a", "b", "c", "d", "e"][(self.bodies % 5) as usize];
        Body::text(format!("body {} {}", self.bodies, filler.repeat(bytes)))
    }

    fn key(&mut self, rng: &mut Rng) -> Key {
        if !self.numbers.is_empty() && rng.percent(50) {
            return Key::Number(rng.pick(&self.numbers));
        }
        Key::Named(rng.pick(&self.cast.topics), rng.pick(&self.cast.ids))
    }

    fn ask(&mut self, rng: &mut Rng) -> Ask {
        let some = (0..rng.pick(&[1, 2])).map(|_| rng.pick(&self.cast.topics)).collect();
        Ask {
            from: if rng.percent(50) { Source::Any } else { Source::These(some) },
            lane: if rng.percent(20) { Lane::Push } else { Lane::Pull },
            max: rng.pick(&[1, 1, 2, 5, 100]),
            wait: if rng.percent(60) { Duration::ZERO } else { rng.length() },
            terms: rng.terms(),
            room: None,
        }
    }

    fn settle(&mut self, rng: &mut Rng) -> Settle {
        let verdict = self.verdict(rng);
        if self.held.is_empty() {
            return Settle::key(self.key(rng), verdict);
        }
        let latest = self.held.len().saturating_sub(rng.pick(&[1, 3, HELD_MAX]));
        let (number, topic, id, lease) = rng.pick(&self.held[latest..]);
        let key = if rng.percent(50) { Key::Number(number) } else { Key::Named(topic, id) };
        let lease = rng.maybe(85, |_| lease);
        Settle { lease, report: rng.report(), by: rng.caller(), ..Settle::key(key, verdict) }
    }

    fn verdict(&mut self, rng: &mut Rng) -> Verdict {
        let short = |rng: &mut Rng| Duration::from_millis(rng.pick(&[0, 1, 500, 5_000, 90_000]));
        match rng.below(12) {
            0..4 => Verdict::Finish,
            4..6 => {
                // Long ones now and then, so that a step's records meet the end of a segment.
                let length = rng.pick(&[0, 0, ERROR_BYTES_MAX]);
                let error = format!("error {} {}", rng.below(1000), "!".repeat(length));
                Verdict::Fail { error: error.into(), retry_in: rng.maybe(50, short) }
            }
            6 => Verdict::Again { retry_in: rng.maybe(50, short) },
            7 => Verdict::Release { delay: short(rng), priority: rng.maybe(30, Rng::priority) },
            8 => Verdict::Touch { ttr: rng.maybe_ttr() },
            9 => Verdict::Leave,
            10 => Verdict::Recall,
            _ => Verdict::Bury { error: rng.maybe(50, Rng::error), priority: None },
        }
    }

    fn change(&mut self, rng: &mut Rng, now: Now) -> Change {
        let action = match rng.below(10) {
            0..5 => Action::Update(self.patch(rng, now)),
            5 => Action::Hold,
            6 => Action::Unhold,
            7 => rng.pick(&[Action::Run, Action::Redrive]),
            _ => Action::Delete(rng.pick(&[Reach::Any, Reach::Any, Reach::Unreserved])),
        };
        Change { by: rng.caller(), ..Change::new(self.key(rng), action) }
    }

    fn patch(&mut self, rng: &mut Rng, now: Now) -> Patch {
        let mut patch = rng.patch(now.time());
        patch.body = rng.maybe(50, |rng| self.body(rng));
        if rng.percent(50) {
            patch.target = Edit::Keep;
        }
        patch
    }

    fn sweep(&mut self, rng: &mut Rng, now: Now) -> Sweep {
        let all = [Bulk::Finish, Bulk::Delete, Bulk::Run, Bulk::Hold, Bulk::Unhold, Bulk::Redrive];
        Sweep {
            topic: rng.pick(&self.cast.topics),
            filter: rng.filter(&self.cast, now.time()),
            bulk: rng.pick(&all),
            limit: rng.maybe(50, |rng| rng.below(6) as u64),
            mode: Mode::Apply,
            by: rng.caller(),
        }
    }

    fn topic_change(&mut self, rng: &mut Rng) -> TopicChange {
        match rng.below(12) {
            0..6 => TopicChange::Set(Box::new(self.settings(rng))),
            6..8 => TopicChange::Pause(rng.maybe(70, |rng| rng.pick(&[SECOND, 30 * SECOND]))),
            8..10 => TopicChange::Resume,
            _ => rng.pick(&[TopicChange::Empty, TopicChange::Forget]),
        }
    }

    fn settings(&mut self, rng: &mut Rng) -> Settings {
        Settings { rate: None, ..rng.settings() }
    }

    fn kv(&mut self, rng: &mut Rng) -> KvWrite {
        let value = rng.maybe(75, |rng| {
            self.bodies += 1;
            let mut value = self.bodies.to_le_bytes().to_vec();
            value.resize(8 + rng.below(3_000), 7);
            Bytes::from(value)
        });
        let expect = rng.pick(&[Expect::Any, Expect::Any, Expect::Absent]);
        let key = rng.pick(&["k", "k/1", "k/2", "ключ"]).into();
        KvWrite { key, value, expect, ttl: rng.maybe(40, Rng::length) }
    }
}
