//! The log in a folder: lines in files, one after the other, and a file with the sums of each hour.
//!
//! Nothing is synced: a log is of no use to a machine that has lost its power a moment ago, and syncs
//! would be in the way of those that jobs wait for. A line that was torn is cut off at the next start.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use linger::time::{Time, duration_ms};
use serde::{Deserialize, Serialize};

use super::event::{Event, Line};
use super::recorder::hour_of;
use super::sums::{self, Hour, Kinds, Tally};
use super::{Batch, Place, Segment};

/// How often the sums are written down. What a crash makes uncertain is read again, before anything is
/// served.
const SUMS_EVERY: Duration = Duration::from_secs(10);
/// Nothing is logged while the disk has no more room than this: jobs need it more.
const FREE_BYTES_MIN: u64 = 256 << 20;
/// How much of a file's end is read to find its last line.
const TAIL_BYTES: u64 = 64 << 10;
const HOUR_MS: u64 = 3_600_000;

/// How much is kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) keep: Duration,
    pub(crate) bytes: u64,
}

impl Bounds {
    /// The log comes in pieces, of which the oldest goes: of so many bytes.
    pub(super) fn segment_bytes(self, most: u64) -> u64 {
        (self.bytes / 64).clamp(16 << 10, most)
    }
}

/// A log in a folder.
pub(crate) struct Folder {
    path: PathBuf,
    bounds: Bounds,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    segments: Vec<Segment>,
    /// The last of them, if it is being written.
    open: Option<File>,
    /// The sums of the last hours, and whether they are written down.
    hours: BTreeMap<Time, (Hour, bool)>,
    written_down: Option<Instant>,
}

impl Folder {
    /// The log in this folder, which is made if it is not there.
    pub(crate) fn open(path: PathBuf, bounds: Bounds) -> io::Result<Folder> {
        fs::create_dir_all(&path)?;
        let mut state = State { segments: segments_in(&path)?, ..State::default() };
        if let Some(last) = state.segments.last_mut() {
            cut_torn_line(&path, last)?;
        }
        let folder = Folder { path, bounds, state: Mutex::new(state) };
        folder.count_again()?;
        Ok(folder)
    }

    /// Writes events.
    pub(super) fn append(&self, batch: &Batch, now: Time) -> io::Result<()> {
        if free_bytes(&self.path)? < FREE_BYTES_MIN {
            return Err(io::Error::other(
                "there is little room left on the disk, and jobs need it",
            ));
        }
        let state = &mut *self.state();
        let bytes = batch.lines.len() as u64;
        let most = self.bounds.segment_bytes(16 << 20);
        let is_full = |last: &Segment| last.bytes > 0 && last.bytes + bytes > most;
        if state.segments.last().is_none_or(is_full) {
            state.begin(&self.path, batch.span.0)?;
        }
        let last = state.segments.last_mut().expect("there is one");
        let file = match &mut state.open {
            Some(file) => file,
            none => {
                none.insert(OpenOptions::new().append(true).open(file_of(&self.path, last.number))?)
            }
        };
        if let Err(cause) = file.write_all(&batch.lines) {
            // Part of it may be there: the next begins elsewhere.
            state.open = None;
            let _ = cut_to(&self.path, last);
            return Err(cause);
        }
        last.bytes += bytes;
        last.span = (last.span.0.min(batch.span.0), last.span.1.max(batch.span.1));
        for event in &batch.events {
            self.count(state, event);
        }
        self.let_go(state, now)?;
        if state.written_down.is_none_or(|at| at.elapsed() >= SUMS_EVERY) {
            self.write_sums(state, now)?;
        }
        Ok(())
    }

    fn count(&self, state: &mut State, event: &Event) {
        let (sums, is_written) = self.hour(state, hour_of(event.at_ms));
        sums::count_event(sums, event);
        *is_written = false;
    }

    /// The sums of an hour, read if they were written down before.
    fn hour<'a>(&self, state: &'a mut State, hour: Time) -> &'a mut (Hour, bool) {
        state.hours.entry(hour).or_insert_with(|| {
            let kept = Kept::read(&sums_file(&self.path, hour));
            (kept.map(|kept| kept.hour()).unwrap_or_default(), true)
        })
    }

    /// Lets go of what is too much or too old.
    fn let_go(&self, state: &mut State, now: Time) -> io::Result<()> {
        let oldest = now.saturating_sub_ms(duration_ms(self.bounds.keep));
        let mut bytes: u64 = state.segments.iter().map(|segment| segment.bytes).sum();
        while state.segments.len() > 1 {
            let first = state.segments[0];
            if bytes <= self.bounds.bytes && first.span.1 >= oldest {
                break;
            }
            remove_file(&file_of(&self.path, first.number))?;
            state.segments.remove(0);
            bytes -= first.bytes;
        }
        Ok(())
    }

    /// Writes the sums down, and how much of the log they are of.
    fn write_sums(&self, state: &mut State, now: Time) -> io::Result<()> {
        let through = state.end();
        for (hour, (sums, is_written)) in &mut state.hours {
            if !*is_written {
                Kept::of(sums, through).write(&sums_file(&self.path, *hour))?;
                *is_written = true;
            }
        }
        state.written_down = Some(Instant::now());
        // The one before is still counted into at the turn of the hour.
        let recent = hour_of(now.as_ms()).saturating_sub_ms(HOUR_MS);
        state.hours.retain(|hour, _| *hour >= recent);
        let oldest = now.saturating_sub_ms(duration_ms(self.bounds.keep) + HOUR_MS);
        for hour in hours_in(&self.path)?.into_iter().filter(|hour| *hour < oldest) {
            remove_file(&sums_file(&self.path, hour))?;
        }
        Ok(())
    }

    /// Writes down what is only in memory.
    pub(super) fn close(&self, now: Time) -> io::Result<()> {
        self.write_sums(&mut self.state(), now)
    }

    /// Counts what was written after the sums were last written down.
    fn count_again(&self) -> io::Result<()> {
        let mut known = BTreeMap::new();
        for hour in hours_in(&self.path)?.into_iter().rev().take(2) {
            if let Some(kept) = Kept::read(&sums_file(&self.path, hour)) {
                known.insert(hour, kept.through());
            }
        }
        let from = known.values().copied().min().unwrap_or_default();
        let segments: Vec<Segment> = self.segments();
        for segment in segments.iter().filter(|segment| segment.number >= from.segment) {
            let bytes = fs::read(file_of(&self.path, segment.number))?;
            let mut offset = 0;
            for line in bytes.split_inclusive(|byte| *byte == b'\n') {
                let place = Place { segment: segment.number, offset };
                offset += line.len() as u64;
                let Some(line) = Line::read(line) else { continue };
                let hour = hour_of(line.at);
                if place >= known.get(&hour).copied().unwrap_or(from) {
                    let state = &mut *self.state();
                    let (sums, is_written) = self.hour(state, hour);
                    sums::count_line(sums, &line);
                    *is_written = false;
                }
            }
        }
        Ok(())
    }

    /// The segments there are, oldest first.
    pub(super) fn segments(&self) -> Vec<Segment> {
        self.state().segments.clone()
    }

    /// Up to so many bytes of a segment; none of one that is gone.
    pub(super) fn read(&self, segment: u64, from: u64, bytes: u64) -> io::Result<Vec<u8>> {
        let file = match File::open(file_of(&self.path, segment)) {
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            file => file?,
        };
        let (mut buf, mut read) = (vec![0; bytes as usize], 0);
        while read < buf.len() {
            match file.read_at(&mut buf[read..], from + read as u64)? {
                0 => break,
                more => read += more,
            }
        }
        buf.truncate(read);
        Ok(buf)
    }

    /// The sums of an hour.
    pub(super) fn sums(&self, hour: Time) -> Hour {
        if let Some((sums, _)) = self.state().hours.get(&hour) {
            return sums.clone();
        }
        Kept::read(&sums_file(&self.path, hour)).map(|kept| kept.hour()).unwrap_or_default()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics holding it")
    }
}

impl State {
    fn begin(&mut self, path: &Path, at: Time) -> io::Result<()> {
        self.open = None;
        let number = self.segments.last().map_or(1, |last| last.number + 1);
        let file = OpenOptions::new().append(true).create_new(true).open(file_of(path, number))?;
        self.open = Some(file);
        self.segments.push(Segment { number, span: (at, at), bytes: 0 });
        Ok(())
    }

    fn end(&self) -> Place {
        let last = self.segments.last();
        last.map(|last| Place { segment: last.number, offset: last.bytes }).unwrap_or_default()
    }
}

/// The sums of an hour in their file.
#[derive(Deserialize, Serialize)]
struct Kept {
    /// Up to where the log is counted: segment and offset.
    through: (u64, u64),
    /// By topic and kind: count, errors, with a latency, the sum of these.
    topics: BTreeMap<String, BTreeMap<String, [u64; 4]>>,
}

impl Kept {
    fn of(hour: &Hour, through: Place) -> Kept {
        let kept = |tally: &Tally| tally.parts().map(|(_, sum)| sum);
        let kinds = |kinds: &Kinds| {
            kinds.iter().map(|(kind, tally)| (kind.as_str().to_owned(), kept(tally))).collect()
        };
        let topics = hour.iter().map(|(topic, of)| (topic.clone(), kinds(of))).collect();
        Kept { through: (through.segment, through.offset), topics }
    }

    fn through(&self) -> Place {
        Place { segment: self.through.0, offset: self.through.1 }
    }

    fn hour(&self) -> Hour {
        let mut hour = Hour::new();
        for (topic, kinds) in &self.topics {
            for (kind, sums) in kinds {
                for ((part, _), sum) in Tally::default().parts().into_iter().zip(sums) {
                    sums::add_part(&mut hour, topic, &format!("{kind} {part}"), *sum);
                }
            }
        }
        hour
    }

    /// Reads a file; one that cannot be read is as good as none.
    fn read(path: &Path) -> Option<Kept> {
        serde_json::from_slice(&fs::read(path).ok()?).ok()
    }

    fn write(&self, path: &Path) -> io::Result<()> {
        let next = path.with_extension("tmp");
        let mut file = File::create(&next)?;
        file.write_all(&serde_json::to_vec(self)?)?;
        // Or it might take the old one's place before it is there.
        file.sync_data()?;
        fs::rename(next, path)
    }
}

const PREFIX: &str = "events-";
const SUFFIX: &str = ".jsonl";
const SUMS_PREFIX: &str = "sums-";
const SUMS_SUFFIX: &str = ".json";

fn file_of(path: &Path, number: u64) -> PathBuf {
    path.join(format!("{PREFIX}{number:08}{SUFFIX}"))
}

fn sums_file(path: &Path, hour: Time) -> PathBuf {
    path.join(format!("{SUMS_PREFIX}{}{SUMS_SUFFIX}", hour.as_ms()))
}

/// The numbers in names that begin and end so.
fn numbers_in(path: &Path, prefix: &str, suffix: &str) -> io::Result<Vec<u64>> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(path)? {
        let name = entry?.file_name();
        let name = name.to_str().unwrap_or_default();
        let number = name.strip_prefix(prefix).and_then(|name| name.strip_suffix(suffix));
        numbers.extend(number.and_then(|number| number.parse::<u64>().ok()));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

fn hours_in(path: &Path) -> io::Result<Vec<Time>> {
    let hours = numbers_in(path, SUMS_PREFIX, SUMS_SUFFIX)?;
    Ok(hours.into_iter().filter_map(Time::from_ms).collect())
}

fn segments_in(path: &Path) -> io::Result<Vec<Segment>> {
    let numbers = numbers_in(path, PREFIX, SUFFIX)?;
    numbers.into_iter().map(|number| segment_at(path, number)).collect()
}

fn segment_at(path: &Path, number: u64) -> io::Result<Segment> {
    let mut file = File::open(file_of(path, number))?;
    let bytes = file.metadata()?.len();
    let mut head = vec![0; bytes.min(TAIL_BYTES) as usize];
    file.read_exact(&mut head)?;
    file.seek(SeekFrom::Start(bytes.saturating_sub(TAIL_BYTES)))?;
    let mut tail = Vec::new();
    file.read_to_end(&mut tail)?;
    let at = |line: Option<Line<'_>>| line.and_then(|line| Time::from_ms(line.at));
    let first = at(head.split(|byte| *byte == b'\n').find_map(Line::read));
    let last = at(tail.rsplit(|byte| *byte == b'\n').find_map(Line::read));
    let span = (first.unwrap_or(Time::MIN), last.or(first).unwrap_or(Time::MIN));
    Ok(Segment { number, span, bytes })
}

/// Cuts a file to its last whole line.
fn cut_torn_line(path: &Path, last: &mut Segment) -> io::Result<()> {
    let bytes = fs::read(file_of(path, last.number))?;
    last.bytes = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at as u64 + 1);
    cut_to(path, last)
}

fn cut_to(path: &Path, segment: &Segment) -> io::Result<()> {
    let file = OpenOptions::new().write(true).open(file_of(path, segment.number))?;
    if file.metadata()?.len() > segment.bytes {
        file.set_len(segment.bytes)?;
    }
    Ok(())
}

fn remove_file(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

fn free_bytes(path: &Path) -> io::Result<u64> {
    let space = rustix::fs::statvfs(path)?;
    Ok(space.f_bavail.saturating_mul(space.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::super::event::{Kind, Of};
    use super::*;
    use crate::author::Author;

    const KEEP: Bounds = Bounds { keep: Duration::from_secs(7 * 86_400), bytes: 1 << 30 };
    const NOON: u64 = 1_800_000_000_000 - 1_800_000_000_000 % HOUR_MS;

    fn batch(at_ms: u64, ids: impl IntoIterator<Item = u64>) -> Batch {
        let event = |id: u64| {
            let of = Of::Job("mail".parse().unwrap(), id.to_string().parse().unwrap());
            Event::new(at_ms, Kind::Added, of, Author::default())
        };
        Batch::of(ids.into_iter().map(event).collect(), Vec::new(), "here").unwrap()
    }

    fn time(ms: u64) -> Time {
        Time::from_ms(ms).unwrap()
    }

    fn lines(folder: &Folder) -> Vec<String> {
        let mut ids = Vec::new();
        for segment in folder.segments() {
            let bytes = folder.read(segment.number, 0, segment.bytes).unwrap();
            let lines = bytes.split(|byte| *byte == b'\n').filter_map(Line::read);
            ids.extend(lines.filter_map(|line| line.id.map(|id| id.into_owned())));
        }
        ids
    }

    fn added(folder: &Folder, hour_ms: u64) -> u64 {
        let sums = folder.sums(time(hour_ms));
        sums.get("mail").and_then(|kinds| kinds.get(&Kind::Added)).map_or(0, |sum| sum.count)
    }

    #[test]
    fn the_oldest_goes_when_there_is_too_much() {
        let temp = tempfile::tempdir().unwrap();
        let bounds = Bounds { bytes: 64 << 10, ..KEEP };
        let folder = Folder::open(temp.path().join("events"), bounds).unwrap();
        for id in 0..2000 {
            folder.append(&batch(NOON, [id]), time(NOON)).unwrap();
        }
        let kept: u64 = folder.segments().iter().map(|segment| segment.bytes).sum();
        assert!((32 << 10..=64 << 10).contains(&kept), "{kept}");
        let on_disk: u64 = fs::read_dir(temp.path().join("events"))
            .unwrap()
            .map(|entry| entry.unwrap().metadata().unwrap().len())
            .sum();
        assert!(on_disk < 70 << 10, "{on_disk}");
        let ids = lines(&folder);
        assert_eq!(ids.last().unwrap(), "1999");
        assert!(ids.len() < 2000);
        // The sums are of all.
        assert_eq!(added(&folder, NOON), 2000);
    }

    #[test]
    fn what_is_too_old_goes() {
        let temp = tempfile::tempdir().unwrap();
        let bounds = Bounds { keep: Duration::from_secs(7200), bytes: 1 << 20 };
        let folder = Folder::open(temp.path().to_owned(), bounds).unwrap();
        for id in 0..400 {
            folder.append(&batch(NOON, [id]), time(NOON)).unwrap();
        }
        folder.close(time(NOON)).unwrap();
        assert_eq!(added(&folder, NOON), 400);
        let later = NOON + 5 * HOUR_MS;
        for id in 400..1000 {
            folder.append(&batch(later, [id]), time(later)).unwrap();
        }
        folder.close(time(later)).unwrap();
        let oldest = folder.segments().first().unwrap().span.1;
        assert_eq!(oldest, time(later));
        assert_eq!((added(&folder, NOON), added(&folder, later)), (0, 600));
    }

    #[test]
    fn a_log_that_is_opened_again_goes_on_and_a_torn_line_is_cut() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("events");
        let folder = Folder::open(path.clone(), KEEP).unwrap();
        folder.append(&batch(NOON, [1, 2]), time(NOON)).unwrap();
        // The sums were written down with the first; these are not.
        folder.append(&batch(NOON, [3]), time(NOON)).unwrap();
        drop(folder);
        let mut file = OpenOptions::new().append(true).open(file_of(&path, 1)).unwrap();
        file.write_all(br#"{"at":1,"kind":"add"#).unwrap();
        drop(file);
        let folder = Folder::open(path.clone(), KEEP).unwrap();
        assert_eq!(lines(&folder), ["1", "2", "3"]);
        assert_eq!(added(&folder, NOON), 3);
        folder.append(&batch(NOON + HOUR_MS, [4]), time(NOON + HOUR_MS)).unwrap();
        folder.close(time(NOON + HOUR_MS)).unwrap();
        drop(folder);
        let folder = Folder::open(path, KEEP).unwrap();
        assert_eq!((lines(&folder).len(), folder.segments().len()), (4, 1));
        assert_eq!((added(&folder, NOON), added(&folder, NOON + HOUR_MS)), (3, 1));
    }
}
