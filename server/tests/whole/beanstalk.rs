//! The beanstalkd port of the shipped binary: on a full disk, and while there is much to load.

use std::path::Path;
use std::time::Instant;

use rustix::process::Signal;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::disk::SmallDisk;
use crate::served::{PATIENCE, Served};

/// Room for a segment or two of 64 MiB, and the three that are held back.
const DISK_BYTES: u64 = 448 << 20;
/// Enough to be loading for a while.
const JOBS: usize = 100_000;
/// So often is tried to come before all is loaded.
const STARTS_MAX: usize = 20;

/// A server that listens, ready or not, and where it speaks beanstalkd's protocol.
async fn listening(store: &Path, args: &[&str]) -> (Served, String) {
    let args = [&["--beanstalkd", "127.0.0.1:0"], args].concat();
    let mut served = Served::listening(store, &args).await;
    let line = served.says("the beanstalkd protocol is served on ").await;
    let address = line.rsplit(' ').next().expect("an address").to_owned();
    (served, address)
}

async fn start(store: &Path, args: &[&str]) -> (Served, Client) {
    let (mut served, address) = listening(store, args).await;
    served.says(" ready").await;
    (served, Client::new(&address).await)
}

struct Client(BufReader<TcpStream>);

impl Client {
    async fn new(address: &str) -> Client {
        Client(BufReader::new(TcpStream::connect(address).await.expect("it listens")))
    }

    async fn send(&mut self, text: &str) {
        self.0.get_mut().write_all(text.as_bytes()).await.expect("it is taken");
    }

    /// A line; empty when there are no more.
    async fn line(&mut self) -> String {
        let mut line = String::new();
        let read = self.0.read_line(&mut line);
        // A reset is a way of hanging up, too.
        let _ = tokio::time::timeout(PATIENCE, read).await.expect("an answer");
        line.trim_end().to_owned()
    }

    async fn ask(&mut self, command: &str) -> String {
        self.send(&format!("{command}\r\n")).await;
        self.line().await
    }

    /// How many jobs there are. Those that are due are made ready some at a time after a start.
    async fn jobs(&mut self) -> u64 {
        let told = self.ask("stats").await;
        let length: usize = told.strip_prefix("OK ").expect(&told).parse().expect("a length");
        let mut text = vec![0; length + 2];
        self.0.read_exact(&mut text).await.expect("the text");
        let text = String::from_utf8(text).expect("UTF-8");
        let counts = text.lines().filter_map(|line| {
            let (name, count) = line.split_once(": ")?;
            let is_one = ["current-jobs-ready", "current-jobs-delayed"].contains(&name);
            is_one.then(|| count.parse::<u64>().expect("a count"))
        });
        counts.sum()
    }

    /// Puts until that is answered by this word; how many were taken on the way.
    async fn put_until(&mut self, word: &str) -> u64 {
        let (until, mut taken) = (Instant::now() + PATIENCE, 0);
        loop {
            let told = self.ask("put 0 0 600 5\r\nhello").await;
            let is_taken = told.starts_with("INSERTED ");
            assert!(is_taken || told == "OUT_OF_MEMORY", "{told}");
            taken += u64::from(is_taken);
            if told.starts_with(word) {
                return taken;
            }
            assert!(Instant::now() < until, "never {word}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_refuses_puts_and_lets_jobs_be_done() {
    let Some(disk) = SmallDisk::new(DISK_BYTES) else { return };
    let store = disk.path("data");
    let (served, mut client) = start(&store, &[]).await;
    let mut there = client.put_until("INSERTED").await + client.put_until("INSERTED").await;
    disk.take(usize::MAX);
    there += client.put_until("OUT_OF_MEMORY").await;
    assert_eq!(client.ask("reserve").await, "RESERVED 1 5");
    assert_eq!(client.line().await, "hello");
    for (command, told) in [
        ("touch 1", "TOUCHED"),
        ("release 1 0 0", "RELEASED"),
        ("put 0 0 600 5\r\nhello", "OUT_OF_MEMORY"),
        ("delete 1", "DELETED"),
    ] {
        assert_eq!(client.ask(command).await, told, "{command}");
    }
    there -= 1;

    // What was acknowledged is there after a kill, and nothing else.
    served.kill();
    let (served, mut client) = start(&store, &[]).await;
    assert_eq!(client.jobs().await, there);
    disk.give_back();
    there += client.put_until("INSERTED").await;
    assert_eq!(client.jobs().await, there);
    served.kill();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_comes_while_jobs_are_loaded_waits_and_sees_all_of_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = folder.path().join("data");
    let (served, mut client) = start(&store, &["--durability", "relaxed"]).await;
    for _ in 0..JOBS / 1000 {
        client.send(&"put 0 0 600 5\r\nhello\r\n".repeat(1000)).await;
        for _ in 0..1000 {
            assert!(client.line().await.starts_with("INSERTED "));
        }
    }
    served.kill();

    // A stop in the midst of loading does not leave it waiting.
    let (served, address) = listening(&store, &[]).await;
    let mut early = Client::new(&address).await;
    early.send("list-tube-used\r\n").await;
    served.signal(Signal::TERM);
    while !early.line().await.is_empty() {}
    assert_eq!(served.ended().await.code(), Some(0));

    // Should we be held up, all may be loaded before we come.
    for gone in 1..=STARTS_MAX {
        let (served, address) = listening(&store, &[]).await;
        let (mut early, caller) = (Client::new(&address).await, served.caller());
        early.send(&format!("delete {}\r\n", JOBS + 1 - gone)).await;
        let came_early = caller.get("/readyz").await.status == 503;
        assert_eq!(early.line().await, "DELETED");
        assert_eq!(caller.get("/readyz").await.status, 200, "it was answered too early");
        assert_eq!(early.jobs().await, (JOBS - gone) as u64);
        if came_early {
            return;
        }
    }
    panic!("it was loaded too soon, each time");
}
