use super::redis_servers::{Cluster, Standalone, there};
use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn each_key_is_served_by_its_primary() {
    if !there() {
        return;
    }
    let cluster = Cluster::start();
    // One node is enough to find the others, even a replica.
    let conn = open(&format!("redis+cluster://127.0.0.1:{}", cluster.nodes[5].port)).await;
    for node in 0..3 {
        let key = cluster.key_on(node);
        assert_eq!(count(&conn, &key).await, Ok(1));
        assert_eq!(count(&conn, &key).await, Ok(2), "by its name alone");
        assert_eq!(cluster.nodes[node].ask(&["GET", &key]).text(), "2");
        let stats = cluster.nodes[node].ask(&["INFO", "commandstats"]);
        assert!(stats.text().contains("cmdstat_function|load:calls=1,"), "{stats:?}");
    }
    assert!(conn.away_since().is_none());
    let error = refusal(&format!("redis://127.0.0.1:{}", cluster.nodes[0].port)).await;
    assert!(error.message().contains("redis+cluster://"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_and_messages_follow_a_slot_that_moves() {
    if !there() {
        return;
    }
    let cluster = Cluster::start();
    let conn = open(&cluster.url()).await;
    let key = cluster.key_on(0);
    let (slot, bystander) = (cluster.slot_of(&key), cluster.key_on(2));
    let channel = format!("{{{key}}}");
    let channels = vec![channel.clone().into(), bystander.clone().into()];
    let mut heard = conn.subscribe(channels).await.expect("it is there");
    assert_eq!(count(&conn, &key).await, Ok(1));

    let from = cluster.begin_migration(slot, 1);
    assert_eq!(count(&conn, &key).await, Ok(2), "it is still where it was");
    cluster.move_keys(slot, from, 1);
    // ASK, and a function that is not known there.
    assert_eq!(count(&conn, &key).await, Ok(3));
    assert_eq!(count(&conn, &format!("{{{key}}}new")).await, Ok(1), "new ones begin there");
    cluster.end_migration(slot, from, 1);
    assert_eq!(count(&conn, &key).await, Ok(4));
    let asked = cluster.nodes[1].ask(&["INFO", "commandstats"]);
    assert!(asked.text().contains("cmdstat_asking:calls="), "{asked:?}");

    assert_eq!(hear(&mut heard).await, Heard::Again);
    for (node, channel) in [(1, &channel), (2, &bystander)] {
        cluster.nodes[node].ask(&["SPUBLISH", channel, "x"]);
        assert_eq!(hear(&mut heard).await, message(channel, "x"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_follows_a_key_that_was_moved_unseen() {
    if !there() {
        return;
    }
    let cluster = Cluster::start();
    let conn = open(&cluster.url()).await;
    let key = cluster.key_on(0);
    assert_eq!(count(&conn, &key).await, Ok(1));
    cluster.migrate_slot(cluster.slot_of(&key), 1);
    for expected in 2..=5 {
        assert_eq!(count(&conn, &key).await, Ok(expected));
    }
    let errors = cluster.nodes[0].ask(&["INFO", "errorstats"]);
    assert!(errors.text().contains("errorstat_MOVED:count=1\r\n"), "{errors:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_takes_over_from_a_primary_that_is_killed() {
    if !there() {
        return;
    }
    let mut cluster = Cluster::start();
    let conn = open(&cluster.url()).await;
    let (key, bystander) = (cluster.key_on(0), cluster.key_on(1));
    let channels = vec![key.clone().into(), bystander.clone().into()];
    let mut heard = conn.subscribe(channels).await.expect("it is there");
    assert_eq!(count(&conn, &key).await, Ok(1));
    assert_eq!(count(&conn, &bystander).await, Ok(1));
    replicated(&conn, &key).await;

    let killed = cluster.kill_primary_of(&key);
    assert_eq!(killed, 0);
    let error = count(&conn, &key).await.expect_err("it is killed");
    assert_eq!(error.code(), Code::Unavailable);
    assert!(conn.away_since().is_some());
    assert_eq!(count_at_last(&conn, &key).await, 2);
    count_at_last(&conn, &bystander).await;
    at_last("no primary is away", async || conn.away_since().is_none().then_some(())).await;

    assert_eq!(hear(&mut heard).await, Heard::Again);
    let successor = cluster.primary_of(cluster.slot_of(&key));
    assert_eq!(successor, 3, "the replica of the first");
    for (node, channel) in [(successor, &key), (1, &bystander)] {
        cluster.nodes[node].ask(&["SPUBLISH", channel, "x"]);
        assert_eq!(hear(&mut heard).await, message(channel, "x"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_alone_is_no_cluster() {
    if !there() {
        return;
    }
    let server = Standalone::start(&["--requirepass", "right"]);
    let url = |login| format!("redis+cluster://{login}127.0.0.1:{}", server.server.port);
    let error = refusal(&url(":right@")).await;
    assert_eq!(error, Error::invalid("store", ""));
    assert!(error.message().contains("not part of a cluster"), "{error}");
    let error = refusal(&url(":hush@")).await;
    assert_eq!(error, Error::invalid("store", ""));
    assert!(error.message().contains("WRONGPASS"), "{error}");

    let empty = Standalone::start(&["--cluster-enabled", "yes"]);
    let error = refusal(&empty.url().replace("redis:", "redis+cluster:")).await;
    assert!(error.message().contains("no slots yet"), "{error}");
}
