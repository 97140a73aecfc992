//! A receiver of pushed jobs: a real server on a port of its own, which answers each request as the
//! test tells it to, when the test tells it to.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{HeaderMap, Method, Request, Response, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

/// Longer than anything takes that happens at all.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Listens until it is dropped.
pub(crate) struct Receiver {
    address: SocketAddr,
    scheme: &'static str,
    requests: mpsc::UnboundedReceiver<Received>,
    breaks: Breaks,
    listening: JoinHandle<()>,
}

/// Breaks the next connection while a request comes by it, if it is told to.
#[derive(Clone, Default)]
pub(crate) struct Breaks(Arc<AtomicBool>);

impl Breaks {
    pub(crate) fn next(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// A connection that has come, unless it is the one to break.
    pub(crate) async fn pass(&self, mut stream: TcpStream) -> Option<TcpStream> {
        if !self.0.swap(false, Ordering::SeqCst) {
            return Some(stream);
        }
        let _ = stream.read_u8().await;
        None
    }
}

/// A port that refuses connections until somebody listens there.
pub(crate) struct Refusing(TcpSocket);

impl Refusing {
    pub(crate) fn new() -> Refusing {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
        Refusing(socket)
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.0.local_addr().unwrap())
    }

    pub(crate) fn port(&self) -> u16 {
        self.0.local_addr().unwrap().port()
    }

    /// Somebody listens from here on.
    pub(crate) fn listen(self) -> Receiver {
        Receiver::listen(self.0.listen(1024).unwrap(), None)
    }
}

/// A request that waits for its answer. Dropped, the connection ends without one.
pub(crate) struct Received {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) version: Version,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// Which of the receiver's connections it came by, from 0.
    pub(crate) connection: usize,
    answer: oneshot::Sender<Response<Full<Bytes>>>,
}

/// A certificate, and the key that goes with it.
pub(crate) struct Certificate {
    /// In PEM, for those who are to trust it.
    pub(crate) pem: String,
    der: Vec<u8>,
    key: Vec<u8>,
}

impl Certificate {
    /// For `localhost`, signed by itself.
    pub(crate) fn for_localhost() -> Certificate {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        Certificate {
            pem: made.cert.pem(),
            der: made.cert.der().to_vec(),
            key: made.signing_key.serialize_der(),
        }
    }

    fn acceptor(&self) -> tokio_rustls::TlsAcceptor {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![self.der.clone().into()],
                rustls::pki_types::PrivatePkcs8KeyDer::from(self.key.clone()).into(),
            )
            .unwrap();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Arc::new(config).into()
    }
}

impl Receiver {
    pub(crate) async fn start() -> Receiver {
        Receiver::listen(TcpListener::bind("127.0.0.1:0").await.unwrap(), None)
    }

    pub(crate) async fn start_tls(certificate: &Certificate) -> Receiver {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Receiver::listen(listener, Some(certificate.acceptor()))
    }

    fn listen(listener: TcpListener, tls: Option<tokio_rustls::TlsAcceptor>) -> Receiver {
        let address = listener.local_addr().unwrap();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let (send, requests) = mpsc::unbounded_channel();
        let breaks = Breaks::default();
        let breaking = breaks.clone();
        let listening = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            for connection in 0.. {
                let (stream, _) = listener.accept().await.unwrap();
                let (tls, send, breaks) = (tls.clone(), send.clone(), breaking.clone());
                connections.spawn(async move {
                    let Some(stream) = breaks.pass(stream).await else { return };
                    match tls {
                        None => serve(stream, connection, send).await,
                        // A client that does not trust us hangs up.
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                serve(stream, connection, send).await;
                            }
                        }
                    }
                });
            }
        });
        Receiver { address, scheme, requests, breaks, listening }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL of a path, such as `/hooks`.
    pub(crate) fn url(&self, path: &str) -> String {
        let host = if self.scheme == "https" { "localhost" } else { "127.0.0.1" };
        format!("{}://{host}:{}{path}", self.scheme, self.address.port())
    }

    /// The next request.
    pub(crate) async fn next(&mut self) -> Received {
        let next = tokio::time::timeout(PATIENCE, self.requests.recv()).await;
        next.expect("a request comes").expect("it listens")
    }

    /// The next connection breaks while a request comes by it.
    pub(crate) fn break_next(&self) {
        self.breaks.next();
    }

    /// Whether nothing has come that was not taken.
    pub(crate) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    connection: usize,
    send: mpsc::UnboundedSender<Received>,
) {
    let service = service_fn(|request: Request<Incoming>| {
        let send = send.clone();
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.map_err(|_| "it broke off")?.to_bytes();
            let (answer, answered) = oneshot::channel();
            let received = Received {
                method: parts.method,
                path: parts.uri.path_and_query().map(ToString::to_string).unwrap_or_default(),
                version: parts.version,
                headers: parts.headers,
                body,
                connection,
                answer,
            };
            send.send(received).map_err(|_| "nobody is there")?;
            answered.await.map_err(|_| "there is no answer")
        }
    });
    let server = auto::Builder::new(TokioExecutor::new());
    // How it ends is told by who calls.
    let _ = server.serve_connection(TokioIo::new(stream), service).await;
}

impl Received {
    /// A header's value; empty if it is not there.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().expect("it is ASCII"))
    }

    /// Answers with a status alone.
    pub(crate) fn answer(self, status: u16) {
        self.answer_with(status, &[], "");
    }

    /// Answers with headers and a body.
    pub(crate) fn answer_with(self, status: u16, headers: &[(&str, &str)], body: impl Into<Bytes>) {
        let mut answer = Response::builder().status(status);
        for (name, value) in headers {
            answer = answer.header(*name, *value);
        }
        // Whoever called may have given up.
        let _ = self.answer.send(answer.body(Full::new(body.into())).unwrap());
    }

    /// Ends the connection without an answer.
    pub(crate) fn hang_up(self) {}
}
