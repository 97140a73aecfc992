//! The part of a job that moves, and the states it moves through.

use crate::dice::Lease;
use crate::error::{Error, excerpt};
use crate::job::Ttr;
use crate::time::{Tick, Time};

/// The part of a job that moves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Life {
    /// Where it is.
    pub state: State,
    /// When it may run, or might have.
    pub due: Time,
    /// Smaller is sooner among ready jobs of a topic.
    pub priority: u32,
    /// Hand-outs of this occurrence that count.
    pub attempt: u32,
    /// How often it has changed.
    pub version: u64,
    /// When this occurrence was first due: what a ladder's offsets are counted from.
    pub first_due: Time,
    /// When it was first due at all: what anchors the slots of a repeat.
    pub base: Time,
    /// The slot of its repeat that this occurrence serves.
    pub slot: Time,
    /// Occurrences that ended before this one.
    pub occurrence: u32,
    /// Hand-outs of this occurrence, those included whose attempt was given back.
    pub hand_outs: u32,
    /// What happened how often.
    pub tally: Tally,
}

/// How often things happened to a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Handed out.
    pub reserves: u32,
    /// Leases that ran out.
    pub timeouts: u32,
    /// Given back.
    pub releases: u32,
    /// Put on the dead shelf by hand.
    pub buries: u32,
    /// Made ready by hand.
    pub kicks: u32,
    /// Died: the job, or occurrences of it.
    pub deaths: u32,
}

/// Where a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Not due yet, or set aside.
    Waiting {
        /// After a failure.
        retry: bool,
        /// Set aside by hand.
        held: bool,
    },
    /// Due.
    Ready,
    /// Handed out.
    Reserved(Hold),
    /// On the dead shelf.
    Dead {
        /// Since when.
        at: Time,
    },
    /// Finished and still visible.
    Finished {
        /// Since when.
        at: Time,
        /// Until when it is kept.
        until: Time,
        /// The lease it was finished with, if any held it.
        lease: Option<Lease>,
    },
}

/// Who has a job, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    /// The holder's proof.
    pub lease: Lease,
    /// When it was handed out.
    pub since: Tick,
    /// When the lease ends.
    pub until: Tick,
    /// How long it was given for.
    pub ttr: Ttr,
    /// The connection it is tied to, if any.
    pub owner: Option<Owner>,
}

/// A connection, stream or runner whose leases are let go together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner(pub u64);

/// The name of a state, as people see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// Waiting for its due time.
    Delayed,
    /// Waiting for its due time after a failure.
    Retry,
    /// Set aside by hand.
    Held,
    /// Due.
    Ready,
    /// Handed out.
    Reserved,
    /// On the dead shelf.
    Dead,
    /// Finished and still visible.
    Finished,
}

impl Life {
    /// A new job's life, due at `due`. It is ready as soon as [`super::Event::Due`] finds it so.
    pub fn new(due: Time, priority: u32, held: bool) -> Life {
        Life {
            state: State::Waiting { retry: false, held },
            due,
            priority,
            attempt: 0,
            version: 1,
            first_due: due,
            base: due,
            slot: due,
            occurrence: 0,
            hand_outs: 0,
            tally: Tally::default(),
        }
    }

    /// The state as people see it.
    pub fn stage(&self) -> Stage {
        match self.state {
            State::Waiting { held: true, .. } => Stage::Held,
            State::Waiting { retry: true, .. } => Stage::Retry,
            State::Waiting { .. } => Stage::Delayed,
            State::Ready => Stage::Ready,
            State::Reserved(_) => Stage::Reserved,
            State::Dead { .. } => Stage::Dead,
            State::Finished { .. } => Stage::Finished,
        }
    }
}

impl Stage {
    /// Every stage there is.
    pub const ALL: [Stage; 7] = [
        Stage::Delayed,
        Stage::Retry,
        Stage::Held,
        Stage::Ready,
        Stage::Reserved,
        Stage::Dead,
        Stage::Finished,
    ];

    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Stage::Delayed => "delayed",
            Stage::Retry => "retry",
            Stage::Held => "held",
            Stage::Ready => "ready",
            Stage::Reserved => "reserved",
            Stage::Dead => "dead",
            Stage::Finished => "finished",
        }
    }
}

impl std::fmt::Display for Stage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

impl std::str::FromStr for Stage {
    type Err = Error;

    fn from_str(text: &str) -> crate::error::Result<Stage> {
        Stage::ALL.into_iter().find(|stage| stage.as_str() == text).ok_or_else(|| {
            let names = Stage::ALL.map(Stage::as_str).join(", ");
            let text = excerpt(text);
            Error::invalid("state", format!("`{text}` is not a state; give one of {names}"))
        })
    }
}
