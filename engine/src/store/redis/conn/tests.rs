//! Against real servers.

mod cluster;
#[path = "../../../../tests/redis_servers/mod.rs"]
mod redis_servers;
mod sentinel;
mod standalone;
mod tls;

use super::*;
use crate::error::Code;

async fn open(url: &str) -> Conn {
    Conn::open(&address(url)).await.unwrap_or_else(|error| panic!("{url}: {error}"))
}

async fn refusal(url: &str) -> Error {
    Conn::open(&address(url)).await.err().unwrap_or_else(|| panic!("{url} was opened"))
}

fn address(url: &str) -> Address {
    url.parse().expect(url)
}

/// Adds to a counter and gives what it is by then.
fn counting() -> Script {
    Script::new("return redis.call('INCRBY', KEYS[1], ARGV[1])".into())
}

async fn count(conn: &Conn, key: &str) -> Result<i64> {
    let answer = conn.eval(&counting(), key.as_bytes(), vec![b"1".into()]).await?;
    match answer {
        Value::Int(count) => Ok(count),
        other => panic!("not a number: {other:?}"),
    }
}

/// Calls until a call is done. Any other error than `unavailable` fails the test.
async fn count_at_last(conn: &Conn, key: &str) -> i64 {
    at_last("calls work again", async || match count(conn, key).await {
        Ok(count) => Some(count),
        Err(error) => {
            assert_eq!(error.code(), Code::Unavailable, "{error}");
            None
        }
    })
    .await
}

/// Until a replica has what was written. On the same connection, or it would wait for nothing.
async fn replicated(conn: &Conn, key: &str) {
    let replicas = conn.command(key.as_bytes(), &[b"WAIT", b"1", b"0"]).await;
    assert_eq!(replicas, Ok(Value::Int(1)));
}

/// Asks again and again until there is an answer.
async fn at_last<T>(what: &str, mut get: impl AsyncFnMut() -> Option<T>) -> T {
    let asking = async {
        loop {
            if let Some(got) = get().await {
                return got;
            }
            // Between two questions, so that others get to run.
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let patience = Duration::from_secs(30);
    tokio::time::timeout(patience, asking).await.unwrap_or_else(|_| panic!("in vain: {what}"))
}

async fn hear(heard: &mut UnboundedReceiver<Heard>) -> Heard {
    let patience = Duration::from_secs(30);
    let heard = tokio::time::timeout(patience, heard.recv()).await.expect("something is heard");
    heard.expect("the listener lives")
}

fn message(channel: &str, payload: &str) -> Heard {
    Heard::Message { channel: channel.into(), payload: payload.into() }
}
