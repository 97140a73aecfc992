//! The beanstalkd port over Redis, spoken line by line.

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::fleet::Fleet;
use crate::served::{PATIENCE, Served};

/// A server with the port, and where that is.
struct Port {
    _served: Served,
    address: String,
}

impl Port {
    async fn of(fleet: &Fleet) -> Port {
        let args = ["--set", "store.poll=1h", "--beanstalkd", "127.0.0.1:0"];
        let store = fleet.redis.url();
        let mut served = Served::listening(std::path::Path::new(&store), &args).await;
        let line = served.says("beanstalkd protocol is served on ").await;
        let address = line.rsplit(' ').next().expect("an address").to_owned();
        served.says(" ready").await;
        Port { _served: served, address }
    }

    async fn connect(&self) -> Client {
        Client(BufReader::new(TcpStream::connect(&self.address).await.expect("it listens")))
    }
}

struct Client(BufReader<TcpStream>);

impl Client {
    async fn say(&mut self, line: &str) {
        self.0.write_all(format!("{line}\r\n").as_bytes()).await.expect("it listens");
    }

    async fn line(&mut self) -> String {
        let mut line = String::new();
        let read = tokio::time::timeout(PATIENCE, self.0.read_line(&mut line)).await;
        read.expect("an answer").expect("it goes on");
        line.trim_end().to_owned()
    }

    async fn ask(&mut self, line: &str) -> String {
        self.say(line).await;
        self.line().await
    }

    /// Puts a job, and answers its number.
    async fn put(&mut self, ttr_s: u32, body: &str) -> String {
        let put = format!("put 0 0 {ttr_s} {}\r\n{body}", body.len());
        let answer = self.ask(&put).await;
        answer.strip_prefix("INSERTED ").unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    /// Reserves a job, waiting for one, and answers its number and body.
    async fn reserve(&mut self) -> (String, String) {
        let answer = self.ask("reserve").await;
        let number = answer.split(' ').nth(1).unwrap_or_else(|| panic!("{answer}")).to_owned();
        (number, self.line().await)
    }

    /// How many connections the server has.
    async fn connections(&mut self) -> String {
        let mut connections = String::new();
        let answer = self.ask("stats").await;
        assert!(answer.starts_with("OK "), "{answer}");
        loop {
            let line = self.line().await;
            if let Some(count) = line.strip_prefix("current-connections: ") {
                connections = count.to_owned();
            }
            if line.is_empty() {
                return connections;
            }
        }
    }

    async fn until_alone(&mut self) {
        let alone = async { while self.connections().await != "1" {} };
        tokio::time::timeout(PATIENCE, alone).await.expect("the others have gone");
    }
}

#[tokio::test]
async fn what_is_put_at_one_server_is_reserved_and_deleted_at_another() {
    let Some(fleet) = Fleet::start() else { return };
    let (one, other) = (Port::of(&fleet).await, Port::of(&fleet).await);
    let (mut one, mut other) = (one.connect().await, other.connect().await);
    let number = one.put(60, "hello").await;
    assert_eq!(other.reserve().await, (number.clone(), "hello".to_owned()));
    assert_eq!(one.ask("reserve-with-timeout 0").await, "TIMED_OUT");
    assert_eq!(other.ask(&format!("delete {number}")).await, "DELETED");
    assert_eq!(one.ask(&format!("peek {number}")).await, "NOT_FOUND");
}

#[tokio::test]
async fn a_connection_that_ends_gives_back_what_it_held_to_another_server() {
    let Some(fleet) = Fleet::start() else { return };
    let (one, other) = (Port::of(&fleet).await, Port::of(&fleet).await);
    let (mut gone, mut stays) = (one.connect().await, other.connect().await);
    let number = gone.put(3600, "hello").await;
    gone.reserve().await;
    drop(gone);
    assert_eq!(stays.reserve().await.0, number);
}

#[tokio::test]
async fn a_connection_that_ends_takes_nothing_from_one_of_another_server() {
    let Some(fleet) = Fleet::start() else { return };
    let (one, other) = (Port::of(&fleet).await, Port::of(&fleet).await);
    // The first connection of each server.
    let (mut late, mut holds) = (one.connect().await, other.connect().await);
    let number = late.put(1, "hello").await;
    late.reserve().await;
    assert_eq!(holds.reserve().await.0, number, "its time to run is over");
    drop(late);
    one.connect().await.until_alone().await;
    assert_eq!(holds.ask(&format!("touch {number}")).await, "TOUCHED");
}
