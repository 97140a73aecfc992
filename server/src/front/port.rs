//! The port that HTTP and gRPC share: every request is named, its origin checked, and it goes to
//! the front that speaks its language.

use std::sync::Arc;

use axum::Router;
use axum::http::Request;
use axum::response::Response;
use hyper::body::Incoming;

use super::app::App;
use super::{http, origin};

/// Whoever answers the requests of this port.
#[derive(Clone)]
pub(crate) struct Port {
    app: Arc<App>,
    router: Router,
}

impl Port {
    pub(crate) fn new(app: Arc<App>) -> Port {
        Port { router: http::router(app.clone()), app }
    }

    /// What the fronts share.
    pub(crate) fn app(&self) -> &App {
        &self.app
    }

    /// Answers a request.
    pub(crate) async fn answer(self, request: Request<Incoming>) -> Response {
        let asked = self.app.names.asked(&request);
        let mut answer = match origin::check(&self.app, &request) {
            Ok(()) => http::answer(&self.app, self.router, request).await,
            Err(why) => http::refusal(why),
        };
        asked.answered(&mut answer);
        answer
    }
}
