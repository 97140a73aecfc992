//! The event log: every add, change, hand-out, outcome, cancel and death, for as long as it is set to be
//! kept after the job is gone.
//!
//! What happens is taken down by the store that a server has (`server/src/store.rs`), in memory and without
//! waiting (`Recorder`). One task writes it, some at a time: to files in the store's folder, or to the
//! Redis that is the store, where the events of all instances stand in one log. When it cannot keep up,
//! events are dropped, counted, and the log says so; the queue never waits for its log.

mod event;
mod folder;
mod recorder;
mod search;
mod sums;

pub(crate) use event::{Kind, Line};
pub(crate) use recorder::{Asked, Recorder, kind_of_change, unnamed};
pub(crate) use search::{Order, Page, Query};
pub(crate) use sums::{Hour, Kinds};

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use linger::error::{Code, Error, Result};
use linger::job::Id;
use linger::queue::Queue;
use linger::store::redis::{Append, Counted, Redis};
use linger::time::{Time, duration_ms};
use linger::topic::Topic;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::event::{Event, Of};
use self::folder::{Bounds, Folder};
use self::recorder::hour_of;
use crate::author::Author;
use crate::config::{self, Place as StorePlace};
use crate::store::Store;

/// How long events are gathered before they are written.
const GATHER: Duration = Duration::from_millis(20);
/// The most events that are written in one go.
const BATCH_EVENTS_MAX: usize = 2048;
/// How many moves that nobody was told of are asked for at once.
const MOVES_MAX: usize = 1000;
/// At a stop: nothing happens any more when this long nothing comes.
const LAST_WAIT: Duration = Duration::from_millis(100);
/// How often a shared log is looked at for events of others.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How often what could not be written is tried again, and after how long.
const TRIES_MAX: usize = 5;
const TRY_AFTER: Duration = Duration::from_millis(500);
/// Of so many jobs that are handed out the names are known; then the oldest half is forgotten.
const NAMES_MAX: usize = 500_000;
/// The most that a piece of the log has on Redis, which may copy it when it grows.
const REDIS_SEGMENT_BYTES: u64 = 1 << 20;

/// A place in the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    segment: u64,
    offset: u64,
}

/// A piece of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    number: u64,
    /// The first and the last moment that it tells of.
    span: (Time, Time),
    bytes: u64,
}

impl Segment {
    fn end(&self) -> Place {
        Place { segment: self.number, offset: self.bytes }
    }
}

/// Events that are written together.
pub(crate) struct Batch {
    events: Vec<Event>,
    lines: Vec<u8>,
    span: (Time, Time),
}

impl Batch {
    /// Written into `lines`, which are empty; none if there is nothing to write.
    fn of(events: Vec<Event>, mut lines: Vec<u8>, node: &str) -> Option<Batch> {
        lines.reserve(events.len() * 192);
        events.iter().for_each(|event| event.write(node, &mut lines));
        let time = |ms: u64| Time::from_ms(ms).unwrap_or(Time::MAX);
        let first = events.iter().map(|event| event.at_ms).min()?;
        let last = events.iter().map(|event| event.at_ms).max()?;
        Some(Batch { events, lines, span: (time(first), time(last)) })
    }

    /// How many events are lost with it, and how many its gaps stand for.
    fn lost(&self) -> (u64, u64) {
        let gaps = self.events.iter().filter(|event| event.kind == Kind::Gap);
        let in_gaps = gaps.clone().filter_map(|gap| gap.count).sum();
        ((self.events.len() - gaps.count()) as u64, in_gaps)
    }
}

/// Where the log is.
enum Shelf {
    Folder(Arc<Folder>),
    Redis { store: Arc<Store>, bounds: Bounds, writer: String, turn: AtomicU64 },
}

impl Shelf {
    async fn segments(&self) -> Result<Vec<Segment>> {
        match self {
            Shelf::Folder(folder) => Ok(folder.segments()),
            Shelf::Redis { store, .. } => {
                let segments = redis(store)?.log_segments().await?;
                let segment = |one: linger::store::redis::Segment| Segment {
                    number: one.number,
                    span: one.span,
                    bytes: one.bytes,
                };
                Ok(segments.into_iter().map(segment).collect())
            }
        }
    }

    async fn read(&self, segment: u64, from: u64, bytes: u64) -> Result<Vec<u8>> {
        match self {
            Shelf::Folder(folder) => {
                let folder = folder.clone();
                let read = apart(move || folder.read(segment, from, bytes)).await?;
                read.map_err(|cause| {
                    Error::new(Code::StorageFailed, "the event log cannot be read").because(cause)
                })
            }
            Shelf::Redis { store, .. } => {
                Ok(redis(store)?.log_read(segment, from, bytes).await?.into())
            }
        }
    }

    async fn sums(&self, hour: Time) -> Result<Hour> {
        match self {
            Shelf::Folder(folder) => {
                let folder = folder.clone();
                apart(move || folder.sums(hour)).await
            }
            Shelf::Redis { store, .. } => {
                let mut sums = Hour::new();
                for (topic, what, by) in redis(store)?.log_sums(hour).await? {
                    sums::add_part(&mut sums, &topic, &what, by);
                }
                Ok(sums)
            }
        }
    }

    /// Writes, or says why not; what it was written from is given back to be used again.
    async fn append(&self, batch: Batch, now: Time) -> anyhow::Result<Batch> {
        match self {
            Shelf::Folder(folder) => {
                let folder = folder.clone();
                Ok(apart(move || folder.append(&batch, now).map(|()| batch)).await??)
            }
            Shelf::Redis { store, bounds, writer, turn } => {
                let append = Append {
                    writer: writer.clone(),
                    turn: turn.fetch_add(1, Ordering::Relaxed),
                    bytes_max: bounds.bytes,
                    segment_bytes_max: bounds.segment_bytes(REDIS_SEGMENT_BYTES),
                    keep_ms: duration_ms(bounds.keep),
                    span: batch.span,
                    sums: counted(&batch.events),
                    lines: batch.lines,
                };
                append_to_redis(redis(store)?, append).await?;
                Ok(Batch { lines: Vec::new(), ..batch })
            }
        }
    }
}

fn redis(store: &Store) -> Result<&Redis> {
    store.redis().ok_or_else(|| Error::new(Code::Unavailable, "the store is not on Redis"))
}

/// Tries until it is written, which is never done twice; while Redis is away events wait in memory.
async fn append_to_redis(redis: &Redis, append: Append) -> anyhow::Result<()> {
    let mut tries = 1;
    loop {
        match redis.log_append(append.clone()).await {
            Ok(()) => return Ok(()),
            Err(why) if why.code() != Code::Unavailable || tries == TRIES_MAX => Err(why)?,
            Err(_) => tokio::time::sleep(TRY_AFTER).await,
        }
        tries += 1;
    }
}

/// What a batch adds to the sums.
fn counted(events: &[Event]) -> Vec<Counted> {
    let mut hours: HashMap<Time, Hour> = HashMap::new();
    for event in events {
        sums::count_event(hours.entry(hour_of(event.at_ms)).or_default(), event);
    }
    let mut counted = Vec::new();
    for (hour, topics) in hours {
        for (topic, kinds) in topics {
            for (kind, tally) in kinds {
                let parts = tally.parts().into_iter().filter(|(_, by)| *by > 0);
                counted.extend(parts.map(|(part, by)| {
                    let what = format!("{} {part}", kind.as_str());
                    Counted { hour, topic: topic.clone(), what, by }
                }));
            }
        }
    }
    counted
}

/// Does what takes long on a thread that may wait.
async fn apart<T: Send + 'static>(what: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    let done = tokio::task::spawn_blocking(what).await;
    done.map_err(|_| Error::new(Code::Unavailable, "the server is stopping"))
}

/// The log of a store.
pub(crate) struct Events {
    shelf: Shelf,
    recorder: Arc<Recorder>,
    store: Arc<Store>,
    keep: Duration,
    node: Arc<str>,
    /// How many events were written, for those who wait for more.
    written: watch::Sender<u64>,
}

/// Writes the log until it is stopped.
pub(crate) struct Writing {
    hearing: (CancellationToken, JoinHandle<()>),
    writing: (CancellationToken, JoinHandle<()>),
}

impl Events {
    /// The log of this store, and its writer. Must be called where tasks can be spawned.
    pub(crate) fn start(
        store: &Arc<Store>,
        recorder: Arc<Recorder>,
        settings: &config::Events,
        place: &StorePlace,
        node: &str,
    ) -> anyhow::Result<(Arc<Events>, Writing)> {
        let bounds = |bytes: usize| Bounds { keep: settings.keep, bytes: bytes as u64 };
        let shelf = match place {
            StorePlace::Folder(path) => {
                let path = std::path::Path::new(path).join("events");
                Shelf::Folder(Arc::new(Folder::open(path, bounds(settings.size))?))
            }
            StorePlace::Redis(_) => Shelf::Redis {
                store: store.clone(),
                bounds: bounds(settings.redis_size),
                // Each run counts its turns anew.
                writer: uuid(),
                turn: AtomicU64::new(0),
            },
        };
        let events = Arc::new(Events {
            shelf,
            recorder,
            store: store.clone(),
            keep: settings.keep,
            node: node.into(),
            written: watch::Sender::new(0),
        });
        let [heard, written] = [(); 2].map(|()| CancellationToken::new());
        let hearing = tokio::spawn(events.clone().hear(heard.clone()));
        let writing = tokio::spawn(events.clone().write(written.clone()));
        let writing = Writing { hearing: (heard, hearing), writing: (written, writing) };
        Ok((events, writing))
    }

    /// Events that are there, or come while it is waited for them.
    pub(crate) async fn page(&self, mut query: Query, wait: Duration) -> Result<Page> {
        let until = Instant::now() + wait;
        let oldest = self.now().saturating_sub_ms(duration_ms(self.keep));
        query.since = Some(query.since.map_or(oldest, |since| since.max(oldest)));
        let mut written = self.written.subscribe();
        loop {
            written.mark_unchanged();
            let page = search::search(&self.shelf, &query).await?;
            let is_over = !page.events.is_empty() || Instant::now() >= until;
            if query.order == Order::Newest || is_over {
                return Ok(page);
            }
            query.from = page.cursor;
            if page.cursor < Some(page.end) {
                continue;
            }
            let look = match self.shelf {
                Shelf::Folder(_) => until,
                Shelf::Redis { .. } => until.min(Instant::now() + LOOK_EVERY),
            };
            tokio::select! {
                _ = written.changed() => {}
                () = tokio::time::sleep_until(look) => {}
            }
        }
    }

    /// The sums of an hour.
    pub(crate) async fn sums(&self, hour: Time) -> Result<Hour> {
        self.shelf.sums(hour).await
    }

    /// The clock of the log.
    pub(crate) fn now(&self) -> Time {
        self.store.clock().now().time()
    }

    /// How long events are kept.
    pub(crate) fn keep(&self) -> Duration {
        self.keep
    }

    /// How many events were written and dropped since the start.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (*self.written.borrow(), self.recorder.dropped())
    }

    /// Takes down what nobody was told of.
    async fn hear(self: Arc<Self>, stopping: CancellationToken) {
        loop {
            let moves = tokio::select! {
                biased;
                moves = self.store.moved(MOVES_MAX) => moves,
                () = async {
                    stopping.cancelled().await;
                    tokio::time::sleep(LAST_WAIT).await;
                } => return,
            };
            match moves {
                Ok(moves) => self.recorder.moved(moves),
                // The store has stopped.
                Err(_) => return,
            }
        }
    }

    async fn write(self: Arc<Self>, stopping: CancellationToken) {
        let (mut names, mut spare) = (Names::default(), (Vec::new(), Vec::new()));
        let mut said = false;
        loop {
            let is_last = tokio::select! {
                biased;
                () = stopping.cancelled() => true,
                () = self.recorder.bell.notified() => false,
            };
            if !is_last {
                tokio::time::sleep(GATHER).await;
            }
            let (events, dropped) = self.recorder.take(std::mem::take(&mut spare.0));
            let now = self.now();
            let named = apart(move || (named(events, dropped, &mut names, now), names));
            let Ok((events, known)) = named.await else { return };
            names = known;
            for events in in_parts(events) {
                let (node, lines) = (self.node.clone(), std::mem::take(&mut spare.1));
                let Ok(batch) = apart(move || Batch::of(events, lines, &node)).await else {
                    return;
                };
                let Some(batch) = batch else { continue };
                let (count, (lost, in_gaps)) = (batch.events.len() as u64, batch.lost());
                match self.shelf.append(batch, now).await {
                    Ok(mut batch) => {
                        said = false;
                        self.written.send_modify(|written| *written += count);
                        batch.events.clear();
                        batch.lines.clear();
                        spare = (batch.events, batch.lines);
                    }
                    Err(why) => {
                        self.recorder.count_lost(lost, in_gaps);
                        if !std::mem::replace(&mut said, true) {
                            tracing::warn!("events are not logged: {why:#}");
                        }
                    }
                }
            }
            if is_last {
                break;
            }
        }
        if let Shelf::Folder(folder) = &self.shelf {
            let (folder, now) = (folder.clone(), self.now());
            if let Ok(Err(why)) = apart(move || folder.close(now)).await {
                tracing::warn!("the sums of events are not written down: {why}");
            }
        }
    }
}

impl Writing {
    /// Writes what has happened by now, and no more.
    pub(crate) async fn stop(self) {
        // What is heard last is still to be written. A panic there has been printed.
        for (stopping, task) in [self.hearing, self.writing] {
            stopping.cancel();
            let _ = task.await;
        }
    }
}

/// The names of jobs that are handed out, by their numbers: some are settled by these alone.
#[derive(Default)]
struct Names {
    young: HashMap<u64, (Topic, Id)>,
    old: HashMap<u64, (Topic, Id)>,
}

impl Names {
    /// Gives an event the name of its job.
    fn see_to(&mut self, event: &mut Event) {
        if let Of::Number(number) = event.of
            && let Some((topic, id)) = self.get(number)
        {
            event.of = Of::Job(topic, id);
        }
        match (&event.of, event.number) {
            (Of::Job(topic, id), Some(number)) if event.kind == Kind::HandedOut => {
                if self.young.len() >= NAMES_MAX / 2 {
                    self.old = std::mem::take(&mut self.young);
                }
                self.young.insert(number, (topic.clone(), id.clone()));
            }
            (_, Some(number)) if event.kind.ends_a_lease() => {
                let _ = self.young.remove(&number).or_else(|| self.old.remove(&number));
            }
            _ => {}
        }
    }

    fn get(&self, number: u64) -> Option<(Topic, Id)> {
        self.young.get(&number).or_else(|| self.old.get(&number)).cloned()
    }
}

/// What is to be written, each with the name of its job; a gap is told first.
fn named(mut events: Vec<Event>, dropped: u64, names: &mut Names, now: Time) -> Vec<Event> {
    if dropped > 0 {
        let gap = Event::new(now.as_ms(), Kind::Gap, Of::Nothing, Author::default());
        events.insert(0, Event { count: Some(dropped), ..gap });
    }
    let mut events = births_first(events);
    for at in 0..events.len() {
        let (before, rest) = events.split_at_mut(at);
        let event = &mut rest[0];
        match (&event.of, before.last()) {
            // One that died is told twice, and after the first time its name is not known any more.
            (Of::Number(number), Some(last)) if last.number == Some(*number) => {
                event.of = last.of.clone();
            }
            _ => names.see_to(event),
        }
    }
    events
}

/// The same in parts that are written one after the other.
fn in_parts(events: Vec<Event>) -> impl Iterator<Item = Vec<Event>> {
    // Most often they are one, which stays as it is.
    let (whole, many) =
        if events.len() <= BATCH_EVENTS_MAX { (Some(events), Vec::new()) } else { (None, events) };
    let mut many = many.into_iter();
    let parts = std::iter::from_fn(move || {
        (many.len() > 0).then(|| many.by_ref().take(BATCH_EVENTS_MAX).collect())
    });
    whole.into_iter().chain(parts)
}

/// The same, with jobs added before anything else happens to them: whoever waits for a job may have it,
/// and have told so, before the one who added it is answered.
fn births_first(mut events: Vec<Event>) -> Vec<Event> {
    let is_birth = |event: &Event| matches!(event.kind, Kind::Added | Kind::Replaced);
    // Most often there is nothing to see to: all are added, or none is.
    let others = events.iter().position(|event| !is_birth(event)).unwrap_or(events.len());
    if !events[others..].iter().any(is_birth) {
        return events;
    }
    let mut first: HashMap<u64, usize> = HashMap::with_capacity(events.len() - others);
    let mut order: Vec<usize> = (0..events.len()).map(|at| 2 * at + 1).collect();
    let mut is_right = true;
    for (at, event) in events.iter().enumerate().skip(others) {
        let Some(number) = event.number else { continue };
        if !is_birth(event) {
            first.entry(number).or_insert(at);
        } else if let Some(earlier) = first.get(&number) {
            order[at] = 2 * earlier;
            is_right = false;
        }
    }
    if !is_right {
        let mut places = order.into_iter();
        events.sort_by_cached_key(|_| places.next().expect("each has one"));
    }
    events
}

/// A name that nobody else has.
fn uuid() -> String {
    let now = linger::time::Clock::now(&linger::time::SystemClock::new()).time();
    linger::job::made_id(now).as_str().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_added_before_anything_else_happens_to_it() {
        let event = |kind, number| {
            let event = Event::new(0, kind, Of::Nothing, Author::default());
            Event { number: Some(number), ..event }
        };
        let told = vec![
            event(Kind::Added, 1),
            event(Kind::HandedOut, 2),
            event(Kind::Finished, 2),
            event(Kind::HandedOut, 1),
            event(Kind::Added, 2),
            event(Kind::Finished, 1),
        ];
        let right = [
            (Kind::Added, 1),
            (Kind::Added, 2),
            (Kind::HandedOut, 2),
            (Kind::Finished, 2),
            (Kind::HandedOut, 1),
            (Kind::Finished, 1),
        ];
        let told = births_first(told).into_iter();
        let told: Vec<_> = told.map(|event| (event.kind, event.number.unwrap())).collect();
        assert_eq!(told, right);
    }

    #[test]
    fn what_is_too_much_for_one_go_comes_in_parts_and_in_order() {
        let events = |count: usize| {
            let event = |at| Event::new(at, Kind::Added, Of::Nothing, Author::default());
            (0..count as u64).map(event).collect()
        };
        let sizes = |count| in_parts(events(count)).map(|part| part.len()).collect::<Vec<_>>();
        assert_eq!(sizes(BATCH_EVENTS_MAX), [BATCH_EVENTS_MAX]);
        assert_eq!(sizes(BATCH_EVENTS_MAX * 2 + 1), [BATCH_EVENTS_MAX, BATCH_EVENTS_MAX, 1]);
        let told = in_parts(events(5000)).flatten().map(|event| event.at_ms);
        assert!(told.eq(0..5000));
    }
}
