//! Answers of Redis that are lost on their way: what was done is found again, and not done twice.

#![cfg(feature = "redis")]

mod redis_servers;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use linger::job::Job;
use linger::queue::{Ask, How, Queue, Settle, Topics, Verdict};
use linger::store::Options;
use linger::store::redis::{Redis, Settings};
use linger::time::MINUTE;
use linger::topic::Counts;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use redis_servers::{Standalone, there};

/// Stands between a store and its server, and can lose an answer.
struct Between {
    address: SocketAddr,
    /// The answer to the next call of this function gets lost, and the connection with it.
    loses: Arc<Mutex<Option<&'static str>>>,
    /// Nobody gets through while this is locked.
    gate: Arc<tokio::sync::Mutex<()>>,
}

impl Between {
    async fn start(server: &Standalone) -> Between {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let between = Between {
            address: listener.local_addr().unwrap(),
            loses: Arc::default(),
            gate: Arc::default(),
        };
        let (loses, server) = (between.loses.clone(), server.url().replace("redis://", ""));
        let gate = between.gate.clone();
        tokio::spawn(async move {
            while let Ok((from, _)) = listener.accept().await {
                drop(gate.lock().await);
                let Ok(to) = TcpStream::connect(&server).await else { continue };
                tokio::spawn(carry(from, to, loses.clone()));
            }
        });
        between
    }

    async fn store(&self) -> Redis {
        Between::store_at(&format!("redis://{}", self.address)).await
    }

    async fn store_at(url: &str) -> Redis {
        let address = url.parse().unwrap();
        let settings = Settings { poll: MINUTE, ..Settings::default() };
        let store = Redis::open(&address, Options::default(), settings).await.unwrap();
        // From now on the server knows the functions.
        assert_eq!(counts(&store).await, Counts::default());
        store
    }

    fn lose_the_answer_to(&self, function: &'static str) {
        *self.loses.lock().unwrap() = Some(function);
    }

    fn has_lost_it(&self) -> bool {
        self.loses.lock().unwrap().is_none()
    }
}

async fn carry(from: TcpStream, to: TcpStream, loses: Arc<Mutex<Option<&'static str>>>) {
    let (mut from_read, mut from_write) = from.into_split();
    let (mut to_read, mut to_write) = to.into_split();
    let lose = AtomicBool::new(false);
    let there = async {
        let mut bytes = vec![0; 1 << 16];
        while let Ok(count @ 1..) = from_read.read(&mut bytes).await {
            let text = String::from_utf8_lossy(&bytes[..count]).into_owned();
            loses.lock().unwrap().take_if(|function| {
                let called = text.contains(&format!("_{function}\r\n"));
                lose.fetch_or(called, Ordering::SeqCst);
                called
            });
            if to_write.write_all(&bytes[..count]).await.is_err() {
                return;
            }
        }
    };
    let back = async {
        let mut bytes = vec![0; 1 << 16];
        while let Ok(count @ 1..) = to_read.read(&mut bytes).await {
            let lost = lose.load(Ordering::SeqCst);
            if lost || from_write.write_all(&bytes[..count]).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = there => {}
        () = back => {}
    }
}

async fn counts(store: &Redis) -> Counts {
    let topics = store.topics(Topics::One("orders".parse().unwrap())).await.unwrap();
    topics.first().map_or_else(Counts::default, |topic| topic.counts)
}

fn order(store: &Redis) -> linger::job::NewJob {
    Job::new("orders", "{}").id("1001").check(store.clock().now().time()).unwrap()
}

#[tokio::test]
async fn an_add_whose_answer_is_lost_is_known_again() {
    if !there() {
        return;
    }
    let server = Standalone::start(&["--appendonly", "no"]);
    let between = Between::start(&server).await;
    let store = between.store().await;
    between.lose_the_answer_to("add");
    let added = store.add_all(vec![order(&store)]).await.unwrap().pop().unwrap().unwrap();
    assert!(between.has_lost_it());
    assert_eq!((added.how, added.job.spec.id.as_str()), (How::New, "1001"));
    assert_eq!(counts(&store).await.ready, 1);
    let again = store.add_all(vec![order(&store)]).await.unwrap().pop().unwrap();
    assert_eq!(again.unwrap_err().code().as_str(), "already_exists");
}

#[tokio::test]
async fn an_add_whose_answer_is_lost_and_whose_job_is_finished_by_then_is_not_made_again() {
    if !there() {
        return;
    }
    let server = Standalone::start(&["--appendonly", "no"]);
    let between = Between::start(&server).await;
    let (store, other) = (between.store().await, Between::store_at(&server.url()).await);
    let gate = between.gate.lock().await;
    between.lose_the_answer_to("add");
    let adding = store.add_all(vec![order(&store)]);
    let finishing = async {
        let ask = Ask { wait: MINUTE, ..Ask::one("orders".parse().unwrap()) };
        let jobs = other.pop(ask).await.unwrap();
        let finish = Settle::delivery(&jobs[0], Verdict::Finish);
        assert!(other.settle(vec![finish]).await.unwrap().pop().unwrap().unwrap().changed);
        drop(gate);
    };
    let (added, ()) = tokio::join!(adding, finishing);
    let unknown = added.unwrap().pop().unwrap().unwrap_err();
    assert_eq!(unknown.code().as_str(), "unavailable");
    assert_eq!(counts(&store).await, Counts::default(), "it was handed out and finished once");
}

#[tokio::test]
async fn jobs_handed_out_by_a_pop_whose_answer_is_lost_are_found_again() {
    if !there() {
        return;
    }
    let server = Standalone::start(&["--appendonly", "no"]);
    let between = Between::start(&server).await;
    let store = between.store().await;
    store.add_all(vec![order(&store)]).await.unwrap().pop().unwrap().unwrap();
    between.lose_the_answer_to("pop");
    let jobs = store.pop(Ask::one("orders".parse().unwrap())).await.unwrap();
    assert!(between.has_lost_it());
    assert_eq!(jobs.len(), 1);
    assert_eq!(jobs[0].job.attempt, 1, "it was handed out once");
    assert_eq!(counts(&store).await.reserved, 1);
    let finish = Settle::delivery(&jobs[0], Verdict::Finish);
    assert!(store.settle(vec![finish]).await.unwrap().pop().unwrap().unwrap().changed);
}

#[tokio::test]
async fn a_pop_that_had_nothing_and_whose_answer_is_lost_is_made_again() {
    if !there() {
        return;
    }
    let server = Standalone::start(&["--appendonly", "no"]);
    let between = Between::start(&server).await;
    let store = between.store().await;
    between.lose_the_answer_to("pop");
    let nothing = store.pop(Ask::one("orders".parse().unwrap())).await.unwrap();
    assert!(between.has_lost_it() && nothing.is_empty());
    store.add_all(vec![order(&store)]).await.unwrap().pop().unwrap().unwrap();
    assert_eq!(store.pop(Ask::one("orders".parse().unwrap())).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_finish_whose_answer_is_lost_is_done() {
    if !there() {
        return;
    }
    let server = Standalone::start(&["--appendonly", "no"]);
    let between = Between::start(&server).await;
    let store = between.store().await;
    store.add_all(vec![order(&store)]).await.unwrap().pop().unwrap().unwrap();
    let jobs = store.pop(Ask::one("orders".parse().unwrap())).await.unwrap();
    between.lose_the_answer_to("finish");
    let finish = Settle::delivery(&jobs[0], Verdict::Finish);
    let finished = store.settle(vec![finish.clone()]).await.unwrap().pop().unwrap();
    assert!(between.has_lost_it());
    assert!(finished.unwrap().changed);
    assert_eq!(counts(&store).await, Counts::default());
    let again = store.settle(vec![finish]).await.unwrap().pop().unwrap();
    assert_eq!(again.unwrap_err().code().as_str(), "not_found");
}
