//! A real Redis.

use std::collections::BTreeMap;

use serde_json::Value;
use tokio::sync::mpsc;

use super::{Broker, Got};
use crate::redis_servers::{self, Answer, Standalone};

pub(crate) struct Redis(pub(crate) Standalone);

/// An entry: its id, and fields with their values.
fn got(entry: &Answer) -> Got {
    let fields = entry.list()[1].list();
    let mut headers: BTreeMap<String, String> =
        fields.chunks(2).map(|pair| (pair[0].text().into(), pair[1].text().into())).collect();
    let body = headers.remove("body").unwrap_or_default().into_bytes();
    Got { headers, body }
}

impl Broker for Redis {
    fn settings(&self, port: u16) -> String {
        format!("[sinks.events]\ntype = 'redis'\nurl = 'redis://127.0.0.1:{port}'\n")
    }

    fn is_ok(answer: &Value) -> bool {
        // The time, and a number.
        answer["excerpt"].as_str().is_some_and(|id| id.ends_with("-0"))
    }

    async fn start() -> Option<Redis> {
        redis_servers::there().then(|| Redis(Standalone::start(&["--appendonly", "yes"])))
    }

    fn port(&self) -> u16 {
        self.0.server.port
    }

    async fn consume(&self) -> mpsc::UnboundedReceiver<Got> {
        let (send, receive) = mpsc::unbounded_channel();
        let mut plain = self.0.plain();
        std::thread::spawn(move || {
            let mut last = "0".to_owned();
            // Until the server or who listens is gone.
            while !send.is_closed() {
                let read = ["XREAD", "BLOCK", "100", "STREAMS", "order.close", last.as_str()];
                match plain.try_ask(&read) {
                    Ok(Answer::List(streams)) => {
                        for entry in streams[0].list()[1].list() {
                            last = entry.list()[0].text().to_owned();
                            let _ = send.send(got(entry));
                        }
                    }
                    Ok(_) => {}
                    Err(_) => return,
                }
            }
        });
        receive
    }

    async fn stored(&self) -> Vec<String> {
        let entries = self.0.plain().ask(&["XRANGE", "order.close", "-", "+"]);
        entries.list().iter().map(|entry| got(entry).header("linger-job").to_owned()).collect()
    }

    fn end(&mut self) {
        self.0.stop();
    }

    fn start_again(&mut self) {
        self.0.start_again();
    }
}
