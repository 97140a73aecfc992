//! The common port by TLS.

use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::{Request, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};
use linger_server::proto::linger as pb;
use pb::queue_client::QueueClient;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use crate::authority::Authority;
use crate::server::{PATIENCE, Server, connect};

fn request() -> Request<Full<Bytes>> {
    let body = r#"{"topic":"t","body":"x"}"#;
    let request = Request::post("https://localhost/v1/jobs").header("host", "localhost");
    request.body(Full::from(body)).unwrap()
}

/// Adds a job over HTTP/1.1, and answers whether it was taken.
async fn add(stream: &mut TlsStream<TcpStream>) -> bool {
    let body = r#"{"topic":"t","body":"x"}"#;
    let head = format!(
        "POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    if stream.write_all(head.as_bytes()).await.is_err() {
        return false;
    }
    let mut answer = [0; 12];
    let read = tokio::time::timeout(PATIENCE, stream.read_exact(&mut answer)).await;
    read.expect("an answer or the end").is_ok() && &answer == b"HTTP/1.1 201"
}

fn agreed(stream: &TlsStream<TcpStream>) -> Option<&[u8]> {
    stream.get_ref().1.alpn_protocol()
}

#[tokio::test]
async fn the_version_of_http_is_agreed_on_as_they_meet() {
    let server = Server::start().await;
    let stream = server.connect(&["h2", "http/1.1"]).await;
    assert_eq!(agreed(&stream), Some(&b"h2"[..]));
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
    let connection = tokio::spawn(connection);
    let answer = sender.send_request(request()).await.unwrap();
    assert_eq!((answer.status().as_u16(), answer.version()), (201, Version::HTTP_2));
    answer.into_body().collect().await.unwrap();
    drop(sender);
    connection.await.unwrap().unwrap();

    let mut stream = server.connect(&["http/1.1"]).await;
    assert_eq!(agreed(&stream), Some(&b"http/1.1"[..]));
    assert!(add(&mut stream).await);
    let mut stream = server.connect(&[]).await;
    assert_eq!(agreed(&stream), None);
    assert!(add(&mut stream).await);
    server.stop().await;
}

#[tokio::test]
async fn grpc_is_called_by_tls() {
    let server = Server::start().await;
    let (address, client) = (server.address(), server.authority.client(&["h2"], None));
    let connector = tower::service_fn(move |_| {
        let connecting = connect(address, client.clone());
        async { connecting.await.map(TokioIo::new) }
    });
    let endpoint = tonic::transport::Endpoint::from_static("http://localhost");
    let channel = endpoint.connect_with_connector(connector).await.unwrap();
    let job = pb::NewJob { topic: "t".into(), id: "1".into(), ..Default::default() };
    let add = pb::AddRequest { job: Some(job), ..Default::default() };
    let added = QueueClient::new(channel).add(add).await.unwrap().into_inner();
    assert_eq!(added.job.unwrap().id, "1");
    server.stop().await;
}

#[tokio::test]
async fn a_client_without_a_certificate_is_refused_where_one_is_needed() {
    let server = Server::with(|config, files| config.tls.client_ca = Some(files.ca.clone())).await;
    let (known, unknown) = (server.authority.sign(), Authority::new().sign());
    let try_as = async |own| {
        // A client may hear of it only when it reads.
        match connect(server.address(), server.authority.client(&["http/1.1"], own)).await {
            Ok(mut stream) => add(&mut stream).await,
            Err(_) => false,
        }
    };
    assert!(try_as(Some(&known)).await);
    assert!(!try_as(None).await);
    assert!(!try_as(Some(&unknown)).await);
    // It is needed on the other port as well.
    let stream = connect(server.beanstalkd_address(), server.authority.client(&[], None)).await;
    if let Ok(mut stream) = stream {
        let _ = stream.write_all(b"stats\r\n").await;
        assert!(stream.read_u8().await.is_err());
    }
    server.stop().await;
}

/// Says something plainly, and reads to the end.
async fn say_plainly(address: std::net::SocketAddr, text: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut answer = String::new();
    let read = stream.read_to_string(&mut answer);
    tokio::time::timeout(PATIENCE, read).await.expect("it ends").unwrap();
    answer
}

#[tokio::test]
async fn whoever_speaks_plainly_is_told_of_tls() {
    let server = Server::start().await;
    let request = "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let answer = say_plainly(server.address(), request).await;
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    assert!(answer.contains(r#""code":"invalid""#), "{answer}");
    assert!(answer.contains("call it by https://"), "{answer}");
    let preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    assert!(say_plainly(server.address(), preface).await.starts_with("HTTP/1.1 400 "));
    let answer = say_plainly(server.beanstalkd_address(), "stats\r\n").await;
    assert_eq!(answer, "INTERNAL_ERROR\r\n");
    server.stop().await;
}

/// Whether the server hangs up without a word.
async fn is_cut_off(mut stream: TcpStream) -> bool {
    let mut said = Vec::new();
    let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut said)).await;
    // A reset is a way of hanging up, too.
    read.expect("it hangs up").is_err() || said.is_empty()
}

#[tokio::test]
async fn a_handshake_that_does_not_end_is_cut_off() {
    let short = Duration::from_millis(50);
    let server = Server::with(|config, _| config.limits.header_time = short).await;
    for address in [server.address(), server.beanstalkd_address()] {
        let silent = TcpStream::connect(address).await.unwrap();
        let mut stuck = TcpStream::connect(address).await.unwrap();
        stuck.write_all(&[0x16, 0x03, 0x01]).await.unwrap();
        assert!(is_cut_off(silent).await);
        assert!(is_cut_off(stuck).await);
    }
    server.stop().await;
}

#[tokio::test]
async fn a_handshake_counts_as_a_connection() {
    let hour = Duration::from_secs(3600);
    let server = Server::with(|config, _| {
        config.limits.header_time = hour;
        config.limits.connections = 1;
    })
    .await;
    let mut stuck = TcpStream::connect(server.address()).await.unwrap();
    stuck.write_all(&[0x16]).await.unwrap();
    assert!(is_cut_off(TcpStream::connect(server.address()).await.unwrap()).await);
    drop(stuck);
    let free = async {
        let client = server.authority.client(&[], None);
        while connect(server.address(), client.clone()).await.is_err() {}
    };
    tokio::time::timeout(PATIENCE, free).await.expect("its place is free again");
    server.stop().await;
}
