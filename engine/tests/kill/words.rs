//! What the writer tells the judge: a line before each call, and one when it was answered.

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Line {
    /// About to open the folder.
    Opening,
    Open,
    /// A task is about to make this call.
    Begin(usize, Op),
    /// Its call was answered.
    End(usize, Came),
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct Name {
    pub(crate) topic: String,
    pub(crate) id: String,
}

/// A body or value, by what it is made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Text {
    pub(crate) len: usize,
    pub(crate) seed: u64,
}

impl Text {
    pub(crate) fn bytes(self) -> Vec<u8> {
        let mut chance = Chance::new(self.seed);
        let mut bytes: Vec<u8> =
            (0..self.len.div_ceil(8)).flat_map(|_| chance.next().to_le_bytes()).collect();
        bytes.truncate(self.len);
        bytes
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Op {
    /// Adds these; those whose name is taken are replaced.
    Add(Vec<(Name, Text)>),
    Pop {
        topic: String,
        local: bool,
    },
    Settle(Vec<Settled>),
    Change(Edited),
    Empty {
        topic: String,
    },
    Put {
        key: String,
        value: Option<Text>,
    },
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Settled {
    pub(crate) name: Name,
    pub(crate) number: u64,
    pub(crate) lease: u64,
    pub(crate) verb: Verb,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Verb {
    Finish,
    Fail,
    FailForLong,
    Release,
    ReleaseForLong,
    Touch,
    Bury,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Edited {
    pub(crate) name: Name,
    pub(crate) number: u64,
    pub(crate) how: How,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum How {
    Body(Text),
    PutOff,
    Priority(u32),
    Hold,
    Unhold,
    Run,
    Delete,
}

/// An answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Came {
    Added(Vec<Seen>),
    Popped(Vec<(Name, Seen, u64)>),
    /// Of each item: where it stands, none if it is gone, or the code of a refusal.
    Stands(Vec<Result<Option<Seen>, String>>),
    Emptied,
    Put(Result<u64, String>),
}

/// Where a job stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Seen {
    pub(crate) number: u64,
    pub(crate) version: u64,
    pub(crate) stage: String,
    pub(crate) due_ms: u64,
    pub(crate) priority: u32,
    pub(crate) attempt: u32,
}

/// What a writer is told of what is there.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Told {
    pub(crate) name: Name,
    pub(crate) number: u64,
    pub(crate) lease: Option<u64>,
}

/// Chance that repeats (splitmix64).
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Chance {
        Chance(mix(seed))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

fn mix(value: u64) -> u64 {
    let mixed = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

pub(crate) const TASKS: usize = 6;

pub(crate) fn own_topic(task: usize) -> String {
    format!("own-{task}")
}

pub(crate) const SHARED: &str = "shared";
