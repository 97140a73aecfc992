//! What the harness does to a store, in words that mean the same on every store.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::history::Report;
use crate::job::{Caller, Id, NewJob};
use crate::machine::Owner;
use crate::queue::{
    Action, Ask, Forecast, KvQuery, LetGo, Query, Sweep, Terms, TopicChange, Topics, Verdict,
};
use crate::topic::{Defaults, Topic};

/// One thing that is done, and what is done about pops that wait once it is.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) op: Op,
    pub(super) then: Then,
}

/// What is done about the pops that wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    /// They are polled.
    Poll,
    /// They are not: what they were given lies there unseen.
    Leave,
}

/// One call, or one move of the clock.
#[derive(Clone, Debug)]
pub(super) enum Op {
    Add(Vec<NewJob>),
    Get(Who),
    Find(Id),
    Pop(Ask),
    Reserve(Who, Terms),
    Settle(Vec<SettleOp>),
    Change(Vec<ChangeOp>),
    Sweep(Sweep),
    LetGo(Owner, LetGo),
    /// All pages of it.
    Browse(Query),
    /// One page: the first of this query, or the next of the one begun before.
    Page(Option<Box<Query>>),
    Forecast(Forecast),
    DeadByError(Topic),
    Topics(Topics),
    Configure(Topic, TopicChange),
    SetDefaults(Defaults),
    KvWrite(KvOp),
    KvRead(KvQuery),
    /// Drops one of the pops that wait.
    HangUp(usize),
    Advance(Duration),
    /// Sets the wall clock by so many milliseconds.
    Jump(i64),
}

/// A job, by what it is called: numbers may differ from store to store.
#[derive(Clone, Debug)]
pub(super) enum Who {
    Named(Topic, Id),
    /// By the number of the job added under this name, this many before the latest.
    Number(Topic, Id, usize),
}

/// What a caller shows to settle a job.
#[derive(Clone, Copy, Debug)]
pub(super) enum Proof {
    None,
    /// The lease of the job's hand-out this many before the latest.
    Lease(usize),
    /// A lease that nobody ever had.
    MadeUp,
}

#[derive(Clone, Debug)]
pub(super) struct SettleOp {
    pub(super) who: Who,
    pub(super) proof: Proof,
    pub(super) verdict: Verdict,
    pub(super) report: Option<Report>,
    pub(super) by: Option<Caller>,
}

#[derive(Clone, Debug)]
pub(super) struct ChangeOp {
    pub(super) who: Who,
    /// This far from the version it has.
    pub(super) version_off: Option<i64>,
    pub(super) action: Action,
    pub(super) by: Option<Caller>,
}

#[derive(Clone, Debug)]
pub(super) struct KvOp {
    pub(super) key: Arc<str>,
    pub(super) value: Option<Bytes>,
    pub(super) expect: ExpectOp,
    pub(super) ttl: Option<Duration>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum ExpectOp {
    Any,
    Absent,
    /// This far from the version it has.
    VersionOff(i64),
}

impl Who {
    pub(super) fn name(&self) -> (Topic, Id) {
        match self {
            Who::Named(topic, id) | Who::Number(topic, id, _) => (topic.clone(), id.clone()),
        }
    }
}

impl Op {
    /// The kind of it, for counting.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Op::Add(_) => "add",
            Op::Get(_) => "get",
            Op::Find(_) => "find",
            Op::Pop(_) => "pop",
            Op::Reserve(..) => "reserve",
            Op::Settle(_) => "settle",
            Op::Change(_) => "change",
            Op::Sweep(_) => "sweep",
            Op::LetGo(..) => "let_go",
            Op::Browse(_) | Op::Page(_) => "browse",
            Op::Forecast(_) => "forecast",
            Op::DeadByError(_) => "dead_by_error",
            Op::Topics(_) => "topics",
            Op::Configure(..) => "configure",
            Op::SetDefaults(_) => "set_defaults",
            Op::KvWrite(_) => "kv_write",
            Op::KvRead(_) => "kv_read",
            Op::HangUp(_) => "hang_up",
            Op::Advance(_) => "advance",
            Op::Jump(_) => "jump",
        }
    }
}
