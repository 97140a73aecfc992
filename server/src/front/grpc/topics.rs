//! Calls about topics.

use std::borrow::Cow;

use linger::error::{Code, Error, Result};
use linger::queue::{
    Bodies, Bulk, Cursor, Mode, Query, Queue as _, Sweep, TopicChange, TopicInfo, Topics as Which,
};
use linger::topic::Topic;
use tonic::{Request, Response, Status, async_trait};

use super::{Calls, caller, read, status, write};
use crate::auth::audit::About;
use crate::auth::{Caller, Scope};
use crate::front::{short, shown_to};
use crate::proto::linger as pb;
use crate::proto::linger::topics_server::Topics;

/// How many are listed if nobody says.
const LIMIT_DEFAULT: u32 = 100;
/// The most bytes of bodies in a page: clients take 4 MiB unless told otherwise.
const BODIES_BYTES_MAX: usize = 2 << 20;

type Answer<T> = std::result::Result<Response<T>, Status>;

fn answer<T>(result: Result<T>) -> Answer<T> {
    result.map(Response::new).map_err(status::of)
}

/// An answer that says which topic was changed.
fn told<T>(mut answer: Answer<T>, topic: &str) -> Answer<T> {
    if let Ok(answer) = &mut answer {
        answer.extensions_mut().insert(About(short(topic)));
    }
    answer
}

/// A topic, if the caller may know of it.
fn topic(caller: &Caller, name: &str) -> Result<Topic> {
    let topic = read::topic(name)?;
    caller.check_topic(&topic)?;
    Ok(topic)
}

fn shown(caller: &Caller, info: &TopicInfo) -> pb::Topic {
    let settings = shown_to(caller, &info.settings);
    match settings {
        Cow::Borrowed(_) => write::topic(info),
        Cow::Owned(settings) => write::topic(&TopicInfo { settings, ..info.clone() }),
    }
}

#[async_trait]
impl Topics for Calls {
    async fn list(
        &self,
        request: Request<pb::ListTopicsRequest>,
    ) -> Answer<pb::ListTopicsResponse> {
        let caller = caller(&request).map_err(status::of)?;
        answer(self.list_topics(&caller, request.get_ref()).await)
    }

    async fn get(&self, request: Request<pb::GetTopicRequest>) -> Answer<pb::Topic> {
        let caller = caller(&request).map_err(status::of)?;
        answer(self.look_at_topic(&caller, &request.get_ref().topic).await)
    }

    async fn set(&self, request: Request<pb::SetTopicRequest>) -> Answer<pb::Topic> {
        let caller = caller(&request).map_err(status::of)?;
        let request = request.into_inner();
        let settings = read::settings(request.settings.unwrap_or_default());
        let change = settings.map(|settings| TopicChange::Set(Box::new(settings)));
        let shown = self.configure_and_show(&caller, &request.topic, change).await;
        told(answer(shown), &request.topic)
    }

    async fn pause(&self, request: Request<pb::PauseTopicRequest>) -> Answer<pb::Topic> {
        let caller = caller(&request).map_err(status::of)?;
        let request = request.get_ref();
        let change = read::duration("pause_for", request.pause_for).map(TopicChange::Pause);
        let shown = self.configure_and_show(&caller, &request.topic, change).await;
        told(answer(shown), &request.topic)
    }

    async fn resume(&self, request: Request<pb::ResumeTopicRequest>) -> Answer<pb::Topic> {
        let caller = caller(&request).map_err(status::of)?;
        let topic = &request.get_ref().topic;
        let shown = self.configure_and_show(&caller, topic, Ok(TopicChange::Resume)).await;
        told(answer(shown), topic)
    }

    async fn empty(&self, request: Request<pb::EmptyTopicRequest>) -> Answer<pb::Count> {
        let caller = caller(&request).map_err(status::of)?;
        let topic = &request.get_ref().topic;
        told(answer(self.configure(&caller, topic, TopicChange::Empty).await), topic)
    }

    async fn forget(&self, request: Request<pb::ForgetTopicRequest>) -> Answer<pb::Count> {
        let caller = caller(&request).map_err(status::of)?;
        let topic = &request.get_ref().topic;
        told(answer(self.configure(&caller, topic, TopicChange::Forget).await), topic)
    }

    async fn jobs(&self, request: Request<pb::ListJobsRequest>) -> Answer<pb::ListJobsResponse> {
        let caller = caller(&request).map_err(status::of)?;
        answer(self.list_jobs(&caller, request.into_inner()).await)
    }

    async fn sweep(&self, request: Request<pb::SweepRequest>) -> Answer<pb::Count> {
        let caller = caller(&request).map_err(status::of)?;
        answer(self.sweep_topic(&caller, request.into_inner()).await)
    }
}

impl Calls {
    async fn list_topics(
        &self,
        caller: &Caller,
        request: &pb::ListTopicsRequest,
    ) -> Result<pb::ListTopicsResponse> {
        let after: Option<Topic> = read::given(&request.cursor)
            .map(str::parse)
            .transpose()
            .map_err(|_| Error::invalid("cursor", "cursor is not one that was given out"))?;
        let limit = request.limit.unwrap_or(LIMIT_DEFAULT) as usize;
        let _stay = self.app.gates.calls.enter(self.app.config().limits.requests, "requests")?;
        let prefix = request.prefix.as_str().into();
        let topics = self.app.topics_for(caller, prefix, after, limit).await?;
        let last = topics.last().filter(|_| topics.len() == limit);
        let cursor = last.map(|last| last.topic.as_str().to_owned()).unwrap_or_default();
        Ok(pb::ListTopicsResponse {
            topics: topics.iter().map(|info| shown(caller, info)).collect(),
            cursor,
        })
    }

    async fn look_at_topic(&self, caller: &Caller, name: &str) -> Result<pb::Topic> {
        let topic = topic(caller, name)?;
        let _stay = self.app.gates.calls.enter(self.app.config().limits.requests, "requests")?;
        match self.topic(topic.clone()).await? {
            Some(info) => Ok(shown(caller, &info)),
            None => {
                let message = format!("there is no topic `{}`", short(topic.as_str()));
                Err(Error::new(Code::NotFound, message))
            }
        }
    }

    async fn topic(&self, topic: Topic) -> Result<Option<TopicInfo>> {
        Ok(self.app.store()?.topics(Which::One(topic)).await?.pop())
    }

    async fn configure(
        &self,
        caller: &Caller,
        name: &str,
        change: TopicChange,
    ) -> Result<pb::Count> {
        let topic = topic(caller, name)?;
        let _stay = self.app.gates.calls.enter(self.app.config().limits.requests, "requests")?;
        Ok(pb::Count { count: self.app.store()?.configure(&topic, change).await? })
    }

    /// Answers the topic after the change; one that nothing names any more, by its name.
    async fn configure_and_show(
        &self,
        caller: &Caller,
        name: &str,
        change: Result<TopicChange>,
    ) -> Result<pb::Topic> {
        self.configure(caller, name, change?).await?;
        let topic = read::topic(name)?;
        let gone = pb::Topic { topic: topic.as_str().to_owned(), ..Default::default() };
        Ok(self.topic(topic).await?.map_or(gone, |info| shown(caller, &info)))
    }

    async fn list_jobs(
        &self,
        caller: &Caller,
        request: pb::ListJobsRequest,
    ) -> Result<pb::ListJobsResponse> {
        let query = Query {
            topic: topic(caller, &request.topic)?,
            filter: read::filter(request.filter)?,
            bodies: if request.bodies { Bodies::With } else { Bodies::Without },
            limit: request.limit.unwrap_or(LIMIT_DEFAULT) as usize,
            cursor: read::given(&request.cursor).map(|text| Cursor(text.to_owned())),
        };
        query.check()?;
        let config = self.app.config();
        let _stay = self.app.gates.calls.enter(config.limits.requests, "requests")?;
        let page = self.app.page(query, BODIES_BYTES_MAX).await?;
        let cursor = page.cursor.map(|Cursor(text)| text).unwrap_or_default();
        Ok(pb::ListJobsResponse { jobs: page.jobs.into_iter().map(write::job).collect(), cursor })
    }

    async fn sweep_topic(&self, caller: &Caller, request: pb::SweepRequest) -> Result<pb::Count> {
        let bulk = read::bulk(request.bulk)?;
        caller.check(&[if bulk == Bulk::Finish { Scope::Consume } else { Scope::Add }])?;
        if request.filter.is_none() && bulk != Bulk::Redrive {
            let message = "filter is missing; an empty one is all jobs of the topic";
            return Err(Error::invalid("filter", message));
        }
        let sweep = Sweep {
            topic: topic(caller, &request.topic)?,
            filter: read::filter(request.filter)?,
            bulk,
            limit: request.limit,
            mode: if request.dry_run { Mode::DryRun } else { Mode::Apply },
            by: None,
        };
        let _stay = self.app.gates.calls.enter(self.app.config().limits.requests, "requests")?;
        Ok(pb::Count { count: self.app.store()?.sweep(sweep).await? })
    }
}
