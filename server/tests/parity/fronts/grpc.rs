//! gRPC: call by call, and with the work done on streams.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use linger_server::proto::linger as pb;
use linger_server::proto::linger::queue_client::QueueClient;
use linger_server::proto::linger::topics_client::TopicsClient;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tonic::transport::Channel;
use tonic::{Response, Status, Streaming};

use super::{Front, House, Lack, lack};
use crate::speaker::{Add, Again, Job, No, Popped, Seen, Settings, Speaker, Told, Update};
use crate::world::PATIENCE;

const LACKS: &[Lack] = &[
    lack(
        "bury",
        "a job dies by failing for the last time",
        &["a_buried_job_is_dead_until_it_is_kicked"],
    ),
    lack(
        "empty names",
        "a text that is empty is one that was not given",
        &["an_empty_topic_is_refused", "an_empty_id_is_refused"],
    ),
];

pub(crate) const FRONT: Front = Front {
    name: "gRPC",
    house: House::Server { set: |_| {}, speak: |at| Box::new(Grpc::new(at.http)) },
    lacks: LACKS,
    simple: Add::new,
};

pub(crate) const BY_STREAM: Front = Front {
    name: "gRPC by stream",
    house: House::Server { set: |_| {}, speak: |at| Box::new(ByStream::new(at.http)) },
    lacks: LACKS,
    simple: Add::new,
};

/// One who calls a server.
struct Grpc {
    runtime: Runtime,
    channel: Channel,
}

impl Grpc {
    fn new(address: SocketAddr) -> Grpc {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let to = Channel::from_shared(format!("http://{address}")).expect("an address");
        let channel = runtime.block_on(to.connect()).expect("it listens");
        Grpc { runtime, channel }
    }

    fn queue(&self) -> QueueClient<Channel> {
        QueueClient::new(self.channel.clone())
    }

    fn topics(&self) -> TopicsClient<Channel> {
        TopicsClient::new(self.channel.clone())
    }

    fn wait_for<T>(&self, call: impl Future<Output = Result<Response<T>, Status>>) -> Told<T> {
        match self.runtime.block_on(call) {
            Ok(answer) => Ok(answer.into_inner()),
            Err(status) => {
                let code = status.metadata().get("linger-code");
                let code = code.unwrap_or_else(|| panic!("{status:?}")).to_str().expect("ASCII");
                Err(No::Refused(code.to_owned()))
            }
        }
    }
}

fn span(duration: Duration) -> prost_types::Duration {
    prost_types::Duration::try_from(duration).expect("it is not that long")
}

fn popped(delivery: pb::Delivery) -> Popped {
    let job = delivery.job.expect("a job");
    let body = String::from_utf8(job.body.to_vec()).expect("text");
    Popped { topic: job.topic, id: job.id, body, lease: delivery.lease }
}

impl Speaker for Grpc {
    fn add(&mut self, add: &Add) -> Told<Job> {
        let again = match add.again {
            Again::New => pb::OnConflict::Unspecified,
            Again::Reject => pb::OnConflict::Reject,
            Again::Keep => pb::OnConflict::Keep,
            Again::Replace => pb::OnConflict::Replace,
        };
        let repeat = |every| pb::Repeat {
            rule: Some(pb::repeat::Rule::Every(span(every))),
            ..Default::default()
        };
        let job = pb::NewJob {
            topic: add.topic.clone(),
            id: add.name.clone(),
            body: add.body.clone().into(),
            when: Some(pb::new_job::When::Delay(span(add.delay))),
            ttr: add.ttr.map(span),
            priority: Some(add.priority),
            retry: add.attempts.map(|attempts| pb::Retry { attempts: Some(attempts), pace: None }),
            repeat: add.repeat.map(repeat),
            target: add.target.clone().unwrap_or_default(),
            envelope: if add.as_task { pb::Envelope::Task.into() } else { 0 },
            retain: add.retain.map(span),
            held: add.held,
            on_conflict: again.into(),
            ..Default::default()
        };
        let request = pb::AddRequest { job: Some(job), ..Default::default() };
        let job = self.wait_for(self.queue().add(request))?.job.expect("a job");
        Ok(Job { topic: job.topic, id: job.id, number: Some(job.number) })
    }

    fn look(&mut self, job: &Job) -> Told<Seen> {
        let request = pb::GetRequest { topic: job.topic.clone(), id: job.id.clone() };
        let job = self.wait_for(self.queue().get(request))?.job.expect("a job");
        let state = job.state().as_str_name().trim_start_matches("STATE_").to_lowercase();
        let body = String::from_utf8(job.body.to_vec()).expect("text");
        Ok(Seen { state: Some(state), body: Some(body) })
    }

    fn pop(&mut self, topic: &str, wait: Duration) -> Told<Option<Popped>> {
        let request = pb::PopRequest {
            topics: vec![topic.to_owned()],
            wait: Some(span(wait)),
            ..Default::default()
        };
        let answer = self.wait_for(self.queue().pop(request))?;
        Ok(answer.jobs.into_iter().next().map(popped))
    }

    fn finish(&mut self, job: &Popped) -> Told<()> {
        let Popped { topic, id, lease, .. } = job.clone();
        self.wait_for(self.queue().finish(pb::FinishRequest { topic, id, lease })).map(drop)
    }

    fn fail(&mut self, job: &Popped, error: &str, retry_in: Option<Duration>) -> Told<()> {
        let Popped { topic, id, lease, .. } = job.clone();
        let failure = Some(failure(error, retry_in));
        self.wait_for(self.queue().fail(pb::FailRequest { topic, id, lease, failure })).map(drop)
    }

    fn again(&mut self, job: &Popped, retry_in: Duration) -> Told<()> {
        let Popped { topic, id, lease, .. } = job.clone();
        let failure = Some(not_yet(retry_in));
        self.wait_for(self.queue().fail(pb::FailRequest { topic, id, lease, failure })).map(drop)
    }

    fn release(&mut self, job: &Popped, delay: Duration, priority: u32) -> Told<()> {
        let Popped { topic, id, lease, .. } = job.clone();
        let give_back = Some(give_back(delay, priority));
        let request = pb::ReleaseRequest { topic, id, lease, give_back };
        self.wait_for(self.queue().release(request)).map(drop)
    }

    fn touch(&mut self, job: &Popped) -> Told<()> {
        let Popped { topic, id, lease, .. } = job.clone();
        let request = pb::TouchRequest { topic, id, lease, ttr: None };
        self.wait_for(self.queue().touch(request)).map(drop)
    }

    fn delete(&mut self, job: &Job) -> Told<()> {
        let Job { topic, id, .. } = job.clone();
        let request = pb::DeleteRequest { topic, id, if_version: None };
        self.wait_for(self.queue().delete(request)).map(drop)
    }

    fn update(&mut self, job: &Job, update: &Update) -> Told<()> {
        let request = pb::UpdateRequest {
            topic: job.topic.clone(),
            id: job.id.clone(),
            when: update.delay.map(|delay| pb::update_request::When::Delay(span(delay))),
            body: update.body.clone().map(Into::into),
            priority: update.priority,
            ttr: update.ttr.map(span),
            ..Default::default()
        };
        self.wait_for(self.queue().update(request)).map(drop)
    }

    fn run(&mut self, job: &Job) -> Told<()> {
        let Job { topic, id, .. } = job.clone();
        self.wait_for(self.queue().run(pb::RunRequest { topic, id, if_version: None })).map(drop)
    }

    fn hold(&mut self, job: &Job) -> Told<()> {
        let Job { topic, id, .. } = job.clone();
        self.wait_for(self.queue().hold(pb::HoldRequest { topic, id, if_version: None })).map(drop)
    }

    fn unhold(&mut self, job: &Job) -> Told<()> {
        let Job { topic, id, .. } = job.clone();
        let request = pb::UnholdRequest { topic, id, if_version: None };
        self.wait_for(self.queue().unhold(request)).map(drop)
    }

    fn redrive(&mut self, topic: &str) -> Told<u64> {
        let request = pb::SweepRequest {
            topic: topic.to_owned(),
            bulk: pb::Bulk::Redrive.into(),
            ..Default::default()
        };
        Ok(self.wait_for(self.topics().sweep(request))?.count)
    }

    fn pause(&mut self, topic: &str, length: Duration) -> Told<()> {
        let pause_for = Some(span(length));
        let request = pb::PauseTopicRequest { topic: topic.to_owned(), pause_for };
        self.wait_for(self.topics().pause(request)).map(drop)
    }

    fn resume(&mut self, topic: &str) -> Told<()> {
        let request = pb::ResumeTopicRequest { topic: topic.to_owned() };
        self.wait_for(self.topics().resume(request)).map(drop)
    }

    fn configure(&mut self, topic: &str, settings: &Settings) -> Told<()> {
        let settings = pb::Settings {
            concurrency: settings.concurrency.unwrap_or(0),
            retain: settings.retain.map(span),
            ttr: settings.ttr.map(span),
            ..Default::default()
        };
        let request = pb::SetTopicRequest { topic: topic.to_owned(), settings: Some(settings) };
        self.wait_for(self.topics().set(request)).map(drop)
    }
}

fn failure(error: &str, retry_in: Option<Duration>) -> pb::Failure {
    pb::Failure { error: error.to_owned(), retry_in: retry_in.map(span), again: false }
}

fn not_yet(retry_in: Duration) -> pb::Failure {
    pb::Failure { error: String::new(), retry_in: Some(span(retry_in)), again: true }
}

fn give_back(delay: Duration, priority: u32) -> pb::GiveBack {
    pb::GiveBack { delay: Some(span(delay)), priority: Some(priority) }
}

/// One who calls for everything but the work itself: each job that it takes has a stream of its own,
/// so that none comes that the story did not ask for.
struct ByStream {
    calls: Grpc,
    /// By lease.
    streams: HashMap<String, Stream>,
}

struct Stream {
    up: mpsc::UnboundedSender<pb::ConsumeRequest>,
    down: Streaming<pb::ConsumeResponse>,
    number: u64,
}

/// The next message, if there is one in time; none of it at the stream's end.
fn next(
    runtime: &Runtime,
    down: &mut Streaming<pb::ConsumeResponse>,
    wait: Duration,
) -> Option<Option<pb::ConsumeResponse>> {
    let message = runtime.block_on(async { tokio::time::timeout(wait, down.message()).await });
    message.ok().map(|message| message.expect("well"))
}

impl ByStream {
    fn new(address: SocketAddr) -> ByStream {
        ByStream { calls: Grpc::new(address), streams: HashMap::new() }
    }

    fn settle(&mut self, job: &Popped, verdict: pb::settlement::Verdict) -> Told<()> {
        let stream = self.streams.get_mut(&job.lease).expect("it was popped here");
        let settlement = pb::Settlement {
            number: stream.number,
            lease: job.lease.clone(),
            verdict: Some(verdict),
        };
        let settlements = vec![settlement];
        stream.up.send(pb::ConsumeRequest { settlements, ..Default::default() }).expect("heard");
        let answer = next(&self.calls.runtime, &mut stream.down, PATIENCE).expect("in time");
        let settled = answer.expect("it goes on").settled.remove(0);
        assert_eq!(settled.number, stream.number);
        match settled.error {
            None => Ok(()),
            Some(error) => Err(No::Refused(error.code)),
        }
    }
}

impl Speaker for ByStream {
    fn pop(&mut self, topic: &str, wait: Duration) -> Told<Option<Popped>> {
        let (up, requests) = mpsc::unbounded_channel();
        let subscribe = pb::Subscribe { topics: vec![topic.to_owned()], ttr: None };
        let first =
            pb::ConsumeRequest { subscribe: Some(subscribe), credit: 1, settlements: Vec::new() };
        up.send(first).expect("it is heard");
        let requests = tokio_stream::wrappers::UnboundedReceiverStream::new(requests);
        let mut down = self.calls.wait_for(self.calls.queue().consume(requests))?;
        // A stream has no wait of its own; that of a pop ends when nothing can have come.
        let wait = wait.max(Duration::from_millis(500));
        match next(&self.calls.runtime, &mut down, wait) {
            Some(message) => {
                let delivery = message.expect("it goes on").jobs.remove(0);
                let number = delivery.job.as_ref().expect("a job").number;
                self.streams.insert(delivery.lease.clone(), Stream { up, down, number });
                Ok(Some(popped(delivery)))
            }
            None => {
                drop(up);
                // It ends in good order, unless a job was on its way.
                let end = next(&self.calls.runtime, &mut down, PATIENCE).expect("in time");
                assert!(end.is_none(), "a job came late: {end:?}");
                Ok(None)
            }
        }
    }

    fn finish(&mut self, job: &Popped) -> Told<()> {
        self.settle(job, pb::settlement::Verdict::Finish(pb::Finished {}))
    }

    fn fail(&mut self, job: &Popped, error: &str, retry_in: Option<Duration>) -> Told<()> {
        self.settle(job, pb::settlement::Verdict::Fail(failure(error, retry_in)))
    }

    fn again(&mut self, job: &Popped, retry_in: Duration) -> Told<()> {
        self.settle(job, pb::settlement::Verdict::Fail(not_yet(retry_in)))
    }

    fn release(&mut self, job: &Popped, delay: Duration, priority: u32) -> Told<()> {
        self.settle(job, pb::settlement::Verdict::Release(give_back(delay, priority)))
    }

    fn touch(&mut self, job: &Popped) -> Told<()> {
        self.settle(job, pb::settlement::Verdict::Touch(pb::MoreTime::default()))
    }

    fn add(&mut self, add: &Add) -> Told<Job> {
        self.calls.add(add)
    }

    fn look(&mut self, job: &Job) -> Told<Seen> {
        self.calls.look(job)
    }

    fn delete(&mut self, job: &Job) -> Told<()> {
        self.calls.delete(job)
    }

    fn update(&mut self, job: &Job, update: &Update) -> Told<()> {
        self.calls.update(job, update)
    }

    fn run(&mut self, job: &Job) -> Told<()> {
        self.calls.run(job)
    }

    fn hold(&mut self, job: &Job) -> Told<()> {
        self.calls.hold(job)
    }

    fn unhold(&mut self, job: &Job) -> Told<()> {
        self.calls.unhold(job)
    }

    fn redrive(&mut self, topic: &str) -> Told<u64> {
        self.calls.redrive(topic)
    }

    fn pause(&mut self, topic: &str, length: Duration) -> Told<()> {
        self.calls.pause(topic, length)
    }

    fn resume(&mut self, topic: &str) -> Told<()> {
        self.calls.resume(topic)
    }

    fn configure(&mut self, topic: &str, settings: &Settings) -> Told<()> {
        self.calls.configure(topic, settings)
    }
}
