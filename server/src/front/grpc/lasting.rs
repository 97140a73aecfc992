//! Answers that are streams.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};

use crate::silence::Busy;

/// An answer that keeps its connection busy for as long as it lasts, so that nobody takes the
/// connection for idle while a stream waits.
pub(super) struct Lasting {
    body: Body,
    _busy: Busy,
}

impl Lasting {
    pub(super) fn new(body: Body, busy: Busy) -> Lasting {
        Lasting { body, _busy: busy }
    }
}

impl HttpBody for Lasting {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
