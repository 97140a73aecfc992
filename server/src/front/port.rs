//! The port that HTTP and gRPC share: every request is named, its origin checked, and it goes to
//! the front that speaks its language.

use std::sync::Arc;

use axum::Router;
use axum::http::Request;
use axum::response::Response;
use hyper::body::Incoming;

use super::app::App;
use super::grpc::{self, Grpc};
use super::{http, origin};
use crate::silence::Busy;

/// Whoever answers the requests of this port.
#[derive(Clone)]
pub(crate) struct Port {
    app: Arc<App>,
    router: Router,
    grpc: Grpc,
}

impl Port {
    pub(crate) fn new(app: Arc<App>) -> Port {
        Port { router: http::router(app.clone()), grpc: Grpc::new(app.clone()), app }
    }

    /// What the fronts share.
    pub(crate) fn app(&self) -> &App {
        &self.app
    }

    /// Answers a request, which is `busy` until then, or until its answer ends if that is a stream.
    pub(crate) async fn answer(self, request: Request<Incoming>, busy: Busy) -> Response {
        let asked = self.app.names.asked(&request);
        let is_call = grpc::speaks(request.headers());
        let mut answer = match origin::check(&self.app, &request) {
            Ok(()) if is_call => self.grpc.answer(request, busy).await,
            Ok(()) => http::answer(&self.app, self.router, request).await,
            Err(why) if is_call => grpc::refusal(why),
            Err(why) => http::refusal(why),
        };
        asked.answered(&mut answer);
        answer
    }
}
