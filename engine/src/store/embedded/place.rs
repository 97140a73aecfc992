//! Where records lie: segments, and places in them.

use std::sync::Arc;

use super::files::File;

/// Where a record lies. Its segment is found by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    pub(crate) segment: u32,
    pub(crate) offset: u32,
    /// The whole record, head included.
    pub(crate) len: u32,
}

/// What a segment holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Batches, as they were decided.
    Log,
    /// Records that were moved out of sparse segments. Never replayed.
    Survivors,
}

/// A file of the log. Whoever holds it keeps it from being recycled.
pub(crate) struct Segment {
    pub(crate) number: u32,
    pub(crate) kind: Kind,
    pub(crate) file: Arc<dyn File>,
}

/// A place that stays readable for as long as this lives.
#[derive(Clone)]
pub(crate) struct Pinned {
    pub(crate) segment: Arc<Segment>,
    pub(crate) place: Place,
}

/// Data begins here: the first sector is the segment's own.
pub(crate) const DATA_START: u32 = 512;

impl std::fmt::Debug for Segment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} segment {}", self.kind, self.number)
    }
}

/// The file name of a segment.
pub(crate) fn segment_name(number: u32) -> String {
    format!("segment-{number:010}")
}

/// The number in a segment's file name.
pub(crate) fn segment_number(name: &str) -> Option<u32> {
    let digits = name.strip_prefix("segment-")?;
    if digits.len() == 10 { digits.parse().ok() } else { None }
}
