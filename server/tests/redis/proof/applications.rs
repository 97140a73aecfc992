//! Programs with the library in them share a store with a server.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use linger::time::SECOND;
use linger::{Delivery, Job, Linger};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::fleet::{Fleet, add, until};
use crate::served::PATIENCE;

const URL: &str = "LINGER_TEST_APPLICATION";
const HANGS: &str = "LINGER_TEST_HANGS";
const TOPIC: &str = "orders";
/// What an application says begins so: the harness of the tests has words of its own.
const SAYS: &str = "application: ";

/// A program that works on jobs until it is killed.
struct Application {
    process: Child,
    lines: UnboundedReceiver<String>,
}

impl Application {
    async fn start(fleet: &Fleet, hangs: bool) -> Application {
        let mut command = Command::new(std::env::current_exe().expect("this test has a file"));
        command.args(["--exact", "proof::applications::an_application", "--nocapture"]);
        command.env(URL, fleet.redis.url());
        if hangs {
            command.env(HANGS, "1");
        }
        let mut process = command.stdout(Stdio::piped()).spawn().expect("it starts");
        let said = BufReader::new(process.stdout.take().expect("piped"));
        let (sender, lines) = unbounded_channel();
        std::thread::spawn(move || {
            for line in said.lines().map_while(Result::ok) {
                if let Some((_, said)) = line.split_once(SAYS) {
                    let _ = sender.send(said.to_owned());
                }
            }
        });
        let mut application = Application { process, lines };
        assert_eq!(application.says().await, "ready");
        application
    }

    async fn says(&mut self) -> String {
        let line = tokio::time::timeout(PATIENCE, self.lines.recv()).await;
        line.expect("it says something").expect("it runs")
    }
}

impl Drop for Application {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What such a program does; without the address of a Redis, nothing.
#[tokio::test]
async fn an_application() {
    let Ok(url) = std::env::var(URL) else { return };
    let hangs = std::env::var_os(HANGS).is_some();
    let queue = Linger::connect(&url).await.expect("Redis is there");
    let work = move |job: Delivery| async move {
        println!("{SAYS}{}", job.id());
        if hangs {
            std::future::pending::<()>().await;
        }
        Ok(())
    };
    queue.worker(TOPIC, work).concurrency(4).start().expect("nobody else is there");
    println!("\n{SAYS}ready");
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn what_a_killed_application_held_another_does_and_a_server_sees_it() {
    const JOBS: usize = 20;
    let Some(fleet) = Fleet::start() else { return };
    let server = fleet.server(&["--set", "store.lease=600ms"]).await;
    let caller = server.caller();
    let mut one = Application::start(&fleet, true).await;
    let own = Linger::connect(&fleet.redis.url()).await.expect("Redis is there");
    let mut ids = BTreeSet::new();
    for id in 0..JOBS {
        ids.insert(id.to_string());
        if id % 2 == 0 {
            let job = format!(r#"{{"topic":"{TOPIC}","id":"{id}","ttr":"1s","delay":"100ms"}}"#);
            add(&caller, &job).await;
        } else {
            let job = Job::new(TOPIC, "").id(id.to_string()).ttr(SECOND);
            own.add(job).await.expect("Redis is there");
        }
    }
    let held = one.says().await;
    assert!(ids.contains(&held));
    let mut other = Application::start(&fleet, false).await;
    drop(one);
    while !ids.is_empty() {
        let did = other.says().await;
        ids.remove(&did);
    }
    let is_empty = |answer: &crate::served::Answer| {
        answer.code() == "not_found"
            || answer.json["counts"]
                .as_object()
                .is_some_and(|counts| counts.values().all(|count| *count == 0))
    };
    until(&caller, &format!("/v1/topics/{TOPIC}"), is_empty).await;
}
