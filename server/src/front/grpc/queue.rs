//! Calls about jobs.

use linger::error::{Code, Error, Result};
use linger::job::{NewJob, Traceparent};
use linger::machine::Reach;
use linger::queue::{
    Action, Ask, Change, Changed, Key, Lane, Queue as _, Settle, Source, Terms, Verdict,
};
use tonic::metadata::MetadataMap;
use tonic::{Request, Response, Status, Streaming, async_trait};

use super::consume::{self, Consuming};
use super::{Calls, Deadline, caller, read, status, write};
use crate::auth::Caller;
use crate::front::unnamed::Unnamed;
use crate::proto::linger as pb;
use crate::proto::linger::queue_server::Queue;

/// The most bytes that an answer with jobs may have: clients take 4 MiB unless told otherwise.
const ANSWER_BYTES_MAX: usize = 3 << 20;

type Answer<T> = std::result::Result<Response<T>, Status>;

fn answer<T>(result: Result<T>) -> Answer<T> {
    result.map(Response::new).map_err(status::of)
}

/// The trace that a call is part of, for jobs that bring none. Libraries send it unasked, so what is no
/// trace is passed over.
fn trace(metadata: &MetadataMap) -> Option<Traceparent> {
    metadata.get("traceparent")?.to_str().ok()?.parse().ok()
}

#[async_trait]
impl Queue for Calls {
    async fn add(&self, request: Request<pb::AddRequest>) -> Answer<pb::AddResponse> {
        let caller = caller(&request).map_err(status::of)?;
        let trace = trace(request.metadata());
        answer(self.add_one(&caller, request.into_inner(), trace).await)
    }

    async fn add_many(&self, request: Request<pb::AddManyRequest>) -> Answer<pb::AddManyResponse> {
        let caller = caller(&request).map_err(status::of)?;
        let trace = trace(request.metadata());
        answer(self.add_all(&caller, request.into_inner(), trace).await)
    }

    async fn get(&self, request: Request<pb::GetRequest>) -> Answer<pb::GetResponse> {
        let caller = caller(&request).map_err(status::of)?;
        answer(self.look(&caller, request.get_ref()).await)
    }

    async fn update(&self, request: Request<pb::UpdateRequest>) -> Answer<pb::Changed> {
        let caller = caller(&request).map_err(status::of)?;
        answer(self.update_one(&caller, request.into_inner()).await)
    }

    async fn delete(&self, request: Request<pb::DeleteRequest>) -> Answer<pb::Changed> {
        let job = job(&request, &request.get_ref().topic, &request.get_ref().id);
        let request = request.get_ref();
        answer(self.change(job, Action::Delete(Reach::Any), request.if_version).await)
    }

    async fn pop(&self, request: Request<pb::PopRequest>) -> Answer<pb::PopResponse> {
        let caller = caller(&request).map_err(status::of)?;
        self.pop_some(&caller, request.into_inner()).await.map_err(status::of)
    }

    type ConsumeStream = Consuming;

    async fn consume(
        &self,
        request: Request<Streaming<pb::ConsumeRequest>>,
    ) -> Answer<Self::ConsumeStream> {
        let caller = caller(&request).map_err(status::of)?;
        let deadline = request.extensions().get::<Deadline>().copied();
        consume::begin(&self.app, caller, request.into_inner(), deadline).await.map(Response::new)
    }

    async fn finish(&self, request: Request<pb::FinishRequest>) -> Answer<pb::Changed> {
        let job = job(&request, &request.get_ref().topic, &request.get_ref().id);
        let request = request.get_ref();
        answer(self.settle(job, &request.lease, Ok(Verdict::Finish)).await)
    }

    async fn fail(&self, request: Request<pb::FailRequest>) -> Answer<pb::Changed> {
        let job = job(&request, &request.get_ref().topic, &request.get_ref().id);
        let request = request.into_inner();
        let verdict = read::failure(request.failure.unwrap_or_default());
        answer(self.settle(job, &request.lease, verdict).await)
    }

    async fn release(&self, request: Request<pb::ReleaseRequest>) -> Answer<pb::Changed> {
        let job = job(&request, &request.get_ref().topic, &request.get_ref().id);
        let request = request.get_ref();
        let verdict = read::give_back(&request.give_back.unwrap_or_default());
        answer(self.settle(job, &request.lease, verdict).await)
    }

    async fn touch(&self, request: Request<pb::TouchRequest>) -> Answer<pb::Changed> {
        let job = job(&request, &request.get_ref().topic, &request.get_ref().id);
        let request = request.get_ref();
        let verdict = read::ttr(request.ttr).map(|ttr| Verdict::Touch { ttr });
        answer(self.settle(job, &request.lease, verdict).await)
    }

    async fn hold(&self, request: Request<pb::HoldRequest>) -> Answer<pb::Changed> {
        let job = job(&request, &request.get_ref().topic, &request.get_ref().id);
        let request = request.get_ref();
        answer(self.change(job, Action::Hold, request.if_version).await)
    }

    async fn unhold(&self, request: Request<pb::UnholdRequest>) -> Answer<pb::Changed> {
        let job = job(&request, &request.get_ref().topic, &request.get_ref().id);
        let request = request.get_ref();
        answer(self.change(job, Action::Unhold, request.if_version).await)
    }

    async fn run(&self, request: Request<pb::RunRequest>) -> Answer<pb::Changed> {
        let job = job(&request, &request.get_ref().topic, &request.get_ref().id);
        let request = request.get_ref();
        answer(self.change(job, Action::Run, request.if_version).await)
    }
}

/// The job of a request, if the caller may know of it.
fn job<T>(request: &Request<T>, topic: &str, id: &str) -> Result<Key> {
    key(&caller(request)?, topic, id)
}

fn key(caller: &Caller, topic: &str, id: &str) -> Result<Key> {
    let key = read::key(topic, id)?;
    if let Key::Named(topic, _) = &key {
        caller.check_topic(topic)?;
    }
    Ok(key)
}

impl Calls {
    async fn add_one(
        &self,
        caller: &Caller,
        request: pb::AddRequest,
        trace: Option<Traceparent>,
    ) -> Result<pb::AddResponse> {
        let config = self.app.config();
        let _stay = self.app.gates.adds.enter(config.limits.requests, "adds")?;
        let store = self.app.store()?;
        let job = request
            .job
            .ok_or_else(|| Error::invalid("job", "job is missing; give at least an empty one"))?;
        let unnamed = Unnamed { key: read::given(&request.idempotency_key), at: None };
        let (now, bytes_max) = (store.clock().now().time(), config.limits.body_bytes);
        let mut job = read::new_job(job, unnamed, now, bytes_max)?;
        caller.check_topic(&job.spec.topic)?;
        job.spec.traceparent = job.spec.traceparent.or(trace);
        let added = store.add_all(vec![job]).await?.pop().expect("one answer for one job")?;
        Ok(write::added(added))
    }

    async fn add_all(
        &self,
        caller: &Caller,
        request: pb::AddManyRequest,
        trace: Option<Traceparent>,
    ) -> Result<pb::AddManyResponse> {
        let config = self.app.config();
        let limits = &config.limits;
        let _stay = self.app.gates.adds.enter(limits.requests, "adds")?;
        let store = self.app.store()?;
        let (given, most) = (request.jobs.len(), limits.batch_jobs);
        if given > most {
            let message = format!("the request has {given} jobs, over the limit of {most}");
            return Err(Error::new(Code::TooLarge, message).field("jobs"));
        }
        let (now, key) = (store.clock().now().time(), read::given(&request.idempotency_key));
        let (mut good, mut refused) = (Vec::with_capacity(given), Vec::with_capacity(given));
        for (at, job) in request.jobs.into_iter().enumerate() {
            let unnamed = Unnamed { key, at: Some(at) };
            let read: Result<NewJob> = read::new_job(job, unnamed, now, limits.body_bytes);
            let read = read.and_then(|job| caller.check_topic(&job.spec.topic).map(|()| job));
            let read = read.map(|mut job| {
                job.spec.traceparent = job.spec.traceparent.or_else(|| trace.clone());
                good.push(job);
            });
            refused.push(read.err());
        }
        let mut added = store.add_all(good).await?.into_iter();
        let results = refused.into_iter().map(|refused| match refused {
            Some(why) => Err(why),
            None => added.next().expect("one answer a job"),
        });
        let results = results.map(|result| pb::AddResult {
            result: Some(match result {
                Ok(added) => pb::add_result::Result::Added(write::added(added)),
                Err(why) => pb::add_result::Result::Error(status::item(&why)),
            }),
        });
        Ok(pb::AddManyResponse { results: results.collect() })
    }

    async fn look(&self, caller: &Caller, request: &pb::GetRequest) -> Result<pb::GetResponse> {
        let key = key(caller, &request.topic, &request.id)?;
        let _stay = self.app.gates.calls.enter(self.app.config().limits.requests, "requests")?;
        let job = self.app.store()?.get(&key).await?;
        let history = job.history.iter().map(write::event).collect();
        Ok(pb::GetResponse { history, job: Some(write::job(job)) })
    }

    async fn update_one(&self, caller: &Caller, request: pb::UpdateRequest) -> Result<pb::Changed> {
        let job = key(caller, &request.topic, &request.id);
        let if_version = request.if_version;
        let patch = read::patch(request, self.app.config().limits.body_bytes)?;
        self.change(job, Action::Update(patch), if_version).await
    }

    async fn change(
        &self,
        job: Result<Key>,
        action: Action,
        if_version: Option<u64>,
    ) -> Result<pb::Changed> {
        let change = Change { if_version, ..Change::new(job?, action) };
        let _stay = self.app.gates.calls.enter(self.app.config().limits.requests, "requests")?;
        one(self.app.store()?.change(vec![change]).await?)
    }

    async fn settle(
        &self,
        job: Result<Key>,
        lease: &str,
        verdict: Result<Verdict>,
    ) -> Result<pb::Changed> {
        let settle = Settle { lease: read::lease(lease)?, ..Settle::key(job?, verdict?) };
        let _stay = self.app.gates.calls.enter(self.app.config().limits.requests, "requests")?;
        one(self.app.store()?.settle(vec![settle]).await?)
    }

    async fn pop_some(
        &self,
        caller: &Caller,
        request: pb::PopRequest,
    ) -> Result<Response<pb::PopResponse>> {
        let wait = read::duration("wait", request.wait)?.unwrap_or_default();
        self.app.check_wait(wait)?;
        let topics = read::topics(&request.topics)?;
        self.app.check_topics(&topics)?;
        caller.check_topics(&topics)?;
        let max = request.max.unwrap_or(1);
        let terms = Terms { ttr: read::ttr(request.ttr)?, owner: None, grace: None };
        let ask =
            Ask { from: Source::These(topics), lane: Lane::Pull, max, wait, terms, room: None };
        let mut jobs = self.app.take(caller, ask).await?;
        let mut bytes = 0;
        let fits = jobs.iter().position(|job| {
            let over = bytes > 0 && bytes + consume::size_of(job) > ANSWER_BYTES_MAX;
            bytes += consume::size_of(job);
            over
        });
        if let Some(fits) = fits {
            self.app.give_back(&jobs.split_off(fits)).await?;
        }
        let answer = pb::PopResponse { jobs: jobs.iter().cloned().map(write::delivery).collect() };
        let mut answer = Response::new(answer);
        // For whoever sends it off: if nobody takes it they are to be given back.
        answer.extensions_mut().insert(jobs);
        Ok(answer)
    }
}

fn one(changed: Vec<Result<Changed>>) -> Result<pb::Changed> {
    let changed = changed.into_iter().next().expect("one answer for one job")?;
    Ok(write::changed(changed))
}
