use super::redis_servers::{SentinelTrio, Server, Standalone, there, wait_until};
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
    replicated(&conn, "n").await;
    trio.kill_master();
    assert!(count_at_last(&conn, "n").await > before, "the new master has what the old one had");
    wait_until("the first sentinel knows, too", || trio.master() == first);
    assert!(conn.away_since().is_none());
    assert_eq!(hear(&mut heard).await, Heard::Again);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_master_that_became_a_replica_unseen_is_left() {
    if !there() {
        return;
    }
    // Sentinels that are asleep notice nothing, so that only the answers tell.
    let trio = SentinelTrio::start();
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
}

#[tokio::test(flavor = "multi_thread")]
async fn sentinels_and_servers_have_logins_of_their_own() {
    if !there() {
        return;
    }
    let master = Standalone::start(&["--requirepass", "of-servers"]);
    let settings = "requirepass of-sentinels\nsentinel auth-pass m of-servers\n";
    let sentinel = lone_sentinel(&master, settings);
    let url =
        |login, query| format!("redis+sentinel://{login}127.0.0.1:{}/m{query}", sentinel.port);
    let conn = open(&url(":of-servers@", "?sentinel_password=of-sentinels")).await;
    assert_eq!(count(&conn, "n").await, Ok(1));
    for (login, query) in [
        (":of-servers@", ""),
        (":of-sentinels@", "?sentinel_password=of-sentinels"),
        (":of-servers@", "?sentinel_password=of-servers"),
    ] {
        let error = refusal(&url(login, query)).await;
        assert_eq!(error, Error::invalid("store", ""));
        assert!(error.message().contains("does not accept"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_no_master_is_not_taken_for_one() {
    if !there() {
        return;
    }
    let replica = Standalone::start(&["--replicaof", "127.0.0.1", "1"]);
    let sentinel = lone_sentinel(&replica, "");
    let error = refusal(&format!("redis+sentinel://127.0.0.1:{}/m", sentinel.port)).await;
    assert_eq!(error.code(), Code::Unavailable);
    assert!(error.message().contains("is not a master"), "{error}");
}

/// A sentinel that takes this server for the master `m`.
fn lone_sentinel(server: &Standalone, settings: &str) -> Server {
    Server::start_with(|_, folder| {
        let config = folder.path().join("sentinel.conf");
        let port = server.server.port;
        let text = format!("sentinel monitor m 127.0.0.1 {port} 1\n{settings}");
        std::fs::write(&config, text).expect("the folder can be written to");
        vec![config.display().to_string(), "--sentinel".into()]
    })
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
