//! The answer to a pop.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};
use linger::queue::Delivery;

use super::app::App;

/// The answer with these jobs in it. If it is dropped before anything of it is taken, nobody will
/// ever see it, and the jobs are given back.
pub(crate) fn handed_out(app: &Arc<App>, jobs: Vec<Delivery>, answer: Body) -> Body {
    match jobs.is_empty() {
        true => answer,
        false => Body::new(HandedOut { app: app.clone(), jobs, answer }),
    }
}

struct HandedOut {
    app: Arc<App>,
    /// None any more once the answer is on its way.
    jobs: Vec<Delivery>,
    answer: Body,
}

impl HttpBody for HandedOut {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.jobs.clear();
        Pin::new(&mut self.answer).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.answer.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.answer.size_hint()
    }
}

impl Drop for HandedOut {
    fn drop(&mut self) {
        if !self.jobs.is_empty() {
            let (app, jobs) = (self.app.clone(), std::mem::take(&mut self.jobs));
            self.app.see_to(async move {
                // If it fails their time runs out instead.
                let _ = app.give_back(&jobs).await;
            });
        }
    }
}
