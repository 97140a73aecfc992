use super::redis_servers::{SentinelTrio, Standalone, there, wait_until};
use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn calls_and_messages_follow_the_master() {
    if !there() {
        return;
    }
    let mut trio = SentinelTrio::start();
    let conn = open(&trio.url()).await;
    let mut heard = conn.subscribe(vec![b"c".into()]).await.expect("it is there");
    assert_eq!(count(&conn, "n").await, Ok(1));

    let first = trio.master();
    trio.failover();
    assert_ne!(trio.master(), first);
    count_at_last(&conn, "n").await;
    assert_eq!(hear(&mut heard).await, Heard::Again);
    trio.master_server().ask(&["SPUBLISH", "c", "1"]);
    assert_eq!(hear(&mut heard).await, message("c", "1"));

    // The old master has to follow before it can take over again.
    let replica = trio.servers.iter().find(|server| server.port == first).expect("it runs");
    wait_until("the old master follows", || {
        let role = replica.ask(&["INFO", "replication"]);
        role.text().contains("role:slave") && role.text().contains("master_link_status:up")
    });
    let before = count_at_last(&conn, "n").await;
    trio.master_server().ask(&["WAIT", "1", "0"]);
    trio.kill_master();
    // What is told while nobody is master, and what is left when someone is again.
    assert!(count_at_last(&conn, "n").await > before, "the new master has what the old one had");
    assert_eq!(trio.master(), first);
    assert!(conn.away_since().is_none());
    assert_eq!(hear(&mut heard).await, Heard::Again);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_master_that_became_a_replica_unseen_is_left() {
    if !there() {
        return;
    }
    // Sentinels that are asleep notice nothing, so that only the answers tell.
    let mut trio = SentinelTrio::start();
    let conn = open(&trio.url()).await;
    assert_eq!(count(&conn, "n").await, Ok(1));
    trio.sentinels.iter().for_each(|sentinel| sentinel.pause());
    trio.servers[0].ask(&["REPLICAOF", "127.0.0.1", &trio.servers[1].port.to_string()]);
    let error = at_last("it is a replica", async || count(&conn, "n").await.err()).await;
    assert_eq!(error.code(), Code::Unavailable);
    assert!(error.message().contains("READONLY"), "{error}");
    assert!(conn.away_since().is_some(), "no master is known");
    trio.servers[0].ask(&["REPLICAOF", "NO", "ONE"]);
    trio.sentinels.iter().for_each(|sentinel| sentinel.go_on());
    count_at_last(&conn, "n").await;
    trio.servers.clear();
}

#[tokio::test(flavor = "multi_thread")]
async fn sentinels_that_are_not_there_or_know_no_such_master_are_said() {
    if !there() {
        return;
    }
    let mut trio = SentinelTrio::start();
    let error = refusal(&trio.url().replace("/linger", "/other")).await;
    assert_eq!(error, Error::invalid("store", ""));
    assert!(error.message().contains("knows no master `other`"), "{error}");

    let error = refusal(&format!("redis://127.0.0.1:{}", trio.sentinels[0].port)).await;
    assert!(error.message().contains("is a sentinel"), "{error}");

    // Two of three may be gone.
    trio.sentinels[0].kill();
    trio.sentinels[1].kill();
    let conn = open(&trio.url()).await;
    assert_eq!(count(&conn, "n").await, Ok(1));
    trio.sentinels[2].kill();
    let error = refusal(&trio.url()).await;
    assert_eq!(error.code(), Code::Unavailable);
    assert!(error.message().contains("none of 3 sentinels"), "{error}");
    assert_eq!(count(&conn, "n").await, Ok(2), "sentinels are asked only when they are needed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_no_sentinel() {
    if !there() {
        return;
    }
    let server = Standalone::start(&[]);
    let url = server.url().replace("redis://", "redis+sentinel://") + "/m";
    let error = refusal(&url).await;
    assert!(error.message().contains("SENTINEL"), "{error}");
}
