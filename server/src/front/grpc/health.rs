//! The health service: whether calls are answered.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::Interval;
use tokio_util::sync::WaitForCancellationFutureOwned;
use tonic::codegen::tokio_stream::Stream;
use tonic::{Request, Response, Status, async_trait};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_server::Health;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use super::Calls;
use crate::front::app::App;

/// What can be asked for; the empty name is the server as a whole.
const SERVICES: [&str; 4] = ["", "linger.v1.Queue", "linger.v1.Topics", "pb.DelayQueue"];

/// How often one who watches looks.
const LOOK_EVERY: Duration = Duration::from_secs(1);

#[async_trait]
impl Health for Calls {
    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        let service = &request.get_ref().service;
        if !SERVICES.contains(&service.as_str()) {
            let message = format!("there is no service `{}`", crate::front::short(service));
            return Err(Status::not_found(message));
        }
        Ok(Response::new(answer(serving(&self.app))))
    }

    type WatchStream = Watching;

    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Watching>, Status> {
        let is_known = SERVICES.contains(&request.get_ref().service.as_str());
        Ok(Response::new(Watching {
            app: self.app.clone(),
            is_known,
            told: None,
            look: tokio::time::interval(LOOK_EVERY),
            stopping: Box::pin(self.app.stopping.clone().cancelled_owned()),
        }))
    }
}

fn serving(app: &App) -> ServingStatus {
    match app.is_ready() {
        true => ServingStatus::Serving,
        false => ServingStatus::NotServing,
    }
}

fn answer(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse { status: status.into() }
}

/// Tells what is so, and then every change, until the server stops.
pub(super) struct Watching {
    app: Arc<App>,
    is_known: bool,
    told: Option<ServingStatus>,
    look: Interval,
    stopping: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl Stream for Watching {
    type Item = Result<HealthCheckResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let is_stopping = self.stopping.as_mut().poll(context).is_ready();
        loop {
            let status = match self.is_known {
                true => serving(&self.app),
                false => ServingStatus::ServiceUnknown,
            };
            if self.told != Some(status) {
                self.told = Some(status);
                return Poll::Ready(Some(Ok(answer(status))));
            }
            if is_stopping {
                return Poll::Ready(None);
            }
            ready!(self.look.poll_tick(context));
        }
    }
}
