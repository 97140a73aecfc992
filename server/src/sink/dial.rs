//! Connections to where jobs are pushed: a name is looked up, its addresses are judged, and what
//! passed is what is dialled. Nobody asks for the name a second time in between.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::http::Uri;
use hyper_util::rt::TokioIo;
use linger::time::format_duration;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};
use tower::Service;

use super::address::{Guard, Refused};

/// Dials what may be called.
#[derive(Clone)]
pub(crate) struct Dial {
    guard: Arc<Guard>,
    names: Arc<dyn Names>,
    /// How long all of it may take.
    time: Duration,
}

/// Looks names up.
pub(crate) trait Names: Send + Sync {
    /// The addresses of a host.
    fn look_up<'a>(&'a self, host: &'a str) -> Found<'a>;
}

pub(crate) type Found<'a> = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>>;

/// As the system does it.
pub(crate) struct SystemNames;

impl Names for SystemNames {
    fn look_up<'a>(&'a self, host: &'a str) -> Found<'a> {
        Box::pin(async move {
            let found = tokio::net::lookup_host((host, 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}

/// Why there is no connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NotDialled {
    /// It may not be.
    Refused(Refused),
    /// Nobody is there.
    Unreachable(String),
}

impl fmt::Display for NotDialled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotDialled::Refused(why) => fmt::Display::fmt(why, f),
            NotDialled::Unreachable(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for NotDialled {}

impl Dial {
    pub(crate) fn new(guard: Arc<Guard>, names: Arc<dyn Names>, time: Duration) -> Dial {
        Dial { guard, names, time }
    }

    /// How long it may take until a connection stands.
    pub(crate) fn time(&self) -> Duration {
        self.time
    }

    async fn dial(&self, host: &str, port: u16) -> Result<TcpStream, NotDialled> {
        let end = Instant::now() + self.time;
        let looked_up = timeout_at(end, self.addresses(host)).await;
        let addresses = looked_up.map_err(|_| {
            let time = format_duration(self.time);
            NotDialled::Unreachable(format!("could not look up {host} within {time}"))
        })??;
        let mut why = String::new();
        for (at, address) in addresses.iter().enumerate() {
            let address = SocketAddr::new(*address, port);
            // Each has its share of the time left, so that a silent one does not take it all.
            let left = end.saturating_duration_since(Instant::now());
            let share = left / (addresses.len() - at) as u32;
            match timeout(share, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => {
                    // Small requests in one piece each: nothing is won by waiting for more.
                    let _ = stream.set_nodelay(true);
                    return Ok(stream);
                }
                Ok(Err(error)) => {
                    why = format!("could not connect to {address}: {}", plain(&error))
                }
                Err(_) => {
                    why =
                        format!("could not connect to {address} within {}", format_duration(share));
                }
            }
        }
        Err(NotDialled::Unreachable(why))
    }

    /// The addresses of a host that may be dialled: at least one.
    async fn addresses(&self, host: &str) -> Result<Vec<IpAddr>, NotDialled> {
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let found = match bare.parse() {
            Ok(address) => vec![address],
            Err(_) => self.names.look_up(host).await.map_err(|error| {
                NotDialled::Unreachable(format!("could not look up {host}: {error}"))
            })?,
        };
        let mut refused = None;
        let mut allowed = Vec::new();
        for address in found {
            match self.guard.check(address) {
                Ok(()) if !allowed.contains(&address) => allowed.push(address),
                Ok(()) => {}
                Err(why) => refused = Some(why),
            }
        }
        match (allowed.is_empty(), refused) {
            (false, _) => Ok(allowed),
            (true, Some(why)) => Err(NotDialled::Refused(why)),
            (true, None) => {
                Err(NotDialled::Unreachable(format!("could not look up {host}: it has no address")))
            }
        }
    }
}

/// What happened, without the system's number for it.
fn plain(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::Other => error.to_string(),
        kind => kind.to_string(),
    }
}

/// A connection under way.
pub(crate) type Dialling =
    Pin<Box<dyn Future<Output = Result<TokioIo<TcpStream>, NotDialled>> + Send>>;

impl Service<Uri> for Dial {
    type Response = TokioIo<TcpStream>;
    type Error = NotDialled;
    type Future = Dialling;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), NotDialled>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Dialling {
        let dial = self.clone();
        Box::pin(async move {
            let port =
                uri.port_u16().unwrap_or(if uri.scheme_str() == Some("https") { 443 } else { 80 });
            let host = uri.host().unwrap_or_default();
            dial.dial(host, port).await.map(TokioIo::new)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tokio::net::TcpListener;

    use super::*;
    use crate::config::Networks;

    /// Answers one list after the other, the last again and again.
    struct Told {
        answers: Vec<Vec<&'static str>>,
        asked: Mutex<usize>,
    }

    impl Names for Told {
        fn look_up<'a>(&'a self, _: &'a str) -> Found<'a> {
            let mut asked = self.asked.lock().unwrap();
            let answer = &self.answers[(*asked).min(self.answers.len() - 1)];
            *asked += 1;
            let answer = answer.iter().map(|address| address.parse().unwrap()).collect();
            Box::pin(async move { Ok(answer) })
        }
    }

    fn dial(allow: &str, answers: Vec<Vec<&'static str>>) -> (Dial, Arc<Told>) {
        let told = Arc::new(Told { answers, asked: Mutex::default() });
        let guard = Guard::new(Networks::Public, vec![allow.parse().unwrap()]);
        (Dial::new(Arc::new(guard), told.clone(), Duration::from_secs(20)), told)
    }

    /// Two addresses of this machine with the same port.
    async fn two_listeners() -> (TcpListener, TcpListener, u16) {
        loop {
            let good = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let port = good.local_addr().unwrap().port();
            if let Ok(bad) = TcpListener::bind(("127.0.0.2", port)).await {
                return (good, bad, port);
            }
        }
    }

    #[tokio::test]
    async fn of_a_name_with_good_and_bad_addresses_only_the_good_are_dialled() {
        let (good, bad, port) = two_listeners().await;
        let (dial, _) = dial("127.0.0.1", vec![vec!["127.0.0.2", "169.254.169.254", "127.0.0.1"]]);
        assert_eq!(dial.addresses("a").await.unwrap(), ["127.0.0.1".parse::<IpAddr>().unwrap()]);
        let stream = dial.dial("a", port).await.unwrap();
        let (_, from) = good.accept().await.unwrap();
        assert_eq!(stream.local_addr().unwrap(), from);
        // Whoever had dialled the other would stand in its line before us.
        let probe = TcpStream::connect(bad.local_addr().unwrap()).await.unwrap();
        assert_eq!(bad.accept().await.unwrap().1, probe.local_addr().unwrap());
    }

    #[tokio::test]
    async fn a_name_that_answers_otherwise_the_second_time_gains_nothing() {
        let (good, _bad, port) = two_listeners().await;
        let (dial, told) = dial("127.0.0.1", vec![vec!["127.0.0.1"], vec!["127.0.0.2"]]);
        let stream = dial.dial("a", port).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), good.local_addr().unwrap());
        // What was judged is what was dialled: it was asked for once.
        assert_eq!(*told.asked.lock().unwrap(), 1);
        let refused = dial.dial("a", port).await.unwrap_err();
        assert!(matches!(&refused, NotDialled::Refused(_)), "{refused}");
        assert!(refused.to_string().starts_with("127.0.0.2 is a loopback address"), "{refused}");
    }

    #[tokio::test]
    async fn an_address_in_place_of_a_name_is_judged_as_well() {
        let (dial, told) = dial("127.0.0.1", vec![vec!["127.0.0.1"]]);
        for host in ["127.0.0.2", "[::1]", "[::ffff:127.0.0.2]", "169.254.169.254"] {
            let refused = dial.dial(host, 80).await.unwrap_err();
            assert!(matches!(refused, NotDialled::Refused(_)), "{host}: {refused}");
        }
        assert_eq!(*told.asked.lock().unwrap(), 0);
    }

    #[tokio::test]
    async fn what_cannot_be_reached_says_so_in_plain_words() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let (dial, _) = dial("127.0.0.1", vec![vec![]]);
        let refused = dial.dial("127.0.0.1", port).await.unwrap_err();
        let expected = format!("could not connect to 127.0.0.1:{port}: connection refused");
        assert_eq!(refused, NotDialled::Unreachable(expected));
        let nobody = dial.dial("shop.example", port).await.unwrap_err();
        let expected = "could not look up shop.example: it has no address";
        assert_eq!(nobody, NotDialled::Unreachable(expected.into()));
    }
}
