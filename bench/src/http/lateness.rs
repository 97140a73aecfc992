//! How soon jobs are with those who wait for them.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use tokio::sync::mpsc;

use super::Bench;
use crate::Result;
use crate::bare::{Bare, Sync};
use crate::client::{finish_of, pop_path};
use crate::consumer::{consume, joined};
use crate::load::histogram;
use crate::report::{Budget, Row, Unit, say, tail_rows};
use crate::server::Server;
use crate::spread::{Spread, Tail};
use crate::work::now_ms;

const CONSUMERS: usize = 16;
/// Jobs that fall due a second.
const PACE: u64 = 2000;
/// Consumers of the jobs that are due all at once.
const BURST_CONSUMERS: usize = 64;
const BURST: u64 = 50_000;
/// From when the first is added to when it is due, so that all are there before.
const AHEAD_MS: u64 = 1000;

impl Bench {
    pub(super) fn lateness(&mut self, size: u64, server: &Server) -> Result<()> {
        say(size, "hand-over to one who waits");
        let (mut over, mut echo) = (Tail::default(), Tail::default());
        for _ in 0..self.effort.rounds {
            over.push(&self.hand_over(server)?);
            echo.push(&self.echo_time()?);
        }
        let what = "from add to the one who waits";
        for (row, echo) in tail_rows(size, what, &over, None)
            .into_iter()
            .zip([echo.p50, echo.p99, echo.p999, echo.max])
        {
            self.take_down(row.beside(Some(echo), None));
        }

        let mut bare = Bare::create(&self.beside)?;
        say(size, &format!("lateness at {PACE} due/s"));
        let (mut tail, mut beside) = (Tail::default(), Tail::default());
        let count = (PACE as f64 * self.effort.lateness.as_secs_f64()) as u64;
        for _ in 0..self.effort.rounds {
            tail.push(&self.late(server, CONSUMERS, count, Some(PACE))?.0);
            beside.push(&bare.write(4096, Sync::Each, self.effort.rate / 4)?);
        }
        let what = format!("lateness at {PACE} due/s, {CONSUMERS} consumers");
        for row in tail_rows(size, &what, &tail, Some(&beside)) {
            self.take_down(row);
        }

        let count = BURST.min(self.effort.jobs_max);
        say(size, &format!("{count} due at once"));
        let mut last = Spread::default();
        for _ in 0..self.effort.rounds {
            last.push(self.late(server, BURST_CONSUMERS, count, None)?.1.as_secs_f64());
        }
        let what = format!("{count} due at once, the last finished");
        let row = Row::new(size, what, Unit::Seconds, last);
        self.take_down(row.budget(Some(Budget::AtMost(3.5))));
        Ok(())
    }

    /// From the start of an add until one who waited for it has the job.
    fn hand_over(&self, server: &Server) -> Result<Histogram<u64>> {
        let mut connections = self.connect(server.address, 2)?;
        let mut adder = connections.pop().ok_or("there are two")?;
        let mut waiter = connections.pop().ok_or("there are two")?;
        let count = self.effort.jobs_max.min(1000);
        let (tell, mut told) = mpsc::unbounded_channel();
        let waiting = self.runtime.spawn(async move {
            for _ in 0..count {
                tell.send(None).expect("it is heard");
                let finish = finish_of(waiter.post_ok(&pop_path(), r#"{"wait":"30s"}"#).await);
                tell.send(Some(Instant::now())).expect("it is heard");
                let (path, lease) = finish.expect("there is a job");
                waiter.post_ok(&path, &lease).await;
            }
        });
        let body = self.maker.body();
        let mut over_ns = histogram();
        self.runtime.block_on(async {
            while let Some(None) = told.recv().await {
                // Until it waits, in all likelihood.
                tokio::time::sleep(Duration::from_millis(1)).await;
                let job = format!(r#"{{"topic":"due","body":{body}}}"#);
                let began = Instant::now();
                adder.post_ok("/v1/jobs", &job).await;
                let had = told.recv().await.flatten().expect("the waiter has it");
                over_ns.saturating_record((had - began).as_nanos() as u64);
            }
        });
        self.runtime.block_on(waiting)?;
        Ok(over_ns)
    }

    /// How long an echo takes by itself.
    fn echo_time(&self) -> Result<Histogram<u64>> {
        let mut connections = self.connect(self.echo.address, 1)?;
        let echo = &mut connections[0];
        let mut took_ns = histogram();
        self.runtime.block_on(async {
            for _ in 0..self.effort.jobs_max.min(1000) {
                let began = Instant::now();
                echo.post_ok("/v1/jobs", self.maker.body()).await;
                took_ns.saturating_record(began.elapsed().as_nanos() as u64);
            }
        });
        Ok(took_ns)
    }

    /// Jobs that fall due at a pace, or all at once: how late each came, and from the first due
    /// time until the last was finished.
    fn late(
        &mut self,
        server: &Server,
        consumers: usize,
        count: u64,
        rate: Option<u64>,
    ) -> Result<(Histogram<u64>, Duration)> {
        // Adding takes a while too.
        let start = now_ms() + AHEAD_MS + count / 20;
        let due_ms = |n: u64| start + rate.map_or(0, |rate| (n * 1000).div_ceil(rate));
        let job = |n: u64| (format!("{}-{n}", due_ms(n)), format!(r#""at":{}"#, due_ms(n)));
        self.add_due(server.address, count, job)?;
        if now_ms() > start {
            return Err("adding took too long for lateness to mean anything".into());
        }
        let left = Arc::new(AtomicU64::new(count));
        let consumers: Vec<_> = self
            .connect(server.address, consumers)?
            .into_iter()
            .map(|to| consume(to, pop_path(), r#"{"wait":"500ms"}"#.into(), left.clone()))
            .map(|consumer| self.runtime.spawn(consumer))
            .collect();
        let (late_ns, ended) = self.runtime.block_on(joined(consumers));
        Ok((late_ns, ended.saturating_sub(Duration::from_millis(start))))
    }
}
