//! RabbitMQ: a message is published with `mandatory`, and done with when the broker confirms it and
//! did not return it.

use std::sync::Mutex;

use anyhow::Context;
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions, ExchangeDeclareOptions};
use lapin::tcp::OwnedTLSConfig;
use lapin::types::{AMQPValue, FieldTable, ShortString};
use lapin::uri::AMQPUri;
use lapin::{
    BasicProperties, Channel, Confirmation, Connection, ConnectionProperties, ExchangeKind,
};
use tokio::sync::Semaphore;

use super::{Dialect, Fault, Message, Said, Tell};
use crate::config::Sink;

/// The most messages that wait for their confirmation at once, each on a channel of its own.
const CHANNELS_MAX: u16 = 256;
/// Kept on disk by queues that are.
const PERSISTENT: u8 = 2;

pub(super) struct RabbitMq {
    uri: AMQPUri,
    tls: OwnedTLSConfig,
    exchange: ShortString,
}

/// A connection, and the channels on it that nobody uses at present.
///
/// The client gives a message that comes back to whichever publish of its channel is confirmed next.
/// So each has a channel to itself, on which no other's message can come back.
pub(super) struct Line {
    connection: Connection,
    idle: Mutex<Vec<Channel>>,
    room: Semaphore,
}

impl RabbitMq {
    pub(super) fn new(sink: &Sink, exchange: &str) -> anyhow::Result<RabbitMq> {
        // The cause may have the password in it.
        let uri = sink.url()?.parse();
        let uri = uri.ok().with_context(|| format!("`{}` is no AMQP URL", sink.shown_url()))?;
        let cert_chain = match &sink.ca {
            Some(file) => Some(std::fs::read_to_string(file).with_context(|| {
                format!("cannot read the certificates in `{}`", file.display())
            })?),
            None => None,
        };
        let tls = OwnedTLSConfig { identity: None, cert_chain };
        let exchange = ShortString::from(exchange);
        Ok(RabbitMq { uri, tls, exchange })
    }
}

impl Dialect for RabbitMq {
    type Line = Line;

    async fn dial(&self) -> Result<Line, String> {
        let properties = ConnectionProperties::default().with_connection_name("linger".into());
        let runtime = lapin::runtime::default_runtime().map_err(|why| said(&why))?;
        let (uri, tls) = (self.uri.clone(), self.tls.clone());
        let connection = Connection::connect_uri_with_config(uri, properties, tls, runtime);
        let connection = connection.await.map_err(|why| {
            let authority = &self.uri.authority;
            let why = match why.kind() {
                lapin::ErrorKind::IOError(why) => why.to_string(),
                _ => said(&why),
            };
            format!("could not connect to {}:{}: {why}", authority.host, authority.port)
        })?;
        // Without it a missing one would be known only by the channels that die of it.
        if !self.exchange.as_str().is_empty() {
            let channel = connection.create_channel().await.map_err(|why| said(&why))?;
            let options = ExchangeDeclareOptions { passive: true, ..Default::default() };
            let (name, kind) = (self.exchange.clone(), ExchangeKind::Direct);
            let there = channel.exchange_declare(name, kind, options, FieldTable::default());
            there.await.map_err(|why| said(&why))?;
        }
        let most = match connection.configuration().channel_max() {
            0 => CHANNELS_MAX,
            most => CHANNELS_MAX.min(most),
        };
        let room = Semaphore::new(usize::from(most));
        Ok(Line { connection, idle: Mutex::default(), room })
    }

    /// Each has a channel to itself, and one that waits holds up none of the others.
    const GATHERS: bool = false;

    async fn publish(&self, line: &Line, messages: Vec<Message>, tell: &mut Tell<'_>) {
        for (at, message) in messages.into_iter().enumerate() {
            tell(at, self.publish_one(line, message).await);
        }
    }
}

impl RabbitMq {
    async fn publish_one(&self, line: &Line, message: Message) -> Said {
        let _room = line.room.acquire().await.map_err(|why| Fault::Broken(why.to_string()))?;
        let channel = line.channel().await.map_err(|why| line.fault(&why))?;
        let confirmed = self.confirmed(&channel, &message).await.map_err(|why| line.fault(&why))?;
        // Not before: a channel on which something is still awaited is used by nobody else.
        line.idle.lock().expect("nobody panics holding it").push(channel);
        match confirmed {
            Confirmation::Ack(None) => Ok(None),
            Confirmation::Ack(Some(back)) | Confirmation::Nack(Some(back)) => {
                let (code, text) = (back.reply_code, &back.reply_text);
                let route = &message.route;
                Err(Fault::Refused(format!("returned `{route}`: {code} {text}")))
            }
            Confirmation::Nack(None) => Err(Fault::Refused("the broker did not take it".into())),
            Confirmation::NotRequested => Err(Fault::Broken("the broker confirms nothing".into())),
        }
    }

    async fn confirmed(&self, channel: &Channel, message: &Message) -> lapin::Result<Confirmation> {
        let mut table = FieldTable::default();
        for (name, value) in message.headers() {
            table.insert(name.into(), AMQPValue::LongString(value.into()));
        }
        let properties = BasicProperties::default()
            .with_message_id(message.id.as_str().into())
            .with_content_type(message.content_type.as_str().into())
            .with_delivery_mode(PERSISTENT)
            .with_headers(table);
        let options = BasicPublishOptions { mandatory: true, immediate: false };
        let (exchange, key) = (self.exchange.clone(), message.route.as_str().into());
        channel.basic_publish(exchange, key, options, &message.body, properties).await?.await
    }
}

impl Line {
    async fn channel(&self) -> lapin::Result<Channel> {
        loop {
            let idle = self.idle.lock().expect("nobody panics holding it").pop();
            match idle {
                Some(channel) if channel.status().connected() => return Ok(channel),
                Some(_) => {}
                None => break,
            }
        }
        let channel = self.connection.create_channel().await?;
        channel.confirm_select(ConfirmSelectOptions::default()).await?;
        Ok(channel)
    }

    /// What an error means: a channel may end alone.
    fn fault(&self, why: &lapin::Error) -> Fault {
        match self.connection.status().connected() && why.is_amqp_soft_error() {
            true => Fault::Refused(said(why)),
            false => Fault::Broken(said(why)),
        }
    }
}

fn said(why: &lapin::Error) -> String {
    match why.kind() {
        lapin::ErrorKind::ProtocolError(error) => error.to_string(),
        _ => format!("the connection broke off: {why}"),
    }
}
