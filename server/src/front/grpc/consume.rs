//! The stream that workers work on: jobs go down as credit allows, what became of them comes up.
//!
//! One settlement is under way at a time, and what comes up meanwhile goes along with the next: the
//! more there is to do, the more goes into one write. Pops go on beside it.

use std::collections::HashSet;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use linger::error::{Code, Error, Result};
use linger::machine::Owner;
use linger::queue::{
    Ask, Changed, Delivery, Key, Lane, LetGo, Queue, Settle, Source, Terms, Verdict,
};
use linger::time::HOUR;
use linger::topic::Topic;
use tokio::time::Sleep;
use tokio_util::sync::WaitForCancellationFutureOwned;
use tonic::codegen::tokio_stream::Stream;
use tonic::{Status, Streaming};

use super::{Deadline, out_of_time, read, status, write};
use crate::auth::{self, Caller};
use crate::author::Author;
use crate::front::app::App;
use crate::front::limit::Waiting;
use crate::front::next_owner;
use crate::proto::linger as pb;
use crate::store::Store;

/// The most jobs that a stream may be given at once and still owe an answer for.
const CREDIT_MAX: u32 = 100_000;
/// The most jobs that are taken in one go.
const AT_ONCE: u32 = 256;
/// The most settlements that wait for the ones under way before no more are read.
const UNSETTLED_MAX: usize = 10_000;
/// A message with jobs is sent when it has so many bytes: clients take 4 MiB unless told otherwise.
const MESSAGE_BYTES: usize = 256 << 10;
/// How long one pop waits; then comes the next.
const WAIT: Duration = HOUR;
/// What a job takes beside its texts, roughly.
const JOB_BYTES: usize = 160;

type Work<T> = Pin<Box<dyn Future<Output = Result<T>> + Send>>;

/// A stream that is worked on.
pub(super) struct Consuming {
    app: Arc<App>,
    store: Arc<Store>,
    author: Author,
    _waiting: Waiting,
    requests: Streaming<pb::ConsumeRequest>,
    /// Whether the client has said all it has to say.
    is_half_closed: bool,
    is_over: bool,
    topics: Vec<Topic>,
    terms: Terms,
    owner: Owner,
    credit: u32,
    /// Jobs that were handed to the client and not settled yet, as far as is known.
    held: u64,
    /// The numbers of those, if the caller's key is for some topics alone: others are not settled.
    given: Option<HashSet<u64>>,
    /// Comes when the caller's key does not hold any more.
    ended: Pin<Box<dyn Future<Output = Error> + Send>>,
    popping: Option<Work<Vec<Delivery>>>,
    /// Jobs that did not fit into a message.
    rest: std::vec::IntoIter<Delivery>,
    /// What is to be settled next, and what is wrong with some of it.
    unsettled: Vec<(u64, Result<Settle>)>,
    settling: Option<Settling>,
    deadline: Option<Pin<Box<Sleep>>>,
    stopping: Pin<Box<WaitForCancellationFutureOwned>>,
    is_stopping: bool,
}

/// Settlements under way.
struct Settling {
    work: Work<Vec<Result<Changed>>>,
    /// The job of each, whether it is let go by that, and why it is not even tried.
    each: Vec<(u64, bool, Option<Error>)>,
}

/// Reads the first request and begins.
pub(super) async fn begin(
    app: &Arc<App>,
    caller: Caller,
    mut requests: Streaming<pb::ConsumeRequest>,
    deadline: Option<Deadline>,
) -> Result<Consuming, Status> {
    let time = app.config().limits.body_time;
    let first = tokio::time::timeout(time, requests.message()).await.map_err(|_| {
        let time = linger::time::format_duration(time);
        Status::deadline_exceeded(format!("no request came within {time}"))
    })??;
    let mut first = first.unwrap_or_default();
    let subscribe = first.subscribe.take().ok_or_else(|| {
        let message = "subscribe is missing in the first request; name the topics there";
        status::of(Error::invalid("subscribe", message))
    })?;
    let begun = || {
        let topics = read::topics(&subscribe.topics)?;
        app.check_topics(&topics)?;
        caller.check_topics(&topics)?;
        let owner = next_owner();
        let mut consuming = Consuming {
            app: app.clone(),
            store: app.store()?.clone(),
            author: Author::of_this_call(),
            _waiting: Waiting::enter(app)?,
            requests,
            is_half_closed: false,
            is_over: false,
            topics,
            terms: Terms { ttr: read::ttr(subscribe.ttr)?, owner: Some(owner), grace: None },
            owner,
            credit: 0,
            held: 0,
            given: matches!(caller.topics(), auth::Topics::These(_)).then(HashSet::new),
            ended: Box::pin(async move { caller.ended().await }),
            popping: None,
            rest: Vec::new().into_iter(),
            unsettled: Vec::new(),
            settling: None,
            deadline: deadline.map(|Deadline(at)| Box::pin(tokio::time::sleep_until(at))),
            stopping: Box::pin(app.stopping.clone().cancelled_owned()),
            is_stopping: false,
        };
        consuming.hear(first)?;
        Ok(consuming)
    };
    begun().map_err(status::of)
}

/// What a job takes in a message, roughly.
pub(super) fn size_of(delivery: &Delivery) -> usize {
    JOB_BYTES
        + delivery.topic().as_str().len()
        + delivery.id().as_str().len()
        + delivery.body().as_bytes().len()
}

impl Consuming {
    /// Takes in a request.
    fn hear(&mut self, request: pb::ConsumeRequest) -> Result<()> {
        if request.subscribe.is_some() {
            let message = "subscribe is given again; it belongs into the first request";
            return Err(Error::invalid("subscribe", message));
        }
        self.credit = self.credit.saturating_add(request.credit);
        if self.credit > CREDIT_MAX {
            let credit = self.credit;
            let message = format!("credit is {credit} in all, over the limit of {CREDIT_MAX}");
            return Err(Error::invalid("credit", message));
        }
        let settlements = request.settlements.into_iter();
        let given = &self.given;
        self.unsettled.extend(settlements.map(|one| {
            let is_given = given.as_ref().is_none_or(|given| given.contains(&one.number));
            (one.number, if is_given { settle(one) } else { Err(not_given()) })
        }));
        Ok(())
    }

    fn poll_requests(&mut self, context: &mut Context<'_>) -> Result<(), Status> {
        while !self.is_half_closed && self.unsettled.len() < UNSETTLED_MAX {
            match Pin::new(&mut self.requests).poll_next(context) {
                Poll::Pending => break,
                Poll::Ready(None) => self.is_half_closed = true,
                Poll::Ready(Some(request)) => self.hear(request?).map_err(status::of)?,
            }
        }
        Ok(())
    }

    /// What came of settlements.
    fn poll_settled(&mut self, context: &mut Context<'_>) -> Result<Vec<pb::Settled>> {
        let mut settled = Vec::new();
        loop {
            if self.settling.is_none() && !self.unsettled.is_empty() {
                self.settling = Some(self.settle_all());
            }
            let Some(settling) = &mut self.settling else { return Ok(settled) };
            let Poll::Ready(results) = settling.work.as_mut().poll(context) else {
                return Ok(settled);
            };
            let (mut results, each) = (results?.into_iter(), std::mem::take(&mut settling.each));
            self.settling = None;
            for (number, lets_go, wrong) in each {
                let result = match wrong {
                    Some(why) => Err(why),
                    None => results.next().expect("one answer a settlement"),
                };
                let is_gone = match &result {
                    Ok(_) => lets_go,
                    Err(why) => matches!(why.code(), Code::LeaseLost | Code::NotFound),
                };
                self.held = self.held.saturating_sub(is_gone.into());
                if is_gone && let Some(given) = &mut self.given {
                    given.remove(&number);
                }
                let error = result.err().as_ref().map(status::item);
                settled.push(pb::Settled { number, error });
            }
        }
    }

    fn settle_all(&mut self) -> Settling {
        let (mut settles, mut each) = (Vec::with_capacity(self.unsettled.len()), Vec::new());
        for (number, settle) in self.unsettled.drain(..) {
            match settle {
                Ok(settle) => {
                    each.push((number, !matches!(settle.verdict, Verdict::Touch { .. }), None));
                    settles.push(settle);
                }
                Err(why) => each.push((number, false, Some(why))),
            }
        }
        let (store, author) = (self.store.clone(), self.author.clone());
        let work = Box::pin(author.scope(async move { store.settle(settles).await }));
        Settling { work, each }
    }

    /// Jobs for the client, as far as there is credit.
    fn poll_jobs(&mut self, context: &mut Context<'_>) -> Result<Vec<pb::Delivery>> {
        while self.rest.len() == 0 {
            if self.credit == 0 || self.is_stopping || self.is_half_closed {
                // A pop that is dropped has leased nothing.
                self.popping = None;
                return Ok(Vec::new());
            }
            let popping = self.popping.get_or_insert_with(|| {
                let ask = Ask {
                    from: Source::These(self.topics.clone()),
                    lane: Lane::Pull,
                    max: self.credit.min(AT_ONCE),
                    wait: WAIT,
                    terms: self.terms,
                    room: None,
                };
                let (store, author) = (self.store.clone(), self.author.clone());
                Box::pin(author.scope(async move { store.pop(ask).await }))
            });
            let Poll::Ready(jobs) = popping.as_mut().poll(context) else { return Ok(Vec::new()) };
            self.popping = None;
            let jobs = jobs?;
            self.credit = self.credit.saturating_sub(jobs.len() as u32);
            self.held += jobs.len() as u64;
            if let Some(given) = &mut self.given {
                given.extend(jobs.iter().map(|job| job.job.number));
            }
            self.rest = jobs.into_iter();
        }
        let (mut message, mut bytes) = (Vec::with_capacity(self.rest.len()), 0);
        for delivery in self.rest.by_ref() {
            bytes += size_of(&delivery);
            message.push(write::delivery(delivery));
            if bytes >= MESSAGE_BYTES {
                break;
            }
        }
        Ok(message)
    }

    fn poll_message(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<pb::ConsumeResponse, Status>>> {
        if let Some(deadline) = &mut self.deadline
            && deadline.as_mut().poll(context).is_ready()
        {
            return Poll::Ready(Some(Err(out_of_time())));
        }
        if let Poll::Ready(why) = self.ended.as_mut().poll(context) {
            return Poll::Ready(Some(Err(status::of(why))));
        }
        if !self.is_stopping {
            self.is_stopping = self.stopping.as_mut().poll(context).is_ready();
        }
        self.poll_requests(context)?;
        let settled = self.poll_settled(context).map_err(status::of)?;
        let jobs = self.poll_jobs(context).map_err(status::of)?;
        // There may be room for more requests now.
        if self.unsettled.len() < UNSETTLED_MAX && self.settling.is_none() {
            self.poll_requests(context)?;
        }
        if !settled.is_empty() || !jobs.is_empty() {
            return Poll::Ready(Some(Ok(pb::ConsumeResponse { jobs, settled })));
        }
        if self.settling.is_some() || !self.unsettled.is_empty() {
            return Poll::Pending;
        }
        if self.is_half_closed {
            return Poll::Ready(None);
        }
        if self.is_stopping && self.held == 0 {
            let why = Error::new(Code::Unavailable, "the server is stopping");
            return Poll::Ready(Some(Err(status::of(why))));
        }
        Poll::Pending
    }
}

/// What is said of a job that was not handed to this stream, by one whose key is for some topics.
fn not_given() -> Error {
    let message = "the job was not handed to this stream, and the key is for some topics alone";
    Error::new(Code::Forbidden, message)
}

/// Reads what became of a job.
fn settle(settlement: pb::Settlement) -> Result<Settle> {
    use pb::settlement::Verdict as Said;
    let lease = read::lease(&settlement.lease)?
        .ok_or_else(|| Error::invalid("lease", "lease is missing; give the one it came with"))?;
    let verdict = match settlement.verdict {
        None => {
            let message = "verdict is missing; give finish, fail, release or touch";
            return Err(Error::invalid("verdict", message));
        }
        Some(Said::Finish(pb::Finished {})) => Verdict::Finish,
        Some(Said::Fail(failure)) => read::failure(failure)?,
        Some(Said::Release(give_back)) => read::give_back(&give_back)?,
        Some(Said::Touch(more)) => Verdict::Touch { ttr: read::ttr(more.ttr)? },
    };
    Ok(Settle { lease: Some(lease), ..Settle::key(Key::Number(settlement.number), verdict) })
}

impl Stream for Consuming {
    type Item = Result<pb::ConsumeResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        let message = self.poll_message(context);
        self.is_over = matches!(message, Poll::Ready(None | Some(Err(_))));
        message
    }
}

impl Drop for Consuming {
    fn drop(&mut self) {
        // One who says that this is all, and a server that stops, take no attempt from a job; a
        // stream that breaks does.
        let how = match self.is_half_closed || self.is_stopping {
            true => LetGo::Released,
            false => LetGo::Lost,
        };
        let (store, owner) = (self.store.clone(), self.owner);
        // Settlements under way come first: they may be about these very jobs.
        let settling = self.settling.take();
        self.app.see_to(async move {
            if let Some(settling) = settling {
                let _ = settling.work.await;
            }
            // If it fails their time runs out instead.
            let _ = store.let_go(owner, how).await;
        });
    }
}
