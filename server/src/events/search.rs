//! Looking through the log, forwards and backwards, a bounded part at a time.

use std::fmt;
use std::str::FromStr;

use linger::error::{Error, Result};
use linger::time::Time;

use super::event::{Kind, Line};
use super::{Place, Segment, Shelf};

/// How much is looked at for one answer; the next goes on from there.
const SCAN_BYTES_MAX: u64 = 16 << 20;
/// How much is read at once.
const CHUNK_BYTES: u64 = 1 << 20;

/// What is looked for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query {
    pub(crate) topic: Option<String>,
    pub(crate) id: Option<String>,
    /// Any of these; of all kinds if there is none.
    pub(crate) kinds: Vec<Kind>,
    pub(crate) since: Option<Time>,
    pub(crate) until: Option<Time>,
    /// Part of the error.
    pub(crate) error: Option<String>,
    pub(crate) order: Order,
    pub(crate) from: Option<Place>,
    pub(crate) limit: usize,
}

/// Which come first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Order {
    #[default]
    Newest,
    Oldest,
}

/// Some events.
#[derive(Debug, Default)]
pub(crate) struct Page {
    pub(crate) events: Vec<Line<'static>>,
    /// Where to go on: none if there is no more, going back.
    pub(crate) cursor: Option<Place>,
    /// Where the log ended.
    pub(crate) end: Place,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.segment, self.offset)
    }
}

impl FromStr for Place {
    type Err = Error;

    fn from_str(text: &str) -> Result<Place> {
        let parse = |text: &str| {
            let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            digits.then(|| text.parse().ok()).flatten()
        };
        let place = text.split_once('-').and_then(|(segment, offset)| {
            Some(Place { segment: parse(segment)?, offset: parse(offset)? })
        });
        place.ok_or_else(|| {
            Error::invalid("cursor", "cursor is none that a page gave; leave it out to begin")
        })
    }
}

impl Query {
    fn fits(&self, line: &Line<'_>) -> bool {
        let same = |wanted: &Option<String>, is: Option<&str>| {
            wanted.as_deref().is_none_or(|wanted| is == Some(wanted))
        };
        let within = self.since.is_none_or(|since| line.at >= since.as_ms())
            && self.until.is_none_or(|until| line.at < until.as_ms());
        let error = |wanted: &str| line.error.as_deref().is_some_and(|is| is.contains(wanted));
        within
            && same(&self.topic, line.topic.as_deref())
            && same(&self.id, line.id.as_deref())
            && (self.kinds.is_empty() || self.kinds.iter().any(|kind| kind.as_str() == line.kind))
            && self.error.as_deref().is_none_or(error)
    }

    /// The event in a line, if it fits.
    fn read(&self, bytes: &[u8], needle: Option<&str>) -> Option<Line<'static>> {
        // Most lines are of other jobs, and to look for text is cheaper than to read them.
        if let Some(needle) = needle
            && !std::str::from_utf8(bytes).is_ok_and(|text| text.contains(needle))
        {
            return None;
        }
        Line::read(bytes).filter(|line| self.fits(line)).map(Line::into_owned)
    }

    /// What every line that fits has in it, as it is written there.
    fn needle(&self) -> Option<String> {
        let text = self.id.as_ref().or(self.topic.as_ref())?;
        serde_json::to_string(text).ok()
    }

    /// Whether events of this segment may fit.
    fn may_be_in(&self, segment: &Segment) -> bool {
        self.since.is_none_or(|since| segment.span.1 >= since)
            && self.until.is_none_or(|until| segment.span.0 < until)
    }
}

/// Looks for events.
pub(super) async fn search(shelf: &Shelf, query: &Query) -> Result<Page> {
    let segments = shelf.segments().await?;
    let end = segments.last().map(Segment::end).unwrap_or_default();
    let page = match query.order {
        Order::Newest => backwards(shelf, query, &segments).await?,
        Order::Oldest => forwards(shelf, query, &segments, end).await?,
    };
    Ok(Page { end, ..page })
}

async fn forwards(shelf: &Shelf, query: &Query, segments: &[Segment], end: Place) -> Result<Page> {
    let (mut page, mut scanned) = (Page::default(), 0);
    let from = query.from.unwrap_or_default();
    let mut place = from.min(end);
    for segment in segments.iter().filter(|segment| segment.number >= from.segment) {
        let start = if segment.number == from.segment { from.offset } else { 0 };
        place = Place { segment: segment.number, offset: start };
        if !query.may_be_in(segment) {
            place = segment.end().max(place);
            continue;
        }
        while place.offset < segment.bytes {
            if scanned >= SCAN_BYTES_MAX || page.events.len() >= query.limit {
                return Ok(Page { cursor: Some(place), ..page });
            }
            let bytes = CHUNK_BYTES.min(segment.bytes - place.offset);
            let chunk = shelf.read(segment.number, place.offset, bytes).await?;
            scanned += chunk.len().max(1) as u64;
            let (found, used) =
                scan_forwards(chunk, query, query.limit - page.events.len()).await?;
            page.events.extend(found);
            // A segment that is gone meanwhile, or a line without an end.
            place.offset = if used == 0 { segment.bytes } else { place.offset + used as u64 };
        }
    }
    Ok(Page { cursor: Some(place), ..page })
}

async fn backwards(shelf: &Shelf, query: &Query, segments: &[Segment]) -> Result<Page> {
    let (mut page, mut scanned) = (Page::default(), 0);
    let from = query.from.unwrap_or(Place { segment: u64::MAX, offset: u64::MAX });
    for segment in segments.iter().rev().filter(|segment| segment.number <= from.segment) {
        if !query.may_be_in(segment) {
            continue;
        }
        let mut offset = segment.bytes;
        if segment.number == from.segment {
            offset = offset.min(from.offset);
        }
        while offset > 0 {
            let place = Place { segment: segment.number, offset };
            if scanned >= SCAN_BYTES_MAX || page.events.len() >= query.limit {
                return Ok(Page { cursor: Some(place), ..page });
            }
            let start = offset.saturating_sub(CHUNK_BYTES);
            let chunk = shelf.read(segment.number, start, offset - start).await?;
            scanned += chunk.len().max(1) as u64;
            let whole = start == 0;
            let limit = query.limit - page.events.len();
            let (found, left) = scan_backwards(chunk, query, limit, whole).await?;
            page.events.extend(found);
            let next = start + left as u64;
            offset = if next < offset { next } else { start };
        }
    }
    Ok(page)
}

/// What fits in a chunk, first to last, and how much of it was looked at.
async fn scan_forwards(
    chunk: Vec<u8>,
    query: &Query,
    limit: usize,
) -> Result<(Vec<Line<'static>>, usize)> {
    let query = query.clone();
    apart(move || {
        let (mut found, mut used, needle) = (Vec::new(), 0, query.needle());
        for line in chunk.split_inclusive(|byte| *byte == b'\n') {
            if line.last() != Some(&b'\n') || found.len() == limit {
                break;
            }
            used += line.len();
            found.extend(query.read(line, needle.as_deref()));
        }
        (found, used)
    })
    .await
}

/// What fits in a chunk, last to first, and how much of it is left. Unless it is `whole` at its
/// beginning, the first line there may not be.
async fn scan_backwards(
    chunk: Vec<u8>,
    query: &Query,
    limit: usize,
    whole: bool,
) -> Result<(Vec<Line<'static>>, usize)> {
    let query = query.clone();
    apart(move || {
        let (mut found, mut left, needle) = (Vec::new(), chunk.len(), query.needle());
        while left > 0 && found.len() < limit {
            let before = chunk[..left - 1].iter().rposition(|byte| *byte == b'\n');
            let start = match before {
                Some(at) => at + 1,
                None if whole => 0,
                None => break,
            };
            found.extend(query.read(&chunk[start..left], needle.as_deref()));
            left = start;
        }
        (found, left)
    })
    .await
}

/// Does what takes long where nobody waits for it.
async fn apart<T: Send + 'static>(what: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    super::apart(what).await
}
