//! The binary as a process of its own, and someone who calls it.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::{HeaderMap, Method, Request};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// So long is waited for what must come: only to fail rather than hang.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A server of its own, killed at the end if it still runs.
pub(crate) struct Served {
    pub(crate) process: Child,
    lines: UnboundedReceiver<String>,
    /// The first thing that it says.
    pub(crate) greeting: String,
    pub(crate) address: String,
}

impl Served {
    /// Starts it on a store, and returns when it listens, ready or not.
    pub(crate) async fn listening(store: &Path, args: &[&str]) -> Served {
        let mut process = Command::new(env!("CARGO_BIN_EXE_linger"))
            .args(["serve", "--listen", "127.0.0.1:0", "--store"])
            .arg(store)
            .args(args)
            .env_clear()
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let said = BufReader::new(process.stderr.take().expect("piped"));
        let (sender, lines) = unbounded_channel();
        // Read by a thread, so that the server never waits for us.
        std::thread::spawn(move || {
            for line in said.lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        let mut served = Served { process, lines, greeting: String::new(), address: String::new() };
        let line = served.says("listens on http").await;
        let address = line.split("://").nth(1).and_then(|rest| rest.split(',').next());
        served.address = address.unwrap_or_else(|| panic!("no address in `{line}`")).to_owned();
        served.greeting = line;
        served
    }

    /// Starts it on a store, and returns when all that is in it is loaded.
    pub(crate) async fn start(store: &Path, args: &[&str]) -> Served {
        let mut served = Served::listening(store, args).await;
        served.says(" ready").await;
        served
    }

    /// Waits for a line that has this in it.
    pub(crate) async fn says(&mut self, text: &str) -> String {
        let mut said = Vec::new();
        let wait = async {
            while let Some(line) = self.lines.recv().await {
                if line.contains(text) {
                    return Some(line);
                }
                said.push(line);
            }
            None
        };
        let line = tokio::time::timeout(PATIENCE, wait).await;
        line.ok().flatten().unwrap_or_else(|| panic!("it never said `{text}`, but {said:#?}"))
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.process);
        kill_process(pid, signal).expect("it runs");
    }

    /// Waits until it ends by itself.
    pub(crate) async fn ended(mut self) -> ExitStatus {
        // What it says ends with it.
        let last = async { while self.lines.recv().await.is_some() {} };
        tokio::time::timeout(PATIENCE, last).await.expect("it ends");
        self.process.wait().expect("it can be waited for")
    }

    /// Kills it, and returns when it is gone.
    pub(crate) fn kill(self) {
        drop(self);
    }

    pub(crate) fn caller(&self) -> Caller {
        let client = Client::builder(TokioExecutor::new()).build_http();
        Caller { client, address: self.address.clone(), key: None }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// One who calls a server.
#[derive(Clone)]
pub(crate) struct Caller {
    client: Client<HttpConnector, Full<Bytes>>,
    address: String,
    /// What it is let in by.
    key: Option<String>,
}

/// What was answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) json: Value,
}

impl Answer {
    /// Asserts the status, and answers the JSON.
    #[track_caller]
    pub(crate) fn ok(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.json);
        self.json
    }

    /// The code of the error, or nothing.
    pub(crate) fn code(&self) -> &str {
        self.json["error"]["code"].as_str().unwrap_or_default()
    }
}

impl Caller {
    /// The same, let in by a key.
    pub(crate) fn by(&self, key: &str) -> Caller {
        Caller { key: Some(key.to_owned()), ..self.clone() }
    }

    /// The answer; none if it never came.
    pub(crate) async fn call(&self, method: Method, path: &str, body: &str) -> Option<Answer> {
        let mut request =
            Request::builder().method(method).uri(format!("http://{}{path}", self.address));
        if let Some(key) = &self.key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        let request = request.body(Full::from(body.to_owned())).expect("a request");
        let called = async {
            let (parts, body) = self.client.request(request).await.ok()?.into_parts();
            let bytes = body.collect().await.ok()?.to_bytes();
            let json = serde_json::from_slice(&bytes).expect("JSON");
            Some(Answer { status: parts.status.as_u16(), headers: parts.headers, json })
        };
        tokio::time::timeout(PATIENCE, called).await.expect("an answer, or the end")
    }

    /// The answer as it is, to something that may be large.
    pub(crate) async fn text(&self, method: Method, path: &str, body: String) -> String {
        let request =
            Request::builder().method(method).uri(format!("http://{}{path}", self.address));
        let request = request.body(Full::from(body)).expect("a request");
        let answer = self.client.request(request).await.expect("an answer");
        let bytes = answer.into_body().collect().await.expect("all of it").to_bytes();
        String::from_utf8(bytes.into()).expect("UTF-8")
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.call(Method::GET, path, "").await.expect("an answer")
    }

    pub(crate) async fn post(&self, path: &str, body: &str) -> Answer {
        self.call(Method::POST, path, body).await.expect("an answer")
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.call(Method::DELETE, path, "").await.expect("an answer")
    }
}
