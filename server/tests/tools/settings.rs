//! Settings that servers share, on one Redis and in a folder.

use std::path::Path;

use hyper::Method;
use serde_json::{Value, json};

use crate::redis_servers::{Standalone, there};
use crate::run::{done, run};
use crate::served::{Caller, PATIENCE, Served};

/// Asks until every node has taken on a version or refused it, and answers what is told.
async fn settled(server: &Caller, version: u64) -> Value {
    let asked = async {
        loop {
            let told = server.get("/v1/config").await.ok(200);
            let nodes = told["nodes"].as_array().expect("a list");
            let is_settled =
                |node: &Value| node["version"] == version || node["refused"].is_string();
            if told["version"] == version && nodes.iter().all(is_settled) {
                return told;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, asked).await.expect("they take it on")
}

/// A job whose body has so many bytes.
async fn add(server: &Caller, bytes: usize) -> u16 {
    let job = json!({"topic": "t", "body": "x".repeat(bytes)}).to_string();
    server.post("/v1/jobs", &job).await.status
}

async fn put(server: &Caller, wish: &Value) -> crate::served::Answer {
    server.call(Method::PUT, "/v1/config", &wish.to_string()).await.expect("an answer")
}

#[tokio::test(flavor = "multi_thread")]
async fn every_instance_takes_on_what_is_shared_without_a_restart() {
    if !there() {
        return;
    }
    let redis = Standalone::start(&[]);
    let url = redis.url();
    let store = Path::new(&url);
    let poll = ["--set", "store.poll=50ms"];
    let one = Served::start(store, &[&poll[..], &["--name", "one"]].concat()).await;
    let two = Served::start(store, &[&poll[..], &["--name", "two"]].concat()).await;
    // What an instance was told by a flag is its own.
    let own = ["--name", "own", "--set", "limits.body=5KiB"];
    let own = Served::start(store, &[&poll[..], &own].concat()).await;
    let [a, b, c] = [&one, &two, &own].map(Served::caller);
    assert_eq!(a.get("/v1/config").await.ok(200)["version"], 0);
    assert_eq!((add(&a, 3000).await, add(&b, 3000).await), (201, 201));

    let server = format!("http://{}", one.address);
    let said = done(&["config", "set", "limits.body", "2KiB", "--server", &server]);
    let version: u64 = said.trim_end().rsplit(' ').next().unwrap().parse().expect("a version");
    let told = settled(&b, version).await;
    assert_eq!(told["settings"], json!({ "limits.body": "2KiB" }));
    assert_eq!(told["nodes"].as_array().unwrap().len(), 3, "{told}");
    let from = format!("shared settings {version}");
    assert_eq!(told["in_force"]["limits.body"], json!({ "value": "2KiB", "from": from }));
    assert_eq!((add(&a, 3000).await, add(&b, 3000).await), (413, 413));
    assert_eq!(add(&c, 3000).await, 201);
    assert_eq!(c.get("/v1/config").await.ok(200)["in_force"]["limits.body"]["from"], "--set");

    // One that starts later has them too.
    let three = Served::start(store, &[&poll[..], &["--name", "three"]].concat()).await;
    settled(&three.caller(), version).await;
    assert_eq!(add(&three.caller(), 3000).await, 413);

    done(&["config", "unset", "limits.body", "--server", &server]);
    let version = a.get("/v1/config").await.ok(200)["version"].as_u64().unwrap();
    settled(&b, version).await;
    assert_eq!((add(&a, 3000).await, add(&b, 3000).await), (201, 201));
    let shown = done(&["config", "shared", "--server", &server]);
    assert!(shown.contains(&format!("two runs by version {version}\n")), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_is_refused_whole_and_an_older_version_is_not_written_over() {
    let folder = tempfile::tempdir().unwrap();
    let served = Served::start(&folder.path().join("store"), &[]).await;
    let server = served.caller();
    let right = json!({"settings": {"limits.body": "2KiB", "drain": "10s"}, "if_version": 0});
    let version = put(&server, &right).await.ok(200)["version"].as_u64().unwrap();
    settled(&server, version).await;
    assert_eq!(add(&server, 3000).await, 413);
    for (settings, why) in [
        (json!({"limits.body": "1KiB", "limits.wait": "soon"}), "wrong setting `limits.wait`"),
        (json!({"limits.bdoy": "1KiB"}), "did you mean `limits.body`?"),
        (json!({"listen": "127.0.0.1:1"}), "`listen` needs a restart"),
        (json!({"webhooks.secret": "whsec_AAAA"}), "is a secret"),
        (json!([]), "settings"),
    ] {
        let refused = put(&server, &json!({ "settings": settings })).await;
        assert_eq!((refused.status, refused.code()), (400, "invalid"), "{}", refused.json);
        assert!(refused.json.to_string().contains(why), "{why}: {}", refused.json);
    }
    let mut next = right.clone();
    next["if_version"] = version.into();
    let version = put(&server, &next).await.ok(200)["version"].as_u64().unwrap();
    // Neither who saw none nor who saw those before.
    for late in [&right, &next] {
        let late = put(&server, late).await;
        assert_eq!((late.status, late.code()), (409, "version_mismatch"));
    }
    let told = server.get("/v1/config").await.ok(200);
    assert_eq!((&told["version"], &told["settings"]), (&version.into(), &right["settings"]));
    let url = format!("http://{}", served.address);
    let none = run(&["config", "unset", "limits.wait", "--server", &url]);
    assert_eq!(none.code, 1, "{none:?}");

    // They are there again after a restart.
    served.kill();
    let served = Served::start(&folder.path().join("store"), &[]).await;
    settled(&served.caller(), version).await;
    assert_eq!(add(&served.caller(), 3000).await, 413);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_that_cannot_run_by_them_says_why_and_goes_on() {
    if !there() {
        return;
    }
    let redis = Standalone::start(&[]);
    let url = redis.url();
    let poll = ["--set", "store.poll=50ms"];
    let one = Served::start(Path::new(&url), &[&poll[..], &["--name", "one"]].concat()).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("two.toml");
    std::fs::write(&file, "name = \"two\"\n").unwrap();
    let args = [&poll[..], &["--config", file.to_str().unwrap()]].concat();
    let mut two = Served::start(Path::new(&url), &args).await;
    // Nobody can read it again.
    std::fs::write(&file, "not = [TOML").unwrap();
    let wish = json!({"settings": {"limits.body": "2KiB"}});
    let version = put(&one.caller(), &wish).await.ok(200)["version"].as_u64().unwrap();
    two.says("the settings stay as they were").await;
    let told = settled(&one.caller(), version).await;
    let nodes = told["nodes"].as_array().unwrap();
    let node = nodes.iter().find(|node| node["name"] == "two").expect("it tells");
    assert_eq!(node["version"], 0, "{told}");
    assert!(node["refused"].as_str().unwrap().contains("is not TOML"), "{told}");
    assert_eq!((add(&one.caller(), 3000).await, add(&two.caller(), 3000).await), (413, 201));
    let server = format!("http://{}", one.address);
    let shown = run(&["config", "shared", "--server", &server]);
    assert!(shown.code == 1 && shown.out.contains("two stays at version 0: "), "{shown:?}");
}
