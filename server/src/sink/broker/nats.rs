//! NATS: a message is published to a stream of JetStream, and done with when that acknowledges it.

use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use async_nats::header::{HeaderMap, NATS_MESSAGE_ID};
use async_nats::jetstream::context::{Context, ContextBuilder, PublishError, PublishErrorKind};
use async_nats::{Client, ConnectOptions, Event, ServerAddr};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use percent_encoding::percent_decode_str;
use tokio::sync::watch;

use super::{Dialect, Fault, Message, Said, Tell};
use crate::config::Sink;

/// How often a connection is asked whether it still stands.
const PING_EVERY: Duration = Duration::from_secs(10);
/// An attempt ends long before: its own time is what counts.
const ACK_TIME: Duration = Duration::from_secs(3600);
/// The most messages that wait for their acknowledgement at once.
const ACKS_MAX: usize = 100_000;

pub(super) struct Nats {
    servers: Vec<ServerAddr>,
    login: Option<Login>,
    ca: Option<PathBuf>,
}

#[derive(Clone)]
enum Login {
    Token(String),
    User(String, String),
}

pub(super) struct Line {
    stream: Context,
    /// Whether the connection has been lost. The client would make it anew by itself, and meanwhile
    /// keep what is published: nobody would know what became of it.
    lost: watch::Receiver<bool>,
    _client: Client,
}

impl Nats {
    pub(super) fn new(sink: &Sink) -> anyhow::Result<Nats> {
        let url = sink.url()?;
        let (scheme, rest) = url.split_once("://").unwrap_or_default();
        let (login, hosts) = rest.rsplit_once('@').map_or((None, rest), |(a, b)| (Some(a), b));
        let servers = hosts.split(',').map(|host| {
            let server = format!("{scheme}://{host}").parse();
            server.with_context(|| format!("`{}` is no URL of NATS", sink.shown_url()))
        });
        let servers = servers.collect::<anyhow::Result<_>>()?;
        Ok(Nats { servers, login: login.map(Login::read), ca: sink.ca.clone() })
    }
}

impl Login {
    /// As it stands before the `@` of a URL.
    fn read(text: &str) -> Login {
        let plain = |text| percent_decode_str(text).decode_utf8_lossy().into_owned();
        match text.split_once(':') {
            Some((user, password)) => Login::User(plain(user), plain(password)),
            None => Login::Token(plain(text)),
        }
    }
}

impl Dialect for Nats {
    type Line = Line;

    async fn dial(&self) -> Result<Line, String> {
        let (tell, lost) = watch::channel(false);
        let mut options = ConnectOptions::new()
            .name("linger")
            .ping_interval(PING_EVERY)
            .event_callback(move |event| {
                if matches!(event, Event::Disconnected | Event::Closed) {
                    tell.send_replace(true);
                }
                std::future::ready(())
            });
        options = match self.login.clone() {
            Some(Login::Token(token)) => options.token(token),
            Some(Login::User(user, password)) => options.user_and_password(user, password),
            None => options,
        };
        if let Some(ca) = &self.ca {
            options = options.add_root_certificates(ca.clone());
        }
        let client = options.connect(self.servers.clone()).await.map_err(|why| {
            let first = &self.servers[0];
            format!("could not connect to {}:{}: {}", first.host(), first.port(), causes(&why))
        })?;
        let stream = ContextBuilder::new()
            .timeout(ACK_TIME)
            .ack_timeout(ACK_TIME)
            .max_ack_inflight(ACKS_MAX)
            .build(client.clone());
        Ok(Line { stream, lost, _client: client })
    }

    const GATHERS: bool = true;

    async fn publish(&self, line: &Line, messages: Vec<Message>, tell: &mut Tell<'_>) {
        let mut lost = line.lost.clone();
        let mut is_told = vec![false; messages.len()];
        let hear = |at: usize, said| {
            is_told[at] = true;
            tell(at, said);
        };
        let is_lost = tokio::select! {
            () = acknowledged(&line.stream, messages, hear) => false,
            _ = lost.wait_for(|lost| *lost) => true,
        };
        let open = is_told.into_iter().enumerate().filter(|(_, is_told)| is_lost && !is_told);
        for (at, _) in open {
            tell(at, Err(Fault::Broken("the connection broke off".into())));
        }
    }
}

/// Publishes all of them one behind the other, and hears their acknowledgements as they come.
async fn acknowledged(stream: &Context, messages: Vec<Message>, mut hear: impl FnMut(usize, Said)) {
    let mut under_way = FuturesUnordered::new();
    for (at, message) in messages.into_iter().enumerate() {
        let mut headers = HeaderMap::new();
        for (name, value) in message.headers() {
            headers.insert(name, value);
        }
        headers.insert("content-type", message.content_type.as_str());
        headers.insert(NATS_MESSAGE_ID, message.once.as_str());
        let subject = subject(&message.route);
        let published = stream.publish_with_headers(subject.clone(), headers, message.body).await;
        under_way.push(async move {
            let acknowledged = match published {
                Ok(acknowledging) => acknowledging.await,
                Err(why) => Err(why),
            };
            (at, acknowledged.map_err(|why| fault(&why, &subject)))
        });
    }
    while let Some((at, said)) = under_way.next().await {
        hear(at, said.map(|ack| Some(format!("stream {}, sequence {}", ack.stream, ack.sequence))));
    }
}

fn fault(why: &PublishError, subject: &str) -> Fault {
    match why.kind() {
        PublishErrorKind::StreamNotFound => {
            Fault::Refused(format!("no stream of JetStream has the subject `{subject}`"))
        }
        PublishErrorKind::BrokenPipe => Fault::Broken("the connection broke off".into()),
        PublishErrorKind::TimedOut | PublishErrorKind::MaxAckPending => Fault::Down(causes(why)),
        _ => Fault::Refused(causes(why)),
    }
}

/// What a subject cannot hold is percent-encoded: blanks, wildcards, and dots with nothing between
/// them.
fn subject(route: &str) -> String {
    let mut subject = String::with_capacity(route.len());
    let mut chars = route.chars().peekable();
    let mut begins = true;
    while let Some(c) = chars.next() {
        let empty = c == '.' && (begins || chars.peek().is_none_or(|next| *next == '.'));
        match c {
            _ if empty || c.is_whitespace() || c.is_control() || matches!(c, '*' | '>' | '%') => {
                let mut bytes = [0; 4];
                for byte in c.encode_utf8(&mut bytes).bytes() {
                    subject += &format!("%{byte:02X}");
                }
            }
            c => subject.push(c),
        }
        begins = c == '.' && !empty;
    }
    subject
}

/// What went wrong and why.
fn causes(why: &dyn Error) -> String {
    let mut text = why.to_string();
    let mut cause = why.source();
    while let Some(inner) = cause {
        if !text.contains(&inner.to_string()) {
            text += &format!(": {inner}");
        }
        cause = inner.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_has_no_blanks_wildcards_or_empty_parts() {
        for (route, expected) in [
            ("order.close", "order.close"),
            ("支付宝", "支付宝"),
            ("jobs.a b", "jobs.a%20b"),
            ("a.*.>", "a.%2A.%3E"),
            ("100%", "100%25"),
            (".a", "%2Ea"),
            ("a.", "a%2E"),
            ("a..b", "a%2E.b"),
            ("...", "%2E%2E%2E"),
        ] {
            assert_eq!(subject(route), expected, "{route}");
        }
    }
}
