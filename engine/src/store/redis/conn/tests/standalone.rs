use super::redis_servers::{Answer, Standalone, there};
use super::*;

/// The connections of ours that a server has.
fn connections(server: &Standalone) -> usize {
    let list = server.plain().ask(&["CLIENT", "LIST"]);
    list.text().lines().filter(|line| line.contains(" name=linger ")).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_library_is_sent_when_the_server_does_not_know_it() {
    if !there() {
        return;
    }
    let server = Standalone::start(&[]);
    let conn = open(&server.url()).await;
    assert_eq!(count(&conn, "n").await, Ok(1));
    server.plain().ask(&["FUNCTION", "FLUSH"]);
    assert_eq!(count(&conn, "n").await, Ok(2));
    assert_eq!(count(&conn, "n").await, Ok(3));
    let stats = server.plain().ask(&["INFO", "commandstats"]);
    assert!(stats.text().contains("cmdstat_function|load:calls=2,"), "{stats:?}");
    assert!(stats.text().contains("cmdstat_fcall:calls=5,"), "{stats:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_calls_at_once_share_one_connection() {
    if !there() {
        return;
    }
    let server = Standalone::start(&[]);
    let conn = open(&server.url()).await;
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..1000 {
        let conn = conn.clone();
        calls.spawn(async move { count(&conn, "n").await.expect("the server is there") });
    }
    let mut counts = calls.join_all().await;
    counts.sort_unstable();
    assert_eq!(counts, (1..=1000).collect::<Vec<_>>());
    assert_eq!(connections(&server), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn any_bytes_can_be_keys_arguments_and_answers() {
    if !there() {
        return;
    }
    let server = Standalone::start(&[]);
    let conn = open(&format!("{}/3", server.url())).await;
    let (key, value) = (b"\0\xff\r\n".as_slice(), b"\xfe\0\r\n".as_slice());
    assert_eq!(conn.command(key, &[b"SET", key, value]).await, Ok(Value::Okay));
    let echo = Script::new("return {ARGV[1], redis.call('GET', KEYS[1])}".into());
    let both = Value::Array(vec![Value::BulkString(value.into()); 2]);
    assert_eq!(conn.eval(&echo, key, vec![value.into()]).await, Ok(both));
    let mut plain = server.plain();
    assert_eq!(plain.ask(&["DBSIZE"]), Answer::Int(0), "it went into another database");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_comes_back_is_found_again() {
    if !there() {
        return;
    }
    let mut server = Standalone::start(&["--appendonly", "yes"]);
    let conn = open(&server.url()).await;
    assert_eq!(count(&conn, "n").await, Ok(1));
    assert!(conn.away_since().is_none());
    server.stop();
    let error = count(&conn, "n").await.expect_err("it is stopped");
    assert_eq!(error.code(), Code::Unavailable, "{error}");
    let since = conn.away_since().expect("it is away");
    let error = at_last("it was dialled in vain", async || {
        count(&conn, "n").await.err().filter(|error| error.message().contains("cannot be reached"))
    })
    .await;
    assert_eq!(error.code(), Code::Unavailable);
    assert_eq!(conn.away_since(), Some(since), "it has not been there in between");
    server.start_again();
    assert_eq!(count_at_last(&conn, "n").await, 2);
    assert!(conn.away_since().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loss_is_noticed_without_a_call() {
    if !there() {
        return;
    }
    let mut server = Standalone::start(&[]);
    let conn = open(&server.url()).await;
    server.stop();
    at_last("it is away", async || conn.away_since()).await;
    server.start_again();
    at_last("it is there", async || conn.away_since().is_none().then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_whose_reply_was_lost_is_not_sent_again() {
    if !there() {
        return;
    }
    let server = Standalone::start(&[]);
    let conn = open(&server.url()).await;
    let waiting = {
        let conn = conn.clone();
        tokio::spawn(async move { conn.command(b"k", &[b"BLPOP", b"k", b"0"]).await })
    };
    let mut plain = server.plain();
    at_last("it blocks", async || {
        let info = plain.ask(&["INFO", "clients"]);
        info.text().contains("blocked_clients:1").then_some(())
    })
    .await;
    plain.ask(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    let error = waiting.await.expect("no panic").expect_err("its connection was cut");
    assert_eq!(error.code(), Code::Unavailable);
    assert!(error.message().contains("unknown"), "{error}");
    assert_eq!(count_at_last(&conn, "n").await, 1);
    let stats = plain.ask(&["INFO", "commandstats"]);
    assert!(stats.text().contains("cmdstat_blpop:calls=1,"), "{stats:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_hangs_is_away_until_it_answers() {
    if !there() {
        return;
    }
    let server = Standalone::start(&[]);
    let conn = open(&server.url()).await;
    assert_eq!(count(&conn, "n").await, Ok(1));
    server.pause();
    let error = count(&conn, "n").await.expect_err("it does nothing");
    assert_eq!(error.code(), Code::Unavailable);
    assert!(error.message().contains("has not answered within 5 s"), "{error}");
    assert!(conn.away_since().is_some());
    // Connections are still taken by the system, but nobody speaks.
    let error = at_last("it was dialled in vain", async || {
        count(&conn, "n").await.err().filter(|error| error.message().contains("cannot be reached"))
    })
    .await;
    assert!(error.message().contains("within 2 s"), "{error}");
    server.go_on();
    // What was left in its socket may be done now, once.
    let count = count_at_last(&conn, "n").await;
    assert!([2, 3].contains(&count), "{count}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_hangs_is_noticed_without_a_call() {
    if !there() {
        return;
    }
    let server = Standalone::start(&[]);
    let conn = open(&server.url()).await;
    server.pause();
    at_last("it is away", async || conn.away_since()).await;
    server.go_on();
    at_last("it is there", async || conn.away_since().is_none().then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_of_a_script_is_the_callers() {
    if !there() {
        return;
    }
    let server = Standalone::start(&[]);
    let conn = open(&server.url()).await;
    let wrong = Script::new("return redis.call('INCR', KEYS[1], 1, 2)".into());
    let error = conn.eval(&wrong, b"n", vec![]).await.expect_err("INCR takes one argument");
    assert_eq!(error.code(), Code::StorageFailed, "{error}");
    assert!(conn.away_since().is_none());
    assert_eq!(count(&conn, "n").await, Ok(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_login_is_said_and_not_shown() {
    if !there() {
        return;
    }
    let server = Standalone::start(&["--requirepass", "right"]);
    let port = server.server.port;
    for url in
        [format!("redis://:hush@127.0.0.1:{port}"), format!("redis://u:hush@127.0.0.1:{port}")]
    {
        let error = refusal(&url).await;
        assert_eq!(error, Error::invalid("store", ""));
        assert!(error.message().contains("WRONGPASS"), "{error}");
        assert!(!error.message().contains("hush"), "{error}");
    }
    let error = refusal(&server.url()).await;
    assert_eq!(error, Error::invalid("store", ""));
    assert!(error.message().contains("NOAUTH"), "{error}");
    let conn = open(&format!("redis://:right@127.0.0.1:{port}")).await;
    assert_eq!(count(&conn, "n").await, Ok(1));
    assert!(conn.subscribe(vec![b"c".into()]).await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unneeded_password_is_said() {
    if !there() {
        return;
    }
    let server = Standalone::start(&[]);
    let error = refusal(&format!("redis://:x@127.0.0.1:{}", server.server.port)).await;
    assert_eq!(error, Error::invalid("store", ""));
    assert!(error.message().contains("without any password configured"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_may_do_what_the_server_allows_him() {
    if !there() {
        return;
    }
    let server = Standalone::start(&[]);
    let mut plain = server.plain();
    plain.ask(&["ACL", "SETUSER", "app", "on", ">p@ss", "~own:*", "&own:*", "+@all", "-flushall"]);
    let conn = open(&format!("redis://app:p%40ss@127.0.0.1:{}", server.server.port)).await;
    assert_eq!(count(&conn, "own:n").await, Ok(1));
    assert!(conn.subscribe(vec![b"own:c".into()]).await.is_ok());
    let whoami = conn.command(b"", &[b"ACL", b"WHOAMI"]).await;
    assert_eq!(whoami, Ok(Value::BulkString(b"app".into())));
    let error = conn.command(b"", &[b"FLUSHALL"]).await.expect_err("he may not");
    assert_eq!(error.code(), Code::Unavailable);
    assert!(error.message().contains("NOPERM"), "{error}");
    let error = conn.subscribe(vec![b"other".into()]).await.expect_err("he may not");
    assert!(error.message().contains("NOPERM"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_not_there_is_said() {
    if !there() {
        return;
    }
    let server = Standalone::start(&["--databases", "2"]);
    let error = refusal(&format!("{}/2", server.url())).await;
    assert_eq!(error, Error::invalid("store", ""));
    assert!(error.message().contains("out of range"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_there_is_said() {
    if !there() {
        return;
    }
    let mut server = Standalone::start(&[]);
    server.stop();
    let error = refusal(&server.url()).await;
    assert_eq!(error.code(), Code::Unavailable);
    assert!(error.message().contains("cannot be reached"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_server_is_storage_full() {
    if !there() {
        return;
    }
    let server = Standalone::start(&["--maxmemory", "1mb", "--maxmemory-policy", "noeviction"]);
    let conn = open(&server.url()).await;
    let fill = Script::new("return redis.call('APPEND', KEYS[1], ARGV[1])".into());
    let mut filled = Ok(Value::Nil);
    for _ in 0..100 {
        filled = filled.and(conn.eval(&fill, b"k", vec![vec![b'x'; 100_000]]).await);
    }
    let error = filled.expect_err("10 MB do not fit into 1");
    assert_eq!(error.code(), Code::StorageFull, "{error}");
    let error = conn.command(b"n", &[b"INCR", b"n"]).await.expect_err("it is full");
    assert_eq!(error.code(), Code::StorageFull, "{error}");
    assert!(conn.command(b"k", &[b"DEL", b"k"]).await.is_ok(), "deleting goes on");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_takes_no_writes() {
    if !there() {
        return;
    }
    let server =
        Standalone::start(&["--replicaof", "127.0.0.1", "1", "--replica-serve-stale-data", "yes"]);
    let conn = open(&server.url()).await;
    let error = count(&conn, "n").await.expect_err("it is a replica");
    assert_eq!(error.code(), Code::Unavailable);
    assert!(error.message().contains("READONLY"), "{error}");
    assert!(conn.away_since().is_none(), "it can be reached");
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_are_heard_and_again_after_a_restart() {
    if !there() {
        return;
    }
    let mut server = Standalone::start(&[]);
    let conn = open(&server.url()).await;
    let mut heard = conn.subscribe(vec![b"a".into(), b"b".into()]).await.expect("it is there");
    let publish = Script::new("return redis.call('SPUBLISH', KEYS[1], ARGV[1])".into());
    for (channel, payload) in [("a", "1"), ("b", "2"), ("a", "3")] {
        let receivers = conn.eval(&publish, channel.as_bytes(), vec![payload.into()]).await;
        assert_eq!(receivers, Ok(Value::Int(1)));
        assert_eq!(hear(&mut heard).await, message(channel, payload));
    }
    server.stop();
    server.start_again();
    assert_eq!(hear(&mut heard).await, Heard::Again);
    for channel in ["a", "b"] {
        server.plain().ask(&["SPUBLISH", channel, "4"]);
        assert_eq!(hear(&mut heard).await, message(channel, "4"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_stops_listening_is_unsubscribed() {
    if !there() {
        return;
    }
    let server = Standalone::start(&[]);
    let conn = open(&server.url()).await;
    let heard = conn.subscribe(vec![b"a".into()]).await.expect("it is there");
    assert_eq!(connections(&server), 2);
    drop(heard);
    at_last("its connection is closed", async || (connections(&server) == 1).then_some(())).await;
    drop(conn);
    at_last("all are closed", async || (connections(&server) == 0).then_some(())).await;
}
