//! A stop in good order.

use std::time::Duration;

use super::peers::Linger;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_answers_who_waits_and_gives_back_what_is_held() {
    let linger = Linger::start().await;
    let (mut holder, mut waiting) = (linger.connect().await, linger.connect().await);
    let mut slow = linger.connect().await;
    let held = holder.put("0 0 600", "held").await;
    assert_eq!(holder.reserve("reserve").await.0, held);
    waiting.send("reserve\r\nlist-tube-used\r\n").await;
    // Read together with the first command, so that it has been begun when that is answered.
    slow.send("list-tube-used\r\nput 0 0 60 5\r\nhel").await;
    assert_eq!(slow.line().await.unwrap(), b"USING default");
    while holder.stat("stats", "current-waiting").await != "1" {}

    let Linger { running, folder, .. } = linger;
    let stopping = tokio::spawn(running.stop());
    assert_eq!(waiting.line().await.unwrap(), b"TIMED_OUT");
    assert_eq!(waiting.line().await.unwrap(), b"USING default");
    assert!(waiting.line().await.is_none() && holder.line().await.is_none());
    slow.send("lo\r\n").await;
    let answer = String::from_utf8(slow.line().await.expect("an answer")).unwrap();
    assert!(answer.starts_with("INSERTED "), "{answer}");
    assert!(slow.line().await.is_none());
    stopping.await.unwrap().expect("it stops in good order");

    let again = Linger::on(folder, |_| {}).await;
    let mut client = again.connect().await;
    assert_eq!(client.reserve("reserve").await, (held, "held".to_owned()));
    assert_eq!(client.reserve("reserve").await.1, "hello");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_stuck_when_the_drain_is_over_is_cut_off() {
    let linger = Linger::with(|config| config.drain = Duration::from_millis(50)).await;
    let mut stuck = linger.connect().await;
    stuck.send("list-tube-used\r\nput 0 0 60 5\r\nhel").await;
    assert_eq!(stuck.line().await.unwrap(), b"USING default");
    linger.running.stop().await.expect("it stops all the same");
    assert!(stuck.line().await.is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_never_said_a_word_holds_up_no_stop() {
    let linger = Linger::start().await;
    let mut silent = linger.connect().await;
    let mut other = linger.connect().await;
    while other.stat("stats", "current-connections").await != "2" {}
    let stopping = tokio::time::timeout(Duration::from_secs(10), linger.running.stop());
    stopping.await.expect("it does not wait for the drain").expect("it stops in good order");
    assert!(silent.line().await.is_none());
}
