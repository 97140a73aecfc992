//! What Redis's errors mean for those who called.

use std::io;

use redis::{ErrorKind, RedisError};

use super::super::address::{Node, read_node};
use super::{REPLICAS_WITHIN, RESPONSE_TIMEOUT};
use crate::error::{Code, Error};

/// Why a call failed: what this layer does about it, and what its caller is told.
#[derive(Clone)]
pub(super) struct Fault {
    pub(super) then: Then,
    pub(super) error: Error,
    /// It was sent, and no answer came: it may have been done.
    pub(super) lost: bool,
}

/// What this layer does about a failed call.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Then {
    /// Nothing: the server has answered.
    Nothing,
    /// The connection is of no use any more.
    Reconnect,
    /// This server cannot do it, at least now: another may be in its place.
    LookAround,
    /// This node has to be sent the library first.
    SendLibrary(Node),
    /// The key is there now.
    Follow(Node),
    /// The key is on its way there.
    Ask(Node),
}

impl Fault {
    pub(super) fn new(then: Then, code: Code, message: impl Into<String>) -> Fault {
        Fault { then, error: Error::new(code, message.into()), lost: false }
    }

    /// The address or the password is wrong: trying again will not help until someone changes it.
    fn wrong_address(message: String) -> Fault {
        Fault { then: Then::Reconnect, error: Error::invalid("store", message), lost: false }
    }

    /// What a caller is told. Whatever is wrong with the store's address, the call was not.
    pub(super) fn of_a_call(self) -> Error {
        match self.error.code() {
            Code::Invalid => Error::new(Code::Unavailable, self.error.message().to_owned()),
            _ => self.error,
        }
    }

    /// What `node` answered, or failed to.
    pub(super) fn read(error: &RedisError, node: &Node) -> Fault {
        match error.code() {
            Some(code) => Fault::answered(code, error.detail().unwrap_or(""), node),
            None => Fault::silent(error, node),
        }
    }

    fn answered(code: &str, detail: &str, node: &Node) -> Fault {
        let unavailable = |then, why: &str| {
            Fault::new(
                then,
                Code::Unavailable,
                format!("Redis at `{node}` {why} ({code} {detail})"),
            )
        };
        match code {
            "ERR" if detail.starts_with("Function not found") => {
                unavailable(Then::SendLibrary(node.clone()), "does not know a function")
            }
            "MOVED" | "ASK" => Fault::elsewhere(code, detail, node),
            "READONLY" => unavailable(Then::LookAround, "is a replica and takes no writes"),
            "MASTERDOWN" => unavailable(Then::LookAround, "has lost its master"),
            "CLUSTERDOWN" => unavailable(Then::LookAround, "says that its cluster is down"),
            "TRYAGAIN" => unavailable(Then::LookAround, "is moving the keys asked for"),
            "LOADING" => unavailable(Then::LookAround, "is loading its data"),
            "BUSY" => unavailable(Then::Nothing, "is busy with a long script"),
            "MISCONF" => unavailable(Then::Nothing, "cannot save its data and takes no writes"),
            "NOREPLICAS" => unavailable(Then::Nothing, "has too few replicas to take writes"),
            "NOPERM" => {
                unavailable(Then::Nothing, "does not allow this to Linger's user; grant it by ACL")
            }
            "WRONGPASS" | "NOAUTH" => Fault::wrong_address(format!(
                "Redis at `{node}` does not accept the user and password of the store's address \
                 ({code} {detail}); write them as `user:password@` before the host"
            )),
            "OOM" => Fault::full(detail, node),
            _ if detail.contains("OOM command not allowed") => Fault::full(detail, node),
            _ => Fault::new(
                Then::Nothing,
                Code::StorageFailed,
                format!("Redis at `{node}` failed: {code} {detail}"),
            ),
        }
    }

    fn full(detail: &str, node: &Node) -> Fault {
        let message = format!(
            "Redis at `{node}` has reached its maxmemory; raise it, or finish or delete jobs \
             (OOM {detail})"
        );
        Fault::new(Then::Nothing, Code::StorageFull, message)
    }

    /// `3999 127.0.0.1:6381`; a node that does not know its own name says `:6381`.
    fn elsewhere(code: &str, detail: &str, node: &Node) -> Fault {
        let told = detail.split_whitespace().nth(1).and_then(|told| target(told, node));
        let then = match (told, code) {
            (Some(told), "MOVED") => Then::Follow(told),
            (Some(told), _) => Then::Ask(told),
            (None, _) => Then::LookAround,
        };
        let message = format!(
            "Redis at `{node}` says that the key is elsewhere ({code} {detail}); if it belongs to a \
             cluster, write `redis+cluster://`"
        );
        Fault::new(then, Code::Unavailable, message)
    }

    /// No answer came. What was asked may have been done all the same.
    fn silent(error: &RedisError, node: &Node) -> Fault {
        let message = match error.kind() {
            _ if error.is_timeout() => format!(
                "Redis at `{node}` has not answered within {} s; whether it was done is unknown",
                RESPONSE_TIMEOUT.as_secs()
            ),
            ErrorKind::Io => format!(
                "the connection to Redis at `{node}` was lost; whether it was done is unknown"
            ),
            _ => format!(
                "Redis at `{node}` gave an answer that is not understood ({error}); whether it \
                 was done is unknown"
            ),
        };
        Fault { lost: true, ..Fault::new(Then::Reconnect, Code::Unavailable, message) }
    }

    /// It is done, where it may still be undone.
    pub(super) fn too_few_replicas(wanted: u32, node: &Node) -> Fault {
        let message = format!(
            "Redis at `{node}` has done it, but fewer than {wanted} of its replicas had it within \
             {} s: a failover may undo it; see to the replicas, or lower store.wait",
            REPLICAS_WITHIN.as_secs()
        );
        Fault::new(Then::Nothing, Code::Unavailable, message)
    }

    /// Nobody was there, or not in time.
    pub(super) fn unreachable(cause: &io::Error, node: &Node) -> Fault {
        let message = format!(
            "Redis at `{node}` cannot be reached: {cause}; check that it runs and that the address \
             is right"
        );
        Fault::new(Then::Reconnect, Code::Unavailable, message)
    }
}

/// Read from the right, since nodes give IPv6 addresses without brackets.
fn target(told: &str, from: &Node) -> Option<Node> {
    let (host, port) = told.rsplit_once(':')?;
    named(host, port.parse().ok()?, from)
}

/// A node as another one names it; one whose name it does not know has its own.
pub(super) fn named(host: &str, port: u16, by: &Node) -> Option<Node> {
    match host {
        "" | "?" => Some(Node { host: by.host.clone(), port }),
        _ if host.contains(':') => read_node(&format!("[{host}]:{port}"), port).ok(),
        _ => read_node(&format!("{host}:{port}"), port).ok(),
    }
}
