//! A real NATS server with JetStream.

use std::path::PathBuf;

use async_nats::jetstream;
use serde_json::Value;
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio_stream::StreamExt;

use super::process::{Process, program};
use super::{Broker, Got, certificate};

pub(crate) struct Nats {
    process: Process,
    /// Its certificate, if it speaks TLS alone; then it wants a password, too.
    pub(crate) ca: PathBuf,
    _folder: TempDir,
}

impl Nats {
    pub(crate) async fn client(&self) -> async_nats::Client {
        async_nats::connect(format!("nats://127.0.0.1:{}", self.process.port)).await.unwrap()
    }

    /// Starts one that speaks TLS alone and wants a password, or neither.
    pub(crate) async fn start_with(secure: bool) -> Option<Nats> {
        let program = program("nats-server")?;
        let folder = tempfile::tempdir().unwrap();
        let (ca, key) = certificate(folder.path());
        let (program, key) = (program.display(), key.display());
        let tls =
            format!("--tls --tlscert {} --tlskey {key} --user app --pass geheim", ca.display());
        let script = format!(
            "{program} -a 127.0.0.1 -p $PORT -js -sd data {} &",
            if secure { &tls } else { "" }
        );
        let process = Process::start(&script, folder.path().to_owned(), |_| vec![]);
        let nats = Nats { process, ca, _folder: folder };
        let stream = jetstream::stream::Config {
            name: "ORDERS".into(),
            subjects: vec!["order.>".into()],
            ..Default::default()
        };
        let client = match secure {
            false => nats.client().await,
            true => {
                // With two providers compiled in, it has to be told.
                let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
                let options = async_nats::ConnectOptions::with_user_and_password(
                    "app".into(),
                    "geheim".into(),
                );
                let options = options.add_root_certificates(nats.ca.clone());
                options.connect(format!("tls://localhost:{}", nats.port())).await.unwrap()
            }
        };
        jetstream::new(client).create_stream(stream).await.unwrap();
        Some(nats)
    }
}

impl Broker for Nats {
    fn settings(&self, port: u16) -> String {
        format!("[sinks.events]\ntype = 'nats'\nurl = 'nats://127.0.0.1:{port}'\n")
    }

    fn is_ok(answer: &Value) -> bool {
        answer["excerpt"] == "stream ORDERS, sequence 1"
    }

    async fn start() -> Option<Nats> {
        Nats::start_with(false).await
    }

    fn port(&self) -> u16 {
        self.process.port
    }

    /// Whatever is published, be it dropped by the stream because it knows it.
    async fn consume(&self) -> mpsc::UnboundedReceiver<Got> {
        let (send, receive) = mpsc::unbounded_channel();
        let client = self.client().await;
        let mut messages = client.subscribe("order.close").await.unwrap();
        client.flush().await.unwrap();
        tokio::spawn(async move {
            while let Some(message) = messages.next().await {
                let headers = message.headers.unwrap_or_default();
                let headers = headers.iter();
                let headers =
                    headers.map(|(name, values)| (name.to_string(), values[0].to_string()));
                // Nobody may want to know any more.
                let _ =
                    send.send(Got { headers: headers.collect(), body: message.payload.to_vec() });
            }
        });
        receive
    }

    async fn stored(&self) -> Vec<String> {
        let stream = jetstream::new(self.client().await).get_stream("ORDERS").await.unwrap();
        let consumer = jetstream::consumer::pull::Config {
            ack_policy: jetstream::consumer::AckPolicy::None,
            ..Default::default()
        };
        let consumer = stream.create_consumer(consumer).await.unwrap();
        let mut ids = Vec::new();
        loop {
            let mut batch = consumer.fetch().max_messages(1000).messages().await.unwrap();
            let before = ids.len();
            while let Some(message) = batch.next().await {
                let headers = message.unwrap().message.headers.unwrap();
                ids.push(headers.get("linger-job").unwrap().to_string());
            }
            if ids.len() == before {
                return ids;
            }
        }
    }

    fn end(&mut self) {
        self.process.end("TERM");
    }

    fn start_again(&mut self) {
        self.process.start_again();
    }
}
