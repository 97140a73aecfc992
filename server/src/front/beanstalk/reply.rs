//! Answers, as they are written.

use std::io::Write;

use linger::error::{Code, Error};
use linger::queue::JobInfo;

use super::parse::Refusal;

/// An answer of one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Word(&'static str);

pub(crate) const BAD_FORMAT: Word = Word("BAD_FORMAT\r\n");
pub(crate) const BURIED: Word = Word("BURIED\r\n");
pub(crate) const DEADLINE_SOON: Word = Word("DEADLINE_SOON\r\n");
pub(crate) const DELETED: Word = Word("DELETED\r\n");
pub(crate) const DRAINING: Word = Word("DRAINING\r\n");
pub(crate) const EXPECTED_CRLF: Word = Word("EXPECTED_CRLF\r\n");
pub(crate) const INTERNAL_ERROR: Word = Word("INTERNAL_ERROR\r\n");
pub(crate) const JOB_TOO_BIG: Word = Word("JOB_TOO_BIG\r\n");
pub(crate) const KICKED: Word = Word("KICKED\r\n");
pub(crate) const NOT_FOUND: Word = Word("NOT_FOUND\r\n");
pub(crate) const NOT_IGNORED: Word = Word("NOT_IGNORED\r\n");
pub(crate) const OUT_OF_MEMORY: Word = Word("OUT_OF_MEMORY\r\n");
pub(crate) const PAUSED: Word = Word("PAUSED\r\n");
pub(crate) const RELEASED: Word = Word("RELEASED\r\n");
pub(crate) const TIMED_OUT: Word = Word("TIMED_OUT\r\n");
pub(crate) const TOUCHED: Word = Word("TOUCHED\r\n");
pub(crate) const UNKNOWN_COMMAND: Word = Word("UNKNOWN_COMMAND\r\n");

impl Word {
    /// The line.
    pub(crate) fn as_str(self) -> &'static str {
        self.0
    }
}

impl From<Refusal> for Word {
    fn from(refusal: Refusal) -> Word {
        match refusal {
            Refusal::UnknownCommand => UNKNOWN_COMMAND,
            Refusal::BadFormat(_) => BAD_FORMAT,
            Refusal::JobTooBig => JOB_TOO_BIG,
            Refusal::ExpectedCrlf => EXPECTED_CRLF,
        }
    }
}

/// The word for what went wrong. The protocol has none for its reason, so that goes to the log
/// where the client can do nothing about it.
pub(crate) fn word_of(error: &Error) -> Word {
    let word = match error.code() {
        Code::NotFound | Code::LeaseLost | Code::WrongState => NOT_FOUND,
        Code::Invalid => BAD_FORMAT,
        Code::TooLarge => JOB_TOO_BIG,
        Code::RateLimited | Code::Overloaded | Code::StorageFull => OUT_OF_MEMORY,
        Code::AlreadyExists
        | Code::Unauthorized
        | Code::Forbidden
        | Code::StorageFailed
        | Code::Unavailable
        | Code::VersionMismatch => INTERNAL_ERROR,
    };
    if word == INTERNAL_ERROR {
        tracing::warn!(code = %error.code(), "a beanstalkd client was told INTERNAL_ERROR: {error}");
    }
    word
}

/// What is to be sent.
#[derive(Debug, Default)]
pub(crate) struct Out {
    bytes: Vec<u8>,
}

/// So much is kept for the next answers; what grew beyond is given back.
const KEPT_BYTES: usize = 4 << 10;

impl Out {
    pub(crate) fn word(&mut self, word: Word) {
        self.bytes.extend_from_slice(word.0.as_bytes());
    }

    /// A word and a number.
    pub(crate) fn count(&mut self, word: &str, count: u64) {
        self.line(format_args!("{word} {count}"));
    }

    /// A word and a tube.
    pub(crate) fn tube(&mut self, word: &str, tube: &str) {
        self.line(format_args!("{word} {tube}"));
    }

    /// A job with its body.
    pub(crate) fn job(&mut self, word: &str, job: &JobInfo) {
        let body = job.body.as_ref().map_or(&b""[..], |body| body.as_bytes());
        self.line(format_args!("{word} {} {}", job.number, body.len()));
        self.bytes.extend_from_slice(body);
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// A text.
    pub(crate) fn text(&mut self, text: &str) {
        self.line(format_args!("OK {}", text.len()));
        self.line(format_args!("{text}"));
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        self.bytes.write_fmt(line).expect("a vector takes everything");
        self.bytes.extend_from_slice(b"\r\n");
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// After it was sent.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_went_wrong_is_said_in_the_words_there_are() {
        for (code, word) in [
            (Code::NotFound, NOT_FOUND),
            (Code::LeaseLost, NOT_FOUND),
            (Code::WrongState, NOT_FOUND),
            (Code::StorageFull, OUT_OF_MEMORY),
            (Code::Overloaded, OUT_OF_MEMORY),
            (Code::StorageFailed, INTERNAL_ERROR),
            (Code::Unavailable, INTERNAL_ERROR),
        ] {
            assert_eq!(word_of(&Error::new(code, "because")), word, "{code}");
        }
    }

    #[test]
    fn texts_and_words_end_as_lines_do() {
        let mut out = Out::default();
        out.word(DELETED);
        out.count("KICKED", 5);
        out.text("---\n- a\n");
        assert_eq!(out.as_bytes(), b"DELETED\r\nKICKED 5\r\nOK 8\r\n---\n- a\n\r\n");
    }
}
