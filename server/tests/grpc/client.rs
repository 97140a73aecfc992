//! A server of its own for each test, and someone who calls it.

use std::net::SocketAddr;
use std::time::Duration;

use linger_server::config::Config;
use linger_server::serve::{self, Running};
use tonic::transport::Channel;
use tonic::{Code, Response, Status};

pub(crate) use linger_server::proto::linger as pb;
use pb::queue_client::QueueClient;
use pb::topics_client::TopicsClient;

/// So long is waited for what must come: only to fail rather than hang.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A server that runs, and its folder.
pub(crate) struct Server {
    running: Running,
    config: Config,
    channel: Channel,
    _folder: tempfile::TempDir,
}

impl Server {
    pub(crate) async fn start() -> Server {
        Server::with(|_| {}).await
    }

    /// A server with some settings of its own.
    pub(crate) async fn with(change: impl FnOnce(&mut Config)) -> Server {
        let mut server = Server::listening(change).await;
        server.running.ready().await.expect("it is ready");
        server
    }

    /// A server that cannot open its store, and so is never ready.
    pub(crate) async fn without_store() -> Server {
        let mut server = Server::listening(|config| config.store = "/dev/null/data".into()).await;
        server.running.ready().await.expect_err("there can be no store");
        server
    }

    async fn listening(change: impl FnOnce(&mut Config)) -> Server {
        let folder = tempfile::tempdir().expect("a folder");
        let mut config = Config::defaults();
        config.listen = SocketAddr::from(([127, 0, 0, 1], 0));
        config.store = folder.path().join("data").into();
        change(&mut config);
        let running = serve::start(config.clone()).await.expect("it starts");
        let channel = connect(running.address()).await;
        Server { running, config, channel, _folder: folder }
    }

    /// Changes settings while it runs.
    pub(crate) fn set(&mut self, change: impl FnOnce(&mut Config)) {
        change(&mut self.config);
        self.running.set_config(self.config.clone());
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.running.address()
    }

    pub(crate) fn channel(&self) -> Channel {
        self.channel.clone()
    }

    /// A connection of its own.
    pub(crate) async fn connect(&self) -> Channel {
        connect(self.address()).await
    }

    pub(crate) fn queue(&self) -> QueueClient<Channel> {
        QueueClient::new(self.channel())
    }

    pub(crate) fn topics(&self) -> TopicsClient<Channel> {
        TopicsClient::new(self.channel())
    }

    pub(crate) async fn stop(self) {
        drop(self.channel);
        self.running.stop().await.expect("it stops in good order");
    }

    /// Adds a job of the default topic that is due at once.
    pub(crate) async fn add(&self, id: &str) -> pb::Job {
        self.add_job(new_job("default", id)).await
    }

    pub(crate) async fn add_job(&self, job: pb::NewJob) -> pb::Job {
        let request = pb::AddRequest { job: Some(job), ..Default::default() };
        ok(self.queue().add(request).await).job.expect("a job")
    }

    /// Pops one job of the default topic, waiting for it.
    pub(crate) async fn pop(&self) -> pb::Delivery {
        let request = pb::PopRequest { wait: Some(seconds(30)), ..Default::default() };
        let mut jobs = ok(self.queue().pop(request).await).jobs;
        assert_eq!(jobs.len(), 1, "one job");
        jobs.remove(0)
    }

    /// How the job of the default topic is now.
    pub(crate) async fn get(&self, id: &str) -> pb::GetResponse {
        let request = pb::GetRequest { topic: String::new(), id: id.to_owned() };
        ok(self.queue().get(request).await)
    }
}

pub(crate) async fn connect(address: SocketAddr) -> Channel {
    let endpoint = Channel::from_shared(format!("http://{address}")).expect("an address");
    endpoint.connect().await.expect("a connection")
}

/// A job with a body of its own that is due at once.
pub(crate) fn new_job(topic: &str, id: &str) -> pb::NewJob {
    pb::NewJob {
        topic: topic.to_owned(),
        id: id.to_owned(),
        body: format!("body of {id}").into_bytes().into(),
        ..Default::default()
    }
}

pub(crate) fn seconds(seconds: i64) -> prost_types::Duration {
    prost_types::Duration { seconds, nanos: 0 }
}

#[track_caller]
pub(crate) fn ok<T>(answer: Result<Response<T>, Status>) -> T {
    answer.expect("it is done").into_inner()
}

/// Asserts a refusal, and answers its message.
#[track_caller]
pub(crate) fn refused<T: std::fmt::Debug>(
    answer: Result<Response<T>, Status>,
    status: Code,
    code: &str,
    field: Option<&str>,
) -> String {
    let refused = answer.expect_err("it is refused");
    assert_eq!(refused.code(), status, "{refused:?}");
    let told = |name: &str| {
        refused.metadata().get(name).map(|value| value.to_str().expect("ASCII").to_owned())
    };
    assert_eq!(told("linger-code").as_deref(), Some(code), "{refused:?}");
    assert_eq!(told("linger-field").as_deref(), field, "{refused:?}");
    refused.message().to_owned()
}
