//! Asks the sentinels where the master is.

use std::sync::atomic::{AtomicUsize, Ordering};

use redis::Value;

use super::dial::{Dialer, Line};
use super::fault::{Fault, Then, named};
use crate::error::{Code, Error};
use crate::store::redis::address::{Login, Node};

/// A master that sentinels watch.
pub(super) struct Watched {
    sentinels: Vec<Node>,
    login: Option<Login>,
    master: String,
    /// The sentinel that knew best the last time is asked first.
    favourite: AtomicUsize,
}

impl Watched {
    pub(super) fn new(sentinels: Vec<Node>, login: Option<Login>, master: String) -> Watched {
        Watched { sentinels, login, master, favourite: AtomicUsize::new(0) }
    }

    /// A connection to the master. A sentinel's word is checked with the server itself: after a
    /// failover it may be behind for a moment.
    pub(super) async fn dial(&self, dialer: &Dialer) -> Result<Line, Fault> {
        let to_sentinels = dialer.to_sentinels(self.login.clone());
        let first = self.favourite.load(Ordering::Relaxed);
        let mut faults = Vec::new();
        for at in (0..self.sentinels.len()).map(|step| (first + step) % self.sentinels.len()) {
            match self.dial_by(&self.sentinels[at], &to_sentinels, dialer).await {
                Ok(line) => {
                    self.favourite.store(at, Ordering::Relaxed);
                    return Ok(line);
                }
                Err(fault) => faults.push(fault),
            }
        }
        Err(self.sum_up(faults))
    }

    async fn dial_by(
        &self,
        sentinel: &Node,
        to_sentinels: &Dialer,
        dialer: &Dialer,
    ) -> Result<Line, Fault> {
        let line = to_sentinels.dial(sentinel).await?;
        let mut question = redis::cmd("SENTINEL");
        question.arg("GET-MASTER-ADDR-BY-NAME").arg(&self.master);
        let answer = line.call(&question).await?;
        let master = self.read(answer, sentinel)?;
        let line = dialer.dial(&master).await?;
        let role = line.call(&redis::cmd("ROLE")).await?;
        match role {
            Value::Array(parts) if parts.first() == Some(&Value::BulkString(b"master".into())) => {
                Ok(line)
            }
            _ => {
                let message = format!(
                    "Redis at `{master}` is not a master any more, or not yet; sentinel \
                     `{sentinel}` names it as the one of `{}`",
                    self.master
                );
                Err(Fault::new(Then::LookAround, Code::Unavailable, message))
            }
        }
    }

    fn read(&self, answer: Value, sentinel: &Node) -> Result<Node, Fault> {
        let told = redis::from_redis_value::<Option<(String, u16)>>(answer).ok().flatten();
        told.and_then(|(host, port)| named(&host, port, sentinel)).ok_or_else(|| {
            let message = format!(
                "sentinel `{sentinel}` knows no master `{}`; write the name that its \
                 `sentinel monitor` gives, after the hosts",
                self.master
            );
            Fault { then: Then::LookAround, error: Error::invalid("store", message), lost: false }
        })
    }

    /// One sentence for all; someone whose address is wrong hears of that first.
    fn sum_up(&self, mut faults: Vec<Fault>) -> Fault {
        let telling = faults.iter().position(|fault| fault.error.code() == Code::Invalid);
        let count = faults.len();
        let mut fault = faults.swap_remove(telling.unwrap_or(0));
        if fault.error.code() != Code::Invalid && count > 1 {
            let message = format!(
                "none of {count} sentinels leads to the master `{}`; the first: {}",
                self.master, fault.error
            );
            fault.error = Error::new(Code::Unavailable, message);
        }
        fault
    }
}
