//! How long a connection may say nothing: between requests, and in the midst of a request's head.
//!
//! All that concerns one connection happens while its task is polled (requests of HTTP/2 apart,
//! which only count themselves), so that looking after each poll is enough: no timer is touched
//! for a request that comes in one piece.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use crate::stream::Stream;

/// How long a connection may be silent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// A request's head, from its first byte.
    pub(crate) head: Duration,
    /// Between requests, and while an answer is not taken.
    pub(crate) idle: Duration,
}

/// What a connection is silent about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Quiet {
    /// The rest of a request's head.
    Head,
    /// The next request.
    Idle,
}

/// What goes on on one connection.
#[derive(Debug, Default)]
pub(crate) struct Silence {
    /// Requests in work.
    busy: AtomicUsize,
    /// Whether bytes came since the last request, which are no whole head yet.
    head_begun: AtomicBool,
    /// Goes up with whatever is said.
    said: AtomicUsize,
    /// HTTP/2 says things between requests, too.
    is_http2: AtomicBool,
}

impl Silence {
    fn heard(&self, bytes: &[u8]) {
        if self.said.fetch_add(1, Ordering::Relaxed) == 0 && bytes.starts_with(b"PRI") {
            self.is_http2.store(true, Ordering::Relaxed);
        }
        let is_http2 = self.is_http2.load(Ordering::Relaxed);
        if !is_http2 && self.busy.load(Ordering::Relaxed) == 0 {
            self.head_begun.store(true, Ordering::Relaxed);
        }
    }

    fn spoke(&self) {
        self.said.fetch_add(1, Ordering::Relaxed);
    }

    /// None while a request is in work.
    fn now(&self) -> Option<Quiet> {
        if self.busy.load(Ordering::Relaxed) > 0 {
            return None;
        }
        let head_begun = self.head_begun.load(Ordering::Relaxed);
        Some(if head_begun { Quiet::Head } else { Quiet::Idle })
    }
}

/// Counts a request as in work for as long as it lives.
pub(crate) struct Busy(Arc<Silence>);

impl Busy {
    pub(crate) fn new(silence: Arc<Silence>) -> Busy {
        silence.busy.fetch_add(1, Ordering::Relaxed);
        silence.head_begun.store(false, Ordering::Relaxed);
        Busy(silence)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.spoke();
        self.0.busy.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A stream that notes what is said on it.
pub(crate) struct Ear {
    stream: Stream,
    silence: Arc<Silence>,
}

impl Ear {
    pub(crate) fn new(stream: Stream, silence: Arc<Silence>) -> Ear {
        Ear { stream, silence }
    }

    fn wrote(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if matches!(written, Poll::Ready(Ok(1..))) {
            self.silence.spoke();
        }
        written
    }
}

impl AsyncRead for Ear {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        if let heard @ [_, ..] = &buffer.filled()[before..] {
            self.silence.heard(heard);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Ear {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.wrote(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.wrote(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// Measures silence, after each poll of a connection.
pub(crate) struct Listening {
    silence: Arc<Silence>,
    limits: Limits,
    /// What was silent when it was last looked at, how much had been said, and since when.
    quiet: Option<Quiet>,
    said: usize,
    since: Instant,
    alarm: Pin<Box<Sleep>>,
}

impl Listening {
    pub(crate) fn new(silence: Arc<Silence>, limits: Limits) -> Listening {
        let since = Instant::now();
        let alarm = Box::pin(tokio::time::sleep_until(since + limits.head));
        Listening { silence, limits, quiet: None, said: 0, since, alarm }
    }

    /// Ready when it has been silent for too long.
    pub(crate) fn poll_too_long(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Quiet> {
        let (quiet, said) = (self.silence.now(), self.silence.said.load(Ordering::Relaxed));
        // More of a head is no news: it would never have to end.
        if quiet != self.quiet || quiet == Some(Quiet::Idle) && said != self.said {
            (self.quiet, self.said, self.since) = (quiet, said, Instant::now());
        }
        let Some(quiet) = quiet else { return Poll::Pending };
        let limit = match quiet {
            Quiet::Head => self.limits.head,
            Quiet::Idle => self.limits.idle,
        };
        let until = self.since + limit;
        // It may ring too early, and is set anew then; only too late it must not ring.
        if self.alarm.deadline() > until {
            self.alarm.as_mut().reset(until);
        }
        while self.alarm.as_mut().poll(context).is_ready() {
            if self.alarm.deadline() >= until {
                self.since = Instant::now();
                return Poll::Ready(quiet);
            }
            self.alarm.as_mut().reset(until);
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_begun_by_bytes_and_ended_by_a_request() {
        let silence = Arc::new(Silence::default());
        assert_eq!(silence.now(), Some(Quiet::Idle));
        silence.heard(b"P");
        assert_eq!(silence.now(), Some(Quiet::Head));
        let busy = Busy::new(silence.clone());
        assert_eq!(silence.now(), None);
        // The next request's, while this one is in work.
        silence.heard(b"G");
        drop(busy);
        assert_eq!(silence.now(), Some(Quiet::Idle));
    }

    #[test]
    fn what_http2_says_between_requests_begins_no_head() {
        let silence = Silence::default();
        silence.heard(b"PRI * HTTP/2.0");
        silence.heard(b"a ping");
        assert_eq!(silence.now(), Some(Quiet::Idle));
    }
}
