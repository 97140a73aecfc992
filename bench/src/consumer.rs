//! Those who wait for jobs over HTTP, finish each, and take down how late it was.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hdrhistogram::Histogram;
use tokio::task::JoinHandle;

use crate::client::{Connection, field, finish_of};
use crate::load::histogram;
use crate::work::since_1970;

/// How late each job was, in nanoseconds, and when the last was finished.
pub(crate) type Late = (Histogram<u64>, Duration);

/// Pops at this path, finishes and pops again until nothing is left. A job's id begins with its due
/// time in milliseconds, so that it need not be read from the answer.
pub(crate) async fn consume(
    mut to: Connection,
    path: String,
    ask: String,
    left: Arc<AtomicU64>,
) -> Late {
    let (mut late_ns, mut last) = (histogram(), Duration::ZERO);
    while left.load(Ordering::Relaxed) > 0 {
        let answer = to.post_ok(&path, &ask).await;
        let now = since_1970();
        let Some((path, lease)) = finish_of(answer) else { continue };
        let due = field(answer, "id").and_then(|id| id.split('-').next()?.parse().ok());
        let due = Duration::from_millis(due.expect("it is in the id"));
        late_ns.saturating_record(now.saturating_sub(due).as_nanos() as u64);
        left.fetch_sub(1, Ordering::Relaxed);
        to.post_ok(&path, &lease).await;
        last = since_1970();
    }
    (late_ns, last)
}

/// What all of them took down.
pub(crate) async fn joined(consumers: Vec<JoinHandle<Late>>) -> Late {
    let (mut late_ns, mut ended) = (histogram(), Duration::ZERO);
    for consumer in consumers {
        let (late, last) = consumer.await.expect("it does not panic");
        late_ns.add(late).expect("all are alike");
        ended = ended.max(last);
    }
    (late_ns, ended)
}
