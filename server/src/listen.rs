//! Takes connections, within a limit of number, and serves each until it ends, falls silent or the
//! server stops.

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
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::front::port::Port;
use crate::silence::{Busy, Ear, Limits, Listening, Quiet, Silence};

/// How long a connection may be silent before it is asked whether it is there.
const PROBE_AFTER: Duration = Duration::from_secs(60);
/// How often it is asked again.
const PROBE_EVERY: Duration = Duration::from_secs(10);

/// Whoever serves connections.
pub(crate) trait Front: Send + Sync + 'static {
    /// The most connections at once. May change while the server runs.
    fn connections_max(&self) -> usize;

    /// How long a stop waits for what is under way.
    fn drain(&self) -> Duration;

    /// Serves a connection to its end, which is to come soon once it is `stopping`.
    fn serve(
        self: Arc<Self>,
        stream: TcpStream,
        stopping: CancellationToken,
    ) -> impl Future<Output = ()> + Send;

    /// What one connection too many is told.
    fn refusal(&self) -> String;
}

/// Serves until `stopping`, then waits for what is under way, within the drain.
pub(crate) async fn listen<F: Front>(
    listener: TcpListener,
    front: Arc<F>,
    stopping: CancellationToken,
) {
    // Each connection holds a part of it.
    let connected = Arc::new(());
    let (connections, cut) = (TaskTracker::new(), CancellationToken::new());
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stopping.cancelled() => break,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(cause) => {
                rest_after(&cause).await;
                continue;
            }
        };
        prepare(&stream);
        if Arc::strong_count(&connected) > front.connections_max() {
            connections.spawn(turn_away(stream, front.refusal()));
            continue;
        }
        let (connected, front) = (connected.clone(), front.clone());
        let (stopping, cut) = (stopping.clone(), cut.clone());
        connections.spawn(async move {
            tokio::select! {
                () = front.serve(stream, stopping) => {}
                () = cut.cancelled() => {}
            }
            drop(connected);
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

impl Front for Port {
    fn connections_max(&self) -> usize {
        self.app().connection_limits().0
    }

    fn drain(&self) -> Duration {
        self.app().drain()
    }

    async fn serve(self: Arc<Self>, stream: TcpStream, stopping: CancellationToken) {
        // Looked up for each: they may change while the server runs.
        let (_, limits) = self.app().connection_limits();
        serve(stream, &self, limits, stopping).await;
    }

    fn refusal(&self) -> String {
        let most = self.connections_max();
        let body = format!(
            r#"{{"error":{{"code":"overloaded","message":"connections are at the limit of {most}; try again soon"}}}}"#
        );
        format!(
            "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: 1\r\n\
             connection: close\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
    }
}

/// Serves one connection.
async fn serve(stream: TcpStream, port: &Port, limits: Limits, stopping: CancellationToken) {
    if !speaks(&stream, limits.head, &stopping).await {
        return;
    }
    let (silence, peer) = (Arc::new(Silence::default()), stream.peer_addr().ok());
    let stream = TokioIo::new(Ear::new(stream, silence.clone()));
    let mut builder = auto::Builder::new(TokioExecutor::new());
    // Hyper's own limit for a head begins with the end of the request before.
    builder.http1().timer(TokioTimer::new()).header_read_timeout(None);
    builder.http2().timer(TokioTimer::new()).max_concurrent_streams(256);
    let service = {
        let silence = silence.clone();
        service_fn(move |request| {
            let busy = Busy::new(silence.clone());
            let answer = port.answer(request, busy, peer);
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
async fn speaks(stream: &TcpStream, within: Duration, stopping: &CancellationToken) -> bool {
    let mut byte = [0];
    tokio::select! {
        spoke = tokio::time::timeout(within, stream.peek(&mut byte)) => {
            matches!(spoke, Ok(Ok(1)))
        }
        () = stopping.cancelled() => false,
    }
}

/// After a failed accept: none of the reasons goes away at once.
async fn rest_after(cause: &io::Error) {
    tracing::warn!(%cause, "a connection could not be accepted");
    tokio::time::sleep(Duration::from_millis(50)).await;
}

/// Answers a connection too many.
async fn turn_away(mut stream: TcpStream, answer: String) {
    let write = async {
        stream.write_all(answer.as_bytes()).await?;
        stream.shutdown().await
    };
    let _ = tokio::time::timeout(Duration::from_secs(1), write).await;
}
