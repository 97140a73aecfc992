//! The verbs that call a server, as the built binary runs them.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Output, Stdio};
use std::thread::JoinHandle;

use linger::retry::Retry;
use linger_server::config::Config;
use linger_server::serve::{self, Running};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

/// A server of its own for each test.
struct Server {
    runtime: Runtime,
    running: Running,
    url: String,
    _folder: tempfile::TempDir,
}

impl Server {
    fn start() -> Server {
        Server::with(|_| {})
    }

    fn with(change: impl FnOnce(&mut Config)) -> Server {
        let folder = tempfile::tempdir().unwrap();
        let mut config = Config::defaults();
        config.listen = SocketAddr::from(([127, 0, 0, 1], 0));
        config.store = folder.path().join("data").into();
        change(&mut config);
        let workers =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = workers.unwrap();
        let running = runtime.block_on(async {
            let mut running = serve::start(config).await.expect("it starts");
            running.ready().await.expect("it is ready");
            running
        });
        let url = format!("http://{}", running.address());
        Server { runtime, running, url, _folder: folder }
    }

    fn stop(self) {
        self.runtime.block_on(self.running.stop()).expect("it stops in good order");
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = command(args);
        command.env("LINGER_SERVER", &self.url);
        command
    }

    /// Runs a verb.
    #[track_caller]
    fn run(&self, args: &[&str]) -> Ran {
        Ran::of(self.command(args).output().unwrap())
    }

    /// Runs a verb that must do as it is told, and answers what it prints.
    #[track_caller]
    fn done(&self, args: &[&str]) -> String {
        let ran = self.run(args);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{args:?}");
        ran.out
    }

    /// Runs a verb with `--json` that must do as it is told.
    #[track_caller]
    fn json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.done(&[args, &["--json"]].concat())).unwrap()
    }

    /// Runs a verb that reads this from stdin.
    #[track_caller]
    fn feed(&self, args: &[&str], stdin: &[u8]) -> Ran {
        let mut child = spawn(self.command(args).stdin(Stdio::piped()));
        child.stdin.take().unwrap().write_all(stdin).unwrap();
        Ran::of(child.wait_with_output().unwrap())
    }
}

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_linger"));
    command.env_clear().args(args).stdin(Stdio::null());
    command
}

fn spawn(command: &mut Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// What a verb did.
#[derive(Debug)]
struct Ran {
    code: i32,
    out: String,
    err: String,
}

impl Ran {
    fn of(output: Output) -> Ran {
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        let code = output.status.code().expect("it was not killed");
        Ran { code, out: text(output.stdout), err: text(output.stderr) }
    }

    /// Asserts that nothing was there, and what was said about it.
    #[track_caller]
    fn none(self, told: &str) {
        assert_eq!((self.code, self.err.as_str()), (1, told), "{}", self.out);
    }

    /// Asserts a failure that printed no data, and answers what was said.
    #[track_caller]
    fn failed(self) -> String {
        assert_eq!((self.code, self.out.as_str()), (2, ""), "{}", self.err);
        self.err
    }
}

/// The value in a line of a name and a value.
fn value<'a>(lines: &'a str, name: &str) -> &'a str {
    let mut found = lines.lines().filter_map(|line| line.split_once(' '));
    found.find(|(first, _)| *first == name).map_or("", |(_, value)| value.trim_start())
}

/// Someone who answers so many requests with these bodies, and then tells what was asked.
fn puppet(answers: Vec<(&'static str, String)>) -> (String, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asked = std::thread::spawn(move || {
        let answer = |(status, body): (&str, String)| {
            let (mut stream, _) = listener.accept().unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                head.push(byte[0]);
            }
            let length = body.len();
            let answer = format!(
                "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
            );
            stream.write_all(answer.as_bytes()).unwrap();
            String::from_utf8(head).unwrap()
        };
        answers.into_iter().map(answer).collect()
    });
    (url, asked)
}

#[test]
fn a_job_lives_from_add_to_finish() {
    let server = Server::start();
    let added =
        server.done(&["add", "orders", "--id", "42", "--delay", "1h", "--ttr", "90s", "{}"]);
    assert_eq!((value(&added, "id"), value(&added, "state")), ("42", "delayed"));
    assert_eq!(value(&server.done(&["get", "orders", "42"]), "ttr"), "1m30s");
    let updated = server.done(&[
        "update",
        "orders",
        "42",
        "--body",
        r#"{"a": 1.50}"#,
        "--priority",
        "7",
        "--if-version",
        "1",
    ]);
    assert_eq!((value(&updated, "version"), value(&updated, "priority")), ("2", "7"));
    assert_eq!(value(&server.done(&["hold", "orders", "42"]), "state"), "held");
    assert_eq!(value(&server.done(&["unhold", "orders", "42"]), "state"), "delayed");
    assert_eq!(value(&server.done(&["run", "orders", "42"]), "state"), "ready");
    let popped = server.done(&["pop", "orders", "--ttr", "5m"]);
    assert_eq!((value(&popped, "id"), value(&popped, "body")), ("42", r#"{"a": 1.50}"#));
    let lease = value(&popped, "lease");
    let touched = server.done(&["touch", "orders", "42", "--lease", lease, "--ttr", "2h"]);
    assert!(value(&touched, "reserved_until") > value(&popped, "reserved_until"));
    let finished = server.done(&["finish", "orders", "42", "--lease", lease]);
    assert_eq!(finished, "changed  true\n");
    server
        .run(&["get", "orders", "42"])
        .none("linger: topic `orders` has no job `42` (not_found)\n");
    server.stop();
}

#[test]
fn attempts_end_as_the_worker_says() {
    let server = Server::start();
    let pop = |topic: &str| value(&server.done(&["pop", topic]), "lease").to_owned();
    for (topic, verb, state) in [
        ("a", &["fail", "a", "1", "--error", "closed", "--retry-in", "1h"][..], "retry"),
        ("b", &["fail", "b", "1", "--again", "--retry-in", "1h"], "retry"),
        ("c", &["release", "c", "1", "--delay", "1h"], "delayed"),
        ("d", &["release", "d", "1"], "ready"),
    ] {
        server.done(&["add", topic, "--id", "1"]);
        let lease = pop(topic);
        let ended = server.done(&[verb, &["--lease", &lease]].concat());
        assert_eq!(value(&ended, "state"), state, "{verb:?}");
        let late = server.run(&[verb, &["--lease", &lease]].concat()).failed();
        assert!(late.ends_with("(lease_lost)\n"), "{late}");
    }
    let history = server.done(&["history", "a", "1"]);
    let rows: Vec<&str> = history.lines().collect();
    assert!(rows[0].starts_with("AT") && rows[0].ends_with("ERROR"), "{history}");
    assert!(rows[1].contains("  added  ") && rows[2].contains("  failed  "), "{history}");
    assert!(rows[2].ends_with("  closed"), "{history}");
    let again = server.json(&["history", "b", "1"]);
    assert_eq!(again["history"][1]["what"], "again");
    server.stop();
}

#[test]
fn dead_jobs_are_redriven_one_or_all() {
    let server = Server::with(|config| config.defaults.retry = Retry::default().attempts(1));
    for id in ["1", "2", "3"] {
        server.done(&["add", "t", "--id", id]);
        server.done(&["pop", "t"]);
        server.done(&["fail", "t", id]);
    }
    assert_eq!(server.done(&["jobs", "t", "--state", "dead"]).lines().count(), 4);
    let redriven = server.done(&["redrive", "t", "2"]);
    assert_eq!((value(&redriven, "changed"), value(&redriven, "state")), ("true", "ready"));
    assert!(server.run(&["redrive", "t", "2"]).failed().ends_with("(wrong_state)\n"));
    server.run(&["redrive", "t", "9"]).none("linger: topic `t` has no job `9` (not_found)\n");
    assert_eq!(server.done(&["redrive", "t"]), "count  2\n");
    server.run(&["redrive", "t"]).none("linger: no job is dead\n");
    server.stop();
}

#[test]
fn what_is_not_there_is_exit_code_1() {
    let server = Server::start();
    for (verb, out, err) in [
        (&["pop", "t"][..], "{\"jobs\":[]}\n", "no job is ready"),
        (&["pop", "t", "u", "--wait", "1ms"], "{\"jobs\":[]}\n", "no job is ready"),
        (&["jobs", "t"], "{\"jobs\":[]}\n", "no such jobs"),
        (&["topics"], "{\"topics\":[]}\n", "no such topics"),
        (&["workers", "shop"], "{\"workers\":[]}\n", "no such workers"),
        (&["get", "t", "1"], "", "topic `t` has no job `1` (not_found)"),
        (&["delete", "t", "1"], "", "topic `t` has no job `1` (not_found)"),
        (&["finish", "t", "1"], "", "topic `t` has no job `1` (not_found)"),
        (&["history", "t", "1"], "", "topic `t` has no job `1` (not_found)"),
    ] {
        let ran = server.run(verb);
        assert_eq!(ran.out, "", "{verb:?}");
        ran.none(&format!("linger: {err}\n"));
        let ran = server.run(&[verb, &["--json"]].concat());
        assert_eq!(ran.out, out, "{verb:?}");
        ran.none(&format!("linger: {err}\n"));
    }
    server.stop();
}

#[test]
fn refusals_are_told_with_their_code() {
    let server = Server::start();
    server.done(&["add", "t", "--id", "1", "--delay", "1h"]);
    for (verb, told) in [
        (&["add", "t", "--id", "1"][..], "(already_exists)"),
        (&["add", "t", "--delay", "soon"], "delay is \"soon\"; give a number of seconds"),
        (&["add", "t", "--at", "never"], "(invalid)"),
        (&["add", " t"], "(invalid)"),
        (&["finish", "t", "1"], "(wrong_state)"),
        (&["delete", "t", "1", "--if-version", "9"], "(version_mismatch)"),
        (&["update", "t", "1", "--ttr", "8d"], "(invalid)"),
        (&["jobs", "t", "--limit", "0"], "limit is 0; give 1 to 1000 (invalid)"),
        (&["pause", "t", "--for", "x"], "(invalid)"),
    ] {
        let err = server.run(verb).failed();
        assert!(err.starts_with("linger: ") && err.contains(told), "{verb:?}: {err}");
        assert_eq!(server.run(&[verb, &["--json"]].concat()).failed(), err, "{verb:?}");
    }
    let kept = ["add", "t", "--id", "1", "--on-conflict", "keep"];
    assert_eq!(value(&server.done(&kept), "state"), "delayed");
    assert_eq!(server.done(&["delete", "t", "1", "--if-version", "1"]), "changed  true\n");
    server.stop();
}

#[test]
fn wrong_use_is_exit_code_2_and_calls_nobody() {
    for (args, told) in [
        (&["add"][..], "<TOPIC>"),
        (&["add", ""], "<TOPIC>"),
        (&["get", "t", ""], "<ID>"),
        (&["pop"], "<TOPIC>"),
        (&["add", "t", "--delay", "1", "--at", "2"], "--at"),
        (&["add", "t", "--on-conflict", "x"], "reject, keep, replace"),
        (&["jobs", "t", "--state", "x"], "delayed, ready"),
        (&["update", "t", "1"], "--delay"),
        (&["update", "t", "1", "--text"], "--body"),
        (&["fail", "t", "1", "--again", "--error", "x"], "--error"),
        (&["topics", "--server", "localhost:1"], "give one such as http://localhost:1"),
        (&["topics", "--server", "http://h/v1"], "give a URL such as http://127.0.0.1:7300"),
        (&["topics", "--server", "https://h/v1"], "is not https://, a host and maybe a port"),
        (
            &["topics", "--server", "https://h", "--ca", "/no/such"],
            "cannot read the certificates in",
        ),
        (&["topics", "--client-cert", "x"], "give the key of the certificate too"),
        (&["topics", "--key", "a b"], "the key is empty or has characters"),
    ] {
        let err = Ran::of(command(args).output().unwrap()).failed();
        assert!(err.contains(told), "{args:?}: {err}");
        assert!(!err.contains("no server answers"), "{args:?}: {err}");
    }
}

#[test]
fn a_server_that_is_not_there_is_told_with_the_remedy() {
    // The near end of a connection: its port is taken, and nobody listens there.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let url = format!("http://{}", taken.local_addr().unwrap());
    let err = Ran::of(command(&["topics", "--server", &url]).output().unwrap()).failed();
    assert!(err.starts_with(&format!("linger: no server answers at {url} (")), "{err}");
    assert!(err.contains("start one with `linger serve`"), "{err}");
}

#[test]
fn a_stranger_is_not_taken_for_a_server() {
    for (status, body) in
        [("200 OK", "<html>"), ("404 Not Found", "nope"), ("502 Bad Gateway", "{\"error\":\"x\"}")]
    {
        let (url, asked) = puppet(vec![(status, body.to_owned())]);
        let err =
            Ran::of(command(&["get", "t", "1", "--json", "--server", &url]).output().unwrap());
        let told = format!("linger: {url} answered {status}, and not as Linger does");
        let err = err.failed();
        assert!(err.starts_with(&told), "{err}");
        asked.join().unwrap();
    }
}

#[test]
fn json_is_printed_as_the_server_gives_it() {
    let server = Server::start();
    let body = r#"{"z": 1.50, "a": [12345678901234567890123]}"#;
    server.done(&["add", "t", "--id", "1", body]);
    let job = server.done(&["get", "t", "1", "--json"]);
    assert!(job.starts_with(r#"{"topic":"t","id":"1","number":1,"#), "{job}");
    assert!(job.ends_with(&format!("\"body\":{body}}}\n")), "{job}");
    assert_eq!(job.lines().count(), 1);
    let paused = server.json(&["pause", "t", "--for", "1h"]);
    assert_eq!((&paused["paused"], &paused["counts"]["ready"]), (&json!(true), &json!(1)));
    server.stop();
}

#[test]
fn bodies_come_from_the_line_or_from_stdin() {
    let server = Server::start();
    let stored = |id: &str| {
        let job = server.json(&["get", "t", id]);
        (job["body"].clone(), job["body_base64"].clone())
    };
    for (id, body, right) in [
        ("1", "plain", json!("plain")),
        ("2", "-5", json!(-5)),
        ("3", "null", json!(null)),
        ("4", r#""quoted""#, json!(r#""quoted""#)),
        ("5", "", json!("")),
    ] {
        server.done(&["add", "t", "--id", id, body]);
        assert_eq!(stored(id).0, right, "{body}");
    }
    server.done(&["add", "t", "--id", "6", "--text", "[1]"]);
    assert_eq!(stored("6").0, json!("[1]"));
    for (id, stdin, right) in [
        ("7", &b"two\nlines\n"[..], (json!("two\nlines\n"), json!(null))),
        ("8", b"{\"a\": 1}\n", (json!({"a": 1}), json!(null))),
        ("9", b"\xff\x00", (json!(null), json!("/wA="))),
        ("10", b"", (json!(""), json!(null))),
    ] {
        let ran = server.feed(&["add", "t", "--id", id, "-"], stdin);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{id}");
        assert_eq!(stored(id), right, "{id}");
    }
    assert_eq!(server.feed(&["update", "t", "1", "--body", "-", "--text"], b"7").code, 0);
    assert_eq!(stored("1").0, json!("7"));
    server.stop();
}

#[test]
fn names_may_be_strange() {
    let server = Server::start();
    for (topic, id) in [
        ("a/b c?", "x/../y"),
        ("支付宝", "订单#1"),
        ("..", "."),
        (".", ".."),
        ("100%", "%2F"),
        ("a+b&c=d", "'\"\\"),
    ] {
        assert_eq!(value(&server.done(&["add", topic, "--id", id, "x"]), "topic"), topic);
        assert_eq!(server.json(&["get", topic, id])["id"], id);
        assert_eq!(server.json(&["jobs", topic, "--id-prefix", id])["jobs"][0]["id"], id);
        assert_eq!(server.json(&["topics", topic])["topics"][0]["topic"], topic);
        assert_eq!(value(&server.done(&["pause", topic]), "paused"), "true");
        assert_eq!(value(&server.done(&["resume", topic]), "paused"), "false");
        assert_eq!(value(&server.done(&["pop", topic]), "id"), id);
        assert_eq!(server.done(&["finish", topic, id]), "changed  true\n");
    }
    server.stop();
}

#[test]
fn the_server_is_named_by_a_flag_or_else_by_the_environment() {
    let server = Server::start();
    let run = |variable: &str, args: &[&str]| {
        Ran::of(command(args).env("LINGER_SERVER", variable).output().unwrap())
    };
    assert_eq!(run(&server.url, &["add", "t"]).code, 0);
    assert_eq!(run("http://127.0.0.1:1", &["topics", "--server", &server.url]).code, 0);
    assert!(run("nonsense", &["topics"]).failed().contains("`nonsense` is not a URL"));
    // Whoever may be there by default: the variable is not taken for a URL.
    let unset = run("", &["get", "no such topic", "no such job"]);
    assert!(!unset.err.contains("is not a URL"), "{}", unset.err);
    server.stop();
}

#[test]
fn the_key_is_sent_as_a_bearer() {
    let asked = |variable: &str, flags: &[&str]| {
        let (url, asked) = puppet(vec![("200 OK", "{\"topics\":[]}".into())]);
        let args = [&["topics", "--server", &url], flags].concat();
        assert_eq!(
            command(&args).env("LINGER_KEY", variable).output().unwrap().status.code(),
            Some(1)
        );
        asked.join().unwrap().remove(0).to_ascii_lowercase()
    };
    assert!(asked("from-env", &[]).contains("authorization: bearer from-env\r\n"));
    assert!(asked("from-env", &["--key", "k1"]).contains("authorization: bearer k1\r\n"));
    assert!(!asked("", &[]).contains("authorization"));
}

#[test]
fn jobs_are_listed_page_by_page_or_all() {
    let server = Server::start();
    for (id, at) in [("b", "4102444800"), ("支付宝", "2100-01-01T00:00:01Z"), ("c", "4102444802")]
    {
        server.done(&["add", "t", "--id", id, "--at", at, "--priority", "5", "x\ty"]);
    }
    let table = "\
ID      STATE    DUE                       ATTEMPT  PRIORITY  ERROR  BODY
b       delayed  2100-01-01T00:00:00.000Z  0        5                x\\ty
支付宝  delayed  2100-01-01T00:00:01.000Z  0        5                x\\ty
c       delayed  2100-01-01T00:00:02.000Z  0        5                x\\ty
";
    assert_eq!(server.done(&["jobs", "t", "--body"]), table);
    let all = server.done(&["jobs", "t", "--limit", "2", "--all"]);
    assert_eq!(all.lines().count(), 4, "{all}");
    let documents = server.done(&["jobs", "t", "--limit", "1", "--all", "--json"]);
    let ids = documents.lines().filter_map(|page| {
        let page: Value = serde_json::from_str(page).unwrap();
        page["jobs"][0]["id"].as_str().map(str::to_owned)
    });
    assert_eq!(ids.collect::<Vec<_>>(), ["b", "支付宝", "c"]);

    let first = server.run(&["jobs", "t", "--limit", "2"]);
    assert_eq!((first.code, first.out.lines().count()), (0, 3));
    let cursor = first.err.strip_prefix("linger: there are more: --cursor ").unwrap();
    let cursor = cursor.strip_suffix(", or --all\n").unwrap();
    let second = server.done(&["jobs", "t", "--cursor", cursor]);
    assert!(second.lines().nth(1).is_some_and(|row| row.starts_with("c ")), "{second}");
    for (filter, ids) in [
        (&["--due-before", "2100-01-01T00:00:01Z"][..], &["b"][..]),
        (&["--due-after", "4102444802"], &["c"]),
        (&["--id-prefix", "支"], &["支付宝"]),
    ] {
        let found = server.json(&[&["jobs", "t"], filter].concat());
        let found = found["jobs"].as_array().unwrap().iter().map(|job| job["id"].clone());
        assert_eq!(found.collect::<Vec<_>>(), ids, "{filter:?}");
    }
    server.stop();
}

#[test]
fn topics_are_listed_with_their_counts() {
    let server = Server::start();
    server.done(&["add", "shop.a"]);
    server.done(&["add", "shop.b", "--held"]);
    server.done(&["add", "other"]);
    server.done(&["pause", "shop.b"]);
    server.run(&["pop", "shop.b"]).none("linger: no job is ready\n");
    let table = "\
TOPIC   PAUSED  DELAYED  READY  RESERVED  RETRY  HELD  DEAD  FINISHED  WAITING
shop.a  no      0        1      0         0      0     0     0         0
shop.b  yes     0        0      0         0      1     0     0         0
";
    assert_eq!(server.done(&["topics", "shop."]), table);
    server.stop();
}

#[test]
fn topics_follow_the_cursor_to_the_end() {
    let page = |name: &str, rest: &str| {
        ("200 OK", format!(r#"{{"topics":[{{"topic":"{name}"}}]{rest}}}"#))
    };
    let empty = ("200 OK", r#"{"topics":[]}"#.to_owned());
    let pages = vec![page("a", r#","cursor":"a""#), page("b/c", r#","cursor":"b/c""#), empty];
    let (url, asked) = puppet(pages);
    let ran = Ran::of(command(&["topics", "--json", "--server", &url]).output().unwrap());
    assert_eq!((ran.code, ran.out.lines().count()), (0, 2), "{ran:?}");
    let asked = asked.join().unwrap();
    assert!(asked[2].starts_with("GET /v1/topics?limit=1000&cursor=b%2Fc HTTP"), "{}", asked[2]);
}

#[test]
fn workers_are_listed_with_how_they_do() {
    let worker = |id: &str, more: &str| {
        format!(
            r#"{{"id":"{id}","app":"shop","topics":["a","b c"],"url":"http://h:1/","state":"live",
            "expires":"2026-12-01T09:00:30.000Z","deliveries":7,"failures":1{more}}}"#
        )
    };
    let first = format!(r#"{{"workers":[{}],"cursor":"w/1"}}"#, worker("w/1", ""));
    let last = format!(r#"{{"workers":[{}]}}"#, worker("w2", r#","last_error":"no answer""#));
    let (url, asked) = puppet(vec![("200 OK", first), ("200 OK", last)]);
    let args = ["workers", "shop", "--topic", "b c", "--server", &url];
    let ran = Ran::of(command(&args).output().unwrap());
    let table = "\
ID   APP   STATE  URL          TOPICS  EXPIRES                   DELIVERIES  FAILURES  LAST ERROR
w/1  shop  live   http://h:1/  a, b c  2026-12-01T09:00:30.000Z  7           1
w2   shop  live   http://h:1/  a, b c  2026-12-01T09:00:30.000Z  7           1         no answer
";
    assert_eq!((ran.code, ran.out.as_str()), (0, table), "{ran:?}");
    let asked = asked.join().unwrap();
    let right = "GET /v1/workers?app=shop&topic=b%20c&limit=1000&cursor=w%2F1 HTTP";
    assert!(asked[1].starts_with(right), "{}", asked[1]);
}

#[test]
fn alarms_are_listed_with_what_is_not_well() {
    let alarms = r#"{"looked":"2026-12-01T09:00:07.351Z","alarms":[
        {"name":"late","kind":"late","topic":"o.*","threshold":60.0,"for":"2m","quiet":"5m",
         "to":"https://ops.example","state":"firing","incidents":[
            {"topic":"o.1","state":"firing","value":75.2,"since":"2026-12-01T09:00:00.000Z"},
            {"topic":"o.2","state":"pending","value":61.5,"since":"2026-12-01T09:00:05.000Z"}]},
        {"name":"dead","kind":"dead","threshold":0,"for":"0s","quiet":"1m","to":"sink:ops",
         "state":"ok","incidents":[]}]}"#;
    let (url, asked) = puppet(vec![("200 OK", alarms.into())]);
    let ran = Ran::of(command(&["alarms", "--server", &url]).output().unwrap());
    let table = "\
NAME  KIND  OF   STATE    VALUE  THRESHOLD  SINCE                     FOR  TO
late  late  o.1  firing   75.2   60.0       2026-12-01T09:00:00.000Z  2m   https://ops.example
late  late  o.2  pending  61.5   60.0       2026-12-01T09:00:05.000Z  2m   https://ops.example
dead  dead       ok              0                                    0s   sink:ops
";
    assert_eq!((ran.code, ran.out.as_str()), (0, table), "{ran:?}");
    asked.join().unwrap();
    let server = Server::start();
    server.run(&["alarms"]).none("linger: no alarms; see [alarms] in linger.toml\n");
    server.stop();
}

#[test]
fn health_is_exit_code_0_when_ready_and_1_when_not() {
    let server = Server::start();
    assert_eq!(server.done(&["health"]), "ready\n");
    assert_eq!(server.json(&["health"]), json!({"ready": true}));
    let gone = server.url.clone();
    server.stop();
    let ran = Ran::of(command(&["health", "--server", &gone]).output().unwrap());
    assert_eq!((ran.code, ran.out.as_str()), (1, ""), "{ran:?}");
    assert!(ran.err.contains("no server answers"), "{ran:?}");
    let loading =
        r#"{"error":{"code":"unavailable","message":"the stored jobs are being loaded"}}"#;
    let (url, puppet) = puppet(vec![("503 Service Unavailable", loading.to_owned())]);
    let ran = Ran::of(command(&["health", "--server", &url]).output().unwrap());
    assert_eq!((ran.code, ran.out.as_str()), (1, ""), "{ran:?}");
    assert!(ran.err.contains("unavailable"), "{ran:?}");
    assert!(puppet.join().unwrap()[0].starts_with("GET /readyz "));
    let wrong = Ran::of(command(&["health", "--server", "nowhere/"]).output().unwrap());
    assert_eq!(wrong.code, 2, "{wrong:?}");
}

#[test]
fn a_server_with_a_folder_is_one_node_without_buckets() {
    let server = Server::start();
    let table = server.done(&["nodes"]);
    let rows: Vec<&str> = table.lines().collect();
    assert!(rows.len() == 2 && rows[1].contains("api,timer,worker  default  1 "), "{table}");
    assert!(table.contains(&server.url["http://".len()..]), "{table}");
    assert_eq!(server.json(&["nodes"])["buckets"], json!([]));
    server.run(&["buckets"]).none("linger: no such buckets\n");
    server.stop();
}

#[test]
fn a_pop_waits_for_a_job() {
    let server = Server::start();
    let mut waiting = spawn(&mut server.command(&["pop", "a", "b", "--wait", "60s", "--max", "2"]));
    // A topic without jobs is there for as long as someone waits for it.
    while server.run(&["topics", "b"]).code != 0 {
        assert!(waiting.try_wait().unwrap().is_none(), "it does not wait");
    }
    server.done(&["add", "b", "--id", "1"]);
    let popped = Ran::of(waiting.wait_with_output().unwrap());
    assert_eq!((popped.code, value(&popped.out, "id")), (0, "1"));
    server.stop();
}

#[test]
fn a_page_that_was_cut_short_is_gone_on_from_until_there_are_so_many() {
    let pages = [
        r#"{"jobs":[],"cursor":"a"}"#,
        r#"{"jobs":[{"id":"1"}],"cursor":"b"}"#,
        r#"{"jobs":[{"id":"2"}],"cursor":"c"}"#,
    ];
    let (url, asked) = puppet(pages.map(|page| ("200 OK", page.to_owned())).to_vec());
    let list = ["jobs", "t", "--id-prefix", "x", "--limit", "2", "--server", &url];
    let ran = Ran::of(command(&list).output().unwrap());
    assert_eq!((ran.code, ran.out.lines().count()), (0, 3), "{ran:?}");
    assert!(ran.err.contains("--cursor c"), "{ran:?}");
    let asked = asked.join().unwrap();
    for (call, ask) in asked.iter().zip(["limit=2 ", "limit=2&cursor=a ", "limit=1&cursor=b "]) {
        assert!(call.contains(ask), "{call}");
    }
}

#[test]
fn a_reader_that_has_gone_is_no_failure() {
    let (url, asked) = puppet(vec![("200 OK", r#"{"jobs":[{"id":"1"}],"cursor":"c"}"#.into())]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut list = command(&["jobs", "t", "--all", "--server", &url]);
    let child = list.stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
    let ran = Ran::of(child.wait_with_output().unwrap());
    // The puppet answers once: whoever asks for a second page fails.
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    asked.join().unwrap();
}

#[test]
fn keys_are_made_listed_and_revoked() {
    let server = Server::start();
    server.run(&["keys", "list"]).none("linger: no keys are stored\n");
    let made = server.run(&["keys", "add", "root", "--scope", "admin"]);
    assert_eq!(made.code, 0, "{}", made.err);
    let root = made.out.trim().to_owned();
    assert!(root.starts_with("lk_") && made.err.contains("shown this once"), "{made:?}");
    // From here on it is asked for.
    let refused = server.run(&["topics"]).failed();
    assert!(refused.contains("(unauthorized)"), "{refused}");
    let refused = server.run(&["topics", "--key", "wrong"]).failed();
    assert!(refused.contains("(unauthorized)") && !refused.contains("wrong"), "{refused}");
    let run = |args: &[&str]| server.run(&[args, &["--key", &root]].concat());
    let shop = run(&[
        "keys",
        "add",
        "shop",
        "--scope",
        "add,read",
        "--topic",
        "order.*",
        "--topic",
        "mail",
        "--expires-in",
        "90d",
        "--rate",
        "600/m",
        "--json",
    ]);
    let shop: Value = serde_json::from_str(&shop.out).unwrap();
    assert_eq!(
        (&shop["scopes"], &shop["topics"]),
        (&json!(["add", "read"]), &json!(["order.*", "mail"]))
    );
    let listed = run(&["keys", "list"]).out;
    let id = shop["id"].as_str().unwrap();
    let line =
        listed.lines().find(|line| line.starts_with(id)).unwrap_or_else(|| panic!("{listed}"));
    assert!(line.contains("shop") && line.contains("order.*,mail"), "{line}");
    assert!(line.contains("600/1m"), "{line}");
    let key = shop["key"].as_str().unwrap();
    let added = server.run(&["add", "order.close", "--id", "1", "x", "--key", key]);
    assert_eq!(added.code, 0, "{}", added.err);
    let refused = server.run(&["add", "other", "x", "--key", key]).failed();
    assert!(refused.contains("(forbidden)"), "{refused}");
    assert!(run(&["keys", "revoke", id]).out.contains("shop"));
    assert!(server.run(&["topics", "--key", key]).failed().contains("(unauthorized)"));
    assert_eq!(run(&["keys", "revoke", id]).code, 1);
    assert!(run(&["keys", "add", "x", "--scope", "root"]).failed().contains("is no scope"));
    server.stop();
}
