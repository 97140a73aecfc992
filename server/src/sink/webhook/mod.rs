//! Webhooks: a job is pushed by a POST, and what is answered says what becomes of it.

mod answer;
mod connect;
mod request;
#[cfg(test)]
mod tests;

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use axum::http::Uri;
use bytes::Bytes;
use http_body_util::Full;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use linger::queue::Delivery;
use linger::time::{Clock, SystemClock};
use linger::worker::Outcome;
use rustls::ClientConfig;
use url::Url;

use super::address::Guard;
use super::dial::{Dial, Names, NotDialled, SystemNames};
use crate::config::{Networks, Webhooks};
use crate::secrets::Secrets;
use answer::Answer;
use connect::Connector;

/// How long a connection is kept for the next job.
const IDLE_TIME: Duration = Duration::from_secs(30);
/// How often a connection of HTTP/2 is asked whether it still stands, and for how long.
const PING_EVERY: Duration = Duration::from_secs(20);
const PING_TIME: Duration = Duration::from_secs(10);

/// Posts jobs to where their targets say.
pub(crate) struct Webhook {
    tools: ArcSwap<Tools>,
    tls: ClientConfig,
    names: Arc<dyn Names>,
    secrets: Arc<Secrets>,
    clock: SystemClock,
}

/// What a call is made with, by the settings in force.
struct Tools {
    guard: Arc<Guard>,
    client: HttpClient,
    answer_bytes_max: usize,
    /// Where the last job went: the next mostly goes there too.
    last: ArcSwapOption<Place>,
}

/// Makes calls by HTTP.
pub(crate) type HttpClient = Client<Connector, Full<Bytes>>;

/// Where a target leads.
struct Place {
    target: String,
    url: Url,
    uri: Uri,
}

/// For calls to what the settings name, which no stranger does: it may be in any network.
pub(crate) fn http_client(config: &Webhooks) -> anyhow::Result<HttpClient> {
    let guard = Arc::new(Guard::new(Networks::Any, Vec::new()));
    let dial = Dial::new(guard, Arc::new(SystemNames), config.connect_time);
    Ok(client(dial, &crate::tls::client(config.ca.as_deref(), None)?))
}

impl Webhook {
    /// Reads the certificates of authorities, and is ready to post.
    pub(crate) fn new(config: &Webhooks, secrets: Arc<Secrets>) -> anyhow::Result<Webhook> {
        Webhook::with_names(config, secrets, Arc::new(SystemNames))
    }

    fn with_names(
        config: &Webhooks,
        secrets: Arc<Secrets>,
        names: Arc<dyn Names>,
    ) -> anyhow::Result<Webhook> {
        let tls = crate::tls::client(config.ca.as_deref(), None)?;
        let tools = ArcSwap::from_pointee(Tools::new(config, &tls, &names));
        Ok(Webhook { tools, tls, names, secrets, clock: SystemClock::default() })
    }

    /// Takes on other settings. Connections that stand end with what they are used for, since they
    /// may lead where none may lead any more.
    pub(crate) fn set_config(&self, config: &Webhooks) {
        self.tools.store(Arc::new(Tools::new(config, &self.tls, &self.names)));
    }

    /// Makes one attempt. Whoever asks for it says how long it may take.
    pub(crate) async fn post(&self, url: &str, job: &Delivery) -> Outcome {
        let tools = self.tools.load_full();
        let place = match tools.place(url) {
            Ok(place) => place,
            Err(why) => return Outcome::failed(why),
        };
        let now = self.clock.now().time();
        let keys = self.secrets.keys(job, place.url.as_str(), now);
        let request = request::of(place.uri.clone(), job, &keys, now.as_ms() / 1000);
        let host = place.url.host_str().unwrap_or_default();
        match tools.client.request(request).await {
            Ok(response) => match Answer::read(response, tools.answer_bytes_max).await {
                Ok(answer) => answer.outcome(job, now),
                Err(error) => broken(host, &error),
            },
            Err(error) => broken(host, &error),
        }
    }
}

impl Tools {
    fn new(config: &Webhooks, tls: &ClientConfig, names: &Arc<dyn Names>) -> Tools {
        let guard = Arc::new(Guard::new(config.networks, config.allow.clone()));
        let dial = Dial::new(guard.clone(), names.clone(), config.connect_time);
        let last = ArcSwapOption::empty();
        Tools { guard, client: client(dial, tls), answer_bytes_max: config.answer_bytes, last }
    }

    fn place(&self, target: &str) -> Result<Arc<Place>, String> {
        if let Some(last) = &*self.last.load()
            && last.target == target
        {
            return Ok(last.clone());
        }
        let url = self.guard.url(target, &["http", "https"]).map_err(|why| why.to_string())?;
        let uri = url.as_str().parse().map_err(|_| "the target is no URL that can be called")?;
        let place = Arc::new(Place { target: target.into(), url, uri });
        self.last.store(Some(place.clone()));
        Ok(place)
    }
}

fn client(dial: Dial, tls: &ClientConfig) -> HttpClient {
    Client::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_TIME)
        .http2_keep_alive_interval(PING_EVERY)
        .http2_keep_alive_timeout(PING_TIME)
        .build(Connector::new(dial, tls))
}

/// What became of an attempt that was not answered.
fn broken(host: &str, error: &(dyn Error + 'static)) -> Outcome {
    let mut cause = error;
    loop {
        if let Some(why) = cause.downcast_ref::<NotDialled>() {
            return match why {
                NotDialled::Refused(why) => Outcome::failed(why),
                NotDialled::Unreachable(why) => Outcome::down(why),
            };
        }
        if let Some(why) = cause.downcast_ref::<rustls::Error>() {
            return Outcome::down(format!("could not make a secure connection to {host}: {why}"));
        }
        match within(cause) {
            Some(inner) => cause = inner,
            None => return Outcome::down(format!("the call to {host} broke off: {cause}")),
        }
    }
}

/// What is behind an error. One of I/O does not name what it wraps as its source.
fn within<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    let wrapped = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    match wrapped {
        Some(wrapped) => Some(wrapped),
        None => error.source(),
    }
}
