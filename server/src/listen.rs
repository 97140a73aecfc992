//! Takes connections, within a limit of number, by TLS if the port is served so, and serves each
//! until it ends, falls silent or the server stops.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::addresses::Addresses;
use crate::front::port::{Peer, Port};
use crate::silence::{Busy, Ear, Limits, Listening, Quiet, Silence};
use crate::stream::Stream;
use crate::tls::{Speaks, Tls};

/// How long a connection may be silent before it is asked whether it is there.
const PROBE_AFTER: Duration = Duration::from_secs(60);
/// How often it is asked again.
const PROBE_EVERY: Duration = Duration::from_secs(10);
/// The most that a head of HTTP/1.1 may have: so much each connection can make us keep.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// The most that the headers of a request may have in HTTP/2, and how many may be under way.
const HEADER_LIST_BYTES_MAX: u32 = 16 << 10;
const STREAMS_MAX: u32 = 256;
/// By this TLS begins.
const TLS_HANDSHAKE: u8 = 0x16;
/// How long one that is turned away has to hear why, and how much it may say meanwhile.
const FAREWELL_TIME: Duration = Duration::from_secs(1);
const FAREWELL_BYTES: u64 = 64 << 10;
/// The most that are told at once why they are turned away; others are not.
const TURNED_AWAY_MAX: usize = 1000;

/// Whoever serves connections.
pub(crate) trait Front: Send + Sync + 'static {
    /// The most connections at once. May change while the server runs.
    fn connections_max(&self) -> Most;

    /// How long a stop waits for what is under way.
    fn drain(&self) -> Duration;

    /// What it speaks, for those who come by TLS.
    fn speaks(&self) -> Speaks;

    /// How long a client may take to say its first word, and to agree on TLS.
    fn first_time(&self) -> Duration;

    /// Serves a connection to its end, which is to come soon once it is `stopping`.
    fn serve(
        self: Arc<Self>,
        stream: Stream,
        stopping: CancellationToken,
    ) -> impl Future<Output = ()> + Send;

    /// What one connection too many is told.
    fn refusal(&self, why: Full) -> String;

    /// What one is told that comes without TLS where it is needed.
    fn tls_wanted(&self) -> String;
}

/// The most connections at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Most {
    pub(crate) connections: usize,
    pub(crate) per_address: usize,
}

/// Which limit a connection is one too many for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Full {
    All,
    Address,
}

/// Serves until `stopping`, then waits for what is under way, within the drain.
pub(crate) async fn listen<F: Front>(
    listener: TcpListener,
    front: Arc<F>,
    tls: Option<Arc<Tls>>,
    stopping: CancellationToken,
) {
    // Each connection holds a part of it.
    let (connected, addresses) = (Arc::new(()), Arc::new(Addresses::default()));
    let (connections, cut) = (TaskTracker::new(), CancellationToken::new());
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stopping.cancelled() => break,
        };
        let (stream, from) = match accepted {
            Ok((stream, from)) => (stream, from.ip()),
            Err(cause) => {
                rest_after(&cause).await;
                continue;
            }
        };
        prepare(&stream);
        let most = front.connections_max();
        let place = match Arc::strong_count(&connected) > most.connections {
            true => Err(Full::All),
            false => addresses.enter(from, most.per_address).ok_or(Full::Address),
        };
        let place = match place {
            Ok(place) => (place, connected.clone()),
            Err(why) => {
                // By TLS it would cost a handshake; and they may be too many to be told at all.
                if tls.is_none() && connections.len() < most.connections + TURNED_AWAY_MAX {
                    connections.spawn(turn_away(stream, front.refusal(why)));
                }
                continue;
            }
        };
        let (front, tls) = (front.clone(), tls.clone());
        let (stopping, cut) = (stopping.clone(), cut.clone());
        connections.spawn(async move {
            let served = async {
                let stream = match tls {
                    None => Some(Stream::Plain(stream)),
                    // Boxed, so that connections are not large by it for all their life.
                    Some(tls) => Box::pin(secured(stream, &*front, &tls, &stopping)).await,
                };
                if let Some(stream) = stream {
                    front.serve(stream, stopping).await;
                }
            };
            tokio::select! {
                () = served => {}
                () = cut.cancelled() => {}
            }
            drop(place);
        });
    }
    drop(listener);
    connections.close();
    if tokio::time::timeout(front.drain(), connections.wait()).await.is_err() {
        let left = connections.len();
        tracing::warn!(connections = left, "some requests did not end in time and are cut off");
        cut.cancel();
        connections.wait().await;
    }
}

/// A connection by TLS, if its client can agree on that in time.
async fn secured<F: Front>(
    stream: TcpStream,
    front: &F,
    tls: &Tls,
    stopping: &CancellationToken,
) -> Option<Stream> {
    let meeting = async {
        let mut first = [0];
        if !matches!(stream.peek(&mut first).await, Ok(1)) {
            return None;
        }
        if first != [TLS_HANDSHAKE] {
            turn_away(stream, front.tls_wanted()).await;
            return None;
        }
        match tls.accept(stream, front.speaks()).await {
            Ok(stream) => Some(Stream::Tls(Box::new(stream))),
            Err(cause) => {
                // Its client's affair, and anyone can make it happen as often as they like.
                tracing::debug!("a client could not agree on TLS: {cause}");
                None
            }
        }
    };
    tokio::select! {
        met = tokio::time::timeout(front.first_time(), meeting) => met.ok().flatten(),
        () = stopping.cancelled() => None,
    }
}

impl Front for Port {
    fn connections_max(&self) -> Most {
        self.app().connection_limits().0
    }

    fn drain(&self) -> Duration {
        self.app().drain()
    }

    fn speaks(&self) -> Speaks {
        Speaks::Http
    }

    fn first_time(&self) -> Duration {
        self.app().connection_limits().1.head
    }

    async fn serve(self: Arc<Self>, stream: Stream, stopping: CancellationToken) {
        // One that is gone already has none.
        let Ok(peer) = stream.peer_addr() else { return };
        // Looked up for each: they may change while the server runs.
        let (_, limits) = self.app().connection_limits();
        serve(stream, peer.into(), &self, limits, stopping).await;
    }

    fn refusal(&self, why: Full) -> String {
        let Most { connections, per_address } = self.connections_max();
        let message = match why {
            Full::All => format!("connections are at the limit of {connections}; try again soon"),
            Full::Address => format!(
                "connections from your address are at the limit of {per_address}; close some, or \
                 try again soon"
            ),
        };
        last_words("503 Service Unavailable\r\nretry-after: 1", "overloaded", &message)
    }

    fn tls_wanted(&self) -> String {
        last_words("400 Bad Request", "invalid", "this port is served by TLS; call it by https://")
    }
}

/// An answer after which the connection ends.
fn last_words(status: &str, code: &str, message: &str) -> String {
    let body = format!(r#"{{"error":{{"code":"{code}","message":"{message}"}}}}"#);
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Serves one connection.
async fn serve(
    mut stream: Stream,
    peer: Peer,
    port: &Arc<Port>,
    limits: Limits,
    stopping: CancellationToken,
) {
    if !speaks(&mut stream, limits.head, &stopping).await {
        return;
    }
    let silence = Arc::new(Silence::default());
    let stream = TokioIo::new(Ear::new(stream, silence.clone()));
    let mut builder = auto::Builder::new(TokioExecutor::new());
    // Hyper's own limit for a head begins with the end of the request before.
    builder.http1().timer(TokioTimer::new()).header_read_timeout(None).max_buf_size(HEAD_BYTES_MAX);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEADER_LIST_BYTES_MAX);
    let service = {
        let silence = silence.clone();
        service_fn(move |request| {
            let busy = Busy::new(silence.clone());
            let answer = port.answer(request, busy, &peer);
            async { Ok::<_, Infallible>(answer.await) }
        })
    };
    let mut connection = pin!(builder.serve_connection(stream, service));
    let mut listening = pin!(Listening::new(silence, limits));
    let mut told_to_end = false;
    loop {
        let served = poll_fn(|context| match connection.as_mut().poll(context) {
            // A connection that breaks is its client's affair.
            Poll::Ready(_) => Poll::Ready(None),
            Poll::Pending => listening.as_mut().poll_too_long(context).map(Some),
        });
        let quiet = tokio::select! {
            quiet = served => quiet,
            () = stopping.cancelled(), if !told_to_end => {
                told_to_end = true;
                connection.as_mut().graceful_shutdown();
                continue;
            }
        };
        match quiet {
            Some(Quiet::Idle) if !told_to_end => {
                told_to_end = true;
                connection.as_mut().graceful_shutdown();
            }
            _ => return,
        }
    }
}

/// What holds for all connections.
fn prepare(stream: &TcpStream) {
    let _ = stream.set_nodelay(true);
    // One that is silent may have much to do; one that is gone must not keep its jobs.
    let keepalive = socket2::TcpKeepalive::new().with_time(PROBE_AFTER).with_interval(PROBE_EVERY);
    let _ = socket2::SockRef::from(stream).set_tcp_keepalive(&keepalive);
}

/// Whether a client says something in time.
async fn speaks(stream: &mut Stream, within: Duration, stopping: &CancellationToken) -> bool {
    tokio::select! {
        spoke = tokio::time::timeout(within, stream.is_spoken_on()) => spoke.unwrap_or(false),
        () = stopping.cancelled() => false,
    }
}

/// After a failed accept: none of the reasons goes away at once.
async fn rest_after(cause: &io::Error) {
    tracing::warn!(%cause, "a connection could not be accepted");
    tokio::time::sleep(Duration::from_millis(50)).await;
}

/// Answers a connection that is not served.
async fn turn_away(mut stream: TcpStream, answer: String) {
    let farewell = async {
        stream.write_all(answer.as_bytes()).await?;
        stream.shutdown().await?;
        // What it has said must be read, or the answer may be lost with a reset.
        tokio::io::copy(&mut stream.take(FAREWELL_BYTES), &mut tokio::io::sink()).await
    };
    let _ = tokio::time::timeout(FAREWELL_TIME, farewell).await;
}
