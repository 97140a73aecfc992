//! By HTTP/1.1, and by connections that say nothing at all.

use std::io::Write;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;

use crate::siege::{MIB, PATIENCE, Siege, all_end, as_many_as_may_be, many, to_the_end};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heads_that_never_end_are_cut_off() {
    let siege = Siege::begin(&["limits.header_time=2s"]).await;
    let count = as_many_as_may_be(many(4000, 300));
    let begun = "GET /healthz HTTP/1.1\r\nhost: localhost\r\nx: ";
    let mut streams = siege.connect_many(count, begun.as_bytes()).await;
    siege.others_are_served().await;
    // A little now and then is no news.
    for stream in &mut streams {
        let _ = stream.write_all(b"y").await;
    }
    siege.holds("slow heads", 64 * MIB).await;
    all_end(streams).await;
    siege.holds("slow heads, over", 64 * MIB).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_head_that_comes_drop_by_drop_is_cut_off_while_it_comes() {
    let siege = Siege::begin(&["limits.header_time=1s"]).await;
    let mut stream = siege.connect().await;
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nx: ").await.unwrap();
    let (mut reader, mut writer) = stream.into_split();
    let dripping = tokio::spawn(async move {
        let mut pace = tokio::time::interval(Duration::from_millis(50));
        while writer.write_all(b"y").await.is_ok() {
            pace.tick().await;
        }
    });
    let ended = tokio::time::timeout(PATIENCE, reader.read_to_end(&mut Vec::new())).await;
    dripping.abort();
    // By an answer, or by a reset because of drops that nobody has taken.
    assert!(ended.is_ok(), "it goes on as long as it drips");
    siege.others_are_served().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_that_never_come_are_cut_off() {
    let siege = Siege::begin(&["limits.body_time=2s"]).await;
    let count = as_many_as_may_be(many(4000, 300));
    // More than all of them together may bring: most are refused at once.
    let head = "POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000000\r\n\r\n{";
    let mut streams = siege.connect_many(count, head.as_bytes()).await;
    siege.others_are_served().await;
    for stream in &mut streams {
        let _ = stream.write_all(b"y").await;
    }
    siege.holds("slow bodies", 96 * MIB).await;
    all_end(streams).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_head_that_is_too_large_is_refused() {
    let siege = Siege::begin(&[]).await;
    let mut stream = siege.connect().await;
    let begun = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nx: ";
    stream.write_all(begun).await.unwrap();
    let (mut reader, mut writer) = stream.into_split();
    let sending = tokio::spawn(async move {
        let piece = [b'y'; 1 << 16];
        for _ in 0..1000 {
            if writer.write_all(&piece).await.is_err() {
                return;
            }
        }
    });
    let mut answer = [0; 12];
    let read = tokio::time::timeout(PATIENCE, reader.read_exact(&mut answer)).await;
    read.expect("an answer").expect("an answer");
    assert_eq!(&answer, b"HTTP/1.1 431");
    drop(reader);
    sending.await.unwrap();
    // No more than that is kept of it.
    let mut stream = siege.connect().await;
    let mut head = begun.to_vec();
    head.resize(100 << 10, b'y');
    let _ = stream.write_all(&head).await;
    assert!(to_the_end(&mut stream).await.starts_with("HTTP/1.1 431"));
    // Many headers, small ones.
    let mut stream = siege.connect().await;
    let mut head = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n".to_vec();
    for n in 0..10_000 {
        write!(head, "x{n}: y\r\n").unwrap();
    }
    let _ = stream.write_all(&head).await;
    assert!(to_the_end(&mut stream).await.starts_with("HTTP/1.1 431"));
    // Each as large as it may be, and none complete.
    let count = as_many_as_may_be(many(2000, 200));
    let mut large = begun.to_vec();
    large.resize(60 << 10, b'y');
    let streams = siege.connect_many(count, &large).await;
    siege.holds("huge heads", 64 * MIB + count as u64 * (128 << 10)).await;
    drop(streams);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_say_nothing_are_cut_off() {
    let siege = Siege::begin(&["limits.header_time=2s"]).await;
    let count = as_many_as_may_be(many(4000, 300));
    let streams = siege.connect_many(count, b"").await;
    siege.holds("half-open connections", 64 * MIB).await;
    all_end(streams).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_idle_connections_cost_little() {
    let settings = ["limits.connections=20000", "limits.connections_per_address=20000"];
    let siege = Siege::begin(&settings).await;
    let count = as_many_as_may_be(many(10_000, 1000));
    let request = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let mut streams = siege.connect_many(count, request).await;
    for stream in &mut streams {
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).await.expect("an answer");
        assert_eq!(&answer, b"HTTP/1.1 200");
    }
    println!("{count} idle connections");
    siege.holds("idle connections", 32 * MIB + count as u64 * (32 << 10)).await;
    // All of them are still there.
    for stream in &mut streams {
        stream.write_all(request).await.expect("it is open");
    }
    siege.holds("idle connections, again", 32 * MIB + count as u64 * (32 << 10)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_address_cannot_take_every_place() {
    let siege = Siege::begin(&["limits.connections_per_address=50"]).await;
    // From another address than the one who is to be served.
    let connect = async || {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.2:0".parse().unwrap()).unwrap();
        socket.connect(siege.served.address.parse().unwrap()).await.expect("it listens")
    };
    let mut within = Vec::new();
    for _ in 0..50 {
        within.push(connect().await);
    }
    for _ in 0..500 {
        let answer = to_the_end(&mut connect().await).await;
        assert!(answer.contains("from your address are at the limit of 50"), "{answer}");
    }
    siege.holds("one address", 32 * MIB).await;
    // One goes, one may come.
    drop(within.pop());
    let free = async {
        loop {
            let mut stream = connect().await;
            stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
            let mut answer = [0; 12];
            if stream.read_exact(&mut answer).await.is_ok() && &answer == b"HTTP/1.1 200" {
                return;
            }
        }
    };
    tokio::time::timeout(PATIENCE, free).await.expect("its place is free");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_packed_is_not_unpacked() {
    let siege = Siege::begin(&[]).await;
    // A gigabyte of blanks, in a megabyte.
    let mut bomb = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    let blanks = vec![b' '; 1 << 20];
    for _ in 0..many(1024, 128) {
        bomb.write_all(&blanks).unwrap();
    }
    let bomb = bomb.finish().unwrap();
    let head = format!(
        "POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-encoding: gzip\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        bomb.len()
    );
    let mut attacks = JoinSet::new();
    for _ in 0..20 {
        let mut stream = siege.connect().await;
        let (head, bomb) = (head.clone(), bomb.clone());
        attacks.spawn(async move {
            let _ = stream.write_all(head.as_bytes()).await;
            let _ = stream.write_all(&bomb).await;
            to_the_end(&mut stream).await
        });
    }
    for answer in attacks.join_all().await {
        assert!(answer.starts_with("HTTP/1.1 415"), "{answer}");
        assert!(answer.contains("content encoding is `gzip`"), "{answer}");
    }
    siege.holds("gzip bombs", 64 * MIB).await;
}
