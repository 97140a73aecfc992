//! The beanstalkd port by TLS.

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use crate::server::{PATIENCE, Server, connect};

/// A client of beanstalkd.
struct Client(BufReader<TlsStream<TcpStream>>);

impl Client {
    async fn new(server: &Server) -> Client {
        let client = server.authority.client(&[], None);
        Client(BufReader::new(connect(server.beanstalkd_address(), client).await.unwrap()))
    }

    async fn say(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).await.unwrap();
        self.0.flush().await.unwrap();
    }

    async fn line(&mut self) -> String {
        let mut line = String::new();
        let read = self.0.read_line(&mut line);
        tokio::time::timeout(PATIENCE, read).await.expect("an answer").unwrap();
        line
    }

    async fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        let read = self.0.read_exact(&mut bytes);
        tokio::time::timeout(PATIENCE, read).await.expect("an answer").unwrap();
        bytes
    }
}

#[tokio::test]
async fn beanstalkd_is_spoken_by_tls() {
    let server = Server::start().await;
    let (mut worker, mut producer) = (Client::new(&server).await, Client::new(&server).await);
    worker.say("reserve\r\n").await;
    // Several records long, so that some of it is still within TLS after a read.
    let body = "x".repeat(65_535);
    producer.say(&format!("put 0 0 60 {}\r\n{body}\r\n", body.len())).await;
    assert_eq!(producer.line().await, "INSERTED 1\r\n");
    assert_eq!(worker.line().await, "RESERVED 1 65535\r\n");
    assert_eq!(worker.bytes(65_537).await, format!("{body}\r\n").into_bytes());
    // Many commands in few records, all of which are answered.
    const MANY: usize = 3000;
    producer.say(&"put 0 0 60 1\r\ny\r\n".repeat(MANY)).await;
    for number in 2..2 + MANY {
        assert_eq!(producer.line().await, format!("INSERTED {number}\r\n"));
    }
    worker.say("delete 1\r\nquit\r\n").await;
    assert_eq!(worker.line().await, "DELETED\r\n");
    // The end is said, so that nobody can have cut it short.
    let mut rest = Vec::new();
    assert_eq!(worker.0.read_to_end(&mut rest).await.unwrap(), 0);
    server.stop().await;
}

#[tokio::test]
async fn one_who_means_another_protocol_is_turned_away() {
    let server = Server::start().await;
    let browser = server.authority.client(&["h2", "http/1.1"], None);
    let refused = connect(server.beanstalkd_address(), browser).await.unwrap_err();
    assert!(refused.to_string().contains("NoApplicationProtocol"), "{refused}");
    let named = server.authority.client(&["beanstalkd"], None);
    connect(server.beanstalkd_address(), named).await.unwrap();
    server.stop().await;
}

#[tokio::test]
async fn a_stop_ends_connections_that_wait_by_tls() {
    let server = Server::start().await;
    let mut worker = Client::new(&server).await;
    worker.say("watch t\r\n").await;
    assert_eq!(worker.line().await, "WATCHING 2\r\n");
    server.stop().await;
    assert_eq!(worker.line().await, "");
}

#[tokio::test]
async fn the_port_can_be_left_without_tls() {
    let server = Server::with(|config, _| config.tls.beanstalkd = false).await;
    let mut stream = TcpStream::connect(server.beanstalkd_address()).await.unwrap();
    stream.write_all(b"use t\r\n").await.unwrap();
    let mut answer = [0; 9];
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"USING t\r\n");
    server.stop().await;
}
