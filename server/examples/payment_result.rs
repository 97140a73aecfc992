//! A payment's result is pushed along a ladder until the shop has taken it.
//!
//! The server runs inside of this program, on a folder of its own. The shop is a real HTTP server
//! that trusts nothing but the signature; it fails twice before it takes the result. Prints every
//! attempt, and the history that is left of the job.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use aws_lc_rs::hmac;
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Method, Request};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use linger::time::{format_duration, parse_duration};
use linger_server::config::Config;
use linger_server::serve;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

const TOPIC: &str = "payment.result";
/// How payment providers tell shops of results: soon at first, then less and less often.
const LADDER: [&str; 9] = ["15s", "3m", "10m", "30m", "30m", "1h", "2h", "6h", "15h"];
/// Nobody wants to watch for a day: here a second takes a millisecond.
const FASTER: u32 = 1000;
/// The shop is back when it is asked for the third time.
const TAKEN_AT: &str = "3";
/// Longer than anything takes that happens at all.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let folder = tempfile::tempdir()?;
    let mut config = Config::defaults();
    config.listen = SocketAddr::from(([127, 0, 0, 1], 0));
    config.store = folder.path().join("data").into();
    let mut server = serve::start(config).await?;
    server.ready().await?;
    let linger = Api {
        address: server.address(),
        client: Client::builder(TokioExecutor::new()).build_http(),
    };

    let secret = linger.call("POST", "/v1/secrets", json!({"topic": TOPIC})).await?;
    let secret = secret["secret"].as_str().context("it is shown once")?;
    let (shop, mut attempts) = open_shop(secret).await?;

    println!("ladder: {}, a thousand times as fast", LADDER.join(" "));
    let ladder: Vec<String> = LADDER
        .iter()
        .map(|step| Ok(format_duration(parse_duration(step)? / FASTER).to_string()))
        .collect::<linger::Result<_>>()?;
    let job = json!({
        "topic": TOPIC, "id": "1001", "target": format!("http://{shop}/payments"),
        "body": {"order": 1001, "result": "paid"}, "retry": {"ladder": ladder}, "retain": "7d",
    });
    linger.call("POST", "/v1/jobs", job).await?;

    let mut seen = Vec::new();
    while let Some(attempt) = tokio::time::timeout(PATIENCE, attempts.recv()).await? {
        println!("shop: attempt {}, {}: {}", attempt.number, attempt.told(), attempt.status);
        let taken = attempt.status.is_success();
        seen.push((attempt.genuine, attempt.status.as_u16()));
        if taken {
            break;
        }
    }
    let finished = tokio::time::timeout(PATIENCE, linger.finished()).await??;
    let history = linger.call("GET", &format!("{}/history", path()), Value::Null).await?;
    let history = history["history"].as_array().context("there is a history")?;
    println!("linger: the job is {}, and this is its history:", finished["state"]);
    history.iter().for_each(|event| println!("  {event}"));

    server.stop().await?;
    let answers: Vec<_> =
        history.iter().filter_map(|event| event["answer"]["status"].as_u64()).collect();
    let right = seen == [(true, 500), (true, 500), (true, 200)] && answers == [500, 500, 200];
    Ok(if right { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Linger, as others see it.
struct Api {
    address: SocketAddr,
    client: Client<HttpConnector, Full<Bytes>>,
}

impl Api {
    async fn call(&self, method: &str, path: &str, body: Value) -> anyhow::Result<Value> {
        let body = if body.is_null() { Bytes::new() } else { body.to_string().into() };
        let request = Request::builder()
            .method(method.parse::<Method>()?)
            .uri(format!("http://{}{path}", self.address))
            .body(Full::new(body))?;
        let answer = self.client.request(request).await?;
        let status = answer.status();
        let body = answer.into_body().collect().await?.to_bytes();
        anyhow::ensure!(status.is_success(), "{status}: {}", String::from_utf8_lossy(&body));
        Ok(serde_json::from_slice(&body)?)
    }

    /// The job, once it is finished: that is a moment after the shop has answered.
    async fn finished(&self) -> anyhow::Result<Value> {
        loop {
            let job = self.call("GET", &path(), Value::Null).await?;
            if job["state"] == "finished" {
                return Ok(job);
            }
        }
    }
}

fn path() -> String {
    format!("/v1/topics/{TOPIC}/jobs/1001")
}

/// What the shop saw, and what it answered.
struct Attempt {
    number: String,
    genuine: bool,
    status: StatusCode,
}

impl Attempt {
    fn told(&self) -> &'static str {
        if self.genuine { "signed by Linger" } else { "signed by nobody we know" }
    }
}

/// The shop, with the key by which it knows Linger, and whom it tells of attempts.
#[derive(Clone)]
struct Shop {
    key: hmac::Key,
    attempts: mpsc::UnboundedSender<Attempt>,
}

async fn open_shop(secret: &str) -> anyhow::Result<(SocketAddr, mpsc::UnboundedReceiver<Attempt>)> {
    let secret = BASE64.decode(secret.strip_prefix("whsec_").context("a shared secret")?)?;
    let (send, attempts) = mpsc::unbounded_channel();
    let shop = Shop { key: hmac::Key::new(hmac::HMAC_SHA256, &secret), attempts: send };
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let routes = Router::new().route("/payments", post(take)).with_state(shop);
    tokio::spawn(async move { axum::serve(listener, routes).await });
    Ok((address, attempts))
}

async fn take(
    State(shop): State<Shop>,
    headers: HeaderMap,
    body: Bytes,
) -> (StatusCode, &'static str) {
    let header = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let number = header("linger-attempt").to_owned();
    let genuine = shop.knows(
        [header("webhook-id"), header("webhook-timestamp")],
        &body,
        header("webhook-signature"),
    );
    let (status, said) = match (genuine, number.as_str()) {
        (false, _) => (StatusCode::UNAUTHORIZED, "who are you?"),
        (true, TAKEN_AT) => (StatusCode::OK, "thanks"),
        (true, _) => (StatusCode::INTERNAL_SERVER_ERROR, "the database is down"),
    };
    // Nobody may want to know any more.
    let _ = shop.attempts.send(Attempt { number, genuine, status });
    (status, said)
}

impl Shop {
    /// Whether one of the signatures is by our key, of this body at this time. A real shop also
    /// refuses a time that is minutes ago, and an id that it has taken already.
    fn knows(&self, [id, timestamp]: [&str; 2], body: &[u8], signatures: &str) -> bool {
        let message = [id.as_bytes(), b".", timestamp.as_bytes(), b".", body].concat();
        let mut known = signatures.split(' ').filter_map(|one| one.strip_prefix("v1,"));
        known.any(|one| {
            BASE64.decode(one).is_ok_and(|tag| hmac::verify(&self.key, &message, &tag).is_ok())
        })
    }
}
