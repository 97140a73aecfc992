//! What a transcript cannot tell: many commands at once, limits, and jobs of other fronts.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::peers::{Client, Linger};

/// A call over HTTP; the whole answer.
async fn http(linger: &Linger, method: &str, path: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(linger.running.address()).await.expect("it listens");
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.expect("it is taken");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("an answer");
    answer
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_commands_at_once_are_answered_in_order() {
    let linger = Linger::start().await;
    let mut client = linger.connect().await;
    client.send("put 0 0 60 5\r\nhello\r\n".repeat(2500)).await;
    let mut numbers = Vec::new();
    for _ in 0..2500 {
        let line = String::from_utf8(client.line().await.expect("an answer")).unwrap();
        numbers.push(line.strip_prefix("INSERTED ").expect(&line).parse::<u64>().unwrap());
    }
    assert!(numbers.is_sorted());
    client.send("reserve\r\n".repeat(1000)).await;
    for number in &numbers[..1000] {
        assert_eq!(client.line().await.unwrap(), format!("RESERVED {number} 5").as_bytes());
        assert_eq!(client.line().await.unwrap(), b"hello");
    }
    // Some are held, some are not, and one is not there.
    let deletes: String = numbers.iter().map(|number| format!("delete {number}\r\n")).collect();
    client.send(deletes + "delete 99999999\r\n").await;
    for _ in 0..2500 {
        assert_eq!(client.line().await.unwrap(), b"DELETED");
    }
    assert_eq!(client.line().await.unwrap(), b"NOT_FOUND");
    assert_eq!(client.stat("stats", "total-jobs").await, "2500");
    assert_eq!(client.stat("stats", "cmd-delete").await, "2501");
    assert_eq!(client.stat("stats", "current-jobs-ready").await, "0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_does_not_read_is_held_up_and_loses_nothing() {
    let linger = Linger::start().await;
    let mut client = linger.connect().await;
    let body = "x".repeat(60_000);
    client.put("0 0 60", &body).await;
    // Some 30 MB of answers, which nobody takes until all is asked.
    let (mut reader, mut writer) = (linger.connect().await, "peek 1\r\n".repeat(500));
    writer.push_str("list-tube-used\r\n");
    reader.send(writer).await;
    for _ in 0..500 {
        assert_eq!(reader.line().await.unwrap(), b"FOUND 1 60000");
        assert_eq!(reader.line().await.unwrap().len(), 60_000);
    }
    assert_eq!(reader.line().await.unwrap(), b"USING default");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_of_other_fronts_are_there_too() {
    let linger = Linger::start().await;
    let job = r#"{"topic":"支付","id":"1","body":{"order":1}}"#;
    assert!(http(&linger, "POST", "/v1/jobs", job).await.starts_with("HTTP/1.1 201"));
    let mut client = linger.connect().await;
    client.send("list-tubes\r\n").await;
    assert_eq!(client.ok_text().await.unwrap(), "---\n- default\n- $E6$94$AF$E4$BB$98\n");
    assert_eq!(client.ask("watch $E6$94$AF$E4$BB$98").await, "WATCHING 2");
    let (number, body) = client.reserve("reserve").await;
    assert_eq!(body, r#"{"order":1}"#);
    assert_eq!(client.stat(&format!("stats-job {number}"), "ttr").await, "60");
    assert_eq!(client.ask(&format!("delete {number}")).await, "DELETED");
    let path = "/v1/topics/%E6%94%AF%E4%BB%98/jobs/1";
    assert!(http(&linger, "GET", path, "").await.starts_with("HTTP/1.1 404"));

    // And the other way: without an end of attempts.
    client.put("7 0 60", "text").await;
    let listed = http(&linger, "GET", "/v1/topics/default/jobs?body=true", "").await;
    for part in [r#""body":"text""#, r#""priority":7"#, r#""attempts":0"#] {
        assert!(listed.contains(part), "{part} is not in {listed}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holders_delete_finishes_and_a_repeating_job_goes_on() {
    let linger = Linger::start().await;
    let job = r#"{"topic":"r","id":"1","repeat":{"every":"1h"},"delay":"1h"}"#;
    assert!(http(&linger, "POST", "/v1/jobs", job).await.starts_with("HTTP/1.1 201"));
    let mut client = linger.connect().await;
    let (number, _) = client.reserve("reserve-job 1").await;
    client.send(format!("delete {number}\r\ndelete {number}\r\n")).await;
    assert_eq!(client.line().await.unwrap(), b"DELETED");
    // Said twice by mistake, it must not end the series.
    assert_eq!(client.line().await.unwrap(), b"NOT_FOUND");
    assert_eq!(client.stat("stats-job 1", "state").await, "delayed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_is_held_by_hand_shows_as_buried_and_can_be_kicked_by_name() {
    let linger = Linger::start().await;
    let job = r#"{"topic":"default","id":"1","held":true}"#;
    assert!(http(&linger, "POST", "/v1/jobs", job).await.starts_with("HTTP/1.1 201"));
    let mut client = linger.connect().await;
    assert_eq!(client.stat("stats-job 1", "state").await, "buried");
    assert_eq!(client.stat("stats-tube default", "current-jobs-buried").await, "1");
    assert_eq!(client.ask("kick 10").await, "KICKED 0");
    assert_eq!(client.ask("reserve-job 1").await, "NOT_FOUND");
    assert_eq!(client.ask("kick-job 1").await, "KICKED");
    client.reserve("reserve").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_is_handed_out_as_often_as_its_holders_are_lost() {
    let linger = Linger::start().await;
    let mut producer = linger.connect().await;
    let number = producer.put("0 0 60", "x").await;
    for _ in 0..20 {
        let mut worker = linger.connect().await;
        assert_eq!(worker.reserve("reserve").await.0, number);
    }
    assert_eq!(producer.reserve("reserve").await.0, number);
    assert_eq!(producer.stat(&format!("stats-job {number}"), "reserves").await, "21");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_who_says_nothing_loses_its_job_when_its_time_is_over() {
    let linger = Linger::start().await;
    let (mut holder, mut next) = (linger.connect().await, linger.connect().await);
    let number = holder.put("0 0 1", "x").await;
    assert_eq!(holder.reserve("reserve").await.0, number);
    assert_eq!(next.reserve("reserve").await.0, number);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_largest_body_is_a_setting() {
    let linger = Linger::with(|config| config.limits.beanstalkd_body_bytes = 10).await;
    let mut client = linger.connect().await;
    client.put("0 0 60", "0123456789").await;
    assert_eq!(client.ask("put 0 0 60 11\r\n01234567890").await, "JOB_TOO_BIG");
    assert_eq!(client.stat("stats", "max-job-size").await, "10");
}

/// Whether it was closed.
async fn is_closed(client: &mut Client) -> bool {
    client.line().await.is_none()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_stuck_is_cut_off_and_who_is_silent_is_not() {
    let linger = Linger::with(|config| {
        config.limits.body_time = Duration::from_millis(20);
        config.limits.idle_time = Duration::from_millis(20);
    })
    .await;
    let mut silent = linger.connect().await;
    assert_eq!(silent.ask("list-tube-used").await, "USING default");
    let mut in_a_line = linger.connect().await;
    in_a_line.send("stat").await;
    assert!(is_closed(&mut in_a_line).await);
    let mut in_a_body = linger.connect().await;
    in_a_body.send("put 0 0 60 5\r\nhel").await;
    assert!(is_closed(&mut in_a_body).await);
    // All that time it had nothing to say.
    assert_eq!(silent.ask("list-tube-used").await, "USING default");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_connection_too_many_is_told_so() {
    let linger = Linger::with(|config| config.limits.connections = 1).await;
    let mut first = linger.connect().await;
    assert_eq!(first.ask("list-tube-used").await, "USING default");
    let mut second = linger.connect().await;
    assert_eq!(second.line().await.unwrap(), b"OUT_OF_MEMORY");
    assert!(is_closed(&mut second).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_web_page_cannot_give_commands() {
    let linger = Linger::start().await;
    let mut browser = linger.connect().await;
    browser.send("POST / HTTP/1.1\r\nhost: x\r\n\r\nput 0 0 60 1\r\nx\r\n").await;
    assert!(is_closed(&mut browser).await);
    let mut client = linger.connect().await;
    assert_eq!(client.stat("stats", "total-jobs").await, "0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_watches_up_to_a_thousand_tubes() {
    let linger = Linger::start().await;
    let mut client = linger.connect().await;
    let watches: String = (0..1000).map(|n| format!("watch t{n}\r\n")).collect();
    client.send(watches).await;
    for n in 2..=1000 {
        assert_eq!(client.line().await.unwrap(), format!("WATCHING {n}").as_bytes());
    }
    assert_eq!(client.line().await.unwrap(), b"OUT_OF_MEMORY");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_networks_that_are_allowed_are_let_in() {
    let networks = |text: &str| vec![text.parse().unwrap()];
    let linger = Linger::with(|config| config.beanstalkd_allow = networks("10.0.0.0/8")).await;
    let mut client = linger.connect().await;
    client.send("list-tube-used\r\n").await;
    assert!(client.line().await.is_none(), "it is hung up on");
    let linger = Linger::with(|config| config.beanstalkd_allow = networks("127.0.0.0/8")).await;
    let mut client = linger.connect().await;
    client.send("list-tube-used\r\n").await;
    assert_eq!(client.line().await.unwrap(), b"USING default");
}
