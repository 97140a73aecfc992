//! The beanstalkd front: the whole of that protocol, on jobs of whatever origin.
//!
//! A tube is a topic, a job's id is its number, to bury is to put on the dead shelf. A connection is
//! the owner of the leases of what it reserves, so that they end with it.

mod act;
mod connection;
mod held;
mod parse;
mod reply;
mod stats;
mod tube;
mod tubes;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, Guard};
use tokio_util::sync::CancellationToken;

use super::limit::Gates;
use crate::config::Config;
use crate::listen::{Front, Full, Most};
use crate::store::Store;
use crate::stream::Stream;
use crate::tls::Speaks;
use parse::Op;
use tubes::Tubes;

/// What can be changed from outside while it runs, and before there is a store.
pub(crate) struct Controls {
    config: ArcSwap<Config>,
    draining: AtomicBool,
    /// Shared with the other port.
    gates: Arc<Gates>,
}

impl Controls {
    pub(crate) fn new(config: Config, gates: Arc<Gates>) -> Controls {
        let config = ArcSwap::from_pointee(config);
        Controls { config, draining: AtomicBool::new(false), gates }
    }

    /// Takes on other settings: those that may change while the server runs.
    pub(crate) fn set_config(&self, config: Config) {
        self.config.store(Arc::new(config));
    }

    /// Takes no new jobs from here on, for as long as it runs.
    pub(crate) fn begin_draining(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }
}

/// What every connection needs.
pub(crate) struct Server {
    store: Arc<Store>,
    controls: Arc<Controls>,
    tubes: Tubes,
    tally: Tally,
    started: Instant,
    /// Tells one run of a server from another.
    run: u64,
    /// In which second somebody was last turned away.
    turned_away_at: AtomicU64,
}

/// What is counted about commands and connections.
#[derive(Debug, Default)]
struct Tally {
    ops: [AtomicU64; Op::NAMES.len()],
    connections: AtomicU64,
    producers: AtomicU64,
    workers: AtomicU64,
    total_connections: AtomicU64,
}

impl Server {
    pub(crate) fn new(store: Arc<Store>, controls: Arc<Controls>) -> Server {
        let run = std::hash::BuildHasher::hash_one(
            &std::collections::hash_map::RandomState::new(),
            std::process::id(),
        );
        Server {
            store,
            controls,
            tubes: Tubes::default(),
            tally: Tally::default(),
            started: Instant::now(),
            run,
            turned_away_at: AtomicU64::new(0),
        }
    }

    fn config(&self) -> Guard<Arc<Config>> {
        self.controls.config.load()
    }

    /// Whether this address may speak the protocol, which knows no keys.
    fn lets_in(&self, address: IpAddr) -> bool {
        let config = self.config();
        match config.beanstalkd_allow.as_slice() {
            [] => config.insecure || address.to_canonical().is_loopback(),
            networks => networks.iter().any(|network| network.contains(address)),
        }
    }

    /// Tells the log, once a second at most.
    fn tell_turned_away(&self, address: IpAddr) {
        let now = self.started.elapsed().as_secs() + 1;
        if self.turned_away_at.swap(now, Ordering::Relaxed) != now {
            tracing::warn!(%address, "the beanstalkd port is not for this address; see beanstalkd_allow");
        }
    }

    fn is_draining(&self) -> bool {
        self.controls.draining.load(Ordering::Relaxed)
    }

    fn count(&self, op: Option<Op>) {
        if let Some(op) = op {
            self.tally.ops[op as usize].fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Front for Server {
    fn connections_max(&self) -> Most {
        self.config().limits.most_connections()
    }

    fn drain(&self) -> Duration {
        self.config().drain
    }

    fn speaks(&self) -> Speaks {
        Speaks::Beanstalkd
    }

    fn first_time(&self) -> Duration {
        self.config().limits.header_time
    }

    async fn serve(self: Arc<Self>, stream: Stream, stopping: CancellationToken) {
        // One that is gone already has no address.
        let Ok(peer) = stream.peer_addr() else { return };
        if !self.lets_in(peer.ip()) {
            self.tell_turned_away(peer.ip());
            return;
        }
        connection::serve(self, stream, stopping).await;
    }

    fn refusal(&self, _: Full) -> String {
        reply::OUT_OF_MEMORY.as_str().to_owned()
    }

    fn tls_wanted(&self) -> String {
        // The protocol has no word for it.
        reply::INTERNAL_ERROR.as_str().to_owned()
    }
}

/// Reads commands as a connection does, each piece as it comes; answers how many there were, and
/// what was left over. For those who look for input that breaks it.
pub fn read_in_pieces(pieces: &[&[u8]]) -> (Vec<String>, usize) {
    let (mut parser, mut input) = (parse::Parser::default(), bytes::BytesMut::new());
    let mut commands = Vec::new();
    for piece in pieces {
        input.extend_from_slice(piece);
        while let Some(command) = parser.next(&mut input, 1000) {
            commands.push(format!("{command:?}"));
        }
        assert!(input.len() <= 1002, "what cannot be a command is not kept");
    }
    (commands, input.len())
}
