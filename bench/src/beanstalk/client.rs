//! A client of both protocols that costs as little as it can, because it shares the machine with
//! the server.

use std::io::Write;
use std::net::SocketAddr;
use std::ops::Range;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::work::{mix, now_ms, since_1970};

/// What a job's body has.
pub(crate) const BODY_BYTES: usize = 200;
const INPUT_BYTES: usize = 64 << 10;
const DAY_S: u64 = 86_400;
/// For how long a job is leased, in seconds.
const TTR_S: u64 = 60;
/// A body begins with this, and then the time.
const BODY_START: &str = r#"{"at":""#;
const TIME_DIGITS: usize = 19;
/// Redis's jobs are numbered by those who add them, in so many digits.
const ID_DIGITS: usize = 12;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speaks {
    Beanstalk,
    /// By scripts.
    Redis,
}

/// Who is called.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub(crate) address: SocketAddr,
    pub(crate) speaks: Speaks,
}

/// When a job that is put is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    Now,
    InDays,
    /// After so many milliseconds, of which beanstalkd knows whole seconds only.
    InMs(u64),
}

/// A job that was handed out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    number: u64,
    /// What time its body says, in nanoseconds since 1970.
    pub(crate) at_ns: u64,
}

/// One connection that puts and takes jobs of one tube. It panics if anything goes wrong, for then
/// nothing measured is worth anything.
pub(crate) struct Client {
    stream: TcpStream,
    out: Vec<u8>,
    input: Vec<u8>,
    /// Of the next job, but for its time.
    body: Vec<u8>,
    /// How requests to Redis begin; none for beanstalkd.
    scripts: Option<Scripts>,
}

struct Scripts {
    add: Vec<u8>,
    pop: Vec<u8>,
    finish: Vec<u8>,
}

/// A body of a job, JSON, that tells this time.
pub(crate) fn body(at_ns: u64) -> String {
    let mut text = format!(r#"{BODY_START}{at_ns:019}","note":""#);
    text.push_str(&"close unless paid ".repeat(10));
    text.truncate(BODY_BYTES - 2);
    text + "\"}"
}

fn now_ns() -> u64 {
    since_1970().as_nanos() as u64
}

impl Client {
    pub(crate) async fn open(target: Target, tube: &str) -> Client {
        let stream = TcpStream::connect(target.address).await.expect("it listens");
        stream.set_nodelay(true).expect("it is TCP");
        let input = Vec::with_capacity(INPUT_BYTES);
        let body = body(0).into_bytes();
        let mut client = Client { stream, out: Vec::new(), input, body, scripts: None };
        match target.speaks {
            Speaks::Beanstalk => {
                write!(client.out, "use {tube}\r\nwatch {tube}\r\nignore default\r\n").expect(ROOM);
                client.send().await;
                client.answers(1, b"USING").await;
                client.answers(2, b"WATCHING").await;
            }
            Speaks::Redis => {
                client.scripts = Some(Scripts {
                    add: client.load(include_str!("lua/add.lua"), 3).await,
                    pop: client.load(include_str!("lua/pop.lua"), 2).await,
                    finish: client.load(include_str!("lua/finish.lua"), 1).await,
                });
            }
        }
        client
    }

    /// Has Redis keep a script; answers how a request begins that calls it.
    async fn load(&mut self, script: &str, args: usize) -> Vec<u8> {
        let length = script.len();
        write!(self.out, "*3\r\n$6\r\nSCRIPT\r\n$4\r\nLOAD\r\n${length}\r\n{script}\r\n")
            .expect(ROOM);
        self.send().await;
        self.answers(1, b"$40").await;
        while self.input.len() < 42 {
            self.more().await;
        }
        let sha = String::from_utf8_lossy(&self.input[..40]).into_owned();
        self.input.drain(..42);
        let count = 5 + args;
        let keys = "$1\r\n2\r\n$1\r\nq\r\n$1\r\nb\r\n";
        format!("*{count}\r\n$7\r\nEVALSHA\r\n$40\r\n{sha}\r\n{keys}").into_bytes()
    }

    /// Puts so many jobs at once, the first of them number `first`. Their bodies tell this time.
    pub(crate) async fn put(&mut self, first: u64, count: u64, due: Due) {
        self.tell(now_ns());
        (first..first + count).for_each(|n| self.write_put(n, due));
        self.send().await;
        let word: &[u8] = if self.scripts.is_some() { b":1" } else { b"INSERTED" };
        self.answers(count, word).await;
    }

    /// The same, each job due by itself, and its body telling when; answers what they are called.
    pub(crate) async fn put_named(
        &mut self,
        numbers: Range<u64>,
        due: impl Fn(u64) -> Due,
    ) -> Vec<u64> {
        for n in numbers.clone() {
            let (mut due, mut from_ns) = (due(n), now_ns());
            match &mut due {
                // It is told the time in milliseconds.
                Due::InMs(_) if self.scripts.is_some() => from_ns -= from_ns % 1_000_000,
                // To the nearest second, since it has no others.
                Due::InMs(ms) => *ms = (*ms + 500) / 1000 * 1000,
                Due::Now | Due::InDays => {}
            }
            let delay_ms = if let Due::InMs(ms) = due { ms } else { 0 };
            self.tell(from_ns + delay_ms * 1_000_000);
            self.write_put(n, due);
        }
        self.send().await;
        let count = numbers.end - numbers.start;
        if self.scripts.is_some() {
            self.answers(count, b":1").await;
            return numbers.collect();
        }
        let mut names = Vec::with_capacity(count as usize);
        let number = |line: &[u8]| digits(line[b"INSERTED ".len()..].trim_ascii_end());
        self.each_answer(count, b"INSERTED", |line| names.push(number(line))).await;
        names
    }

    /// Has the bodies of the next jobs tell this time.
    fn tell(&mut self, at_ns: u64) {
        let time = BODY_START.len()..BODY_START.len() + TIME_DIGITS;
        write!(&mut self.body[time], "{at_ns:019}").expect(ROOM);
    }

    fn write_put(&mut self, n: u64, due: Due) {
        let delay_ms = match due {
            Due::Now => 0,
            Due::InDays => 1000 * (DAY_S + mix(n) % (9 * DAY_S)),
            Due::InMs(ms) => ms,
        };
        if let Some(scripts) = &self.scripts {
            let at = now_ms() + delay_ms;
            self.out.extend_from_slice(&scripts.add);
            write!(self.out, "$12\r\n{n:012}\r\n$13\r\n{at}\r\n$200\r\n").expect(ROOM);
        } else {
            let delay_s = delay_ms / 1000;
            write!(self.out, "put 0 {delay_s} {TTR_S} {BODY_BYTES}\r\n").expect(ROOM);
        }
        self.out.extend_from_slice(&self.body);
        self.out.extend_from_slice(b"\r\n");
    }

    /// Takes a job; waits for one for so long, unless it is Redis.
    pub(crate) async fn take(&mut self, wait_s: u32) -> Option<Taken> {
        if self.scripts.is_some() { self.pop().await } else { self.reserve(wait_s).await }
    }

    async fn reserve(&mut self, wait_s: u32) -> Option<Taken> {
        write!(self.out, "reserve-with-timeout {wait_s}\r\n").expect(ROOM);
        self.send().await;
        let line = self.line().await;
        let text = std::str::from_utf8(&self.input[..line]).expect("it is ASCII");
        if text == "TIMED_OUT\r\n" {
            self.input.clear();
            return None;
        }
        let number = text.strip_prefix("RESERVED ").and_then(|rest| rest.split(' ').next());
        let number = number.and_then(|number| number.parse().ok());
        let number = number.unwrap_or_else(|| panic!("not a job: {text}"));
        Some(Taken { number, at_ns: self.time_in_body(line).await })
    }

    async fn pop(&mut self) -> Option<Taken> {
        let now = now_ms();
        self.out.extend_from_slice(&self.scripts.as_ref().expect("it is Redis").pop);
        write!(self.out, "$13\r\n{now}\r\n$13\r\n{}\r\n", now + 1000 * TTR_S).expect(ROOM);
        self.send().await;
        if self.line().await != "*2\r\n".len() {
            assert!(self.input.starts_with(b"$-1"), "not a job: {}", self.said());
            self.input.clear();
            return None;
        }
        let (id, body) = ("*2\r\n$12\r\n".len(), "*2\r\n$12\r\n\r\n$200\r\n".len() + ID_DIGITS);
        let at_ns = self.time_in_body(body).await;
        Some(Taken { number: digits(&self.input[id..id + ID_DIGITS]), at_ns })
    }

    /// The time in a body that begins there and ends the answer.
    async fn time_in_body(&mut self, from: usize) -> u64 {
        while self.input.len() < from + BODY_BYTES + 2 {
            self.more().await;
        }
        let time = from + BODY_START.len();
        digits(&self.input[time..time + TIME_DIGITS])
    }

    /// Deletes a job that was taken.
    pub(crate) async fn finish(&mut self, taken: Taken) {
        // What is left of the answer that had it.
        self.input.clear();
        self.delete(taken.number).await;
    }

    /// Deletes a job by what it is called.
    pub(crate) async fn delete(&mut self, number: u64) {
        if let Some(scripts) = &self.scripts {
            self.out.extend_from_slice(&scripts.finish);
            write!(self.out, "$12\r\n{number:012}\r\n").expect(ROOM);
            self.send().await;
            self.answers(1, b":1").await;
        } else {
            write!(self.out, "delete {number}\r\n").expect(ROOM);
            self.send().await;
            self.answers(1, b"DELETED").await;
        }
    }

    /// Stops beanstalkd from handing out jobs of a tube, or has it go on.
    pub(crate) async fn pause(&mut self, tube: &str, pause_s: u32) {
        write!(self.out, "pause-tube {tube} {pause_s}\r\n").expect(ROOM);
        self.send().await;
        self.answers(1, b"PAUSED").await;
    }

    async fn send(&mut self) {
        self.stream.write_all(&self.out).await.expect("the server listens");
        self.out.clear();
    }

    /// Takes so many lines, each of which must begin so.
    async fn answers(&mut self, count: u64, word: &[u8]) {
        self.each_answer(count, word, |_| {}).await;
    }

    /// The same, and has somebody see each.
    async fn each_answer(&mut self, count: u64, word: &[u8], mut see: impl FnMut(&[u8])) {
        let mut at = 0;
        for _ in 0..count {
            let end = loop {
                match self.input[at..].iter().position(|byte| *byte == b'\n') {
                    Some(end) => break at + end + 1,
                    None => self.more().await,
                }
            };
            assert!(self.input[at..].starts_with(word), "the server says {}", self.said());
            see(&self.input[at..end]);
            at = end;
        }
        self.input.drain(..at);
    }

    /// How long the first line is.
    async fn line(&mut self) -> usize {
        loop {
            match self.input.iter().position(|byte| *byte == b'\n') {
                Some(end) => return end + 1,
                None => self.more().await,
            }
        }
    }

    async fn more(&mut self) {
        let read = self.stream.read_buf(&mut self.input).await.expect("the server answers");
        assert!(read > 0, "the server hung up");
    }

    fn said(&self) -> String {
        String::from_utf8_lossy(&self.input).into_owned()
    }
}

const ROOM: &str = "memory takes it";

fn digits(text: &[u8]) -> u64 {
    text.iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_json_of_a_fixed_length_that_tells_a_time() {
        let body = body(1_763_000_000_000_000_000);
        assert_eq!(body.len(), BODY_BYTES);
        let json: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!(json["at"], "1763000000000000000");
        assert_eq!(
            digits(&body.as_bytes()[BODY_START.len()..][..TIME_DIGITS]),
            1_763_000_000_000_000_000
        );
    }
}
