//! A server of its own for each test, and someone who calls it.

use std::net::SocketAddr;
use std::ops::Deref;
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::http::response::Parts;
use hyper::{Method, Request, StatusCode};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use linger_server::config::Config;
use linger_server::serve::{self, Running};
use serde_json::Value;

/// A server that runs, and its folder. It is called as a [`Caller`] calls.
pub(crate) struct Server {
    running: Running,
    config: Config,
    caller: Caller,
    _folder: tempfile::TempDir,
}

/// Someone who calls the server at an address.
pub(crate) struct Caller {
    address: SocketAddr,
    client: Client<HttpConnector, Full<Bytes>>,
    /// What it is let in by.
    key: Option<String>,
}

/// The key of [`Server::with_keys`].
pub(crate) const ADMIN_KEY: &str = "a-key-that-may-do-anything";

/// What was answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: hyper::HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    /// The answer as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("not JSON: {}", self.text))
    }

    /// Asserts the status, and answers the JSON.
    #[track_caller]
    pub(crate) fn ok(self, status: u16) -> Value {
        assert_eq!(self.status.as_u16(), status, "{}", self.text);
        self.json()
    }

    /// Asserts a refusal, and answers its message.
    #[track_caller]
    pub(crate) fn refused(self, status: u16, code: &str, field: Option<&str>) -> String {
        assert_eq!(self.status.as_u16(), status, "{}", self.text);
        let error = &self.json()["error"];
        assert_eq!(error["code"], code, "{}", self.text);
        assert_eq!(error["field"].as_str(), field, "{}", self.text);
        error["message"].as_str().expect("a message").to_owned()
    }
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

    /// A server that asks for keys, called by one that may do anything.
    pub(crate) async fn with_keys(change: impl FnOnce(&mut Config)) -> Server {
        let mut server = Server::with(|config| {
            config.bootstrap_key = Some(ADMIN_KEY.parse().expect("a key"));
            change(config);
        })
        .await;
        server.caller.key = Some(ADMIN_KEY.to_owned());
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
        let caller = Caller::new(running.address());
        Server { running, config, caller, _folder: folder }
    }

    /// Changes settings while it runs.
    pub(crate) fn set(&mut self, change: impl FnOnce(&mut Config)) {
        change(&mut self.config);
        self.running.set_config(self.config.clone());
    }

    pub(crate) async fn stop(self) {
        self.running.stop().await.expect("it stops in good order");
    }
}

impl Deref for Server {
    type Target = Caller;

    fn deref(&self) -> &Caller {
        &self.caller
    }
}

impl Caller {
    pub(crate) fn new(address: SocketAddr) -> Caller {
        Caller { address, client: Client::builder(TokioExecutor::new()).build_http(), key: None }
    }

    /// The same, let in by another key or by none.
    pub(crate) fn by(&self, key: Option<&str>) -> Caller {
        Caller { key: key.map(str::to_owned), client: self.client.clone(), ..*self }
    }

    /// Makes a key with these scopes for these topics, and answers its text.
    pub(crate) async fn make_key(&self, scopes: &[&str], topics: &[&str]) -> String {
        let new = serde_json::json!({"name": "k", "scopes": scopes, "topics": topics});
        let made = self.post("/v1/keys", &new.to_string()).await.ok(201);
        made["key"].as_str().expect("a key").to_owned()
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.call(Method::GET, path, "").await
    }

    pub(crate) async fn post(&self, path: &str, body: &str) -> Answer {
        self.call(Method::POST, path, body).await
    }

    pub(crate) async fn call(&self, method: Method, path: &str, body: &str) -> Answer {
        self.send(method, path, &[], body.as_bytes().to_vec()).await
    }

    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Vec<u8>,
    ) -> Answer {
        let (parts, bytes) = self.send_for_bytes(method, path, headers, body).await;
        let text = String::from_utf8(bytes.to_vec()).expect("UTF-8");
        Answer { status: parts.status, headers: parts.headers, text }
    }

    /// The same, with an answer that need not be text.
    pub(crate) async fn send_for_bytes(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Vec<u8>,
    ) -> (Parts, Bytes) {
        let mut request =
            Request::builder().method(method).uri(format!("http://{}{path}", self.address()));
        if let Some(key) = &self.key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::from(body)).expect("a request");
        let answer = self.client.request(request).await.expect("an answer");
        let (parts, body) = answer.into_parts();
        (parts, body.collect().await.expect("all of it").to_bytes())
    }

    /// Returns when somebody waits for the jobs of a topic that nothing else names.
    pub(crate) async fn waited_for(&self, topic: &str) {
        let path = format!("/v1/topics/{topic}");
        let waits = async { while self.get(&path).await.status != 200 {} };
        tokio::time::timeout(Duration::from_secs(30), waits).await.expect("somebody waits");
    }

    /// Adds a job and answers it.
    pub(crate) async fn add(&self, job: &str) -> Value {
        self.post("/v1/jobs", job).await.ok(201)
    }

    /// Pops one job of a topic that must be there.
    pub(crate) async fn pop(&self, topic: &str) -> Value {
        let popped = self.post(&format!("/v1/topics/{topic}/pop"), "").await.ok(200);
        popped["jobs"][0].clone()
    }
}
