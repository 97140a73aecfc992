//! Jobs whose life is over: kept in files, or pushed on.

use std::path::Path;

use hyper::Method;
use serde_json::{Value, json};

use crate::client::Server;
use crate::receiver::{PATIENCE, Receiver};

/// What the files of an archive hold, once it is so many lines.
async fn lines(folder: &Path, count: usize) -> Vec<Value> {
    let read = || -> Vec<Value> {
        let files = std::fs::read_dir(folder).into_iter().flatten();
        let texts = files.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap());
        let all = texts.collect::<String>();
        // A line that is being written has no end yet.
        let whole = all.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        whole.map(|line| serde_json::from_str(line).expect("a line is an object")).collect()
    };
    let there = async {
        loop {
            let found = read();
            if found.len() >= count {
                return found;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, there).await.expect("they are written")
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_finished_died_or_was_deleted_is_kept_in_files() {
    let folder = tempfile::tempdir().unwrap();
    let archive = folder.path().join("archive");
    let server = {
        let archive = archive.clone();
        Server::with(move |config| config.archive.folder = archive).await
    };
    let mut receiver = Receiver::start().await;
    server.call(Method::PUT, "/v1/topics/order", r#"{"archive":"files"}"#).await.ok(200);
    let target = receiver.url("/paid");
    let body =
        "{\"topic\":\"order\",\"id\":\"1\",\"target\":\"TARGET\",\"body\":{\n\"paid\": true}}";
    server.add(&body.replace("TARGET", &target)).await;
    let got = receiver.next().await;
    // The path and all of the body, which was on two lines.
    assert_eq!(&got.body[..], b"{\n\"paid\": true}");
    got.answer_with(200, &[], "thanks");
    lines(&archive, 1).await;
    server.add(r#"{"topic":"order","id":"2","delay":"1h"}"#).await;
    server.call(Method::DELETE, "/v1/topics/order/jobs/2", "").await.ok(200);
    lines(&archive, 2).await;
    server.add(r#"{"topic":"order","id":"3","retry":{"attempts":1}}"#).await;
    server.pop("order").await;
    server.post("/v1/topics/order/jobs/3/fail", r#"{"error":"no"}"#).await.ok(200);
    server.stop().await;

    let kept = lines(&archive, 3).await;
    let told: Vec<_> = kept.iter().map(|one| (&one["id"], &one["ended"]["how"])).collect();
    let expected = [("1", "finished"), ("2", "deleted"), ("3", "dead")];
    assert_eq!(json!(told), json!(expected));
    assert_eq!(kept[0]["body"], json!({"paid": true}));
    assert_eq!(kept[0]["ended"]["answer"], json!({"status": 200, "excerpt": "thanks"}));
    assert_eq!((&kept[0]["state"], &kept[2]["state"]), (&json!("finished"), &json!("dead")));
    let history: Vec<_> = kept[2]["history"].as_array().unwrap().iter().collect();
    assert_eq!((&history[0]["what"], &history[1]["error"]), (&json!("added"), &json!("no")));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archive_may_be_a_target_and_is_pushed_to_until_it_takes_it() {
    let server = Server::start().await;
    let mut receiver = Receiver::start().await;
    let settings = json!({"archive": receiver.url("/kept")});
    server.call(Method::PUT, "/v1/topics/order", &settings.to_string()).await.ok(200);
    let retry = json!({"retry": {"ladder": ["0s"]}});
    server.call(Method::PUT, "/v1/topics/linger.archive", &retry.to_string()).await.ok(200);
    server.add(r#"{"topic":"order","id":"1","delay":"1h","body":"hello"}"#).await;
    server.call(Method::DELETE, "/v1/topics/order/jobs/1", "").await.ok(200);
    receiver.next().await.answer(500);
    let again = receiver.next().await;
    assert_eq!((again.path.as_str(), again.header("linger-topic")), ("/kept", "linger.archive"));
    let kept: Value = serde_json::from_slice(&again.body).unwrap();
    assert_eq!((&kept["id"], &kept["body"]), (&json!("1"), &json!("hello")));
    assert_eq!(kept["ended"]["how"], "deleted");
    again.answer(200);
    server.stop().await;
}
