//! What it takes to keep jobs, how soon they are there again, and what works cost with many of them.

use super::ask::{Told, Work};
use super::peer::{Peer, Running};
use super::{Bench, Row, text};
use crate::Result;
use crate::args::size_text;
use crate::load::Limit;
use crate::report::Unit;

/// More than this only Linger has to keep.
const PEER_SIZE_MAX: u64 = 5_000_000;
/// Servers with fewer jobs than this are filled anew for each round, since a round would change them.
const SMALL: u64 = 100_000;
/// What is done with so many waiting.
const WORKS: [Work; 3] = [Work::Add, Work::Consume, Work::Cancel];
const AT_ONCE: usize = 64;

impl Bench {
    pub(super) fn keep(&mut self, sizes: &[u64]) {
        // With one size there is nothing to set them against.
        let with_works = sizes.len() > 1;
        for size in sizes {
            for peer in self.peers.clone() {
                if *size <= PEER_SIZE_MAX || peer.is_linger() {
                    eprintln!("{} waiting: {}, {}", size_text(*size), peer.name, peer.class.name());
                    if let Err(wrong) = self.keep_at(*size, &peer, with_works) {
                        eprintln!("  {}: {wrong}", peer.name);
                    }
                }
            }
        }
        self.costs(sizes);
    }

    fn keep_at(&mut self, size: u64, peer: &Peer, with_works: bool) -> Result<()> {
        let mut running = peer.start_to_fill(&self.folder)?;
        let empty = running.memory();
        let filled = self.fill(&mut running, size)?;
        let each = |bytes: u64| bytes as f64 / size as f64;
        self.push(size, "filled as fast as it goes", Unit::PerSecond, peer, filled);
        // What filling left to do is done first.
        std::thread::sleep(self.effort.idle);
        let memory = running.memory().saturating_sub(empty);
        self.push(size, "memory a job", Unit::Bytes, peer, each(memory));
        self.push(size, "disk a job", Unit::Bytes, peer, each(running.disk()));
        for _ in 0..self.effort.rounds {
            let what = "restart after kill -9";
            if !peer.keeps() {
                self.table.row(size, what, peer.class, Unit::Seconds);
                self.cannot(size, what, peer, "nothing is kept");
                break;
            }
            let took = running.restart()?;
            self.push(size, what, Unit::Seconds, peer, took.as_secs_f64());
        }
        if !with_works {
            return Ok(());
        }
        for work in WORKS {
            for _ in 0..self.effort.rounds {
                if size < SMALL {
                    running = peer.start(&self.folder)?;
                    self.fill(&mut running, size)?;
                }
                let what = text(work, AT_ONCE);
                let told = running.ask(self.ask(work, AT_ONCE));
                let not = matches!(told, Told::Not(_));
                self.take_down(size, &what, peer, told);
                if not {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Has so many jobs wait; answers how many a second were added.
    fn fill(&self, running: &mut Running, size: u64) -> Result<f64> {
        let mut ask = self.ask(Work::Fill, AT_ONCE);
        ask.limit = Limit { turns: size, ..ask.limit };
        match running.ask(ask) {
            Told::PerSecond(rate) => Ok(rate),
            other => Err(format!("it could not be filled: {other:?}").into()),
        }
    }

    fn push(&mut self, size: u64, what: &str, unit: Unit, peer: &Peer, value: f64) {
        let row = self.table.row(size, what, peer.class, unit);
        row.figure_mut(&peer.name).rounds.push(value);
        eprintln!("  {what}: {value:.1}");
    }

    /// What each work costs at each size against the smallest.
    fn costs(&mut self, sizes: &[u64]) {
        let Some(smallest) = sizes.iter().min() else { return };
        for peer in self.peers.clone() {
            for (size, work) in sizes.iter().flat_map(|size| WORKS.map(|work| (size, work))) {
                let what = text(work, AT_ONCE);
                let few = self.middle(*smallest, &what, &peer);
                let many = self.middle(*size, &what, &peer);
                if let Some((few, many)) = few.zip(many).filter(|_| size != smallest) {
                    let what = format!("cost against {}: {what}", size_text(*smallest));
                    self.push(*size, &what, Unit::Times, &peer, few / many);
                }
            }
        }
    }

    fn middle(&self, size: u64, what: &str, peer: &Peer) -> Option<f64> {
        let is =
            |row: &&Row| row.waiting == size && row.what == what && row.class == peer.class.name();
        let row = self.table.rows.iter().find(is)?;
        let middle = row.figure(&peer.name)?.rounds.middle();
        middle.is_finite().then_some(middle)
    }
}
