//! NATS: a stream of JetStream, whose acknowledgements are awaited.

use std::time::Duration;

use async_nats::header::{HeaderMap, NATS_MESSAGE_ID};
use async_nats::jetstream::context::{Context, ContextBuilder};

use super::{CONTENT_TYPE, Message, Publish};

/// As the server's: nothing is given up, and nobody waits for room.
const ACK_TIME: Duration = Duration::from_secs(3600);
const ACKS_MAX: usize = 100_000;

pub(super) struct Nats {
    stream: Context,
    subject: String,
}

impl Publish for Nats {
    async fn connect(url: &str, subject: &str) -> Nats {
        let client = async_nats::connect(url).await.expect("it takes connections");
        let stream = ContextBuilder::new()
            .timeout(ACK_TIME)
            .ack_timeout(ACK_TIME)
            .max_ack_inflight(ACKS_MAX)
            .build(client);
        Nats { stream, subject: subject.to_owned() }
    }

    async fn publish(&self, message: Message) {
        let mut headers = HeaderMap::new();
        for (name, value) in message.headers() {
            headers.insert(name, value);
        }
        headers.insert("content-type", CONTENT_TYPE);
        headers.insert(NATS_MESSAGE_ID, format!("bare_{}", message.id()));
        let sent =
            self.stream.publish_with_headers(self.subject.clone(), headers, message.body).await;
        let ack = sent.expect("it is sent").await.expect("it is acknowledged");
        assert!(!ack.duplicate);
    }
}
