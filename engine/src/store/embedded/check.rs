//! Verifies a folder without changing it.

use std::collections::HashSet;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use super::batch::{DECIDED_BYTES, HEADER_BYTES, Header, Tag, place_of, read_record};
use super::checkpoint::{Manifest, checkpoint_name, checkpoint_number, look_over};
use super::codec::{Cold, Malformed, decode_note, whole};
use super::files::{Files, Folder};
use super::format::{self, failed};
use super::inbox::Inbox;
use super::keeper::SPARE;
use super::log::Log;
use super::open::{load_checkpoint, lock, open_segment};
use super::place::{DATA_START, Kind, Place, Segment, segment_name, segment_number};
use super::scan::{Broken, End, Position, read_all, scan};
use super::space::IdHasher;
use super::state::{Around, Indexed, Segments, State};
use super::syncer::Durability;
use crate::error::{Code, Error, Result};
use crate::store::Options;
use crate::time::Bell;

/// What a check has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// What is wrong, file by file, at most [`FINDINGS_MAX`]; none in good order.
    pub damage: Vec<Finding>,
    /// How much more is wrong than is listed.
    pub damage_left_out: u64,
    /// What is odd and does no harm.
    pub warnings: Vec<String>,
    /// Jobs in all states.
    pub jobs: u64,
    /// Topics with a job, a setting or a pause.
    pub topics: u64,
    /// Keys of the key-value side.
    pub keys: u64,
    /// Files of the log and of survivors.
    pub segments: u64,
    /// How many bytes of these are still wanted.
    pub live_bytes: u64,
    /// The checkpoint in force.
    pub checkpoint: Option<String>,
    /// The file and offset at which the log ends.
    pub log_end: Option<(String, u64)>,
    /// Whether the last batch was cut short: written when the process or the power ended, and
    /// never acknowledged.
    pub is_torn: bool,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The file.
    pub file: String,
    /// Where in it, in bytes.
    pub offset: u64,
    /// What.
    pub what: String,
}

/// The most findings that are listed.
pub const FINDINGS_MAX: usize = 1000;

/// Verifies the store in this folder and changes nothing.
///
/// Reads what opening it would, and every record that a job needs. `unavailable` while another
/// process has the store open; `not_found` if there is none.
pub fn check(path: impl AsRef<Path>) -> Result<Report> {
    let path = path.as_ref();
    let what = format!("opening `{}`", path.display());
    let folder = Folder::look(path).map_err(|cause| failed(&what, cause))?;
    check_files(Arc::new(folder))
}

/// As [`check`], in these files.
pub fn check_files(files: Arc<dyn Files>) -> Result<Report> {
    let mut names = files.list().map_err(|cause| failed("listing the store", cause))?;
    names.sort();
    // To lock makes the file if it is not there; and then nobody has the store open.
    let _guard = names.iter().any(|name| name == LOCK).then(|| lock(&*files)).transpose()?;
    if !names.iter().any(|name| name == FORMAT || is_data(name)) {
        return Err(Error::new(Code::NotFound, "there is no store in the folder"));
    }
    let mut check = Check { files: &*files, report: Report::default() };
    check.run(&names)?;
    Ok(check.report)
}

const LOCK: &str = "LOCK";
const FORMAT: &str = "FORMAT";
/// Where a server keeps its event log.
const EVENTS: &str = "events";

fn is_data(name: &str) -> bool {
    segment_number(name).or(checkpoint_number(name)).is_some()
}

struct Check<'a> {
    files: &'a dyn Files,
    report: Report,
}

impl Check<'_> {
    fn run(&mut self, names: &[String]) -> Result<()> {
        let key = self.format();
        self.strangers(names);
        let segments = self.segments(names);
        let checkpoint = names.iter().filter_map(|name| checkpoint_number(name)).max();
        let mut state = blank(IdHasher::new(key.unwrap_or_default()), &segments);
        let manifest = match checkpoint.map(|number| self.checkpoint(number, &mut state)) {
            // Without it nobody can tell what the log adds, nor what is still wanted.
            Some(None) => return Ok(()),
            manifest => manifest.flatten(),
        };
        self.log(&segments, manifest, &mut state)?;
        state.replayed(now());
        self.jobs(&state, key.is_some())?;
        (self.report.topics, self.report.keys) = state.topics_and_keys();
        self.report.live_bytes = state.segments.usage().iter().map(|usage| usage.live_bytes).sum();
        Ok(())
    }

    fn wrong(&mut self, file: impl Into<String>, offset: u64, what: impl Into<String>) {
        if self.report.damage.len() == FINDINGS_MAX {
            self.report.damage_left_out += 1;
            return;
        }
        let (file, what) = (file.into(), what.into());
        self.report.damage.push(Finding { file, offset, what });
    }

    fn format(&mut self) -> Option<format::HashKey> {
        match format::read(self.files) {
            Ok(Some(key)) => return Some(key),
            Ok(None) => self.wrong(FORMAT, 0, "it is missing"),
            Err(error) => self.wrong(FORMAT, 0, error.message()),
        }
        None
    }

    fn strangers(&mut self, names: &[String]) {
        for name in names {
            let ours = [FORMAT, LOCK, EVENTS].contains(&name.as_str()) || is_data(name);
            let left_over = name.ends_with(".tmp") || name.starts_with(SPARE);
            if !ours && !left_over {
                self.report.warnings.push(format!("`{name}` is no file of the store"));
            }
        }
    }

    fn segments(&mut self, names: &[String]) -> Vec<Arc<Segment>> {
        let mut segments = Vec::new();
        for name in names {
            let Some(number) = segment_number(name) else { continue };
            self.report.segments += 1;
            match open_segment(self.files, name, number) {
                Ok(segment) => segments.push(segment),
                Err(_) => {
                    self.wrong(name, 0, "it does not begin like the segment it is named after")
                }
            }
        }
        segments
    }

    /// Takes up a checkpoint, if all of it is as it was written.
    fn checkpoint(&mut self, number: u32, state: &mut State) -> Option<Manifest> {
        let name = checkpoint_name(number);
        self.report.checkpoint = Some(name.clone());
        let before = self.report.damage.len();
        self.blocks(&name);
        if self.report.damage.len() > before {
            return None;
        }
        match load_checkpoint(self.files, number, state, now(), || ()) {
            Ok(((_, _, manifest), _)) => Some(manifest),
            Err(error) => {
                self.wrong(name, 0, error.message());
                self.earlier_checkpoints(number);
                None
            }
        }
    }

    /// What a checkpoint names in earlier ones may be what is broken.
    fn earlier_checkpoints(&mut self, newest: u32) {
        let names = self.files.list().unwrap_or_default();
        for name in names.iter().filter(|name| checkpoint_number(name).is_some_and(|n| n < newest))
        {
            self.blocks(name);
        }
    }

    fn blocks(&mut self, name: &str) {
        let looked = self
            .files
            .open(name)
            .and_then(|file| look_over(&*file, |offset, what| self.wrong(name, offset, what)));
        if let Err(cause) = looked {
            self.wrong(name, 0, cause.to_string());
        }
    }

    /// Replays the log from the checkpoint on, also past what is broken.
    fn log(
        &mut self,
        segments: &[Arc<Segment>],
        manifest: Option<Manifest>,
        state: &mut State,
    ) -> Result<()> {
        let logs: Vec<_> =
            segments.iter().filter(|segment| segment.kind == Kind::Log).cloned().collect();
        let (mut from, mut first) = (Position::default(), 1);
        if let Some(manifest) = manifest {
            (from, first) = (manifest.position, manifest.first_batch);
            let there = logs.iter().any(|segment| segment.number == from.segment);
            if !there && from.segment > 0 {
                let what = "it is missing, and the log is to be read from here on";
                self.wrong(segment_name(from.segment), from.offset.into(), what);
            }
        }
        let now = now();
        let end = loop {
            let scanned = scan(&logs, from, first, |segment, body, record| {
                state.replay(record, place_of(record, segment.number, body), now)
            });
            match scanned {
                Ok((end, _)) => break end,
                Err(Broken::Io(cause)) => return Err(failed("reading the log", cause)),
                Err(Broken::Corrupt { segment, offset, what }) => {
                    self.wrong(segment_name(segment), offset.into(), what);
                    let broken = Position { segment, offset: offset.max(DATA_START) };
                    match next_batch(&logs, broken)
                        .map_err(|cause| failed("reading the log", cause))?
                    {
                        Some((next, batch)) => (from, first) = (next, batch),
                        None => return Ok(()),
                    }
                }
            }
        };
        if let Some(manifest) = manifest
            && end.batch < manifest.last_batch
        {
            let (found, known) = (end.batch, manifest.last_batch);
            let what = format!("the log ends with batch {found}, and the checkpoint knows {known}");
            self.wrong(segment_name(end.position.segment), end.position.offset.into(), what);
        }
        self.end(&logs, end).map_err(|cause| failed("reading the log", cause))
    }

    fn end(&mut self, logs: &[Arc<Segment>], end: End) -> io::Result<()> {
        let Position { segment, offset } = end.position;
        let Some(last) = logs.iter().find(|one| one.number == segment) else { return Ok(()) };
        self.report.log_end = Some((segment_name(segment), offset.into()));
        let mut head = [0; HEADER_BYTES];
        last.file.read_at(&mut head, offset.into())?;
        // Its records did not all get there: otherwise it would be the last batch.
        let next = Header::read(&head, segment).filter(|header| header.batch == end.batch + 1);
        self.report.is_torn = next.is_some();
        Ok(())
    }

    /// Reads every record that a job needs.
    fn jobs(&mut self, state: &State, hashes: bool) -> Result<()> {
        let (mut names, mut numbers) = (HashSet::new(), HashSet::new());
        for job in state.indexed() {
            self.report.jobs += 1;
            let number = job.number;
            if !names.insert((job.topic, job.id)) {
                let what = format!("job {number} has the topic and id of another");
                self.wrong(segment_name(job.cold.segment), job.cold.offset.into(), what);
            }
            if !numbers.insert(number) {
                let what = format!("there are two jobs with number {number}");
                self.wrong(segment_name(job.cold.segment), job.cold.offset.into(), what);
            }
            self.cold(state, &job, hashes);
            for note in job.notes {
                self.note(state, number, *note);
            }
        }
        Ok(())
    }

    fn cold(&mut self, state: &State, job: &Indexed<'_>, hashes: bool) {
        let Some(payload) = self.record(state, Tag::Cold, job.number, job.cold) else { return };
        let what = match Cold::decode(payload.slice(DECIDED_BYTES..)) {
            Err(Malformed(what)) => what,
            Ok(cold) if cold.spec.topic != *job.topic => "it is of another topic",
            Ok(cold) if hashes && state.hash(&cold.spec.id) != job.id => "it has another id",
            Ok(cold) if job.is_missized(cold.body.as_bytes().len()) => {
                "its body is of another length"
            }
            Ok(_) => return,
        };
        let what = format!("what job {} was added with: {what}", job.number);
        self.wrong(segment_name(job.cold.segment), job.cold.offset.into(), what);
    }

    fn note(&mut self, state: &State, number: u64, place: Place) {
        let Some(payload) = self.record(state, Tag::Note, number, place) else { return };
        if let Err(Malformed(what)) = whole(&payload, decode_note) {
            let what = format!("an entry of the history of job {number}: {what}");
            self.wrong(segment_name(place.segment), place.offset.into(), what);
        }
    }

    /// The payload of a record that a job needs.
    fn record(&mut self, state: &State, tag: Tag, number: u64, place: Place) -> Option<Bytes> {
        match read(state, tag, number, place) {
            Ok(payload) => Some(payload),
            Err(what) => {
                let what = format!("the {tag:?} record of job {number}: {what}").to_lowercase();
                self.wrong(segment_name(place.segment), place.offset.into(), what);
                None
            }
        }
    }
}

fn read(state: &State, tag: Tag, number: u64, place: Place) -> Result<Bytes, String> {
    let segment = state.segments.get(place.segment).ok_or("its segment is missing")?;
    let size = segment.file.size().map_err(|cause| cause.to_string())?;
    if u64::from(place.offset) + u64::from(place.len) > size {
        return Err("it lies beyond the end of the file".into());
    }
    let mut buf = vec![0; place.len as usize];
    segment.file.read_at(&mut buf, place.offset.into()).map_err(|cause| cause.to_string())?;
    let found = read_record(&buf, segment.number).ok_or("its check does not hold")?;
    if (found.number, found.tag, found.len) != (number, tag, buf.len()) {
        return Err("another record lies there".into());
    }
    let head = buf.len() - found.payload.len();
    Ok(Bytes::from(buf).slice(head..))
}

/// The first whole header of a batch after what is broken.
fn next_batch(logs: &[Arc<Segment>], broken: Position) -> io::Result<Option<(Position, u64)>> {
    for segment in logs.iter().filter(|segment| segment.number >= broken.segment) {
        let bytes = read_all(segment)?;
        let begin = if segment.number == broken.segment { broken.offset + 1 } else { DATA_START };
        for at in begin as usize..bytes.len() {
            if let Some(header) = Header::read(&bytes[at..], segment.number) {
                let next = Position { segment: segment.number, offset: at as u32 };
                return Ok(Some((next, header.batch)));
            }
        }
    }
    Ok(None)
}

/// A state that nobody works with.
pub(crate) fn blank(hasher: IdHasher, found: &[Arc<Segment>]) -> State {
    let options = Options::default();
    let keeper = Arc::new(Bell::default());
    let inbox = Arc::new(Inbox::new(keeper.clone(), options.clock.clone()));
    let log = Log::new(Arc::default(), Arc::default(), u32::MAX, Durability::Sync);
    let mut segments = Segments::default();
    found.iter().for_each(|segment| segments.insert(segment.clone()));
    let space = Arc::default();
    State::new(&options, Around { log, segments, inbox, space, hasher, keeper })
}

fn now() -> crate::time::Now {
    Options::default().clock.now()
}

impl Report {
    /// Whether nothing is wrong.
    pub fn is_in_order(&self) -> bool {
        self.damage.is_empty()
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` at byte {}: {}", self.file, self.offset, self.what)
    }
}

/// A line for each finding and warning, and one that sums it up.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for finding in &self.damage {
            writeln!(f, "damage: {finding}")?;
        }
        if self.damage_left_out > 0 {
            writeln!(f, "damage: {} more", self.damage_left_out)?;
        }
        for warning in &self.warnings {
            writeln!(f, "warning: {warning}")?;
        }
        if let (true, Some((file, offset))) = (self.is_torn, &self.log_end) {
            writeln!(
                f,
                "the last batch, in `{file}` at byte {offset}, was cut short and is left out"
            )?;
        }
        let order = if self.is_in_order() { "in good order" } else { "damaged" };
        write!(
            f,
            "{order}: {} jobs, {} topics, {} keys in {} segments with {} live bytes",
            self.jobs, self.topics, self.keys, self.segments, self.live_bytes
        )
    }
}
