//! An HTTP client that costs as little as it can, because it shares the machine with the server.

use std::io::Write;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::child::MANY;

/// One connection, kept open, with one request at a time.
pub(crate) struct Connection {
    stream: TcpStream,
    request: Vec<u8>,
    answer: Vec<u8>,
}

/// What the server said.
pub(crate) struct Answer<'a> {
    pub(crate) status: u16,
    pub(crate) body: &'a str,
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> std::io::Result<Connection> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Connection { stream, request: Vec::new(), answer: Vec::new() })
    }

    /// Posts JSON; panics if the connection breaks, for then nothing measured is worth anything.
    pub(crate) async fn post(&mut self, path: &str, body: &str) -> Answer<'_> {
        self.call("POST", path, body).await.expect("the server answers")
    }

    /// Posts JSON that must be taken.
    pub(crate) async fn post_ok(&mut self, path: &str, body: &str) -> &str {
        let answer = self.post(path, body).await;
        assert!(answer.status < 300, "{path}: {} {}", answer.status, answer.body);
        answer.body
    }

    /// Adds jobs, many at once when it is not the rate that matters.
    pub(crate) async fn add_all(&mut self, jobs: impl Iterator<Item = String>) {
        let mut jobs = jobs.peekable();
        while jobs.peek().is_some() {
            let some: Vec<String> = jobs.by_ref().take(MANY as usize).collect();
            let answer = self.post_ok("/v1/jobs", &format!("[{}]", some.join(","))).await;
            assert!(!answer.contains(r#""error""#), "{answer}");
        }
    }

    pub(crate) async fn call(
        &mut self,
        method: &str,
        path: &str,
        body: &str,
    ) -> std::io::Result<Answer<'_>> {
        self.request.clear();
        write!(
            self.request,
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        )?;
        self.stream.write_all(&self.request).await?;
        self.answer.clear();
        let (head, length) = loop {
            self.more().await?;
            if let Some(head) = find(&self.answer, b"\r\n\r\n") {
                break (head + 4, content_length(&self.answer[..head])?);
            }
        };
        while self.answer.len() < head + length {
            self.more().await?;
        }
        let text = |bytes| std::str::from_utf8(bytes).map_err(std::io::Error::other);
        let status = text(&self.answer[9..12])?.parse().map_err(std::io::Error::other)?;
        Ok(Answer { status, body: text(&self.answer[head..head + length])? })
    }

    async fn more(&mut self) -> std::io::Result<()> {
        match self.stream.read_buf(&mut self.answer).await? {
            0 => Err(std::io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }
}

fn find(within: &[u8], what: &[u8]) -> Option<usize> {
    within.windows(what.len()).position(|window| window == what)
}

fn content_length(head: &[u8]) -> std::io::Result<usize> {
    let head = std::str::from_utf8(head).map_err(std::io::Error::other)?;
    if head.as_bytes().get(9..12) == Some(b"204") {
        return Ok(0);
    }
    let is_length = |name: &str| name.eq_ignore_ascii_case("content-length");
    let line = head.lines().filter_map(|line| line.split_once(':'));
    let line = line.filter(|(name, _)| is_length(name)).map(|(_, value)| value).next();
    let missing = || std::io::Error::other("the answer does not say how long it is");
    line.ok_or_else(missing)?.trim().parse().map_err(std::io::Error::other)
}

/// The text of the first field of that name: names and tokens, which have nothing escaped.
pub(crate) fn field<'a>(json: &'a str, name: &str) -> Option<&'a str> {
    let from = json.find(&format!("\"{name}\":\""))? + name.len() + 4;
    json[from..].split('"').next()
}

/// The topic of the jobs that are due.
pub(crate) const DUE: &str = "due";

/// Where jobs are popped that are due.
pub(crate) fn pop_path() -> String {
    format!("/v1/topics/{DUE}/pop")
}

/// The path and the request that finish the job of an answer, if it has one.
pub(crate) fn finish_of(answer: &str) -> Option<(String, String)> {
    let (topic, id) = (field(answer, "topic")?, field(answer, "id")?);
    let path = format!("/v1/topics/{topic}/jobs/{id}/finish");
    Some((path, format!(r#"{{"lease":"{}"}}"#, field(answer, "lease")?)))
}
