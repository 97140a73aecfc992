//! By the beanstalkd protocol.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::siege::{MIB, PATIENCE, Siege, as_many_as_may_be, many};

async fn connect(siege: &Siege) -> TcpStream {
    TcpStream::connect(&siege.beanstalkd).await.expect("it listens")
}

/// Bytes that look like chance, the same each time.
fn garbage(bytes: usize, mut seed: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes);
    while out.len() < bytes {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        out.extend_from_slice(&seed.to_be_bytes()[..5]);
    }
    out
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn garbage_is_answered_and_forgotten() {
    let siege = Siege::begin(&[]).await;
    let bytes = many(16 << 20, 1 << 20);
    let mut attacks = JoinSet::new();
    for n in 0..8 {
        let (reader, mut writer) = connect(&siege).await.into_split();
        let mut garbage = garbage(bytes, n);
        match n % 4 {
            // Lines, long or short, right or wrong.
            0 => garbage.iter_mut().step_by(7).for_each(|byte| *byte = b'\n'),
            1 => garbage.chunks_mut(40).for_each(|piece| {
                let line = b"put 1 2 3 99999999999\r\n";
                let len = piece.len().min(line.len());
                piece[..len].copy_from_slice(&line[..len]);
            }),
            // One line without an end.
            2 => garbage.iter_mut().for_each(|byte| *byte |= 0x80),
            _ => garbage.chunks_mut(16).for_each(|piece| {
                let line = b"put 0 0 1 3\r\nx\r\n";
                piece.copy_from_slice(&line[..piece.len()]);
            }),
        }
        attacks.spawn(async move {
            let reading = tokio::spawn(async move {
                let (mut reader, mut piece) = (reader, [0; 4096]);
                while let Ok(1..) = reader.read(&mut piece).await {}
            });
            let _ = writer.write_all(&garbage).await;
            let _ = writer.shutdown().await;
            tokio::time::timeout(PATIENCE, reading).await.expect("it ends").unwrap();
        });
    }
    siege.others_are_served().await;
    while attacks.join_next().await.is_some() {}
    siege.holds("garbage for beanstalkd", 96 * MIB).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_takes_no_answer_is_not_asked_for_more() {
    let siege = Siege::begin(&[]).await;
    let count = as_many_as_may_be(many(1000, 100));
    let mut streams = Vec::new();
    let commands = b"stats\r\n".repeat(10_000);
    for _ in 0..count {
        let mut stream = connect(&siege).await;
        // Until neither side takes any more.
        let pouring = stream.write_all(&commands);
        let _ = tokio::time::timeout(std::time::Duration::from_millis(10), pouring).await;
        streams.push(stream);
    }
    siege.holds("answers that nobody takes", 64 * MIB + count as u64 * (1 << 20)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reserves_that_wait_are_held_to_the_limit_of_all() {
    let most = many(4000, 100);
    let waiting = format!("limits.waiting={most}");
    let siege = Siege::begin(&[&waiting]).await;
    let count = as_many_as_may_be(most);
    let mut streams = Vec::new();
    for _ in 0..count {
        let mut stream = connect(&siege).await;
        stream.write_all(b"watch never\r\nignore default\r\nreserve\r\n").await.unwrap();
        streams.push(stream);
    }
    if count == most {
        while siege.waiting().await < most as u64 {
            tokio::task::yield_now().await;
        }
        let mut stream = connect(&siege).await;
        stream.write_all(b"reserve\r\n").await.unwrap();
        let mut answer = [0; 15];
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"OUT_OF_MEMORY\r\n");
        // By the other port likewise.
        siege.refuses_to_wait().await;
        // What is there is had without waiting.
        stream.write_all(b"put 0 0 60 1\r\nx\r\nreserve\r\n").await.unwrap();
        let mut answer = [0; 29];
        stream.read_exact(&mut answer).await.unwrap();
        assert!(answer.starts_with(b"INSERTED "), "{}", String::from_utf8_lossy(&answer));
    }
    siege.holds("reserves that wait", 64 * MIB + most as u64 * (16 << 10)).await;
    drop(streams);
    while siege.waiting().await > 0 {
        tokio::task::yield_now().await;
    }
    siege.holds("reserves that wait, gone", 64 * MIB + most as u64 * (16 << 10)).await;
}
