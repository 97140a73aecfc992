//! `linger log`.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::served::Served;
use crate::{Place, add, events, pop, settle};

fn log(served: &Served, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_linger"));
    command.arg("log").args(args).args(["--server", &format!("http://{}", served.address)]);
    command.env_clear().stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn run(served: &Served, args: &[&str]) -> (Option<i32>, String) {
    let done = log(served, args).output().expect("it runs");
    (done.status.code(), String::from_utf8(done.stdout).expect("UTF-8"))
}

#[tokio::test(flavor = "multi_thread")]
async fn log_shows_what_happened_and_follows_what_happens() {
    let place = Place::folder();
    let served = place.serve(&[]).await;
    let server = served.caller();
    assert_eq!(run(&served, &[]), (Some(1), String::new()));
    add(&server, r#"{"topic":"mail","id":"1"}"#).await;
    let held = pop(&server, "mail").await;
    settle(&server, &held, "fail", r#","error":"no such address""#).await;
    add(&server, r#"{"topic":"other","id":"2"}"#).await;
    events(&server, "", 4).await;

    let (code, text) = run(&served, &[]);
    assert_eq!((code, text.lines().count()), (Some(0), 4), "{text}");
    assert!(text.lines().next().unwrap().contains("  added       mail  1  "), "{text}");
    let (_, text) = run(&served, &["--kind", "failed", "--since", "1h"]);
    assert!(text.contains("failed      mail  1  attempt=1  latency="), "{text}");
    assert!(text.ends_with("node=here  error=no such address\n"), "{text}");
    let (_, text) = run(&served, &["--topic", "mail", "--json", "-n", "2"]);
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((lines.len(), &lines[1]["kind"]), (2, &"failed".into()));
    assert_eq!(run(&served, &["--topic", "none"]).0, Some(1));
    assert_eq!(run(&served, &["--kind", "eaten"]).0, Some(2));

    let mut follows =
        log(&served, &["--follow", "--topic", "mail", "--json"]).spawn().expect("it runs");
    let mut said = BufReader::new(follows.stdout.take().expect("piped")).lines();
    let mut kinds = Vec::new();
    for _ in 0..3 {
        let event: Value = serde_json::from_str(&said.next().unwrap().unwrap()).unwrap();
        kinds.push(event["kind"].as_str().unwrap().to_owned());
    }
    assert_eq!(kinds, ["added", "handed_out", "failed"]);
    add(&server, r#"{"topic":"mail","id":"3"}"#).await;
    let event: Value = serde_json::from_str(&said.next().unwrap().unwrap()).unwrap();
    assert_eq!(event["id"], "3");
    follows.kill().expect("it runs");
    follows.wait().expect("it ends");
    let mut rest = String::new();
    let _ = follows.stderr.take().expect("piped").read_to_string(&mut rest);
    assert_eq!(rest, "");
}
