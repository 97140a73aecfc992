//! Requests as they come in, within the limits of size and time.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::time::Sleep;
use tonic::Status;

use super::status;
use crate::front::app::App;
use crate::front::limit::{Rest, Weight};

/// The body of a request. One that is a single message counts by its bytes, and must be there in
/// time; one that is a stream lasts as long as it likes, each of its messages within its limit.
pub(super) struct Arriving {
    body: Incoming,
    whole: Option<Whole>,
}

struct Whole {
    weight: Weight,
    bytes: usize,
    time: Duration,
    /// Set when the request does not come in one piece.
    alarm: Option<Pin<Box<Sleep>>>,
}

impl Arriving {
    pub(super) fn new(app: &Arc<App>, body: Incoming, is_whole: bool) -> Arriving {
        let whole = is_whole.then(|| {
            let time = app.config().limits.body_time;
            Whole { weight: Weight::none(app), bytes: 0, time, alarm: None }
        });
        Arriving { body, whole }
    }
}

impl Whole {
    fn poll_too_late(&mut self, context: &mut Context<'_>) -> Poll<Status> {
        let alarm = self.alarm.get_or_insert_with(|| Box::pin(tokio::time::sleep(self.time)));
        ready!(alarm.as_mut().poll(context));
        let time = linger::time::format_duration(self.time);
        Poll::Ready(Status::deadline_exceeded(format!("the request did not arrive within {time}")))
    }
}

impl Body for Arriving {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = &mut *self;
        let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(context) else {
            let Some(whole) = &mut this.whole else { return Poll::Pending };
            return whole.poll_too_late(context).map(|late| Some(Err(late)));
        };
        let frame = match frame.transpose() {
            Ok(frame) => frame,
            Err(cause) => return Poll::Ready(Some(Err(Status::from_error(Box::new(cause))))),
        };
        if let (Some(whole), Some(frame)) = (&mut this.whole, &frame) {
            whole.bytes += frame.data_ref().map_or(0, Bytes::len);
            let rest = if this.body.is_end_stream() { Rest::None } else { Rest::ToCome };
            if let Err(why) = whole.weight.grow_to(whole.bytes, rest) {
                return Poll::Ready(Some(Err(status::of(why))));
            }
        }
        Poll::Ready(frame.map(Ok))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
