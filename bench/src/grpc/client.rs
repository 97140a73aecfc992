//! Workers on streams.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use linger_server::proto::linger as pb;
use linger_server::proto::linger::queue_client::QueueClient;
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::transport::Channel;

/// What workers are to do together.
pub(super) struct Work {
    pub(super) topic: String,
    /// Jobs that each may have in hand.
    pub(super) credit: u32,
    /// They stop when so many are finished, or when the time is over.
    pub(super) count: u64,
    pub(super) time: Duration,
}

/// Takes jobs and finishes each, a worker on each channel; answers how many a second.
pub(super) fn work(runtime: &Runtime, channels: Vec<Channel>, work: Work) -> (u64, Duration) {
    let left = Arc::new(AtomicU64::new(work.count));
    let (done, is_done) = watch::channel(false);
    let (done, work) = (Arc::new(done), Arc::new(work));
    let began = Instant::now();
    let workers: Vec<_> = channels
        .into_iter()
        .map(|channel| {
            let (work, left, done) = (work.clone(), left.clone(), done.clone());
            runtime.spawn(consume(channel, work, left, done, is_done.clone()))
        })
        .collect();
    let (mut finished, mut took) = (0, Duration::ZERO);
    runtime.block_on(async {
        for worker in workers {
            let (some, last) = worker.await.expect("it does not panic");
            finished += some;
            took = took.max(last - began);
        }
    });
    (finished, took)
}

/// Answers how many it finished, and when the last.
async fn consume(
    channel: Channel,
    work: Arc<Work>,
    left: Arc<AtomicU64>,
    done: Arc<watch::Sender<bool>>,
    mut is_done: watch::Receiver<bool>,
) -> (u64, Instant) {
    let (up, requests) = mpsc::unbounded_channel();
    let subscribe = pb::Subscribe { topics: vec![work.topic.clone()], ttr: None };
    let first = pb::ConsumeRequest {
        subscribe: Some(subscribe),
        credit: work.credit,
        settlements: Vec::new(),
    };
    up.send(first).expect("it is heard");
    let requests = UnboundedReceiverStream::new(requests);
    let down = QueueClient::new(channel).consume(requests).await;
    let mut down = down.expect("it begins").into_inner();
    let over = tokio::time::sleep(work.time);
    tokio::pin!(over);
    let (mut finished, mut last) = (0, Instant::now());
    loop {
        let message = tokio::select! {
            message = down.message() => message.expect("well").expect("it goes on"),
            _ = is_done.wait_for(|is_done| *is_done) => break,
            () = &mut over => break,
        };
        let settled = message.settled.len() as u64;
        assert!(message.settled.iter().all(|one| one.error.is_none()), "{:?}", message.settled);
        if settled > 0 {
            finished += settled;
            last = Instant::now();
            if left.fetch_sub(settled, Ordering::Relaxed) <= settled {
                done.send_replace(true);
                break;
            }
        }
        let finish = |delivery: pb::Delivery| pb::Settlement {
            number: delivery.job.expect("a job").number,
            lease: delivery.lease,
            verdict: Some(pb::settlement::Verdict::Finish(pb::Finished {})),
        };
        let request = pb::ConsumeRequest {
            subscribe: None,
            // Each is finished before the next is taken.
            credit: settled as u32,
            settlements: message.jobs.into_iter().map(finish).collect(),
        };
        up.send(request).expect("it is heard");
    }
    (finished, last)
}
