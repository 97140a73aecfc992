use hyper::Method;
use linger_server::config::Host;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::client::Server;

#[tokio::test]
async fn probes_answer() {
    let server = Server::start().await;
    assert_eq!(server.get("/healthz").await.ok(200)["ok"], true);
    assert_eq!(server.get("/readyz").await.ok(200)["ready"], true);
    server.stop().await;
}

#[tokio::test]
async fn without_the_role_api_only_how_it_is_is_told() {
    let server = Server::with(|config| config.role.api = false).await;
    for path in ["/healthz", "/readyz", "/metrics", "/v1/nodes"] {
        assert_eq!(server.get(path).await.status, 200, "{path}");
    }
    for path in
        ["/", "/dashboard/x", "/v1/topics", "/openapi.json", "/docs", "/nowhere", "/v1/nodes/"]
    {
        let why = server.get(path).await.refused(503, "unavailable", None);
        assert!(why.contains("role api"), "{path}: {why}");
    }
    let add = server.post("/v1/jobs", r#"{"topic":"t"}"#).await;
    assert!(add.refused(503, "unavailable", None).contains("role api"));
    server.stop().await;
}

#[tokio::test]
async fn a_server_with_a_folder_is_alone() {
    let server = Server::with(|config| config.role.worker = false).await;
    let told = server.get("/v1/nodes").await.ok(200);
    let nodes = told["nodes"].as_array().expect("a list");
    assert_eq!((nodes.len(), &nodes[0]["this"]), (1, &true.into()), "{told}");
    assert_eq!(nodes[0]["roles"], serde_json::json!(["api", "timer"]));
    assert_eq!(nodes[0]["address"], server.address().to_string());
    assert_eq!(
        (&told["buckets"], &told["warning"]),
        (&serde_json::json!([]), &serde_json::Value::Null)
    );
    server.get("/v1/nodes?zebra=1").await.refused(400, "invalid", Some("zebra"));
    server.stop().await;
}

#[tokio::test]
async fn a_foreign_host_or_origin_is_refused() {
    let server = Server::with(|config| {
        config.allowed_hosts = vec![Host::new("queue.shop.example").expect("a host")];
    })
    .await;
    let call = async |name: &str, value: &str| {
        server.send(Method::GET, "/healthz", &[(name, value)], Vec::new()).await
    };
    for good in
        ["localhost", "127.0.0.1:7300", "[::1]:80", "queue.shop.example", "QUEUE.shop.example:1"]
    {
        assert_eq!(call("host", good).await.status, 200, "{good}");
    }
    for bad in ["evil.example", "localhost.evil.example", "10.0.0.1", "127.0.0.1.evil.example"] {
        call("host", bad).await.refused(403, "forbidden", None);
    }
    assert_eq!(call("origin", "http://localhost:3000").await.status, 200);
    for bad in ["http://evil.example", "null", "https://localhost.evil.example"] {
        call("origin", bad).await.refused(403, "forbidden", None);
    }
    server.stop().await;
}

#[tokio::test]
async fn a_request_id_comes_back_or_is_made() {
    let server = Server::start().await;
    let headers = [("x-request-id", "abc-1")];
    let answer = server.send(Method::GET, "/healthz", &headers, Vec::new()).await;
    assert_eq!(answer.headers["x-request-id"], "abc-1");
    let mut made = Vec::new();
    for path in ["/healthz", "/nowhere"] {
        let answer = server.send(Method::GET, path, &[], Vec::new()).await;
        made.push(answer.headers["x-request-id"].clone());
    }
    assert_ne!(made[0], made[1]);
    server.stop().await;
}

/// Sends some bytes and reads all that is answered until the server hangs up.
async fn talk(server: &Server, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(server.address()).await.expect("it listens");
    stream.write_all(bytes).await.expect("it takes bytes");
    let mut answer = Vec::new();
    // A reset is a way of hanging up, too.
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn clients_that_are_stuck_are_cut_off() {
    let short = std::time::Duration::from_millis(50);
    let server = Server::with(|config| {
        config.limits.header_time = short;
        config.limits.body_time = short;
    })
    .await;
    assert_eq!(talk(&server, b"").await, "");
    let half = talk(&server, b"GET /healthz HTTP/1.1\r\nhost: local").await;
    assert!(half.is_empty() || half.starts_with("HTTP/1.1 408"), "{half}");
    let trickle = b"POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10\r\n\r\n{";
    let answer = talk(&server, trickle).await;
    assert!(answer.starts_with("HTTP/1.1 408") && answer.contains("invalid"), "{answer}");
    server.stop().await;
}

#[tokio::test]
async fn a_connection_too_many_is_turned_away() {
    let server = Server::with(|config| config.limits.connections = 1).await;
    let mut first = TcpStream::connect(server.address()).await.unwrap();
    first.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let mut byte = [0; 1];
    first.read_exact(&mut byte).await.expect("it is served");
    let answer = talk(&server, b"").await;
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("overloaded"), "{answer}");
    drop(first);
    server.stop().await;
}

#[tokio::test]
async fn prometheus_reads_the_metrics() {
    let server = Server::start().await;
    server.add(r#"{"topic":"say \"hi\"","id":"1"}"#).await;
    server.pop("say%20%22hi%22").await;
    server.add(r#"{"topic":"t","id":"1"}"#).await;
    server.pop("t").await;
    server.post("/v1/topics/t/jobs/1/finish", "").await.ok(200);
    let answer = server.get("/metrics").await;
    assert_eq!(answer.status, 200);
    assert!(answer.headers["content-type"].to_str().unwrap().starts_with("text/plain"));
    let line = r#"linger_jobs{topic="say \"hi\"",state="reserved"} 1"#;
    assert!(answer.text.contains(line), "{}", answer.text);
    assert!(answer.text.contains("\nlinger_attempts_bucket{le=\"1\"} 1\n"), "{}", answer.text);
    // Two adds and a finish were synced, alone or with others.
    for name in [
        "linger_sync_seconds_count",
        "linger_batch_records_sum",
        "linger_log_appended_bytes_total",
        "linger_log_bytes",
        "linger_log_live_bytes",
    ] {
        let value =
            answer.text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        assert!(value.is_some_and(|value: f64| value >= 3.0), "{name}: {}", answer.text);
    }
    assert!(answer.text.contains("\nlinger_checkpoint_bytes 0\n"), "{}", answer.text);
    check_with_promtool(&answer.text);
    server.stop().await;
}

/// Prometheus's own check, which the tests' machine must have.
fn check_with_promtool(text: &str) {
    use std::io::Write;
    use std::process::{Command, Stdio};

    let started = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut promtool = match started {
        Ok(promtool) => promtool,
        Err(_) if std::env::var_os("CI").is_none() => {
            return eprintln!("skipped: promtool is not installed (./test installs it)");
        }
        Err(cause) => panic!("promtool cannot be run: {cause}"),
    };
    promtool.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let checked = promtool.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&checked.stderr);
    assert!(checked.status.success(), "{said}\n{text}");
}

#[tokio::test]
async fn limits_of_connections_change_while_the_server_runs() {
    let mut server = Server::with(|config| config.limits.connections = 1).await;
    assert_eq!(server.get("/healthz").await.status, 200);
    // The one connection there may be is kept open.
    assert!(talk(&server, b"").await.contains("overloaded"));
    server.set(|config| {
        config.limits.connections = 10;
        config.limits.header_time = std::time::Duration::from_millis(50);
    });
    assert_eq!(talk(&server, b"").await, "", "it is let in, and cut off for saying nothing");
    server.stop().await;
}
