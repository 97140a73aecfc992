//! Reads commands out of bytes, as they come: no I/O, no clock, no store.
//!
//! What is right and what is wrong is as beanstalkd 1.13 has it, to the odd corners: a command is
//! known by how its line begins, `kick` takes a sign, `put` with something behind its numbers does
//! not take its body along.

use bytes::{Buf, Bytes, BytesMut};
use linger::topic::Topic;

use super::tube::{self, in_alphabet};

/// A line with its end may have so many bytes.
pub(crate) const LINE_BYTES_MAX: usize = 224;

/// A command that came as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Put(Put),
    Use(Topic),
    /// Without a time: until there is one.
    Reserve {
        timeout_s: Option<u32>,
    },
    ReserveJob(u64),
    Delete(u64),
    Release {
        number: u64,
        priority: u32,
        delay_s: u32,
    },
    Bury {
        number: u64,
        priority: u32,
    },
    Touch(u64),
    Watch(Topic),
    Ignore(Topic),
    Peek(u64),
    PeekNext(Shelf),
    Kick(u32),
    KickJob(u64),
    Stats,
    StatsJob(u64),
    StatsTube(Topic),
    ListTubes,
    ListTubeUsed,
    ListTubesWatched,
    PauseTube {
        tube: Topic,
        pause_s: u32,
    },
    Quit,
    /// Nothing is to be done but to say so.
    Refused(Refusal),
}

/// A job as `put` has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Put {
    pub(crate) priority: u32,
    pub(crate) delay_s: u32,
    pub(crate) ttr_s: u32,
    pub(crate) body: Bytes,
}

/// Which jobs of a tube `peek-…` looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shelf {
    Ready,
    Delayed,
    Buried,
}

/// Why there is nothing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    UnknownCommand,
    /// The command that it would have been, where it counts as one.
    BadFormat(Option<Op>),
    JobTooBig,
    ExpectedCrlf,
}

/// The commands that `stats` counts, in its order; then those it does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Put,
    Peek,
    PeekReady,
    PeekDelayed,
    PeekBuried,
    Reserve,
    ReserveWithTimeout,
    Delete,
    Release,
    Use,
    Watch,
    Ignore,
    Bury,
    Kick,
    Touch,
    Stats,
    StatsJob,
    StatsTube,
    ListTubes,
    ListTubeUsed,
    ListTubesWatched,
    PauseTube,
}

impl Op {
    /// All of them, as `stats` names them.
    pub(crate) const NAMES: [&'static str; 22] = [
        "put",
        "peek",
        "peek-ready",
        "peek-delayed",
        "peek-buried",
        "reserve",
        "reserve-with-timeout",
        "delete",
        "release",
        "use",
        "watch",
        "ignore",
        "bury",
        "kick",
        "touch",
        "stats",
        "stats-job",
        "stats-tube",
        "list-tubes",
        "list-tube-used",
        "list-tubes-watched",
        "pause-tube",
    ];
}

impl Command {
    /// What it counts as in `stats`, if it does.
    pub(crate) fn op(&self) -> Option<Op> {
        Some(match self {
            Command::Put(_) => Op::Put,
            Command::Use(_) => Op::Use,
            Command::Reserve { timeout_s: None } => Op::Reserve,
            Command::Reserve { timeout_s: Some(_) } => Op::ReserveWithTimeout,
            Command::Delete(_) => Op::Delete,
            Command::Release { .. } => Op::Release,
            Command::Bury { .. } => Op::Bury,
            Command::Touch(_) => Op::Touch,
            Command::Watch(_) => Op::Watch,
            Command::Ignore(_) => Op::Ignore,
            Command::Peek(_) => Op::Peek,
            Command::PeekNext(Shelf::Ready) => Op::PeekReady,
            Command::PeekNext(Shelf::Delayed) => Op::PeekDelayed,
            Command::PeekNext(Shelf::Buried) => Op::PeekBuried,
            Command::Kick(_) => Op::Kick,
            Command::Stats => Op::Stats,
            Command::StatsJob(_) => Op::StatsJob,
            Command::StatsTube(_) => Op::StatsTube,
            Command::ListTubes => Op::ListTubes,
            Command::ListTubeUsed => Op::ListTubeUsed,
            Command::ListTubesWatched => Op::ListTubesWatched,
            Command::PauseTube { .. } => Op::PauseTube,
            Command::Refused(Refusal::JobTooBig | Refusal::ExpectedCrlf) => Op::Put,
            Command::Refused(Refusal::BadFormat(op)) => return *op,
            Command::ReserveJob(_)
            | Command::KickJob(_)
            | Command::Quit
            | Command::Refused(Refusal::UnknownCommand) => return None,
        })
    }
}

/// What a connection is in the midst of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Amid {
    /// Nothing: the next byte begins a command.
    Nothing,
    /// A line.
    Line,
    /// A job's body.
    Body,
}

/// Takes commands off the front of what was read.
#[derive(Debug, Default)]
pub(crate) struct Parser {
    state: State,
}

#[derive(Debug, Default)]
enum State {
    /// A line is next.
    #[default]
    Line,
    /// The line was too long: its end is next.
    LongLine,
    /// The body of this put is next, so long with its end.
    Body { put: Put, bytes: usize },
    /// So much of a body that is too big is thrown away yet.
    TooBig { bytes: u64 },
}

/// What a line says.
enum Line {
    Whole(Command),
    /// A put, and the length of its body.
    Put(Put, u32),
}

impl Parser {
    /// The next command, if the whole of it is there.
    pub(crate) fn next(&mut self, input: &mut BytesMut, body_bytes_max: usize) -> Option<Command> {
        loop {
            match &mut self.state {
                State::Line => match self.line(input, body_bytes_max)? {
                    Some(command) => return Some(command),
                    None => continue,
                },
                State::LongLine => {
                    let Some(end) = end_of_line(input) else {
                        // The last byte may be the first of the end.
                        let keep = usize::from(input.last() == Some(&b'\r'));
                        input.advance(input.len() - keep);
                        return None;
                    };
                    input.advance(end + 2);
                    self.state = State::Line;
                    return Some(Command::Refused(Refusal::BadFormat(None)));
                }
                State::Body { put, bytes } => {
                    if input.len() < *bytes {
                        return None;
                    }
                    let mut body = input.split_to(*bytes);
                    let ends_well = body.ends_with(b"\r\n");
                    body.truncate(*bytes - 2);
                    put.body = body.freeze();
                    let State::Body { put, .. } = std::mem::take(&mut self.state) else {
                        unreachable!("it was a body a moment ago")
                    };
                    return Some(match ends_well {
                        true => Command::Put(put),
                        false => Command::Refused(Refusal::ExpectedCrlf),
                    });
                }
                State::TooBig { bytes } => {
                    let here = input.len().min(usize::try_from(*bytes).unwrap_or(usize::MAX));
                    input.advance(here);
                    *bytes -= here as u64;
                    if *bytes > 0 {
                        return None;
                    }
                    self.state = State::Line;
                    return Some(Command::Refused(Refusal::JobTooBig));
                }
            }
        }
    }

    /// What it is in the midst of, given what was read and not taken.
    pub(crate) fn amid(&self, input: &BytesMut) -> Amid {
        match self.state {
            State::Line if input.is_empty() => Amid::Nothing,
            State::Line | State::LongLine => Amid::Line,
            State::Body { .. } | State::TooBig { .. } => Amid::Body,
        }
    }

    /// How many bytes the body that is next still lacks, so that they can be read in one go.
    pub(crate) fn lacks(&self, input: &BytesMut) -> usize {
        match self.state {
            State::Body { bytes, .. } => bytes.saturating_sub(input.len()),
            _ => 0,
        }
    }

    /// Takes a line: a command, or none if more than the line belongs to it.
    fn line(&mut self, input: &mut BytesMut, body_bytes_max: usize) -> Option<Option<Command>> {
        let end = end_of_line(&input[..input.len().min(LINE_BYTES_MAX)]);
        let Some(end) = end else {
            if is_http(input) {
                input.clear();
                return Some(Some(Command::Quit));
            }
            if input.len() < LINE_BYTES_MAX {
                return None;
            }
            self.state = State::LongLine;
            return Some(None);
        };
        let read = line(&input[..end], body_bytes_max);
        input.advance(end + 2);
        match read {
            Line::Whole(command) => Some(Some(command)),
            Line::Put(_, length) if length as usize > body_bytes_max => {
                self.state = State::TooBig { bytes: u64::from(length) + 2 };
                Some(None)
            }
            Line::Put(put, length) => {
                self.state = State::Body { put, bytes: length as usize + 2 };
                Some(None)
            }
        }
    }
}

/// Where the first line ends.
fn end_of_line(bytes: &[u8]) -> Option<usize> {
    bytes.windows(2).position(|pair| pair == b"\r\n")
}

/// Whether a line begins as browsers begin: a page on the web must not be able to give commands,
/// which it would by a request whose body is made of them.
fn is_http(line: &[u8]) -> bool {
    const METHODS: [&[u8]; 8] = [
        b"GET /",
        b"POST /",
        b"PUT /",
        b"HEAD /",
        b"OPTIONS ",
        b"DELETE /",
        b"PATCH /",
        b"CONNECT ",
    ];
    METHODS.iter().any(|method| line.starts_with(method))
}

fn line(line: &[u8], body_bytes_max: usize) -> Line {
    if line.contains(&0) {
        return Line::Whole(Command::Refused(Refusal::BadFormat(None)));
    }
    if let Some(rest) = line.strip_prefix(b"put ") {
        return match put(rest) {
            // Only of one that would be taken is it looked at what stands behind.
            Some((put, length, rest)) if length as usize > body_bytes_max || rest.is_empty() => {
                Line::Put(put, length)
            }
            Some(_) => Line::Whole(Command::Refused(Refusal::BadFormat(Some(Op::Put)))),
            None => Line::Whole(Command::Refused(Refusal::BadFormat(None))),
        };
    }
    let bad = Command::Refused(Refusal::BadFormat(None));
    Line::Whole(
        simple(line).map_or(Command::Refused(Refusal::UnknownCommand), |read| read.unwrap_or(bad)),
    )
}

fn put(rest: &[u8]) -> Option<(Put, u32, &[u8])> {
    let (priority, rest) = number_u32(rest)?;
    let (delay_s, rest) = number_u32(rest)?;
    let (ttr_s, rest) = number_u32(rest)?;
    let (length, rest) = number_u32(rest)?;
    Some((Put { priority, delay_s, ttr_s, body: Bytes::new() }, length, rest))
}

/// A command of one line: none if it is unknown, none within if something is wrong with it.
///
/// It is known by its beginning, in this order: `reserve-soon` is a `reserve` with too much behind.
fn simple(line: &[u8]) -> Option<Option<Command>> {
    let after = |word: &str| line.strip_prefix(word.as_bytes());
    let alone = |rest: &[u8], command: Command| rest.is_empty().then_some(command);
    let read = if let Some(rest) = after("peek ") {
        only_u64(rest).map(Command::Peek)
    } else if let Some(rest) = after("peek-ready") {
        alone(rest, Command::PeekNext(Shelf::Ready))
    } else if let Some(rest) = after("peek-delayed") {
        alone(rest, Command::PeekNext(Shelf::Delayed))
    } else if let Some(rest) = after("peek-buried") {
        alone(rest, Command::PeekNext(Shelf::Buried))
    } else if let Some(rest) = after("reserve-with-timeout ") {
        reserve_with_timeout(rest)
    } else if let Some(rest) = after("reserve-job ") {
        only_u64(rest).map(Command::ReserveJob)
    } else if let Some(rest) = after("reserve") {
        alone(rest, Command::Reserve { timeout_s: None })
    } else if let Some(rest) = after("delete ") {
        only_u64(rest).map(Command::Delete)
    } else if let Some(rest) = after("release ") {
        release(rest)
    } else if let Some(rest) = after("bury ") {
        bury(rest)
    } else if let Some(rest) = after("kick ") {
        kick(rest)
    } else if let Some(rest) = after("kick-job ") {
        only_u64(rest).map(Command::KickJob)
    } else if let Some(rest) = after("touch ") {
        only_u64(rest).map(Command::Touch)
    } else if let Some(rest) = after("stats-job ") {
        only_u64(rest).map(Command::StatsJob)
    } else if let Some(rest) = after("stats-tube ") {
        tube::topic_of(rest).map(Command::StatsTube)
    } else if let Some(rest) = after("stats") {
        alone(rest, Command::Stats)
    } else if let Some(rest) = after("use ") {
        tube::topic_of(rest).map(Command::Use)
    } else if let Some(rest) = after("watch ") {
        tube::topic_of(rest).map(Command::Watch)
    } else if let Some(rest) = after("ignore ") {
        tube::topic_of(rest).map(Command::Ignore)
    } else if let Some(rest) = after("list-tubes-watched") {
        alone(rest, Command::ListTubesWatched)
    } else if let Some(rest) = after("list-tube-used") {
        alone(rest, Command::ListTubeUsed)
    } else if let Some(rest) = after("list-tubes") {
        alone(rest, Command::ListTubes)
    } else if after("quit").is_some() || is_http(line) {
        Some(Command::Quit)
    } else if let Some(rest) = after("pause-tube") {
        pause_tube(rest)
    } else {
        return None;
    };
    Some(read)
}

fn reserve_with_timeout(rest: &[u8]) -> Option<Command> {
    // What stands behind is passed over, as there.
    let (timeout_s, _) = number_u32(rest)?;
    let timeout_s = Some(timeout_s).filter(|s| i32::try_from(*s).is_ok())?;
    Some(Command::Reserve { timeout_s: Some(timeout_s) })
}

fn release(rest: &[u8]) -> Option<Command> {
    let (number, rest) = number_u64(rest)?;
    let (priority, rest) = number_u32(rest)?;
    let (delay_s, rest) = number_u32(rest)?;
    rest.is_empty().then_some(Command::Release { number, priority, delay_s })
}

fn bury(rest: &[u8]) -> Option<Command> {
    let (number, rest) = number_u64(rest)?;
    let (priority, rest) = number_u32(rest)?;
    rest.is_empty().then_some(Command::Bury { number, priority })
}

/// As C's `strtoul` into 32 bits has it: blanks, a sign, digits, and whatever comes after.
fn kick(rest: &[u8]) -> Option<Command> {
    let blank = |byte: &u8| byte.is_ascii_whitespace() || *byte == 0x0b;
    let rest = &rest[rest.iter().take_while(|byte| blank(byte)).count()..];
    let (minus, digits) = match rest.split_first() {
        Some((b'-', digits)) => (true, digits),
        Some((b'+', digits)) => (false, digits),
        _ => (false, rest),
    };
    let (count, _) = digits_u64(digits)?;
    let count = if minus { count.wrapping_neg() } else { count };
    Some(Command::Kick(count as u32))
}

fn pause_tube(rest: &[u8]) -> Option<Command> {
    let rest = skip_blanks(rest);
    let length = rest.iter().take_while(|byte| in_alphabet(**byte)).count();
    let (name, rest) = rest.split_at(length);
    let (pause_s, rest) = number_u32(rest)?;
    if name.is_empty() || !rest.is_empty() {
        return None;
    }
    match tube::topic_of(name) {
        Some(tube) => Some(Command::PauseTube { tube, pause_s }),
        // Too late for beanstalkd not to have counted it.
        None => Some(Command::Refused(Refusal::BadFormat(Some(Op::PauseTube)))),
    }
}

fn only_u64(rest: &[u8]) -> Option<u64> {
    number_u64(rest).filter(|(_, rest)| rest.is_empty()).map(|(number, _)| number)
}

fn number_u32(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (number, rest) = number_u64(bytes)?;
    Some((u32::try_from(number).ok()?, rest))
}

/// A number after blanks, and what comes behind it.
fn number_u64(bytes: &[u8]) -> Option<(u64, &[u8])> {
    digits_u64(skip_blanks(bytes))
}

fn digits_u64(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let length = bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, rest) = bytes.split_at(length);
    // None if there are no digits, or too many.
    let number = std::str::from_utf8(digits).ok()?.parse().ok()?;
    Some((number, rest))
}

fn skip_blanks(bytes: &[u8]) -> &[u8] {
    &bytes[bytes.iter().take_while(|byte| **byte == b' ').count()..]
}

#[cfg(test)]
mod tests;
