//! The stream that workers work on.

use tokio::sync::{mpsc, oneshot};
use tonic::Code;
use tonic::transport::Channel;

use super::client::pb::queue_client::QueueClient;
use super::client::{PATIENCE, Server, connect, new_job, pb, refused, seconds};

/// One end of a stream.
struct Stream {
    up: mpsc::UnboundedSender<pb::ConsumeRequest>,
    down: tonic::Streaming<pb::ConsumeResponse>,
}

impl Stream {
    async fn open(channel: Channel, credit: u32) -> Stream {
        let first = pb::ConsumeRequest {
            subscribe: Some(pb::Subscribe::default()),
            credit,
            settlements: Vec::new(),
        };
        Stream::begin(channel, first).await.expect("it begins")
    }

    async fn begin(channel: Channel, first: pb::ConsumeRequest) -> Result<Stream, tonic::Status> {
        let (up, requests) = mpsc::unbounded_channel();
        up.send(first).expect("somebody listens");
        let requests = tokio_stream::wrappers::UnboundedReceiverStream::new(requests);
        let down = QueueClient::new(channel).consume(requests).await?.into_inner();
        Ok(Stream { up, down })
    }

    fn send(&self, credit: u32, settlements: Vec<pb::Settlement>) {
        let request = pb::ConsumeRequest { subscribe: None, credit, settlements };
        self.up.send(request).expect("somebody listens");
    }

    async fn next(&mut self) -> Result<Option<pb::ConsumeResponse>, tonic::Status> {
        tokio::time::timeout(PATIENCE, self.down.message()).await.expect("in time")
    }

    /// The next jobs, which must come before anything else.
    async fn jobs(&mut self) -> Vec<pb::Delivery> {
        let message = self.next().await.expect("well").expect("a message");
        assert!(message.settled.is_empty(), "{message:?}");
        message.jobs
    }

    /// What became of settlements, which must come before anything else.
    async fn settled(&mut self) -> Vec<pb::Settled> {
        let message = self.next().await.expect("well").expect("a message");
        assert!(message.jobs.is_empty(), "{message:?}");
        message.settled
    }
}

fn settle(delivery: &pb::Delivery, verdict: pb::settlement::Verdict) -> pb::Settlement {
    pb::Settlement {
        number: number(delivery),
        lease: delivery.lease.clone(),
        verdict: Some(verdict),
    }
}

fn finish(delivery: &pb::Delivery) -> pb::Settlement {
    settle(delivery, pb::settlement::Verdict::Finish(pb::Finished {}))
}

fn number(delivery: &pb::Delivery) -> u64 {
    delivery.job.as_ref().expect("a job").number
}

fn attempt(delivery: &pb::Delivery) -> u32 {
    delivery.job.as_ref().expect("a job").attempt
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_come_as_credit_allows_and_are_settled_on_the_stream() {
    let server = Server::start().await;
    for id in ["1", "2", "3", "4"] {
        server.add(id).await;
    }
    let mut stream = Stream::open(server.channel(), 3).await;
    let mut jobs = stream.jobs().await;
    assert_eq!(jobs.len(), 3, "as many as there is credit for");
    let done = finish(&jobs[0]);
    let failed = pb::Failure { error: "no".to_owned(), ..Default::default() };
    let failed = settle(&jobs[1], pb::settlement::Verdict::Fail(failed));
    let given_back = settle(&jobs[2], pb::settlement::Verdict::Release(pb::GiveBack::default()));
    stream.send(0, vec![done, failed, given_back]);
    let settled = stream.settled().await;
    assert_eq!(settled.iter().map(|one| one.number).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(settled.iter().all(|one| one.error.is_none()), "{settled:?}");

    stream.send(1, Vec::new());
    jobs = stream.jobs().await;
    assert_eq!((jobs.len(), number(&jobs[0]), attempt(&jobs[0])), (1, 3, 1));
    let touch =
        settle(&jobs[0], pb::settlement::Verdict::Touch(pb::MoreTime { ttr: Some(seconds(3600)) }));
    stream.send(0, vec![touch, finish(&jobs[0])]);
    let mut settled = stream.settled().await;
    if settled.len() == 1 {
        settled.extend(stream.settled().await);
    }
    assert!(settled.len() == 2 && settled.iter().all(|one| one.error.is_none()), "{settled:?}");
    assert_eq!(server.get("2").await.job.expect("it is there").last_error, "no");

    // What becomes due later comes by itself.
    stream.send(2, Vec::new());
    assert_eq!(number(&stream.jobs().await[0]), 4);
    server.add("5").await;
    assert_eq!(number(&stream.jobs().await[0]), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_one_settlement_is_said_of_that_one() {
    let server = Server::start().await;
    server.add("1").await;
    let mut stream = Stream::open(server.channel(), 1).await;
    let job = stream.jobs().await.remove(0);
    let without_lease = pb::Settlement { lease: String::new(), ..finish(&job) };
    let nonsense = pb::Settlement { lease: "x".to_owned(), ..finish(&job) };
    let without_verdict = pb::Settlement { verdict: None, ..finish(&job) };
    let unknown = pb::Settlement { number: 77, ..finish(&job) };
    let not_mine = pb::Settlement { lease: "0000000000000001".to_owned(), ..finish(&job) };
    stream.send(0, vec![without_lease, nonsense, without_verdict, unknown, not_mine, finish(&job)]);
    let settled = stream.settled().await;
    let told = settled.into_iter().map(|one| match one.error {
        Some(error) => format!("{} {} {}", one.number, error.code, error.field),
        None => format!("{} done", one.number),
    });
    assert_eq!(
        told.collect::<Vec<_>>(),
        [
            "1 invalid lease",
            "1 invalid lease",
            "1 invalid verdict",
            "77 not_found ",
            "1 lease_lost ",
            "1 done",
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_breaks_uses_up_an_attempt() {
    let server = Server::start().await;
    server.add("1").await;
    let (client, address) = (tokio::runtime::Runtime::new().expect("a runtime"), server.address());
    let (tell, told) = oneshot::channel();
    client.spawn(async move {
        let mut stream = Stream::open(connect(address).await, 1).await;
        tell.send(attempt(&stream.jobs().await[0])).expect("somebody listens");
        std::future::pending::<()>().await;
    });
    assert_eq!(told.await.expect("a job"), 1);
    // As if its process had ended: nobody says that this is all.
    client.shutdown_background();
    assert_eq!(attempt(&server.pop().await), 2);
    let history = server.get("1").await.history;
    assert_eq!(history.last().expect("one entry").what, "lost");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_ends_in_good_order_gives_attempts_back() {
    let server = Server::start().await;
    server.add("1").await;
    server.add("2").await;
    let mut stream = Stream::open(server.channel(), 2).await;
    let jobs = stream.jobs().await;
    // What was said before the end is still done, and answered.
    stream.send(0, vec![finish(&jobs[0])]);
    let Stream { up, mut down } = stream;
    drop(up);
    let message = down.message().await.expect("well").expect("a message");
    assert_eq!(message.settled.len(), 1);
    assert!(down.message().await.expect("well").is_none(), "it ends well");
    let popped = server.pop().await;
    assert_eq!((number(&popped), attempt(&popped)), (2, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_lets_streams_settle_what_they_hold() {
    let server = Server::start().await;
    server.add("1").await;
    let mut stream = Stream::open(server.connect().await, 2).await;
    let job = stream.jobs().await.remove(0);
    let stop = tokio::spawn(server.stop());
    // Still there, until the last one is settled.
    stream.send(0, vec![finish(&job)]);
    assert!(stream.settled().await[0].error.is_none());
    let end = stream.next().await.expect_err("the server stops");
    assert_eq!(end.code(), Code::Unavailable);
    tokio::time::timeout(PATIENCE, stop).await.expect("in time").expect("it stops");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_request_subscribes_and_no_other() {
    let server = Server::start().await;
    let begin = |first| Stream::begin(server.channel(), first);
    let Err(status) = begin(pb::ConsumeRequest::default()).await else { panic!("no topics") };
    refused::<()>(Err(status), Code::InvalidArgument, "invalid", Some("subscribe"));
    let subscribe = pb::Subscribe { topics: vec![" x".to_owned()], ttr: None };
    let first = pb::ConsumeRequest { subscribe: Some(subscribe), ..Default::default() };
    let Err(status) = begin(first).await else { panic!("no topic") };
    refused::<()>(Err(status), Code::InvalidArgument, "invalid", Some("topic"));
    let first = pb::ConsumeRequest {
        subscribe: Some(pb::Subscribe::default()),
        credit: 100_001,
        ..Default::default()
    };
    let Err(status) = begin(first).await else { panic!("too much") };
    refused::<()>(Err(status), Code::InvalidArgument, "invalid", Some("credit"));

    let mut stream = Stream::open(server.channel(), 1).await;
    let again =
        pb::ConsumeRequest { subscribe: Some(pb::Subscribe::default()), ..Default::default() };
    stream.up.send(again).expect("somebody listens");
    let status = stream.next().await.expect_err("once is enough");
    refused::<()>(Err(status), Code::InvalidArgument, "invalid", Some("subscribe"));
}

#[tokio::test(flavor = "multi_thread")]
async fn large_jobs_come_in_several_messages() {
    let server = Server::start().await;
    for id in 1..=8 {
        let body = vec![b'x'; 1 << 20].into();
        server.add_job(pb::NewJob { body, ..new_job("default", &id.to_string()) }).await;
    }
    let mut stream = Stream::open(server.channel(), 100).await;
    let mut seen = Vec::new();
    while seen.len() < 8 {
        seen.extend(stream.jobs().await.iter().map(number));
    }
    assert_eq!(seen, [1, 2, 3, 4, 5, 6, 7, 8]);
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_are_counted_among_those_who_wait() {
    let server = Server::with(|config| config.limits.waiting = 1).await;
    let stream = Stream::open(server.channel(), 1).await;
    let first =
        pb::ConsumeRequest { subscribe: Some(pb::Subscribe::default()), ..Default::default() };
    let Err(status) = Stream::begin(server.channel(), first).await else { panic!("one is enough") };
    refused::<()>(Err(status), Code::Unavailable, "overloaded", None);
    let Stream { up, mut down } = stream;
    drop(up);
    assert!(down.message().await.expect("well").is_none());
    drop(down);
    Stream::open(server.channel(), 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_has_the_streams_time_to_run() {
    let server = Server::start().await;
    server.add("1").await;
    let first = pb::ConsumeRequest {
        subscribe: Some(pb::Subscribe { topics: Vec::new(), ttr: Some(seconds(3600)) }),
        credit: 1,
        ..Default::default()
    };
    let mut stream = Stream::begin(server.channel(), first).await.expect("it begins");
    let job = stream.jobs().await.remove(0).job.expect("a job");
    let long = job.reserved_until.expect("an end").seconds - job.created.expect("a time").seconds;
    assert!(long >= 3600, "{long}");
}
