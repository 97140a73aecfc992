//! RabbitMQ: one channel, whose confirmations are awaited.

use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::types::{AMQPValue, FieldTable, ShortString};
use lapin::{BasicProperties, Channel, Confirmation, Connection, ConnectionProperties};

use super::{CONTENT_TYPE, Message, Publish};

/// Kept on disk by queues that are.
const PERSISTENT: u8 = 2;

pub(super) struct RabbitMq {
    channel: Channel,
    key: ShortString,
    _connection: Connection,
}

impl Publish for RabbitMq {
    async fn connect(url: &str, key: &str) -> RabbitMq {
        let connection = Connection::connect(url, ConnectionProperties::default()).await;
        let connection = connection.expect("it takes connections");
        let channel = connection.create_channel().await.expect("it has channels");
        let confirms = channel.confirm_select(ConfirmSelectOptions::default()).await;
        confirms.expect("it confirms");
        RabbitMq { channel, key: key.into(), _connection: connection }
    }

    async fn publish(&self, message: Message) {
        let mut table = FieldTable::default();
        for (name, value) in message.headers() {
            table.insert(name.into(), AMQPValue::LongString(value.into()));
        }
        let properties = BasicProperties::default()
            .with_message_id(message.id().into())
            .with_content_type(CONTENT_TYPE.into())
            .with_delivery_mode(PERSISTENT)
            .with_headers(table);
        let options = BasicPublishOptions { mandatory: true, immediate: false };
        let (exchange, key) = (ShortString::default(), self.key.clone());
        let sent = self.channel.basic_publish(exchange, key, options, &message.body, properties);
        let confirmed = sent.await.expect("it is sent").await.expect("it is answered");
        assert_eq!(confirmed, Confirmation::Ack(None));
    }
}
