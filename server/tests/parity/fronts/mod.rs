//! Who takes part. A new front end has a file here and a line in [`FRONTS`].

pub(crate) mod beanstalk;
pub(crate) mod command;
pub(crate) mod grpc;
pub(crate) mod http;
pub(crate) mod library;
pub(crate) mod ouqiang;
pub(crate) mod tasks;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use linger_server::config::Config;
use serde_json::Value;

use super::speaker::{Add, Speaker};
use super::world::PATIENCE;

/// All of them. Each is compared with the first that tells the story.
pub(crate) const FRONTS: &[&Front] = &[
    &http::FRONT,
    &grpc::FRONT,
    &grpc::BY_STREAM,
    &library::FRONT,
    &beanstalk::FRONT,
    &command::FRONT,
    &ouqiang::FRONT,
    &tasks::FRONT,
];

/// A front end.
pub(crate) struct Front {
    pub(crate) name: &'static str,
    pub(crate) house: House,
    /// What its protocol has no words for.
    pub(crate) lacks: &'static [Lack],
    /// A job as simple as it can be added here.
    pub(crate) simple: fn(&str, &str) -> Add,
}

/// What a front end lacks, and the stories that it cannot tell for it.
pub(crate) struct Lack {
    /// A call of [`Speaker`], a field of [`Add`], or a fine point that stories ask for by
    /// [`World::needs`](super::world::World::needs).
    pub(crate) what: &'static str,
    pub(crate) why: &'static str,
    pub(crate) stories: &'static [&'static str],
}

/// Where it speaks.
pub(crate) enum House {
    /// To a server with these settings.
    Server { set: fn(&mut Config), speak: fn(&Addresses) -> Box<dyn Speaker> },
    /// To the library, in this process.
    Library,
}

/// Where a server listens.
pub(crate) struct Addresses {
    pub(crate) http: SocketAddr,
    pub(crate) beanstalkd: SocketAddr,
}

impl Front {
    pub(crate) fn lacks(&self, what: &str) -> bool {
        self.lacks.iter().any(|lack| lack.what == what)
    }

    /// What it lacks for a story.
    pub(crate) fn lack_for(&self, story: &str) -> Option<&'static str> {
        let lack = self.lacks.iter().find(|lack| lack.stories.contains(&story));
        lack.map(|lack| lack.what)
    }
}

/// A line of a table of what a front end lacks.
const fn lack(what: &'static str, why: &'static str, stories: &'static [&'static str]) -> Lack {
    Lack { what, why, stories }
}

/// A call over HTTP: the status, and the JSON or the text of the answer.
pub(crate) fn call(address: SocketAddr, method: &str, path: &str, body: &str) -> (u16, Value) {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(2 * PATIENCE)).expect("a limit");
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).expect("it is taken");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer}"));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    let json = serde_json::from_str(body).unwrap_or_else(|_| body.into());
    (status.unwrap_or_else(|| panic!("{head}")), json)
}
