//! The gRPC front: the same calls as over HTTP, and one stream to work on.

mod arriving;
mod consume;
mod health;
mod lasting;
mod queue;
mod read;
mod status;
mod task;
mod topics;
mod write;

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, Request, Response};
use hyper::body::Incoming;
use linger::error::{Code, Error};
use linger::queue::Delivery;
use tokio::time::Instant;
use tonic::Status;
use tonic::codegen::Service;
use tonic_health::pb::health_server::HealthServer;
use tower::util::BoxCloneSyncService;

use super::app::App;
use super::handed_out::handed_out;
use crate::auth::Caller;
use crate::auth::audit::About;
use crate::auth::table::{self, Needs};
use crate::proto;
use crate::silence::Busy;
use arriving::Arriving;
use lasting::Lasting;
use proto::linger::queue_server::QueueServer;
use proto::linger::topics_server::TopicsServer;
use proto::tasks::delay_queue_server::DelayQueueServer;

/// Whoever answers the calls.
pub(super) struct Grpc {
    calls: Arc<Calls>,
    reflection: Reflection,
    /// As clients that are some years old ask for it.
    reflection_alpha: Reflection,
}

type Reflection =
    BoxCloneSyncService<Request<tonic::body::Body>, Response<tonic::body::Body>, Infallible>;

/// What the services need.
struct Calls {
    app: Arc<App>,
}

/// When the caller stops waiting.
#[derive(Clone, Copy)]
struct Deadline(Instant);

/// Whether a request is a call of gRPC.
pub(super) fn speaks(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let rest = kind.strip_prefix("application/grpc");
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['+', ';']))
}

/// Refuses calls to a server without the role api, but for whether it is well.
pub(super) fn check_role(app: &App, path: &str) -> linger::error::Result<()> {
    if path.starts_with("/grpc.health.v1.Health/") { Ok(()) } else { app.check_api() }
}

/// Lets a call in that its key allows; answers who calls.
pub(super) fn admit<B>(
    app: &App,
    request: &Request<B>,
    peer: IpAddr,
) -> linger::error::Result<Caller> {
    let needs = table::of_grpc(request.uri().path()).unwrap_or(table::UNKNOWN);
    app.admit(needs, request.headers(), peer)
}

/// Who calls. It was put there before anyone looked what the call wants.
fn caller<T>(request: &tonic::Request<T>) -> linger::error::Result<Caller> {
    let caller = request.extensions().get::<Caller>().cloned();
    caller.ok_or_else(|| Error::new(Code::Forbidden, "nobody has looked who calls"))
}

/// The answer to a call that is refused before anyone looks what it wants.
pub(super) fn refusal(why: Error) -> Response<Body> {
    status::of(why).into_http()
}

impl Grpc {
    pub(super) fn new(app: Arc<App>) -> Grpc {
        let reflection = || {
            tonic_reflection::server::Builder::configure()
                .register_encoded_file_descriptor_set(proto::DESCRIPTIONS)
                .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        };
        let (new, old) = (reflection().build_v1(), reflection().build_v1alpha());
        Grpc {
            calls: Arc::new(Calls { app }),
            reflection: BoxCloneSyncService::new(new.expect("the descriptions are right")),
            reflection_alpha: BoxCloneSyncService::new(old.expect("the descriptions are right")),
        }
    }

    /// Answers a call, within the time that its caller gives it.
    pub(super) async fn answer(
        &self,
        mut request: Request<Incoming>,
        busy: Busy,
        caller: Caller,
    ) -> Response<Body> {
        let (app, path) = (self.calls.app.clone(), request.uri().path().to_owned());
        request.extensions_mut().insert(caller.clone());
        let mut answer = self.answer_in_time(request, busy).await;
        let is_admin = table::of_grpc(&path).is_some_and(Needs::is_admin);
        // A refusal has its status in the head.
        if is_admin && !answer.headers().contains_key("grpc-status") {
            let about = answer.extensions_mut().remove::<About>();
            app.changed(&caller, path[1..].to_owned(), about);
        }
        answer
    }

    async fn answer_in_time(&self, request: Request<Incoming>, busy: Busy) -> Response<Body> {
        let Some(time) = timeout(request.headers()) else {
            return self.call(request, busy).await;
        };
        let (mut request, deadline) = (request, Instant::now() + time);
        // A stream goes on after its call is answered.
        request.extensions_mut().insert(Deadline(deadline));
        match tokio::time::timeout_at(deadline, self.call(request, busy)).await {
            Ok(answer) => answer,
            Err(_) => out_of_time().into_http(),
        }
    }

    async fn call(&self, request: Request<Incoming>, busy: Busy) -> Response<Body> {
        let (app, calls) = (self.calls.app.clone(), self.calls.clone());
        let path = request.uri().path().to_owned();
        let (service, method) = path[1..].split_once('/').unwrap_or_default();
        let lasts = matches!(method, "Consume" | "Watch" | "ServerReflectionInfo");
        let bytes_max = app.config().limits.batch_bytes;
        let request = request.map(|body| Arriving::new(&app, body, !lasts));
        let answered = match service {
            "linger.v1.Queue" => {
                let service = QueueServer::from_arc(calls);
                service.max_decoding_message_size(bytes_max).call(request).await
            }
            "linger.v1.Topics" => TopicsServer::from_arc(calls).call(request).await,
            "pb.DelayQueue" if app.config().fronts.tasks => {
                let service = DelayQueueServer::from_arc(calls);
                service.max_decoding_message_size(bytes_max).call(request).await
            }
            "grpc.health.v1.Health" => HealthServer::from_arc(calls).call(request).await,
            "grpc.reflection.v1.ServerReflection" => {
                self.reflection.clone().call(request.map(tonic::body::Body::new)).await
            }
            "grpc.reflection.v1alpha.ServerReflection" => {
                self.reflection_alpha.clone().call(request.map(tonic::body::Body::new)).await
            }
            _ => {
                let message = format!("there is no service `{}`", super::short(service));
                Ok(Status::unimplemented(message).into_http())
            }
        };
        let mut answer = match answered {
            Ok(answer) => answer.map(Body::new),
            Err(never) => match never {},
        };
        if let Some(jobs) = answer.extensions_mut().remove::<Vec<Delivery>>() {
            answer = answer.map(|body| handed_out(&app, jobs, body));
        }
        if lasts {
            answer = answer.map(|body| Body::new(Lasting::new(body, busy)));
        }
        answer
    }
}

fn out_of_time() -> Status {
    Status::deadline_exceeded("the caller's time was over")
}

/// How long the caller waits, if it says so in a way that can be read.
fn timeout(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get("grpc-timeout")?.to_str().ok()?;
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    // Eight digits at most, so that nothing overflows.
    if number.len() > 8 || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number: u64 = number.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(number * 3600),
        "M" => Duration::from_secs(number * 60),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_read_as_the_protocol_writes_it() {
        let read = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("grpc-timeout", text.parse().unwrap());
            timeout(&headers)
        };
        assert_eq!(read("1H"), Some(Duration::from_secs(3600)));
        assert_eq!(read("2M"), Some(Duration::from_secs(120)));
        assert_eq!(read("99999999S"), Some(Duration::from_secs(99_999_999)));
        assert_eq!(read("100m"), Some(Duration::from_millis(100)));
        assert_eq!(read("5u"), Some(Duration::from_micros(5)));
        assert_eq!(read("7n"), Some(Duration::from_nanos(7)));
        for wrong in ["", "S", "1", "1s", "-1S", "999999999S", "+1S", "1é"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
        assert_eq!(timeout(&HeaderMap::new()), None);
    }

    #[test]
    fn calls_are_told_by_their_type() {
        let is_call = |kind: &'static str| {
            let kind = axum::http::HeaderValue::from_static(kind);
            speaks(&[(CONTENT_TYPE, kind)].into_iter().collect())
        };
        assert!(is_call("application/grpc"));
        assert!(is_call("application/grpc+proto"));
        assert!(is_call("application/grpc;x=1"));
        assert!(!is_call("application/grpc-web"));
        assert!(!is_call("application/json"));
        assert!(!speaks(&HeaderMap::new()));
    }
}
