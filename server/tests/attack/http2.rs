//! By HTTP/2, frame by frame.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::siege::{MIB, PATIENCE, Siege, many};

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const CANCEL: [u8; 4] = [0, 0, 0, 8];
/// `POST` by `http`, of `localhost` in a header of its own.
const POST: &[u8] = b"\x83\x86\x01\x09localhost";

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

/// A path that is spelled out.
fn path(path: &str) -> Vec<u8> {
    let mut header = vec![0x04, path.len() as u8];
    header.extend_from_slice(path.as_bytes());
    header
}

fn headers(to: &str) -> Vec<u8> {
    [POST, &path(to)].concat()
}

/// A client, which reads nothing by itself.
async fn connect(siege: &Siege) -> TcpStream {
    let mut stream = siege.connect().await;
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
    stream.write_all(&frame(SETTINGS, 0, 0, &[])).await.unwrap();
    stream
}

/// Writes until all is written or the server has had enough, and takes what it says meanwhile.
async fn pour(stream: TcpStream, pieces: impl Iterator<Item = Vec<u8>>) -> Poured {
    let (mut reader, mut writer) = stream.into_split();
    let reading = tokio::spawn(async move {
        let mut piece = [0; 4096];
        while let Ok(1..) = reader.read(&mut piece).await {}
    });
    let mut poured = Poured::All;
    for piece in pieces {
        let written = tokio::time::timeout(PATIENCE, writer.write_all(&piece)).await;
        if written.expect("it takes it or hangs up").is_err() {
            poured = Poured::CutOff;
            break;
        }
    }
    drop(writer);
    let _ = tokio::time::timeout(PATIENCE, reading).await.expect("it ends");
    poured
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Poured {
    All,
    CutOff,
}

/// Several at once, each with a connection of its own.
async fn pour_many<I>(siege: &Siege, count: usize, pieces: impl Fn() -> I) -> Vec<Poured>
where
    I: Iterator<Item = Vec<u8>> + Send + 'static,
{
    let mut attacks = JoinSet::new();
    for _ in 0..count {
        attacks.spawn(pour(connect(siege).await, pieces()));
    }
    siege.others_are_served().await;
    attacks.join_all().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_are_taken_back_at_once_cost_little() {
    let siege = Siege::begin(&[]).await;
    let count = many(100_000, 5000) as u32;
    // A pop that waits, so that there is something to take back.
    let body = br#"{"wait":"5m"}"#;
    let pieces = move || {
        (0..count).map(move |n| {
            let stream = 2 * n + 1;
            let begin = frame(HEADERS, END_HEADERS, stream, &headers("/v1/topics/never/pop"));
            let body = frame(DATA, END_STREAM, stream, body);
            [begin, body, frame(RST_STREAM, 0, stream, &CANCEL)].concat()
        })
    };
    let poured = pour_many(&siege, 4, pieces).await;
    println!("rapid resets: {poured:?}");
    siege.holds("rapid resets", 96 * MIB).await;
    // Nobody waits any more of all those.
    while siege.waiting().await > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn headers_that_go_on_and_on_end_the_connection() {
    let siege = Siege::begin(&[]).await;
    let pieces = || {
        let begin = frame(HEADERS, 0, 1, &headers("/v1/jobs"));
        // A header that is not kept in the table, again and again.
        let mut more = Vec::new();
        while more.len() < 16_000 {
            more.extend_from_slice(b"\x00\x01x\x64");
            more.extend_from_slice(&[b'y'; 100]);
        }
        let more = frame(CONTINUATION, 0, 1, &more);
        std::iter::once(begin).chain(std::iter::repeat_n(more, 10_000))
    };
    let poured = pour_many(&siege, 20, pieces).await;
    assert!(poured.iter().all(|poured| *poured == Poured::CutOff), "{poured:?}");
    siege.holds("endless headers", 64 * MIB).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_and_pings_without_end_cost_little() {
    let siege = Siege::begin(&[]).await;
    let count = many(1_000_000, 50_000);
    for (name, one) in [
        ("settings", frame(SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 100])),
        ("pings", frame(PING, 0, 0, &[7; 8])),
    ] {
        let piece = one.repeat(100);
        let pieces = move || std::iter::repeat_n(piece.clone(), count / 100);
        let poured = pour_many(&siege, 4, pieces).await;
        println!("{name}: {poured:?}");
        siege.holds(name, 64 * MIB).await;
    }
    // And from those who take no answer: the server does not wait with what it has to say.
    let mut deaf = Vec::new();
    for _ in 0..20 {
        let mut stream = connect(&siege).await;
        let pings = frame(PING, 0, 0, &[7; 8]).repeat(1000);
        let pouring = async { while stream.write_all(&pings).await.is_ok() {} };
        // Until neither side takes any more.
        let _ = tokio::time::timeout(std::time::Duration::from_millis(200), pouring).await;
        deaf.push(stream);
    }
    siege.holds("pings of the deaf", 64 * MIB).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_waiting_pops_is_held_to_its_limit() {
    let most = many(20_000, 1000);
    let waiting = format!("limits.waiting={most}");
    let siege = Siege::begin(&[&waiting]).await;
    // Of each connection as many as there may be; half as many again as may wait.
    let connections = most.div_ceil(256) * 3 / 2;
    let mut streams = Vec::new();
    for _ in 0..connections {
        let mut stream = connect(&siege).await;
        for n in 0..256 {
            let begin = frame(HEADERS, END_HEADERS, 2 * n + 1, &headers("/v1/topics/never/pop"));
            let body = frame(DATA, END_STREAM, 2 * n + 1, br#"{"wait":"5m"}"#);
            stream.write_all(&[begin, body].concat()).await.unwrap();
        }
        streams.push(stream);
    }
    while siege.waiting().await < most as u64 {
        tokio::task::yield_now().await;
    }
    // One who cannot wait is told so, and can still do everything else.
    siege.refuses_to_wait().await;
    siege.holds("waiting pops", 64 * MIB + most as u64 * (32 << 10)).await;
    drop(streams);
    while siege.waiting().await > 0 {
        tokio::task::yield_now().await;
    }
    siege.holds("waiting pops, gone", 64 * MIB + most as u64 * (32 << 10)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_that_come_in_bits_over_many_streams_are_bounded_in_all() {
    let siege = Siege::begin(&["limits.requests_bytes=4MiB", "limits.body_time=30s"]).await;
    // Each small enough to be passed over, and all of them far too much.
    let bits = [b' '; 16_000];
    let mut streams = Vec::new();
    for _ in 0..many(40, 8) {
        let stream = connect(&siege).await;
        let (mut reader, mut writer) = stream.into_split();
        // Windows are given back as it reads, so that it can be sent more.
        let reading = tokio::spawn(async move {
            let mut piece = [0; 4096];
            while let Ok(1..) = reader.read(&mut piece).await {}
        });
        for n in 0..200 {
            let begin = frame(HEADERS, END_HEADERS, 2 * n + 1, &headers("/v1/jobs"));
            let body = frame(DATA, 0, 2 * n + 1, &bits);
            let sending = writer.write_all(&[begin, body.repeat(3)].concat()).await;
            if sending.is_err() {
                break;
            }
        }
        streams.push((writer, reading));
    }
    // 48 kB each: those that are beyond the 4 MiB are refused.
    siege.holds("bodies in bits", 64 * MIB).await;
    for (writer, reading) in streams {
        drop(writer);
        reading.abort();
    }
}
