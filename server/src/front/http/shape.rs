//! The shapes that jobs and their parts have in JSON: read and written here and nowhere else.

use std::num::NonZeroU32;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use linger::history::{Entry, Report};
use linger::job::{
    Body, Confirm, Edit, Envelope, Form, NewJob, OnConflict, PRIORITY_DEFAULT, Patch, Spec, Target,
    Ttr, When,
};
use linger::queue::{Changed, Delivery, Ended, JobInfo, Standing};
use linger::retry::{Pace, Retry, StepsFrom};
use linger::schedule::{Misfire, OnDead, Repeat, Rule};
use linger::time::Time;
use serde_json::value::RawValue;

use super::error::{Refused, Result};
use super::read::{self, Fields};
use super::write::{Object, json_bytes};
use crate::front::unnamed::Unnamed;

/// Reads a job to add.
pub(crate) fn new_job(
    mut fields: Fields<'_>,
    unnamed: Unnamed<'_>,
    now: Time,
    bytes_max: usize,
) -> Result<NewJob> {
    let topic = fields.read_by("topic", read::text)?.map(|text| text.parse()).transpose()?;
    let id = fields.read_by("id", read::text)?.map(|text| text.parse()).transpose()?;
    let body = body(&mut fields, bytes_max)?.unwrap_or_default();
    let (id, again) = match id {
        Some(id) => (id, false),
        None => unnamed.id(now)?,
    };
    let mut job = NewJob::new(topic.unwrap_or_default(), id, body);
    job.when = when(&mut fields)?;
    job.priority = fields.read_by("priority", read::small)?.unwrap_or(PRIORITY_DEFAULT);
    job.held = fields.read_by("held", read::flag)?.unwrap_or(false);
    job.on_conflict = fields.read_by("on_conflict", on_conflict)?.unwrap_or_default();
    if again {
        job.on_conflict = OnConflict::Keep;
    }
    let spec = &mut job.spec;
    spec.ttr = fields.read_by("ttr", ttr)?;
    spec.retry = fields.read_by("retry", retry)?;
    spec.repeat = fields.read_by("repeat", repeat)?;
    spec.target = fields.read_by("target", target)?;
    // Names that older clients give it.
    for old in ["notify_url", "url"] {
        if let Some(named) = fields.read_by(old, target)? {
            if spec.target.is_some() {
                return Err(Refused::invalid(
                    old,
                    format!("{old} is given along with target; give one"),
                ));
            }
            spec.target = Some(named);
        }
    }
    if fields.read_by("is_loop", read::flag)? == Some(true) {
        let every = spec.ttr.ok_or_else(|| {
            Refused::invalid("is_loop", "is_loop repeats a job every ttr; give a ttr")
        })?;
        if spec.repeat.is_some() {
            return Err(Refused::invalid(
                "is_loop",
                "is_loop is given along with repeat; give one",
            ));
        }
        spec.repeat = Some(Repeat::every(every.as_duration())?);
    }
    spec.confirm = fields.read_by("confirm", confirm)?;
    spec.envelope = fields.read_by("envelope", envelope)?;
    spec.retain = fields.read_by("retain", read::duration)?;
    let content_type = fields.read_by("content_type", read::text)?;
    spec.content_type = content_type.map(|text| text.parse()).transpose()?;
    let traceparent = fields.read_by("traceparent", read::text)?;
    spec.traceparent = traceparent.map(|text| text.parse()).transpose()?;
    fields.end()?;
    Ok(job)
}

/// Reads changes to a job. Null takes its own value away, so that the topic's holds again.
pub(crate) fn patch(mut fields: Fields<'_>, bytes_max: usize) -> Result<(Patch, Option<u64>)> {
    let patch = Patch {
        when: when(&mut fields)?,
        body: body(&mut fields, bytes_max)?,
        priority: fields.read_by("priority", read::small)?,
        ttr: edit(&mut fields, "ttr", ttr)?,
        retry: edit(&mut fields, "retry", retry)?,
        target: edit(&mut fields, "target", target)?,
    };
    let if_version = fields.read_by("if_version", read::number)?;
    fields.end()?;
    Ok((patch, if_version))
}

fn edit<'a, T>(
    fields: &mut Fields<'a>,
    name: &'static str,
    read: impl FnOnce(&'static str, &'a RawValue) -> Result<T>,
) -> Result<Edit<T>> {
    match fields.raw(name) {
        None => Ok(Edit::Keep),
        Some(raw) if raw.get() == "null" => Ok(Edit::Clear),
        Some(raw) => read(name, raw).map(Edit::Set),
    }
}

/// Reads `body` or `body_base64`.
pub(crate) fn body(fields: &mut Fields<'_>, bytes_max: usize) -> Result<Option<Body>> {
    let (plain, coded) = (fields.raw("body"), fields.given("body_base64"));
    let body = match (plain, coded) {
        (None, None) => return Ok(None),
        (Some(_), Some(_)) => {
            let message = "body_base64 is given along with body; give one of them";
            return Err(Refused::invalid("body_base64", message));
        }
        (Some(raw), None) => Body::json_value(raw)?,
        (None, Some(raw)) => {
            let text = read::text("body_base64", raw)?;
            let bytes = BASE64.decode(text).map_err(|cause| {
                Refused::invalid("body_base64", format!("body_base64 is not base64: {cause}"))
            })?;
            Body::bytes(bytes)
        }
    };
    body.check_size(bytes_max)?;
    Ok(Some(body))
}

/// Reads `delay` or `at`.
pub(crate) fn when(fields: &mut Fields<'_>) -> Result<Option<When>> {
    let delay = fields.read_by("delay", read::duration)?;
    let at = fields.read_by("at", read::time)?;
    match (delay, at) {
        (Some(_), Some(_)) => {
            Err(Refused::invalid("at", "at is given along with delay; give one of them"))
        }
        (delay, at) => Ok(delay.map(When::In).or(at.map(When::At))),
    }
}

/// Reads how long an attempt may take.
pub(crate) fn ttr(name: &'static str, raw: &RawValue) -> Result<Ttr> {
    Ok(Ttr::new(read::duration(name, raw)?)?)
}

/// Reads where a job is pushed.
pub(crate) fn target(name: &'static str, raw: &RawValue) -> Result<Target> {
    Ok(read::text(name, raw)?.parse()?)
}

/// Reads when a push counts as finished.
pub(crate) fn confirm(name: &'static str, raw: &RawValue) -> Result<Confirm> {
    match read::text(name, raw)?.as_str() {
        "delivery" => Ok(Confirm::Delivery),
        "finish" => Ok(Confirm::Finish),
        _ => Err(read::wrong(name, raw, "\"delivery\" or \"finish\"")),
    }
}

/// Reads what a push makes of a body.
pub(crate) fn envelope(name: &'static str, raw: &RawValue) -> Result<Envelope> {
    match read::text(name, raw)?.as_str() {
        "body" => Ok(Envelope::Body),
        "cloudevents" => Ok(Envelope::CloudEvents),
        "task" => Ok(Envelope::Task),
        _ => Err(read::wrong(name, raw, "\"body\", \"cloudevents\" or \"task\"")),
    }
}

fn on_conflict(name: &'static str, raw: &RawValue) -> Result<OnConflict> {
    match read::text(name, raw)?.as_str() {
        "reject" => Ok(OnConflict::Reject),
        "keep" => Ok(OnConflict::Keep),
        "replace" => Ok(OnConflict::Replace),
        _ => Err(read::wrong(name, raw, "\"reject\", \"keep\" or \"replace\"")),
    }
}

/// Reads attempts and pace.
pub(crate) fn retry(name: &'static str, raw: &RawValue) -> Result<Retry> {
    let mut fields = Fields::within(name, raw)?;
    let attempts = fields.read_by("attempts", read::small)?;
    let ladder = fields.read_by("ladder", steps)?;
    let backoff = fields.read_by("backoff", |name, raw| {
        let mut fields = Fields::within(name, raw)?;
        let base = fields.read_by("base", read::duration)?;
        let max = fields.read_by("max", read::duration)?;
        let jitter = fields.read_by("jitter", share)?;
        fields.end()?;
        let (standard_base, standard_max, standard_jitter) = standard_backoff();
        let base = base.unwrap_or(standard_base);
        let max = max.unwrap_or(standard_max.max(base));
        Ok(Retry::backoff(base, max, jitter.unwrap_or(standard_jitter))?)
    })?;
    let from_due = match fields.given("from").map(|raw| (raw, read::text("from", raw))) {
        None => false,
        Some((raw, text)) => match text?.as_str() {
            "due" => true,
            "failure" => false,
            _ => return Err(read::wrong("from", raw, "\"failure\" or \"due\"")),
        },
    };
    fields.end()?;
    let retry = match (ladder, backoff) {
        (Some(_), Some(_)) => {
            return Err(Refused::invalid(
                "retry",
                "retry has a ladder and a backoff; give one of them",
            ));
        }
        (Some(ladder), None) if from_due => ladder.from_due(),
        (Some(ladder), None) => ladder,
        (None, _) if from_due => {
            return Err(Refused::invalid(
                "retry",
                "retry has from \"due\" without a ladder; give a ladder",
            ));
        }
        (None, Some(backoff)) => backoff,
        (None, None) if attempts.is_none() => {
            return Err(Refused::invalid(
                "retry",
                "retry is empty; give attempts, a ladder or a backoff",
            ));
        }
        (None, None) => Retry::default(),
    };
    Ok(attempts.map_or(retry.clone(), |attempts| retry.attempts(attempts)))
}

fn standard_backoff() -> (std::time::Duration, std::time::Duration, f64) {
    use linger::time::{HOUR, SECOND};
    (SECOND, HOUR, 0.2)
}

fn steps(name: &'static str, raw: &RawValue) -> Result<Retry> {
    let steps: Vec<&RawValue> = serde_json::from_str(raw.get())
        .map_err(|_| read::wrong(name, raw, "a list of durations such as [\"15s\", \"3m\"]"))?;
    let steps: Vec<_> =
        steps.into_iter().map(|step| read::duration(name, step)).collect::<Result<_>>()?;
    Ok(Retry::ladder(&steps)?)
}

fn share(name: &'static str, raw: &RawValue) -> Result<f64> {
    serde_json::from_str(raw.get()).map_err(|_| read::wrong(name, raw, "a share from 0 to 1"))
}

/// Reads when a job runs again.
pub(crate) fn repeat(name: &'static str, raw: &RawValue) -> Result<Repeat> {
    let mut fields = Fields::within(name, raw)?;
    let every = fields.read_by("every", read::duration)?;
    let cron = fields.read_by("cron", read::text)?;
    let zone = fields.read_by("tz", read::text)?;
    let until = fields.read_by("until", read::time)?;
    let count = fields.read_by("count", |name, raw| {
        NonZeroU32::new(read::small(name, raw)?).ok_or_else(|| read::wrong(name, raw, "1 or more"))
    })?;
    let misfire = fields.read_by("misfire", misfire)?;
    let on_dead = fields.read_by("on_dead", on_dead)?;
    fields.end()?;
    let mut repeat = match (every, cron) {
        (Some(every), None) if zone.is_none() => Repeat::every(every)?,
        (Some(_), None) => {
            return Err(Refused::invalid("repeat", "repeat has a tz, which only cron needs"));
        }
        (None, Some(cron)) => Repeat::cron(&cron, zone.as_deref())?,
        _ => {
            let message =
                "repeat needs every, such as \"60s\", or cron, such as \"0 9 * * *\", and not both";
            return Err(Refused::invalid("repeat", message));
        }
    };
    if let Some(until) = until {
        repeat = repeat.until(until);
    }
    if let Some(count) = count {
        repeat = repeat.count(count);
    }
    if let Some(misfire) = misfire {
        repeat = repeat.misfire(misfire)?;
    }
    Ok(on_dead.map_or(repeat.clone(), |on_dead| repeat.on_dead(on_dead)))
}

fn misfire(name: &'static str, raw: &RawValue) -> Result<Misfire> {
    const RIGHT: &str = "\"once\", \"skip\" or {\"all\": 10}";
    if raw.get().starts_with('{') {
        let mut fields = Fields::within(name, raw)?;
        let all = fields.read_by("all", read::small)?;
        fields.end()?;
        let all = all.and_then(NonZeroU32::new);
        return all.map(Misfire::All).ok_or_else(|| read::wrong(name, raw, RIGHT));
    }
    match read::text(name, raw).as_deref() {
        Ok("once") => Ok(Misfire::Once),
        Ok("skip") => Ok(Misfire::Skip),
        _ => Err(read::wrong(name, raw, RIGHT)),
    }
}

fn on_dead(name: &'static str, raw: &RawValue) -> Result<OnDead> {
    match read::text(name, raw)?.as_str() {
        "go_on" => Ok(OnDead::GoOn),
        "stop" => Ok(OnDead::Stop),
        _ => Err(read::wrong(name, raw, "\"go_on\" or \"stop\"")),
    }
}

/// Writes a job.
pub(crate) fn put_job(out: &mut Object<'_>, job: &JobInfo) {
    let spec = &job.spec;
    out.text("topic", spec.topic.as_str());
    out.text("id", spec.id.as_str());
    out.number("number", job.number);
    out.text("state", job.stage.as_str());
    out.time("due", job.due);
    out.number("attempt", job.attempt.into());
    out.number("version", job.version);
    out.number("priority", job.priority.into());
    out.time("created", job.created);
    if job.occurrence > 0 {
        out.number("occurrence", job.occurrence.into());
    }
    if let Some(until) = job.reserved_until {
        out.time("reserved_until", until);
    }
    if let Some(error) = &job.last_error {
        out.text("last_error", error);
    }
    put_spec(out, spec);
    if let Some(body) = &job.body {
        put_body(out, body);
    }
}

/// Writes what a caller said of a job, its names apart.
pub(crate) fn put_spec(out: &mut Object<'_>, spec: &Spec) {
    if let Some(ttr) = spec.ttr {
        out.duration("ttr", ttr.as_duration());
    }
    if let Some(retry) = &spec.retry {
        out.object("retry", |out| put_retry(out, retry));
    }
    if let Some(repeat) = &spec.repeat {
        out.object("repeat", |out| put_repeat(out, repeat));
    }
    if let Some(target) = &spec.target {
        out.text("target", &target.to_string());
    }
    if let Some(confirm) = spec.confirm {
        out.text("confirm", confirm_text(confirm));
    }
    if let Some(envelope) = spec.envelope {
        out.text("envelope", envelope_text(envelope));
    }
    if let Some(retain) = spec.retain {
        out.duration("retain", retain);
    }
    if let Some(content_type) = &spec.content_type {
        out.text("content_type", content_type.as_str());
    }
    if let Some(traceparent) = &spec.traceparent {
        out.text("traceparent", traceparent.as_str());
    }
}

/// Writes a job that was handed out.
pub(crate) fn put_delivery(out: &mut Object<'_>, delivery: &Delivery) {
    out.text("lease", &delivery.lease.to_string());
    put_job(out, &delivery.job);
}

/// Writes a body in the form in which it was given.
pub(crate) fn put_body(out: &mut Object<'_>, body: &Body) {
    match body.form() {
        Form::Json => out.raw("body", body.as_bytes()),
        Form::Text => out.text("body", body.as_str().unwrap_or_default()),
        Form::Bytes => out.text("body_base64", &BASE64.encode(body.as_bytes())),
    }
}

/// Writes what became of a job.
pub(crate) fn put_changed(out: &mut Object<'_>, changed: &Changed) {
    out.flag("changed", changed.changed);
    if let Some(job) = &changed.job {
        out.object("job", |out| put_standing(out, job));
    }
}

fn put_standing(out: &mut Object<'_>, job: &Standing) {
    out.number("number", job.number);
    out.text("state", job.stage.as_str());
    out.time("due", job.due);
    out.number("attempt", job.attempt.into());
    out.number("version", job.version);
    out.number("priority", job.priority.into());
    if job.occurrence > 0 {
        out.number("occurrence", job.occurrence.into());
    }
    if let Some(until) = job.reserved_until {
        out.time("reserved_until", until);
    }
}

/// Writes attempts and pace.
pub(crate) fn put_retry(out: &mut Object<'_>, retry: &Retry) {
    out.number("attempts", retry.attempts_max().into());
    match retry.pace() {
        Pace::Backoff(backoff) => out.object("backoff", |out| {
            out.duration("base", std::time::Duration::from_millis(backoff.base_ms));
            out.duration("max", std::time::Duration::from_millis(backoff.max_ms));
            let jitter = f64::from(backoff.jitter_permille) / 1000.0;
            out.raw("jitter", jitter.to_string().as_bytes());
        }),
        Pace::Ladder { steps_ms, from } => {
            out.array("ladder", |out| {
                for step in steps_ms.iter() {
                    let step = std::time::Duration::from_millis(*step);
                    out.text(&linger::time::format_duration(step));
                }
            });
            if *from == StepsFrom::Due {
                out.text("from", "due");
            }
        }
    }
}

fn put_repeat(out: &mut Object<'_>, repeat: &Repeat) {
    match repeat.rule() {
        Rule::Every { every_ms } => {
            out.duration("every", std::time::Duration::from_millis(*every_ms));
        }
        Rule::Cron(cron) => {
            out.text("cron", cron.expression());
            out.text("tz", cron.zone());
        }
    }
    if let Some(until) = repeat.ends_at() {
        out.time("until", until);
    }
    if let Some(count) = repeat.count_max() {
        out.number("count", count.get().into());
    }
    match repeat.when_missed() {
        Misfire::Once => {}
        Misfire::Skip => out.text("misfire", "skip"),
        Misfire::All(most) => out.object("misfire", |out| out.number("all", most.get().into())),
    }
    if repeat.when_dead() == OnDead::Stop {
        out.text("on_dead", "stop");
    }
}

/// How a confirmation is written.
pub(crate) fn confirm_text(confirm: Confirm) -> &'static str {
    match confirm {
        Confirm::Delivery => "delivery",
        Confirm::Finish => "finish",
    }
}

/// How an envelope is written.
pub(crate) fn envelope_text(envelope: Envelope) -> &'static str {
    match envelope {
        Envelope::Body => "body",
        Envelope::CloudEvents => "cloudevents",
        Envelope::Task => "task",
    }
}

/// A job whose life is over, with all that happened to it.
pub(crate) fn ended(ended: &Ended) -> Vec<u8> {
    json_bytes(|out| {
        put_job(out, &ended.job);
        out.object("ended", |out| {
            out.text("how", ended.how.as_str());
            out.time("at", ended.at);
            if let Some(by) = &ended.by {
                out.text("by", by.as_str());
            }
            put_report(out, ended.report.as_ref());
        });
        out.array("history", |out| {
            ended.job.history.iter().for_each(|entry| out.object(|out| put_entry(out, entry)));
        });
    })
}

/// Writes what happened to a job once.
pub(crate) fn put_entry(out: &mut Object<'_>, entry: &Entry) {
    out.time("at", entry.at);
    out.text("what", entry.what.as_str());
    out.number("attempt", entry.attempt.into());
    if let Some(took_ms) = entry.took_ms {
        out.duration("took", std::time::Duration::from_millis(took_ms));
    }
    if let Some(error) = &entry.error {
        out.text("error", error);
    }
    if let Some(by) = &entry.by {
        out.text("by", by.as_str());
    }
    put_report(out, entry.report.as_ref());
}

fn put_report(out: &mut Object<'_>, report: Option<&Report>) {
    if let Some(report) = report {
        out.object("answer", |out| {
            if let Some(status) = report.status {
                out.number("status", status.into());
            }
            if let Some(excerpt) = &report.excerpt {
                out.text("excerpt", excerpt);
            }
        });
    }
}
