//! One thing that happened, and the line it becomes.

use std::borrow::Cow;
use std::sync::Arc;

use linger::job::Id;
use linger::queue::Key;
use linger::topic::Topic;
use serde::Deserialize;

use crate::author::{Author, Front};
use crate::json::put_object;

/// The kinds of things that happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    Added,
    Replaced,
    Updated,
    Held,
    Unheld,
    Run,
    Redriven,
    Deleted,
    HandedOut,
    Touched,
    Delivered,
    Finished,
    Failed,
    Again,
    Released,
    Recalled,
    TimedOut,
    Lost,
    Died,
    Configured,
    Paused,
    Resumed,
    Emptied,
    Forgotten,
    Gap,
}

impl Kind {
    pub(crate) const ALL: [Kind; 25] = [
        Kind::Added,
        Kind::Replaced,
        Kind::Updated,
        Kind::Held,
        Kind::Unheld,
        Kind::Run,
        Kind::Redriven,
        Kind::Deleted,
        Kind::HandedOut,
        Kind::Touched,
        Kind::Delivered,
        Kind::Finished,
        Kind::Failed,
        Kind::Again,
        Kind::Released,
        Kind::Recalled,
        Kind::TimedOut,
        Kind::Lost,
        Kind::Died,
        Kind::Configured,
        Kind::Paused,
        Kind::Resumed,
        Kind::Emptied,
        Kind::Forgotten,
        Kind::Gap,
    ];

    /// The name on the wire.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Kind::Added => "added",
            Kind::Replaced => "replaced",
            Kind::Updated => "updated",
            Kind::Held => "held",
            Kind::Unheld => "unheld",
            Kind::Run => "run",
            Kind::Redriven => "redriven",
            Kind::Deleted => "deleted",
            Kind::HandedOut => "handed_out",
            Kind::Touched => "touched",
            Kind::Delivered => "delivered",
            Kind::Finished => "finished",
            Kind::Failed => "failed",
            Kind::Again => "again",
            Kind::Released => "released",
            Kind::Recalled => "recalled",
            Kind::TimedOut => "timed_out",
            Kind::Lost => "lost",
            Kind::Died => "died",
            Kind::Configured => "configured",
            Kind::Paused => "paused",
            Kind::Resumed => "resumed",
            Kind::Emptied => "emptied",
            Kind::Forgotten => "forgotten",
            Kind::Gap => "gap",
        }
    }

    /// The kind of this name.
    pub(crate) fn of(name: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.as_str() == name)
    }

    /// Whether nobody holds the job any more after it.
    pub(super) fn ends_a_lease(self) -> bool {
        matches!(
            self,
            Kind::Finished
                | Kind::Failed
                | Kind::Again
                | Kind::Released
                | Kind::Recalled
                | Kind::TimedOut
                | Kind::Lost
                | Kind::Died
                | Kind::Deleted
        )
    }
}

/// One thing that happened.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) at_ms: u64,
    pub(crate) kind: Kind,
    pub(crate) of: Of,
    /// The job's number, if it is known.
    pub(crate) number: Option<u64>,
    pub(crate) attempt: Option<u32>,
    /// From due to handed out; else how long the attempt took.
    pub(crate) latency_ms: Option<u64>,
    pub(crate) error: Option<Arc<str>>,
    /// What a receiver answered with.
    pub(crate) status: Option<u16>,
    /// How many it is of, where that is not one.
    pub(crate) count: Option<u64>,
    pub(crate) caller: Author,
}

/// What it happened to.
#[derive(Clone, Debug)]
pub(crate) enum Of {
    Job(Topic, Id),
    /// A job whose name is yet to be found.
    Number(u64),
    Topic(Topic),
    Nothing,
}

impl Of {
    pub(super) fn key(key: &Key) -> Of {
        match key {
            Key::Named(topic, id) => Of::Job(topic.clone(), id.clone()),
            Key::Number(number) => Of::Number(*number),
        }
    }
}

impl Event {
    /// That it happened, and nothing else yet.
    pub(crate) fn new(at_ms: u64, kind: Kind, of: Of, caller: Author) -> Event {
        Event {
            at_ms,
            kind,
            of,
            number: None,
            attempt: None,
            latency_ms: None,
            error: None,
            status: None,
            count: None,
            caller,
        }
    }

    /// Writes it as a line.
    pub(super) fn write(&self, node: &str, out: &mut Vec<u8>) {
        let (topic, id) = match &self.of {
            Of::Job(topic, id) => (Some(topic.as_str()), Some(id.as_str())),
            Of::Topic(topic) => (Some(topic.as_str()), None),
            Of::Number(_) | Of::Nothing => (None, None),
        };
        let caller = &self.caller;
        put_object(out, |line| {
            line.number("at", self.at_ms);
            line.text("kind", self.kind.as_str());
            line.text_if("topic", topic);
            line.text_if("id", id);
            line.number_if("number", self.number);
            line.number_if("attempt", self.attempt.map(u64::from));
            line.number_if("latency_ms", self.latency_ms);
            line.text_if("error", self.error.as_deref());
            line.number_if("status", self.status.map(u64::from));
            line.number_if("count", self.count);
            line.text("node", node);
            line.text("front", caller.front.map_or("server", Front::as_str));
            line.text_if("address", caller.address.as_deref());
            line.text_if("key", caller.key.as_deref());
        });
        out.push(b'\n');
    }
}

/// A line of the log.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Line<'a> {
    pub(crate) at: u64,
    #[serde(borrow)]
    pub(crate) kind: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(crate) topic: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(crate) id: Option<Cow<'a, str>>,
    #[serde(default)]
    pub(crate) number: Option<u64>,
    #[serde(default)]
    pub(crate) attempt: Option<u32>,
    #[serde(default)]
    pub(crate) latency_ms: Option<u64>,
    #[serde(borrow, default)]
    pub(crate) error: Option<Cow<'a, str>>,
    #[serde(default)]
    pub(crate) status: Option<u16>,
    #[serde(default)]
    pub(crate) count: Option<u64>,
    #[serde(borrow)]
    pub(crate) node: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) front: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(crate) address: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(crate) key: Option<Cow<'a, str>>,
}

impl<'a> Line<'a> {
    /// Reads a line; none if it is torn, or was written by a version that knows more.
    pub(crate) fn read(bytes: &'a [u8]) -> Option<Line<'a>> {
        serde_json::from_slice(bytes).ok()
    }

    /// The same, for longer than the bytes it was read from.
    pub(crate) fn into_owned(self) -> Line<'static> {
        let own = |text: Cow<'_, str>| Cow::Owned(text.into_owned());
        Line {
            at: self.at,
            kind: own(self.kind),
            topic: self.topic.map(own),
            id: self.id.map(own),
            number: self.number,
            attempt: self.attempt,
            latency_ms: self.latency_ms,
            error: self.error.map(own),
            status: self.status,
            count: self.count,
            node: own(self.node),
            front: own(self.front),
            address: self.address.map(own),
            key: self.key.map(own),
        }
    }
}
