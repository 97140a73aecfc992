//! A stream of Redis: one connection, on which commands are pipelined.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::{AsyncConnectionConfig, Client, IntoConnectionInfo};

use super::{CONTENT_TYPE, Message, Publish};

/// Longer than any answer takes here.
const ANSWER_MAX: Duration = Duration::from_secs(60);

pub(super) struct Redis {
    connection: MultiplexedConnection,
    stream: String,
}

impl Publish for Redis {
    async fn connect(url: &str, stream: &str) -> Redis {
        let settings = TcpSettings::default().set_nodelay(true);
        let info = url.into_connection_info().expect("it is a URL").set_tcp_settings(settings);
        let config = AsyncConnectionConfig::new().set_response_timeout(Some(ANSWER_MAX));
        let client = Client::open(info).expect("it is a URL");
        let connection = client.get_multiplexed_async_connection_with_config(&config).await;
        Redis { connection: connection.expect("it answers"), stream: stream.to_owned() }
    }

    async fn publish(&self, message: Message) {
        let mut add = redis::cmd("XADD");
        add.arg(&self.stream).arg("*");
        for (name, value) in message.headers() {
            add.arg(name).arg(value);
        }
        add.arg("content-type").arg(CONTENT_TYPE).arg("body").arg(&message.body[..]);
        let id: String =
            add.query_async(&mut self.connection.clone()).await.expect("it is answered");
        assert!(!id.is_empty());
    }
}
