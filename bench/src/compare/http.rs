//! Linger over HTTP.

use std::net::SocketAddr;
use std::ops::Range;

use super::works::{Client, Due};
use crate::Result;
use crate::beanstalk::client::body;
use crate::client::{Connection, field, finish_of};

pub(super) struct Http {
    to: Connection,
    /// How a body begins and ends; between the two it tells when its job is due.
    body: (String, String),
}

const POP: &str = "/v1/topics/orders/pop";
const JOBS: &str = "/v1/topics/orders/jobs";

impl Client for Http {
    type Server = SocketAddr;
    /// The path and the request that finish it.
    type Taken = (String, String);

    async fn open(server: &SocketAddr) -> Result<Http> {
        let (zeros, text) = (format!("{:019}", 0), body(0));
        let (start, end) = text.split_once(&zeros).ok_or("the body has no time")?;
        Ok(Http { to: Connection::open(*server).await?, body: (start.into(), end.into()) })
    }

    async fn add(&mut self, numbers: Range<u64>, due: Due) -> Vec<u64> {
        if numbers.end - numbers.start == 1 {
            let job = self.job(numbers.start, due);
            self.to.post_ok("/v1/jobs", &job).await;
        } else {
            let jobs: Vec<String> = numbers.clone().map(|n| self.job(n, due)).collect();
            let answer = self.to.post_ok("/v1/jobs", &format!("[{}]", jobs.join(","))).await;
            assert!(!answer.contains(r#""error""#), "{answer}");
        }
        numbers.collect()
    }

    async fn take(&mut self) -> Option<(u64, Self::Taken)> {
        let answer = self.to.post_ok(POP, r#"{"wait":"1s"}"#).await;
        let finish = finish_of(answer)?;
        let due_ns = field(answer, "at").and_then(|at| at.parse().ok());
        Some((due_ns.expect("it is in the body"), finish))
    }

    async fn finish(&mut self, (path, lease): Self::Taken) {
        self.to.post_ok(&path, &lease).await;
    }

    async fn cancel(&mut self, name: u64) {
        let path = format!("{JOBS}/{}", id(name));
        let answer = self.to.call("DELETE", &path, "").await.expect("the server answers");
        assert_eq!(answer.status, 200, "{}", answer.body);
    }
}

impl Http {
    fn job(&self, number: u64, due: Due) -> String {
        let (at_ms, (start, end), id) = (due.at_ms(number), &self.body, id(number));
        let when = match due {
            Due::Now => String::new(),
            Due::InADay => r#""delay":86400,"#.into(),
            Due::From { .. } => format!(r#""at":{at_ms},"#),
        };
        let at_ns = at_ms * 1_000_000;
        format!(r#"{{"topic":"orders","id":"{id}",{when}"body":{start}{at_ns:019}{end}}}"#)
    }
}

fn id(number: u64) -> String {
    format!("order-{number:012}")
}
