//! Calls by gRPC: a job is pushed by a unary call, in the second lineage's shape.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::error::Error;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arc_swap::ArcSwap;
use axum::http::uri::PathAndQuery;
use linger::history::Report;
use linger::job::Confirm;
use linger::queue::Delivery;
use linger::time::{Clock, SystemClock, format_duration};
use linger::worker::Outcome;
use tokio::time::Instant;
use tonic::client::Grpc as Client;
use tonic::metadata::MetadataMap;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Response, Status};
use tonic_prost::ProstCodec;
use url::Url;

use super::address::Guard;
use super::dial::{Dial, NotDialled, SystemNames};
use super::headers;
use crate::config::Webhooks;
use crate::proto::tasks::CallBackReq;
use crate::secrets::Secrets;

/// The most connections that are kept, one for each host and port.
const CHANNELS_MAX: usize = 1000;
/// How often a connection is asked whether it still stands, and for how long.
const PING_EVERY: Duration = Duration::from_secs(20);
const PING_TIME: Duration = Duration::from_secs(10);
/// Deadlines are cut to this or less on their way, but for those of days.
const DEADLINE_PRECISION: Duration = Duration::from_millis(1);
/// What is called unless the target says otherwise.
const METHOD: &str = "/pb.Callback/Send";

/// Calls what targets name.
pub(crate) struct Grpc {
    tools: ArcSwap<Tools>,
    secrets: Arc<Secrets>,
    clock: SystemClock,
}

/// What a call is made with, by the settings in force.
struct Tools {
    guard: Arc<Guard>,
    dial: Dial,
    channels: Mutex<HashMap<String, Channel>>,
}

/// What a target says.
struct Callee {
    authority: String,
    method: PathAndQuery,
}

impl Grpc {
    pub(crate) fn new(config: &Webhooks, secrets: Arc<Secrets>) -> Grpc {
        let tools = ArcSwap::from_pointee(Tools::new(config));
        Grpc { tools, secrets, clock: SystemClock::default() }
    }

    /// Takes on other settings. Connections that stand end with what they are used for, since they
    /// may lead where none may lead any more.
    pub(crate) fn set_config(&self, config: &Webhooks) {
        self.tools.store(Arc::new(Tools::new(config)));
    }

    /// Makes one attempt, within this time.
    pub(crate) async fn call(&self, target: &str, job: &Delivery, within: Duration) -> Outcome {
        let tools = self.tools.load_full();
        let url = match tools.guard.url(target, &["grpc"]) {
            Ok(url) => url,
            Err(why) => return Outcome::failed(why),
        };
        let callee = match Callee::of(&url) {
            Ok(callee) => callee,
            Err(why) => return Outcome::failed(why),
        };
        let mut request = self.request(&url, job);
        // So that the other side can give up as well.
        request.set_timeout(within);
        let begun = Instant::now();
        match tokio::time::timeout(within, tools.send(callee, request)).await {
            Ok(Ok(answer)) => taken(&answer, job),
            Ok(Err(status)) if !is_late(&status, begun.elapsed(), within) => refused(&status),
            _ => Outcome::down(format!("took longer than {}", format_duration(within))),
        }
    }

    fn request(&self, url: &Url, job: &Delivery) -> Request<CallBackReq> {
        let now = self.clock.now().time();
        let keys = self.secrets.keys(job, url.as_str(), now);
        let args = String::from_utf8_lossy(job.body().as_bytes()).into_owned();
        // What is signed is what a receiver has in hand: nobody sees the bytes of a message.
        let about = headers::of(job, &keys, now.as_ms() / 1000, args.as_bytes());
        let mut request = Request::new(CallBackReq {
            uid: job.id().as_str().into(),
            name: job.topic().as_str().into(),
            url: job.target.as_ref().map_or_else(String::new, ToString::to_string),
            args,
        });
        *request.metadata_mut() = MetadataMap::from_headers(about);
        request
    }
}

impl Callee {
    fn of(url: &Url) -> Result<Callee, String> {
        let (Some(host), Some(port)) = (url.host_str(), url.port()) else {
            return Err("the target names no port; write grpc://host:port".into());
        };
        let path = if ["", "/"].contains(&url.path()) { METHOD } else { url.path() };
        let names: Vec<&str> = path.split('/').collect();
        let method = match names[..] {
            ["", service, method] if !service.is_empty() && !method.is_empty() => path.parse().ok(),
            _ => None,
        };
        let right = "write grpc://host:port/package.Service/Method, or without either";
        let method = method.ok_or_else(|| format!("the target names no method; {right}"))?;
        Ok(Callee { authority: format!("{host}:{port}"), method })
    }
}

impl Tools {
    fn new(config: &Webhooks) -> Tools {
        let guard = Arc::new(Guard::new(config.networks, config.allow.clone()));
        let dial = Dial::new(guard.clone(), Arc::new(SystemNames), config.connect_time);
        Tools { guard, dial, channels: Mutex::default() }
    }

    async fn send(
        &self,
        callee: Callee,
        request: Request<CallBackReq>,
    ) -> Result<Response<()>, Status> {
        let mut client = Client::new(self.channel(&callee.authority)?);
        client.ready().await.map_err(|why| Status::from_error(Box::new(why)))?;
        // Whatever is answered, only that it was is of interest.
        client.unary(request, callee.method, ProstCodec::<CallBackReq, ()>::default()).await
    }

    /// The connection to a host and port, which is made when it is first used, and anew if it broke.
    fn channel(&self, authority: &str) -> Result<Channel, Status> {
        let mut channels = self.channels.lock().expect("nobody panics holding it");
        if let Some(channel) = channels.get(authority) {
            return Ok(channel.clone());
        }
        let endpoint = Endpoint::from_shared(format!("http://{authority}"))
            .map_err(|_| Status::invalid_argument("the target is no URL that can be called"))?
            .http2_keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(PING_TIME);
        let channel = endpoint.connect_with_connector_lazy(self.dial.clone());
        if channels.len() >= CHANNELS_MAX
            && let Some(any) = channels.keys().next().cloned()
        {
            channels.remove(&any);
        }
        channels.insert(authority.to_owned(), channel.clone());
        Ok(channel)
    }
}

fn taken(answer: &Response<()>, job: &Delivery) -> Outcome {
    let asks = answer.metadata().get("linger-confirm").is_some_and(|value| value == "finish");
    let outcome = match job.confirm {
        Confirm::Delivery if !asks => Outcome::done(),
        _ => Outcome::leave(),
    };
    outcome.report(Report { status: Some(Code::Ok as u16), excerpt: None })
}

/// Whether a status only says that time is up, by the deadline that the request carries: whoever
/// minds it, the channel among them, may notice before we do.
fn is_late(status: &Status, elapsed: Duration, within: Duration) -> bool {
    matches!(status.code(), Code::Cancelled | Code::DeadlineExceeded)
        && elapsed + DEADLINE_PRECISION >= within
}

fn refused(status: &Status) -> Outcome {
    if let Some(why) = not_dialled(status) {
        return match why {
            NotDialled::Refused(why) => Outcome::failed(why),
            NotDialled::Unreachable(why) => Outcome::down(why),
        };
    }
    let (code, message) = (status.code(), status.message());
    let answered = format!("answered {code:?}: {message}");
    let answered = answered.trim_end_matches([' ', ':']);
    let outcome = match code {
        // The last is what a broken connection looks like.
        Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled => Outcome::down(answered),
        _ if status.source().is_some() => Outcome::down(answered),
        _ => Outcome::failed(answered),
    };
    let excerpt = (!message.is_empty()).then(|| message.into());
    outcome.report(Report { status: Some(code as i32 as u16), excerpt })
}

/// Why there was no connection, if that is what a status stands for.
fn not_dialled(status: &Status) -> Option<&NotDialled> {
    let mut cause: Option<&(dyn Error + 'static)> = status.source();
    while let Some(error) = cause {
        if let Some(why) = error.downcast_ref::<NotDialled>() {
            return Some(why);
        }
        cause = error.source();
    }
    None
}
