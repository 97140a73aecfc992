//! What callers say, read.

use std::num::{NonZeroU32, NonZeroU64};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use linger::dice::Lease;
use linger::error::{Error, Result};
use linger::job::{
    Body, Confirm, Edit, Envelope, NewJob, OnConflict, PRIORITY_DEFAULT, Patch, Target, Ttr, When,
};
use linger::machine::Stage;
use linger::queue::{Bulk, Filter, Key, Verdict};
use linger::retry::{Pace, Retry};
use linger::schedule::{Misfire, OnDead, Repeat};
use linger::time::{Time, format_duration};
use linger::topic::{Headers, Partitions, Settings, Topic};
use prost_types::{Duration as Span, Timestamp};

use crate::front::short;
use crate::front::unnamed::Unnamed;
use crate::proto::linger as pb;

/// What a worker says if it says nothing.
const NO_REASON: &str = "failed without a word";

/// The topic of this name; an empty name is the default's.
pub(super) fn topic(name: &str) -> Result<Topic> {
    if name.is_empty() { Ok(Topic::default()) } else { name.parse() }
}

/// Topics; none is the default one.
pub(super) fn topics(names: &[String]) -> Result<Vec<Topic>> {
    if names.is_empty() {
        return Ok(vec![Topic::default()]);
    }
    names.iter().map(|name| topic(name)).collect()
}

/// A job by topic and id.
pub(super) fn key(name: &str, id: &str) -> Result<Key> {
    Ok(Key::Named(topic(name)?, id.parse()?))
}

/// The proof of a holder, if there is one.
pub(super) fn lease(text: &str) -> Result<Option<Lease>> {
    given(text).map(str::parse).transpose()
}

/// A text that says something.
pub(super) fn given(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}

/// A length of time.
pub(super) fn duration(name: &'static str, span: Option<Span>) -> Result<Option<Duration>> {
    let Some(span) = span else { return Ok(None) };
    let nanos = u32::try_from(span.nanos).ok().filter(|nanos| *nanos < 1_000_000_000);
    match (u64::try_from(span.seconds), nanos) {
        (Ok(seconds), Some(nanos)) => Ok(Some(Duration::new(seconds, nanos))),
        _ => Err(Error::invalid(name, format!("{name} is less than nothing; give 0 or more"))),
    }
}

/// A moment, rounded up to the millisecond.
pub(super) fn time(name: &'static str, stamp: Option<Timestamp>) -> Result<Option<Time>> {
    let Some(stamp) = stamp else { return Ok(None) };
    let nanos = u32::try_from(stamp.nanos).ok().filter(|nanos| *nanos < 1_000_000_000);
    let time = u64::try_from(stamp.seconds).ok().zip(nanos).and_then(|(seconds, nanos)| {
        let ms = seconds.checked_mul(1000)?.checked_add(u64::from(nanos.div_ceil(1_000_000)))?;
        Time::from_ms(ms)
    });
    time.map(Some).ok_or_else(|| {
        let seconds = stamp.seconds;
        let message = format!("{name} is {seconds} seconds since 1970; give 1970 to 9999");
        Error::invalid(name, message)
    })
}

/// How long an attempt may take.
pub(super) fn ttr(span: Option<Span>) -> Result<Option<Ttr>> {
    duration("ttr", span)?.map(Ttr::new).transpose()
}

/// A word of a list; `None` for the one that says nothing.
fn word<T>(
    name: &'static str,
    number: i32,
    meaning: impl FnOnce(i32) -> Option<T>,
) -> Result<Option<T>> {
    match number {
        0 => Ok(None),
        number => meaning(number).map(Some).ok_or_else(|| {
            Error::invalid(name, format!("{name} is {number}, which this server does not know"))
        }),
    }
}

fn body(bytes: Bytes, form: i32, bytes_max: usize) -> Result<Body> {
    let form = word("body_form", form, |form| pb::BodyForm::try_from(form).ok())?;
    let body = match form.unwrap_or_default() {
        pb::BodyForm::Unspecified => Body::from_wire(bytes),
        pb::BodyForm::Text => {
            let text = String::from_utf8(bytes.into())
                .map_err(|_| Error::invalid("body", "body is to be text but is not UTF-8"))?;
            Body::text(text)
        }
        pb::BodyForm::Json => Body::json(bytes)?,
        pb::BodyForm::Bytes => Body::bytes(bytes),
    };
    body.check_size(bytes_max)?;
    Ok(body)
}

/// A job to add.
pub(super) fn new_job(
    job: pb::NewJob,
    unnamed: Unnamed<'_>,
    now: Time,
    bytes_max: usize,
) -> Result<NewJob> {
    let (id, again) = match given(&job.id) {
        Some(id) => (id.parse()?, false),
        None => unnamed.id(now)?,
    };
    let body = body(job.body, job.body_form, bytes_max)?;
    let mut new = NewJob::new(topic(&job.topic)?, id, body);
    new.when = match job.when {
        None => None,
        Some(pb::new_job::When::Delay(span)) => duration("delay", Some(span))?.map(When::In),
        Some(pb::new_job::When::At(stamp)) => time("at", Some(stamp))?.map(When::At),
    };
    new.priority = job.priority.unwrap_or(PRIORITY_DEFAULT);
    new.held = job.held;
    let on_conflict = word("on_conflict", job.on_conflict, |number| {
        Some(match pb::OnConflict::try_from(number).ok()? {
            pb::OnConflict::Unspecified | pb::OnConflict::Reject => OnConflict::Reject,
            pb::OnConflict::Keep => OnConflict::Keep,
            pb::OnConflict::Replace => OnConflict::Replace,
        })
    })?;
    new.on_conflict = if again { OnConflict::Keep } else { on_conflict.unwrap_or_default() };
    let spec = &mut new.spec;
    spec.ttr = ttr(job.ttr)?;
    spec.retry = job.retry.map(retry).transpose()?;
    spec.repeat = job.repeat.map(repeat).transpose()?;
    spec.target = target(&job.target)?;
    spec.confirm = confirm(job.confirm)?;
    spec.envelope = envelope(job.envelope)?;
    spec.retain = duration("retain", job.retain)?;
    spec.content_type = given(&job.content_type).map(str::parse).transpose()?;
    spec.traceparent = given(&job.traceparent).map(str::parse).transpose()?;
    Ok(new)
}

fn target(text: &str) -> Result<Option<Target>> {
    given(text).map(str::parse).transpose()
}

fn confirm(number: i32) -> Result<Option<Confirm>> {
    word("confirm", number, |number| match pb::Confirm::try_from(number).ok()? {
        pb::Confirm::Unspecified => None,
        pb::Confirm::Delivery => Some(Confirm::Delivery),
        pb::Confirm::Finish => Some(Confirm::Finish),
    })
}

fn envelope(number: i32) -> Result<Option<Envelope>> {
    word("envelope", number, |number| match pb::Envelope::try_from(number).ok()? {
        pb::Envelope::Unspecified => None,
        pb::Envelope::Body => Some(Envelope::Body),
        pb::Envelope::Cloudevents => Some(Envelope::CloudEvents),
        pb::Envelope::Task => Some(Envelope::Task),
    })
}

fn retry(retry: pb::Retry) -> Result<Retry> {
    let pace = match retry.pace {
        Some(pb::retry::Pace::Ladder(ladder)) => {
            let step = |span| Ok(duration("retry", Some(span))?.unwrap_or_default());
            let steps: Vec<Duration> = ladder.steps.into_iter().map(step).collect::<Result<_>>()?;
            let steps = Retry::ladder(&steps)?;
            if ladder.from_due { steps.from_due() } else { steps }
        }
        Some(pb::retry::Pace::Backoff(backoff)) => {
            let standard = Retry::default();
            let Pace::Backoff(standard) = standard.pace() else { unreachable!("it is a backoff") };
            let base =
                duration("retry", backoff.base)?.unwrap_or(Duration::from_millis(standard.base_ms));
            let max = duration("retry", backoff.max)?
                .unwrap_or(Duration::from_millis(standard.max_ms).max(base));
            let jitter = f64::from(standard.jitter_permille) / 1000.0;
            Retry::backoff(base, max, backoff.jitter.unwrap_or(jitter))?
        }
        None if retry.attempts.is_none() => {
            let message = "retry is empty; give attempts, a ladder or a backoff";
            return Err(Error::invalid("retry", message));
        }
        None => Retry::default(),
    };
    Ok(match retry.attempts {
        Some(attempts) => pace.attempts(attempts),
        None => pace,
    })
}

fn repeat(repeat: pb::Repeat) -> Result<Repeat> {
    let mut read = match repeat.rule {
        Some(pb::repeat::Rule::Every(span)) => {
            Repeat::every(duration("repeat", Some(span))?.unwrap_or_default())?
        }
        Some(pb::repeat::Rule::Cron(cron)) => Repeat::cron(&cron.expression, given(&cron.tz))?,
        None => return Err(Error::invalid("repeat", "repeat is empty; give every or cron")),
    };
    if let Some(until) = time("repeat", repeat.until)? {
        read = read.until(until);
    }
    if let Some(count) = NonZeroU32::new(repeat.count) {
        read = read.count(count);
    }
    let misfire = word("repeat", repeat.misfire, |number| pb::Misfire::try_from(number).ok())?;
    let all = NonZeroU32::new(repeat.misfire_all);
    let misfire = match (misfire.unwrap_or_default(), all) {
        (pb::Misfire::Unspecified | pb::Misfire::Once, None) => Misfire::Once,
        (pb::Misfire::Skip, None) => Misfire::Skip,
        (pb::Misfire::All, Some(most)) => Misfire::All(most),
        (pb::Misfire::All, None) => {
            let message = "misfire is MISFIRE_ALL without misfire_all; say how many at most";
            return Err(Error::invalid("repeat", message));
        }
        (_, Some(_)) => {
            let message = "misfire_all is given, but misfire is not MISFIRE_ALL";
            return Err(Error::invalid("repeat", message));
        }
    };
    let on_dead = word("repeat", repeat.on_dead, |number| pb::OnDead::try_from(number).ok())?;
    let on_dead = match on_dead.unwrap_or_default() {
        pb::OnDead::Unspecified | pb::OnDead::GoOn => OnDead::GoOn,
        pb::OnDead::Stop => OnDead::Stop,
    };
    Ok(read.misfire(misfire)?.on_dead(on_dead))
}

/// Changes to a job.
pub(super) fn patch(request: pb::UpdateRequest, bytes_max: usize) -> Result<Patch> {
    let mut patch = Patch {
        when: match request.when {
            None => None,
            Some(pb::update_request::When::Delay(span)) => {
                duration("delay", Some(span))?.map(When::In)
            }
            Some(pb::update_request::When::At(stamp)) => time("at", Some(stamp))?.map(When::At),
        },
        body: request.body.map(|bytes| body(bytes, request.body_form, bytes_max)).transpose()?,
        priority: request.priority,
        ttr: edit(ttr(request.ttr)?),
        retry: edit(request.retry.map(retry).transpose()?),
        target: edit(target(&request.target)?),
    };
    for name in &request.clear {
        let was_given = match name.as_str() {
            "ttr" => std::mem::replace(&mut patch.ttr, Edit::Clear) != Edit::Keep,
            "retry" => std::mem::replace(&mut patch.retry, Edit::Clear) != Edit::Keep,
            "target" => std::mem::replace(&mut patch.target, Edit::Clear) != Edit::Keep,
            other => {
                let message = format!("clear has `{}`; give ttr, retry or target", short(other));
                return Err(Error::invalid("clear", message));
            }
        };
        if was_given {
            let message = format!("clear has `{name}`, which is given as well or twice");
            return Err(Error::invalid("clear", message));
        }
    }
    Ok(patch)
}

fn edit<T>(value: Option<T>) -> Edit<T> {
    value.map_or(Edit::Keep, Edit::Set)
}

/// The end of an attempt that failed.
pub(super) fn failure(failure: pb::Failure) -> Result<Verdict> {
    let retry_in = duration("retry_in", failure.retry_in)?;
    if failure.again {
        return Ok(Verdict::Again { retry_in });
    }
    let error = given(&failure.error).unwrap_or(NO_REASON).into();
    Ok(Verdict::Fail { error, retry_in })
}

/// The end of an attempt that was none.
pub(super) fn give_back(give_back: &pb::GiveBack) -> Result<Verdict> {
    let delay = duration("delay", give_back.delay)?.unwrap_or_default();
    Ok(Verdict::Release { delay, priority: give_back.priority })
}

/// A topic's settings.
pub(super) fn settings(settings: pb::Settings) -> Result<Settings> {
    Ok(Settings {
        ttr: ttr(settings.ttr)?,
        retry: settings.retry.map(retry).transpose()?,
        target: target(&settings.target)?,
        confirm: confirm(settings.confirm)?,
        envelope: envelope(settings.envelope)?,
        timeout: timeout(settings.timeout)?,
        headers: Headers::new(settings.headers)?,
        archive: given(&settings.archive).map(str::parse).transpose()?,
        retain: duration("retain", settings.retain)?,
        retain_dead: duration("retain_dead", settings.retain_dead)?,
        rate: given(&settings.rate).map(str::parse).transpose()?,
        concurrency: NonZeroU32::new(settings.concurrency),
        jobs_max: NonZeroU32::new(settings.jobs_max),
        bytes_max: NonZeroU64::new(settings.bytes_max),
        partitions: Some(settings.partitions)
            .filter(|count| *count > 0)
            .map(Partitions::new)
            .transpose()?,
    })
}

fn timeout(given: Option<prost_types::Duration>) -> Result<Option<Ttr>> {
    let Some(length) = duration("timeout", given)? else { return Ok(None) };
    let wrong = || {
        let length = format_duration(length);
        Error::invalid("timeout", format!("timeout is {length}; give 1ms to 7d"))
    };
    Ttr::new(length).map(Some).map_err(|_| wrong())
}

/// Which jobs.
pub(super) fn filter(filter: Option<pb::Filter>) -> Result<Filter> {
    let filter = filter.unwrap_or_default();
    let stage = word("state", filter.state, |number| {
        Some(match pb::State::try_from(number).ok()? {
            pb::State::Unspecified => return None,
            pb::State::Delayed => Stage::Delayed,
            pb::State::Ready => Stage::Ready,
            pb::State::Reserved => Stage::Reserved,
            pb::State::Retry => Stage::Retry,
            pb::State::Held => Stage::Held,
            pb::State::Dead => Stage::Dead,
            pb::State::Finished => Stage::Finished,
        })
    })?;
    Ok(Filter {
        stage,
        due_after: time("due_after", filter.due_after)?,
        due_before: time("due_before", filter.due_before)?,
        id_prefix: given(&filter.id_prefix).map(Arc::from),
        error: given(&filter.error).map(Arc::from),
    })
}

/// What to do to many.
pub(super) fn bulk(number: i32) -> Result<Bulk> {
    let bulk = word("bulk", number, |number| {
        Some(match pb::Bulk::try_from(number).ok()? {
            pb::Bulk::Unspecified => return None,
            pb::Bulk::Finish => Bulk::Finish,
            pb::Bulk::Delete => Bulk::Delete,
            pb::Bulk::Run => Bulk::Run,
            pb::Bulk::Hold => Bulk::Hold,
            pb::Bulk::Unhold => Bulk::Unhold,
            pb::Bulk::Redrive => Bulk::Redrive,
        })
    })?;
    bulk.ok_or_else(|| Error::invalid("bulk", "bulk is missing; say what to do"))
}
