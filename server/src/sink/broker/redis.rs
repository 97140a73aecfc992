//! A stream of Redis: what is added has an id, which is Redis's word for it.

use std::sync::Arc;

use linger::error::Code;
use linger::store::redis::{Address, Answer, Foreign};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::{Dialect, Fault, Message, Said, Tell};
use crate::config::Sink;

/// Most bytes of bodies that are sent at once.
const PIECE_BYTES: usize = 512 << 10;

pub(super) struct Redis {
    address: Address,
    length: usize,
}

impl Redis {
    pub(super) fn new(sink: &Sink, length: usize) -> anyhow::Result<Redis> {
        let mut url = sink.url()?;
        if let Some(ca) = &sink.ca {
            let ca = ca.to_string_lossy();
            let separator = if url.contains('?') { '&' } else { '?' };
            url += &format!("{separator}ca={}", utf8_percent_encode(&ca, NON_ALPHANUMERIC));
        }
        Ok(Redis { address: url.parse()?, length })
    }
}

impl Dialect for Redis {
    /// Once it stands it finds its way again by itself.
    type Line = Arc<Foreign>;

    async fn dial(&self) -> Result<Arc<Foreign>, String> {
        let connected = Foreign::connect(&self.address).await;
        connected.map(Arc::new).map_err(|cause| cause.message().to_owned())
    }

    const GATHERS: bool = true;

    async fn publish(&self, line: &Arc<Foreign>, messages: Vec<Message>, tell: &mut Tell<'_>) {
        let length = self.length.to_string();
        let mut from = 0;
        while from < messages.len() {
            let some = &messages[from..from + piece_len(&messages[from..])];
            let commands: Vec<_> = some.iter().map(|message| add(message, &length)).collect();
            let answers = line.commands_on(some[0].route.as_bytes(), &commands).await;
            for (at, answer) in answers.into_iter().enumerate() {
                tell(from + at, said(answer));
            }
            from += some.len();
        }
    }
}

/// How many of these are sent at once: their answers have one time together, which is short. At least one.
fn piece_len(messages: &[Message]) -> usize {
    let mut bytes = 0;
    let fit = messages.iter().take_while(|message| {
        bytes += message.body.len();
        bytes <= PIECE_BYTES
    });
    fit.count().max(1)
}

/// The words of a command that adds a message to its stream, which is kept to about that length.
fn add<'a>(message: &'a Message, length: &'a str) -> Vec<&'a [u8]> {
    let mut words: Vec<&[u8]> = Vec::with_capacity(32);
    words.extend([&b"XADD"[..], message.route.as_bytes()]);
    if length != "0" {
        words.extend([&b"MAXLEN"[..], b"~", length.as_bytes()]);
    }
    words.push(b"*");
    for (name, value) in message.headers() {
        words.extend([name.as_bytes(), value.as_bytes()]);
    }
    words.extend([&b"content-type"[..], message.content_type.as_bytes()]);
    words.extend([&b"body"[..], &message.body]);
    words
}

fn said(answer: linger::Result<Answer>) -> Said {
    match answer {
        Ok(Answer::Bytes(id)) => Ok(Some(String::from_utf8_lossy(&id).into_owned())),
        Ok(other) => Err(Fault::Refused(format!("Redis answered {other:?}"))),
        // It may be that the key is no stream.
        Err(cause) if cause.code() == Code::StorageFailed => {
            Err(Fault::Refused(cause.message().to_owned()))
        }
        // The connection would be made anew by itself, and until then every job would fail.
        Err(cause) => Err(Fault::Broken(cause.message().to_owned())),
    }
}
