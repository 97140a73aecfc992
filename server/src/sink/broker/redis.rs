//! A stream of Redis: what is added has an id, which is Redis's word for it.

use std::sync::Arc;

use linger::error::Code;
use linger::store::redis::{Address, Answer, Foreign};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::{Dialect, Fault, Message};
use crate::config::Sink;

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

    async fn publish(
        &self,
        line: &Arc<Foreign>,
        message: Message,
    ) -> Result<Option<String>, Fault> {
        let key = message.route.as_bytes();
        let length = self.length.to_string();
        let mut words: Vec<&[u8]> = vec![b"XADD", key];
        if self.length > 0 {
            words.extend([&b"MAXLEN"[..], b"~", length.as_bytes()]);
        }
        words.push(b"*");
        for (name, value) in message.headers() {
            words.extend([name.as_bytes(), value.as_bytes()]);
        }
        words.extend([&b"content-type"[..], message.content_type.as_bytes()]);
        words.extend([&b"body"[..], &message.body]);
        match line.command_on(key, &words).await {
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
}
