//! How soon jobs are with those who wait for them.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use hdrhistogram::Histogram;
use linger::store::embedded::Durability;
use tokio::task::{JoinHandle, LocalSet};

use super::client::{Client, Due, Speaks, Target, body};
use super::{Bench, name_of, port_of};
use crate::Result;
use crate::bare::{Bare, Sync};
use crate::client::Connection;
use crate::load::histogram;
use crate::report::{Budget, Row, Unit, lateness_rows, say, tail_rows};
use crate::server::Server;
use crate::spread::{Spread, Tail};
use crate::work::{now_ms, since_1970};

const CONSUMERS: usize = 16;
/// Jobs a second that are put for those who wait.
const PACE: u64 = 2000;
/// Consumers of the jobs that are due all at once.
const BURST_CONSUMERS: usize = 64;
const BURST: u64 = 50_000;
const BURST_MAX_S: f64 = 1.6;
/// From when the first is added to when it is due, so that all are there before.
const AHEAD_MS: u64 = 1000;
/// Within this time consumers have asked, in all likelihood.
const ASKED: Duration = Duration::from_millis(50);
/// Longer than anything takes here, in seconds.
const PAUSE_S: u32 = 1000;

impl Bench {
    pub(super) fn lateness(&mut self, linger: &Server, durability: Durability) -> Result<()> {
        // What is due is handed out alike whatever comes of the deletes: one durability will do.
        if durability == Durability::Sync {
            for pace in [PACE, 10 * PACE] {
                self.late_at(linger, pace)?;
            }
        }
        self.handed_over(linger, durability)?;
        self.burst(linger, durability)
    }

    fn late_at(&mut self, linger: &Server, pace: u64) -> Result<()> {
        say(self.size, &format!("lateness at {pace} due/s"));
        let mut bare = Bare::create(&self.folder)?;
        let (mut tail, mut beside) = (Tail::default(), Tail::default());
        let count = (pace as f64 * self.effort.lateness.as_secs_f64()) as u64;
        for _ in 0..self.effort.rounds {
            let start = start_ms(count);
            let tube = self.next_tube();
            self.add_due(linger, &tube, count, |n| start + (n * 1000).div_ceil(pace))?;
            let (late_ns, _) = self.consume(port_of(linger)?, &tube, CONSUMERS, count, None);
            tail.push(&late_ns);
            beside.push(&bare.write(4096, Sync::Each, self.effort.rate / 4)?);
        }
        let what = format!("lateness at {pace} due/s, synced, {CONSUMERS} consumers");
        for row in lateness_rows(self.size, &what, pace, &tail, &beside) {
            self.take_down(row);
        }
        Ok(())
    }

    /// From the start of a put until one who waited for it has the job.
    fn handed_over(&mut self, linger: &Server, durability: Durability) -> Result<()> {
        let what = format!("from put to the one who waits, {PACE}/s, {}", name_of(durability));
        say(self.size, &what);
        let peers = self.programs.peers(durability);
        let (mut ours, mut theirs) = (Tail::default(), [(); 3].map(|()| None::<Tail>));
        for _ in 0..self.effort.rounds {
            let tube = self.next_tube();
            ours.push(&self.hand_over(port_of(linger)?, &tube));
            // Redis would have to be asked again and again, and tell how often that was.
            for (peer, tail) in peers.iter().zip(&mut theirs) {
                if let Some(peer) = peer.as_ref().filter(|peer| peer.waits()) {
                    let running = peer.start(&self.folder)?;
                    tail.get_or_insert_default().push(&self.hand_over(running.target, &tube));
                }
            }
        }
        let theirs: Vec<_> = theirs.into_iter().map(|tail| tail.map(fields)).collect();
        for (at, row) in tail_rows(self.size, &what, &ours, None).into_iter().enumerate() {
            let beside = theirs.iter().map(|tail| tail.as_ref().map(|tail| tail[at].clone()));
            self.take_down(row.beside_all(beside.collect()));
        }
        Ok(())
    }

    fn hand_over(&self, target: Target, tube: &str) -> Histogram<u64> {
        let count = (PACE as f64 * self.effort.lateness.as_secs_f64()) as u64;
        let producer = self.connect(target, tube, 1).pop();
        self.consume(target, tube, CONSUMERS, count, producer).0
    }

    fn burst(&mut self, linger: &Server, durability: Durability) -> Result<()> {
        let count = BURST.min(self.effort.jobs_max);
        let what = format!("{count} due at once, {}, the last deleted", name_of(durability));
        say(self.size, &what);
        let peers = self.programs.peers(durability);
        let (mut ours, mut theirs) = (Spread::default(), [(); 3].map(|()| None::<Spread>));
        for _ in 0..self.effort.rounds {
            let (tube, start) = (self.next_tube(), start_ms(count));
            self.add_due(linger, &tube, count, |_| start)?;
            let port = port_of(linger)?;
            let (_, last) = self.consume(port, &tube, BURST_CONSUMERS, count, None);
            ours.push(last.saturating_sub(Duration::from_millis(start)).as_secs_f64());
            for (peer, took) in peers.iter().zip(&mut theirs) {
                let Some(peer) = peer else { continue };
                let running = peer.start_with(&self.folder, |target| {
                    self.put_due(target, &tube, count);
                    Ok(())
                })?;
                let took_s = self.burst_of_peer(running.target, &tube, count);
                took.get_or_insert_default().push(took_s.as_secs_f64());
            }
        }
        let row = Row::new(self.size, what, Unit::Seconds, ours).beside_all(theirs.into());
        self.take_down(row.budget([Budget::AtMost(BURST_MAX_S)]));
        Ok(())
    }

    /// From when jobs that are there may be had until the last of them is gone. beanstalkd knows
    /// whole seconds only, so that a pause makes them due at once.
    fn burst_of_peer(&self, target: Target, tube: &str, count: u64) -> Duration {
        if target.speaks == Speaks::Redis {
            let start = since_1970();
            return self.consume(target, tube, BURST_CONSUMERS, count, None).1 - start;
        }
        let mut control = self.connect(target, tube, 1).remove(0);
        self.runtime.block_on(control.pause(tube, PAUSE_S));
        let local = LocalSet::new();
        let consumers = self.consumers(&local, target, tube, BURST_CONSUMERS, count);
        let mut start = Duration::ZERO;
        let (_, last) = local.block_on(&self.runtime, async {
            tokio::time::sleep(ASKED).await;
            start = since_1970();
            control.pause(tube, 0).await;
            joined(consumers).await
        });
        last - start
    }

    /// Adds jobs that are due at set times: by HTTP, since a put knows whole seconds only.
    fn add_due(
        &self,
        linger: &Server,
        tube: &str,
        count: u64,
        due_ms: impl Fn(u64) -> u64,
    ) -> Result<()> {
        let job = |n| {
            let due = due_ms(n);
            format!(r#"{{"topic":"{tube}","at":{due},"body":{}}}"#, body(due * 1_000_000))
        };
        self.runtime.block_on(async {
            let mut http = Connection::open(linger.address).await?;
            http.add_all((0..count).map(job)).await;
            Ok::<(), std::io::Error>(())
        })?;
        if now_ms() > due_ms(0) {
            return Err("adding took too long for lateness to mean anything".into());
        }
        Ok(())
    }

    /// Has consumers take and delete so many jobs, while a producer puts them at a pace if there is
    /// one; answers how late each was by the time in its body, and when the last was gone.
    fn consume(
        &self,
        target: Target,
        tube: &str,
        consumers: usize,
        count: u64,
        producer: Option<Client>,
    ) -> (Histogram<u64>, Duration) {
        let local = LocalSet::new();
        let consumers = self.consumers(&local, target, tube, consumers, count);
        local.block_on(&self.runtime, async {
            if let Some(producer) = producer {
                tokio::time::sleep(ASKED).await;
                produce(producer, count).await;
            }
            joined(consumers).await
        })
    }

    fn consumers(
        &self,
        local: &LocalSet,
        target: Target,
        tube: &str,
        consumers: usize,
        count: u64,
    ) -> Vec<JoinHandle<(Histogram<u64>, Duration)>> {
        let left = Rc::new(Cell::new(count));
        let clients = self.connect(target, tube, consumers);
        clients.into_iter().map(|client| local.spawn_local(consume(client, left.clone()))).collect()
    }
}

/// When jobs are due that are to be added before; adding takes a while too.
fn start_ms(count: u64) -> u64 {
    now_ms() + AHEAD_MS + count / 20
}

async fn joined(
    consumers: Vec<JoinHandle<(Histogram<u64>, Duration)>>,
) -> (Histogram<u64>, Duration) {
    let (mut late_ns, mut ended) = (histogram(), Duration::ZERO);
    for consumer in consumers {
        let (late, last) = consumer.await.expect("it does not panic");
        late_ns.add(late).expect("all are alike");
        ended = ended.max(last);
    }
    (late_ns, ended)
}

/// Puts jobs at the pace, all that are behind at once.
async fn produce(mut client: Client, count: u64) {
    let (start, mut put) = (since_1970(), 0);
    while put < count {
        let behind = ((since_1970() - start).as_secs_f64() * PACE as f64) as u64;
        match behind.min(count) - put {
            0 => tokio::time::sleep(Duration::from_millis(1)).await,
            some => {
                client.put(put, some, Due::Now).await;
                put += some;
            }
        }
    }
}

/// Takes, deletes and takes again until nothing is left; answers how late each was, and when the
/// last was gone.
async fn consume(mut client: Client, left: Rc<Cell<u64>>) -> (Histogram<u64>, Duration) {
    let (mut late_ns, mut last) = (histogram(), Duration::ZERO);
    while left.get() > 0 {
        let Some(taken) = client.take(1).await else { continue };
        let now = since_1970();
        let at = Duration::from_nanos(taken.at_ns);
        late_ns.saturating_record(now.saturating_sub(at).as_nanos() as u64);
        left.set(left.get().saturating_sub(1));
        client.finish(taken).await;
        last = since_1970();
    }
    (late_ns, last)
}

/// In the order of its rows.
fn fields(tail: Tail) -> [Spread; 4] {
    [tail.p50, tail.p99, tail.p999, tail.max]
}
