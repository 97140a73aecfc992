//! Stands between Linger and a broker: once a job has gone by, the broker's word is held back until
//! the test says so.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// What every job has in its headers, and nothing else that is sent to a broker.
const MARK: &[u8] = b"linger-attempt";

pub(crate) struct Proxy {
    pub(crate) port: u16,
    held: mpsc::UnboundedReceiver<Held>,
    breaks: Arc<AtomicBool>,
    listening: JoinHandle<()>,
}

/// A connection whose broker is not heard until every job that went by it is answered. Dropped, it is
/// cut.
pub(crate) struct Held {
    unanswered: watch::Sender<usize>,
    cut: CancellationToken,
    is_answered: bool,
}

impl Proxy {
    /// Leads from a port of this machine, any if it is 0, to the broker at another.
    pub(crate) async fn between(port: u16, broker: u16) -> Proxy {
        let listener = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (tell, held) = mpsc::unbounded_channel();
        let breaks = Arc::new(AtomicBool::new(false));
        let breaking = breaks.clone();
        let listening = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            loop {
                let (client, _) = listener.accept().await.unwrap();
                let broken = breaking.swap(false, Ordering::SeqCst);
                connections.spawn(pass(client, broker, broken, tell.clone()));
            }
        });
        Proxy { port, held, breaks, listening }
    }

    /// The connection by which the next job came.
    pub(crate) async fn held(&mut self) -> Held {
        self.held.recv().await.expect("it listens")
    }

    /// The next connection breaks with the first thing that is said on it.
    pub(crate) fn break_next(&self) {
        self.breaks.store(true, Ordering::SeqCst);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

impl Held {
    /// Lets the broker's word through.
    pub(crate) fn let_through(mut self) {
        self.is_answered = true;
        self.unanswered.send_modify(|count| *count -= 1);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if !self.is_answered {
            self.cut.cancel();
        }
    }
}

async fn pass(client: TcpStream, broker: u16, broken: bool, tell: mpsc::UnboundedSender<Held>) {
    // The broker may be stopped for a while: then the client is hung up on.
    let Ok(broker) = TcpStream::connect(("127.0.0.1", broker)).await else { return };
    let ((from_client, to_client), (from_broker, to_broker)) =
        (client.into_split(), broker.into_split());
    let (unanswered, cut) = (watch::Sender::new(0), CancellationToken::new());
    let held = unanswered.subscribe();
    let ask = || Held { unanswered: unanswered.clone(), cut: cut.clone(), is_answered: false };
    tokio::select! {
        () = cut.cancelled() => {}
        () = upwards(from_client, to_broker, broken, || {
            unanswered.send_modify(|count| *count += 1);
            // Nobody may want to know any more.
            let _ = tell.send(ask());
        }) => {}
        () = downwards(from_broker, to_client, held) => {}
    }
}

async fn upwards(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    broken: bool,
    job_comes: impl Fn(),
) {
    let (mut buffer, mut seen) = (vec![0; 64 << 10], Vec::new());
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        if broken {
            return;
        }
        seen.extend_from_slice(&buffer[..read]);
        if let Some(at) = seen.windows(MARK.len()).position(|window| window == MARK) {
            job_comes();
            seen.drain(..at + MARK.len());
        }
        // A mark may come in two parts.
        seen.drain(..seen.len().saturating_sub(MARK.len() - 1));
        if to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}

async fn downwards(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut held: watch::Receiver<usize>,
) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        if held.wait_for(|count| *count == 0).await.is_err()
            || to.write_all(&buffer[..read]).await.is_err()
        {
            return;
        }
    }
}
