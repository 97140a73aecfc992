//! Calls to servers of Eureka: the one that answered last is asked first, and the next if it does
//! not answer.

use std::error::Error;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use axum::http::{HeaderValue, Method, Request, StatusCode};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use linger::time::format_duration;
use percent_encoding::percent_decode_str;
use serde_json::Value;
use tokio::net::UdpSocket;
use tokio::time::timeout;
use url::Url;

use super::apps::{Found, read_apps};
use crate::config::{EurekaServers, Webhooks};
use crate::sink;

/// How long one server may take to answer.
const TIME: Duration = Duration::from_secs(10);
/// The most that is read of an answer: some ten thousand instances.
const ANSWER_BYTES_MAX: usize = 64 << 20;
/// How much of a refusal is told.
const EXCERPT_CHARS: usize = 200;

const JSON: HeaderValue = HeaderValue::from_static("application/json");

pub(super) struct Client {
    http: sink::HttpClient,
    servers: Vec<Server>,
    /// Who answered last.
    last: AtomicUsize,
}

struct Server {
    /// Without the login.
    url: Url,
    login: Option<HeaderValue>,
}

/// A call, to whichever server answers.
struct Call<'a> {
    method: Method,
    path: &'a [&'a str],
    body: Bytes,
}

impl Client {
    pub(super) fn new(servers: &EurekaServers, config: &Webhooks) -> anyhow::Result<Client> {
        let servers = servers.urls().iter().map(Server::new).collect();
        Ok(Client { http: sink::http_client(config)?, servers, last: AtomicUsize::new(0) })
    }

    /// Who can be called for jobs.
    pub(super) async fn workers(&self) -> Result<Found, String> {
        let call = Call { method: Method::GET, path: &["apps"], body: Bytes::new() };
        self.ask(&call, |status, body| match status {
            StatusCode::OK => read_apps(body),
            other => Err(answered(other, body)),
        })
        .await
    }

    /// Makes an instance known.
    pub(super) async fn register(&self, app: &str, instance: &Value) -> Result<(), String> {
        let body = instance.to_string().into();
        let call = Call { method: Method::POST, path: &["apps", &app.to_uppercase()], body };
        self.ask(&call, |status, body| match status.is_success() {
            true => Ok(()),
            false => Err(answered(status, body)),
        })
        .await
    }

    /// Says that an instance is there. Whether it is known is the answer.
    pub(super) async fn renew(&self, app: &str, id: &str) -> Result<bool, String> {
        let path = &["apps", &app.to_uppercase(), id];
        let call = Call { method: Method::PUT, path, body: Bytes::new() };
        self.ask(&call, |status, body| match status {
            StatusCode::OK => Ok(true),
            StatusCode::NOT_FOUND => Ok(false),
            other => Err(answered(other, body)),
        })
        .await
    }

    /// Takes an instance out, if it is known.
    pub(super) async fn deregister(&self, app: &str, id: &str) -> Result<(), String> {
        let path = &["apps", &app.to_uppercase(), id];
        let call = Call { method: Method::DELETE, path, body: Bytes::new() };
        self.ask(&call, |status, body| match status {
            StatusCode::OK | StatusCode::NOT_FOUND => Ok(()),
            other => Err(answered(other, body)),
        })
        .await
    }

    /// The address of this machine from which a server of Eureka is reached. Nothing is sent.
    pub(super) async fn own_address(&self) -> Result<IpAddr, String> {
        let url = &self.servers[self.last.load(Ordering::Relaxed)].url;
        let host = url.host_str().unwrap_or_default();
        let found = async {
            let to = tokio::net::lookup_host((host.trim_matches(['[', ']']), 80)).await?.next();
            let to = to.ok_or_else(|| std::io::Error::other("it has no address"))?;
            let any: IpAddr = if to.is_ipv4() { [0; 4].into() } else { [0; 16].into() };
            let socket = UdpSocket::bind((any, 0)).await?;
            socket.connect(to).await?;
            socket.local_addr()
        };
        let found: std::io::Result<_> = found.await;
        found.map(|own| own.ip()).map_err(|why| format!("no address leads to {host}: {why}"))
    }

    /// What the first server says whose answer can be read.
    async fn ask<T>(
        &self,
        call: &Call<'_>,
        read: impl Fn(StatusCode, &[u8]) -> Result<T, String>,
    ) -> Result<T, String> {
        let (first, count) = (self.last.load(Ordering::Relaxed), self.servers.len());
        let mut wrong = Vec::new();
        for at in (first..first + count).map(|at| at % count) {
            let server = &self.servers[at];
            let answer = timeout(TIME, server.call(&self.http, call)).await;
            let answer =
                answer.unwrap_or_else(|_| Err(format!("took over {}", format_duration(TIME))));
            match answer.and_then(|(status, body)| read(status, &body)) {
                Ok(said) => {
                    self.last.store(at, Ordering::Relaxed);
                    return Ok(said);
                }
                Err(why) => wrong.push(format!("{} {why}", server.url)),
            }
        }
        Err(wrong.join("; "))
    }
}

impl Server {
    fn new(url: &Url) -> Server {
        let mut bare = url.clone();
        // It is an http URL, in which both can stand.
        let _ = bare.set_username("");
        let _ = bare.set_password(None);
        let has_login = !url.username().is_empty() || url.password().is_some();
        let login = has_login.then(|| {
            let [user, password] = [url.username(), url.password().unwrap_or_default()]
                .map(|text| percent_decode_str(text).collect::<Vec<u8>>());
            let login = BASE64_STANDARD.encode([user, password].join(&b':'));
            let mut login: HeaderValue = format!("Basic {login}").parse().expect("it is ASCII");
            login.set_sensitive(true);
            login
        });
        Server { url: bare, login }
    }

    async fn call(
        &self,
        http: &sink::HttpClient,
        call: &Call<'_>,
    ) -> Result<(StatusCode, Bytes), String> {
        let mut url = self.url.clone();
        url.path_segments_mut().expect("an http URL has a path").pop_if_empty().extend(call.path);
        let mut request =
            Request::builder().method(&call.method).uri(url.as_str()).header(ACCEPT, JSON);
        if !call.body.is_empty() {
            request = request.header(CONTENT_TYPE, JSON);
        }
        if let Some(login) = &self.login {
            request = request.header(AUTHORIZATION, login);
        }
        let request = request.body(Full::new(call.body.clone())).map_err(|why| why.to_string())?;
        let answer = http.request(request).await.map_err(|error| innermost(&error))?;
        let (status, body) = (answer.status(), answer.into_body());
        let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|error| format!("broke off: {error}"))?;
        Ok((status, body.to_bytes()))
    }
}

/// A refusal, with as much as it says.
fn answered(status: StatusCode, body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let text = text.chars().take(EXCERPT_CHARS);
    let text: String = text.map(|c| if c.is_control() { ' ' } else { c }).collect();
    format!("answered {status}: {}", text.trim()).trim_end_matches([' ', ':']).to_owned()
}

/// What is behind an error: the connection, mostly.
fn innermost(error: &(dyn Error + 'static)) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_is_taken_out_of_the_url_and_decoded() {
        let server = Server::new(&"http://a%40b:p%3Aw@host:1/eureka/".parse().unwrap());
        assert_eq!(server.url.as_str(), "http://host:1/eureka/");
        let login = BASE64_STANDARD.encode("a@b:p:w");
        assert_eq!(server.login.unwrap(), format!("Basic {login}").as_str());
        assert!(Server::new(&"http://host:1/eureka".parse().unwrap()).login.is_none());
    }

    #[test]
    fn a_refusal_is_told_in_one_short_line() {
        assert_eq!(answered(StatusCode::NOT_FOUND, b""), "answered 404 Not Found");
        let long = answered(StatusCode::BAD_REQUEST, &b"a\nb".repeat(1000));
        assert!(long.starts_with("answered 400 Bad Request: a b"), "{long}");
        assert!(long.len() < 300, "{long}");
    }
}
