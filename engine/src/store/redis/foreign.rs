//! Plain commands to a Redis that is not a store: for those who move from there, and for sinks.

use bytes::Bytes;
use redis::Value;

use super::address::{Address, Kind};
use super::conn::Conn;
use super::reply::strange;
use crate::error::{Error, Result};

/// A Redis that others keep their data on.
pub struct Foreign {
    conn: Conn,
}

/// What it answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Nothing.
    Nil,
    /// A number.
    Int(i64),
    /// Text, or whatever bytes there are.
    Bytes(Bytes),
    /// Several.
    List(Vec<Answer>),
}

impl Foreign {
    /// Connects. A cluster is refused: its keys lie on several nodes, and no command walks them all.
    pub async fn open(address: &Address) -> Result<Foreign> {
        if address.kind == Kind::Cluster {
            let message = format!("`{address}` is a cluster; give one server, or its sentinels");
            return Err(Error::invalid("address", message));
        }
        Ok(Foreign { conn: Conn::open(address).await? })
    }

    /// Connects, be it to a cluster, for commands of which each has one key.
    pub async fn connect(address: &Address) -> Result<Foreign> {
        Ok(Foreign { conn: Conn::open(address).await? })
    }

    /// One command on the node that has this key; the first word is its name.
    ///
    /// It is sent once: an error that is not an answer leaves open whether it was done. A connection
    /// that is lost is made anew, and until then the answer is an error at once.
    pub async fn command_on(&self, key: &[u8], words: &[&[u8]]) -> Result<Answer> {
        answer(self.conn.command(key, words).await?)
    }

    /// Several commands on the node that has this key, sent at once; the answer to each, in order.
    pub async fn commands_on(&self, key: &[u8], commands: &[Vec<&[u8]>]) -> Vec<Result<Answer>> {
        let answers = self.conn.commands(key, commands).await;
        answers.into_iter().map(|value| value.and_then(answer)).collect()
    }

    /// One command; the first word is its name.
    pub async fn command(&self, words: &[&[u8]]) -> Result<Answer> {
        answer(self.conn.command(b"", words).await?)
    }
}

fn answer(value: Value) -> Result<Answer> {
    Ok(match value {
        Value::Nil => Answer::Nil,
        Value::Int(number) => Answer::Int(number),
        Value::BulkString(bytes) => Answer::Bytes(bytes.into()),
        Value::SimpleString(text) => Answer::Bytes(text.into()),
        Value::Okay => Answer::Bytes(Bytes::from_static(b"OK")),
        Value::Array(values) => {
            Answer::List(values.into_iter().map(answer).collect::<Result<_>>()?)
        }
        _ => return Err(strange()),
    })
}
