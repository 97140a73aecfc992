//! The lines of an export: jobs with all that is kept of them, and topics with their settings.
//!
//! What an answer of this front shows of a job has the same name here; the rest is what only a store
//! needs to know. Nothing of this is served but as a backup.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use linger::dice::Lease;
use linger::history::{Entry, Report, What};
use linger::job::{Body, Form, NewJob, PRIORITY_DEFAULT, Spec, Ttr};
use linger::machine::{Hold, Life, Stage, State, Tally};
use linger::queue::{KvEntry, PausedFor, TopicInfo, Whole};
use linger::time::{Tick, Time, duration_ms};
use linger::topic::{Settings, Topic};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use super::error::{Refused, Result};
use super::read::{self, Fields};
use super::shape;
use super::topics::{put_settings, read_settings};
use super::write::{Object, json_bytes};

/// The version of these lines.
const VERSION: u64 = 1;

/// A line that was read.
pub(crate) enum Line {
    /// The first one.
    Head(Of),
    /// A topic's settings.
    Topic(TopicLine),
    /// A key and its value.
    Key(String, Bytes),
    /// A job.
    Job(Box<Whole>),
    /// The last one.
    End(End),
}

/// What the lines are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Of {
    /// What people may mend by hand.
    Export,
    /// All of a store, with a checksum at the end.
    Backup,
}

/// What the last line says of those before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct End {
    /// How many jobs there were.
    pub(crate) jobs: u64,
    /// The checksum of all that was before it, of a backup.
    pub(crate) sha256: Option<String>,
}

/// What a backup has come to so far, for its last line, and for those who check it.
#[derive(Clone, Default)]
pub(crate) struct Sum {
    jobs: u64,
    hash: Sha256,
}

impl Sum {
    /// Counts a line with its end.
    pub(crate) fn count(&mut self, line: &[u8]) {
        self.jobs += u64::from(is_job(line));
        self.hash.update(line);
    }

    /// What the last line has to say.
    pub(crate) fn end(self) -> End {
        let hash = self.hash.finalize();
        let sha256 = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        End { jobs: self.jobs, sha256: Some(sha256) }
    }
}

/// Whether a line is a job, as far as can be seen without reading it.
pub(crate) fn is_job(line: &[u8]) -> bool {
    line.starts_with(br#"{"kind":"job""#)
}

/// A topic, as far as it goes along.
pub(crate) struct TopicLine {
    pub(crate) topic: Topic,
    pub(crate) settings: Settings,
    pub(crate) pause: Option<Paused>,
}

/// How long a topic stays paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Paused {
    Ever,
    Until(Time),
}

/// The first line.
pub(crate) fn head(now: Time) -> Vec<u8> {
    line("export", |out| {
        out.text("format", "linger");
        out.number("version", VERSION);
        out.time("at", now);
    })
}

/// The first line of a backup: when it was begun, how many jobs there were then, and whether it shows
/// that very moment.
pub(crate) fn backup_head(at: Time, jobs: u64, of_one_moment: bool) -> Vec<u8> {
    line("export", |out| {
        out.text("format", "linger");
        out.number("version", VERSION);
        out.time("at", at);
        out.flag("backup", true);
        out.number("jobs", jobs);
        out.flag("of_one_moment", of_one_moment);
    })
}

/// The last line: one who finds none has not got all of it.
pub(crate) fn end(end: &End) -> Vec<u8> {
    line("end", |out| {
        out.number("jobs", end.jobs);
        if let Some(sha256) = &end.sha256 {
            out.text("sha256", sha256);
        }
    })
}

/// A topic with settings, or one that is paused.
pub(crate) fn topic(info: &TopicInfo, now: Time) -> Vec<u8> {
    line("topic", |out| {
        out.text("topic", info.topic.as_str());
        out.flag("paused", info.paused.is_some());
        if let Some(PausedFor::Only(left)) = info.paused {
            out.time("paused_until", now.saturating_add_ms(duration_ms(left)));
        }
        out.object("settings", |out| put_settings(out, &info.settings));
    })
}

/// A key and its value.
pub(crate) fn key(entry: &KvEntry) -> Vec<u8> {
    line("key", |out| {
        out.text("key", &entry.key);
        out.text("value_base64", &BASE64.encode(&entry.value));
    })
}

/// A job.
pub(crate) fn job(job: &Whole) -> Vec<u8> {
    line("job", |out| {
        let Whole { spec, life, .. } = job;
        out.text("topic", spec.topic.as_str());
        out.text("id", spec.id.as_str());
        out.text("state", life.stage().as_str());
        out.time("due", life.due);
        out.number("attempt", life.attempt.into());
        out.number("version", life.version);
        out.number("priority", life.priority.into());
        out.time("created", job.created);
        if life.occurrence > 0 {
            out.number("occurrence", life.occurrence.into());
        }
        if let Some(error) = &job.last_error {
            out.text("last_error", error);
        }
        shape::put_spec(out, spec);
        put_body(out, &job.body);
        if let Some(by) = &job.by {
            out.text("added_by", by.as_str());
        }
        put_state(out, job);
        put_life(out, life);
        if !job.history.is_empty() {
            out.array("history", |out| {
                job.history.iter().for_each(|it| out.object(|out| shape::put_entry(out, it)));
            });
        }
    })
}

fn line(kind: &str, write: impl FnOnce(&mut Object<'_>)) -> Vec<u8> {
    let mut line = json_bytes(|out| {
        out.text("kind", kind);
        write(out);
    });
    line.push(b'\n');
    line
}

/// JSON that would break the line, or would not come back byte for byte, is written as its bytes.
fn put_body(out: &mut Object<'_>, body: &Body) {
    let bytes = body.as_bytes();
    let breaks = bytes.contains(&b'\n') || bytes.contains(&b'\r') || bytes.trim_ascii() != bytes;
    if body.form() == Form::Json && breaks {
        out.text("body_base64", &BASE64.encode(bytes));
        out.text("body_form", "json");
        return;
    }
    shape::put_body(out, body);
}

fn put_state(out: &mut Object<'_>, job: &Whole) {
    match &job.life.state {
        State::Waiting { retry, held } => {
            if *retry && *held {
                out.flag("after_failure", true);
            }
        }
        State::Ready => {}
        State::Reserved(hold) => {
            out.text("lease", &hold.lease.to_string());
            out.duration("lease_ttr", hold.ttr.as_duration());
            out.time("reserved_until", job.reserved_until.unwrap_or(Time::MIN));
        }
        State::Dead { at } => out.time("dead_since", *at),
        State::Finished { at, until, lease } => {
            out.time("finished_at", *at);
            out.time("kept_until", *until);
            if let Some(lease) = lease {
                out.text("lease", &lease.to_string());
            }
        }
    }
}

/// What is as usual is left out.
fn put_life(out: &mut Object<'_>, life: &Life) {
    for (name, time, usual) in [
        ("first_due", life.first_due, life.due),
        ("base", life.base, life.first_due),
        ("slot", life.slot, life.first_due),
    ] {
        if time != usual {
            out.time(name, time);
        }
    }
    if life.hand_outs != life.attempt {
        out.number("hand_outs", life.hand_outs.into());
    }
    if life.tally != Tally::default() {
        out.object("tally", |out| {
            for (name, count) in counts(&life.tally) {
                out.number(name, count.into());
            }
        });
    }
}

fn counts(tally: &Tally) -> [(&'static str, u32); 6] {
    let Tally { reserves, timeouts, releases, buries, kicks, deaths } = *tally;
    [
        ("reserves", reserves),
        ("timeouts", timeouts),
        ("releases", releases),
        ("buries", buries),
        ("kicks", kicks),
        ("deaths", deaths),
    ]
}

/// Reads a line.
pub(crate) fn read(text: &str) -> Result<Line> {
    let mut fields = Fields::of_request(text)?;
    let kind = needed(&mut fields, "kind", read::text)?;
    match kind.as_str() {
        "export" => read_head(fields),
        "topic" => read_topic(fields).map(Line::Topic),
        "key" => {
            let key = needed(&mut fields, "key", read::text)?;
            let value = needed(&mut fields, "value_base64", base64)?;
            fields.end()?;
            Ok(Line::Key(key, value.into()))
        }
        "job" => read_job(fields).map(|job| Line::Job(Box::new(job))),
        "end" => {
            let jobs = needed(&mut fields, "jobs", read::number)?;
            let sha256 = fields.read_by("sha256", read::text)?;
            fields.end()?;
            Ok(Line::End(End { jobs, sha256 }))
        }
        other => {
            let message = format!(
                "kind is `{}`; give export, topic, key, job or end",
                crate::front::short(other)
            );
            Err(Refused::invalid("kind", message))
        }
    }
}

fn needed<'a, T>(
    fields: &mut Fields<'a>,
    name: &'static str,
    read: impl FnOnce(&'static str, &'a RawValue) -> Result<T>,
) -> Result<T> {
    let missing = || Refused::invalid(name, format!("{name} is missing"));
    fields.read_by(name, read)?.ok_or_else(missing)
}

fn read_head(mut fields: Fields<'_>) -> Result<Line> {
    let format = needed(&mut fields, "format", read::text)?;
    let version = needed(&mut fields, "version", read::number)?;
    if format != "linger" || version != VERSION {
        let format = crate::front::short(&format);
        let message = format!("it is `{format}` version {version}; give linger version {VERSION}");
        return Err(Refused::invalid("version", message));
    }
    let is_backup = fields.read_by("backup", read::flag)?.unwrap_or(false);
    Ok(Line::Head(if is_backup { Of::Backup } else { Of::Export }))
}

fn read_topic(mut fields: Fields<'_>) -> Result<TopicLine> {
    let topic = needed(&mut fields, "topic", read::text)?.parse()?;
    let paused = fields.read_by("paused", read::flag)?.unwrap_or(false);
    let until = fields.read_by("paused_until", read::time)?;
    let settings = fields
        .read_by("settings", |name, raw| read_settings(Fields::within(name, raw)?))?
        .unwrap_or_default();
    fields.end()?;
    let pause = paused.then(|| until.map_or(Paused::Ever, Paused::Until));
    Ok(TopicLine { topic, settings, pause })
}

fn read_job(mut fields: Fields<'_>) -> Result<Whole> {
    let spec = read_spec(&mut fields)?;
    let body = read_body(&mut fields)?;
    let stage = needed(&mut fields, "state", |_, raw| Ok(read::text("state", raw)?.parse()?))?;
    let (state, reserved_until) = read_state(&mut fields, stage)?;
    let life = read_life(&mut fields, state)?;
    let by = fields.read_by("added_by", read::text)?.map(|by| by.parse()).transpose()?;
    let whole = Whole {
        spec,
        body,
        created: needed(&mut fields, "created", read::time)?,
        by,
        life,
        reserved_until,
        last_error: fields.read_by("last_error", read::text)?.map(Into::into),
        history: fields.read_by("history", history)?.unwrap_or_default(),
    };
    fields.end()?;
    whole.check()?;
    Ok(whole)
}

fn read_spec(fields: &mut Fields<'_>) -> Result<Spec> {
    let topic = needed(fields, "topic", read::text)?.parse()?;
    let id = needed(fields, "id", read::text)?.parse()?;
    let mut spec = NewJob::new(topic, id, Body::default()).spec;
    spec.ttr = fields.read_by("ttr", shape::ttr)?;
    spec.retry = fields.read_by("retry", shape::retry)?;
    spec.repeat = fields.read_by("repeat", shape::repeat)?;
    spec.target = fields.read_by("target", shape::target)?;
    spec.confirm = fields.read_by("confirm", shape::confirm)?;
    spec.envelope = fields.read_by("envelope", shape::envelope)?;
    spec.retain = fields.read_by("retain", read::duration)?;
    let content_type = fields.read_by("content_type", read::text)?;
    spec.content_type = content_type.map(|text| text.parse()).transpose()?;
    let traceparent = fields.read_by("traceparent", read::text)?;
    spec.traceparent = traceparent.map(|text| text.parse()).transpose()?;
    Ok(spec)
}

fn read_body(fields: &mut Fields<'_>) -> Result<Body> {
    let form = fields.read_by("body_form", read::text)?;
    // As large as it was: what the other store took is not refused for a setting of this one.
    let body = shape::body(fields, usize::MAX)?.unwrap_or_default();
    match form.as_deref() {
        None => Ok(body),
        Some("json") => Ok(Body::json(body.as_bytes().clone())?),
        Some(_) => Err(Refused::invalid("body_form", "body_form is json or is left out")),
    }
}

fn read_state(fields: &mut Fields<'_>, stage: Stage) -> Result<(State, Option<Time>)> {
    let lease = fields.read_by("lease", lease)?;
    let state = match stage {
        Stage::Delayed => State::Waiting { retry: false, held: false },
        Stage::Retry => State::Waiting { retry: true, held: false },
        Stage::Held => {
            let retry = fields.read_by("after_failure", read::flag)?.unwrap_or(false);
            State::Waiting { retry, held: true }
        }
        Stage::Ready => State::Ready,
        Stage::Reserved => {
            let missing = || Refused::invalid("lease", "a job that is reserved has a lease");
            let hold = Hold {
                lease: lease.ok_or_else(missing)?,
                since: Tick::default(),
                until: Tick::default(),
                ttr: needed(fields, "lease_ttr", shape::ttr)?,
                owner: None,
            };
            let until = needed(fields, "reserved_until", read::time)?;
            return Ok((State::Reserved(hold), Some(until)));
        }
        Stage::Dead => State::Dead { at: needed(fields, "dead_since", read::time)? },
        Stage::Finished => State::Finished {
            at: needed(fields, "finished_at", read::time)?,
            until: needed(fields, "kept_until", read::time)?,
            lease,
        },
    };
    Ok((state, None))
}

fn read_life(fields: &mut Fields<'_>, state: State) -> Result<Life> {
    let due = needed(fields, "due", read::time)?;
    let first_due = fields.read_by("first_due", read::time)?.unwrap_or(due);
    let attempt = fields.read_by("attempt", read::small)?.unwrap_or(0);
    Ok(Life {
        state,
        due,
        priority: fields.read_by("priority", read::small)?.unwrap_or(PRIORITY_DEFAULT),
        attempt,
        version: fields.read_by("version", read::number)?.unwrap_or(1),
        first_due,
        base: fields.read_by("base", read::time)?.unwrap_or(first_due),
        slot: fields.read_by("slot", read::time)?.unwrap_or(first_due),
        occurrence: fields.read_by("occurrence", read::small)?.unwrap_or(0),
        hand_outs: fields.read_by("hand_outs", read::small)?.unwrap_or(attempt),
        tally: fields.read_by("tally", tally)?.unwrap_or_default(),
    })
}

fn tally(name: &'static str, raw: &RawValue) -> Result<Tally> {
    let mut fields = Fields::within(name, raw)?;
    let mut count = |name| fields.read_by(name, read::small).map(Option::unwrap_or_default);
    let tally = Tally {
        reserves: count("reserves")?,
        timeouts: count("timeouts")?,
        releases: count("releases")?,
        buries: count("buries")?,
        kicks: count("kicks")?,
        deaths: count("deaths")?,
    };
    fields.end()?;
    Ok(tally)
}

fn history(name: &'static str, raw: &RawValue) -> Result<Vec<Entry>> {
    let entries: Vec<&RawValue> =
        serde_json::from_str(raw.get()).map_err(|_| read::wrong(name, raw, "a list"))?;
    entries.into_iter().map(|raw| entry(Fields::within(name, raw)?)).collect()
}

fn entry(mut fields: Fields<'_>) -> Result<Entry> {
    let entry = Entry {
        at: needed(&mut fields, "at", read::time)?,
        what: needed(&mut fields, "what", what)?,
        attempt: fields.read_by("attempt", read::small)?.unwrap_or(0),
        took_ms: fields.read_by("took", read::duration)?.map(duration_ms),
        error: fields.read_by("error", read::text)?.map(Into::into),
        report: fields.read_by("answer", report)?,
        by: fields.read_by("by", read::text)?.map(|by| by.parse()).transpose()?,
    };
    fields.end()?;
    Ok(entry)
}

fn what(name: &'static str, raw: &RawValue) -> Result<What> {
    let text = read::text(name, raw)?;
    let names = || What::ALL.map(What::as_str).join(", ");
    let found = What::ALL.into_iter().find(|what| what.as_str() == text);
    found.ok_or_else(|| read::wrong(name, raw, &format!("one of {}", names())))
}

fn report(name: &'static str, raw: &RawValue) -> Result<Report> {
    let mut fields = Fields::within(name, raw)?;
    let status = fields.read_by("status", |name, raw| {
        let status = u16::try_from(read::number(name, raw)?);
        status.map_err(|_| read::wrong(name, raw, "a status such as 503"))
    })?;
    let excerpt = fields.read_by("excerpt", read::text)?.map(Into::into);
    fields.end()?;
    Ok(Report { status, excerpt })
}

fn lease(name: &'static str, raw: &RawValue) -> Result<Lease> {
    Ok(read::text(name, raw)?.parse()?)
}

fn base64(name: &'static str, raw: &RawValue) -> Result<Vec<u8>> {
    let text = read::text(name, raw)?;
    BASE64.decode(text).map_err(|_| Refused::invalid(name, format!("{name} is not base64")))
}

/// How long a lease was given for, where only its end is known.
pub(crate) fn ttr_until(until: Time, now: Time) -> Ttr {
    let left = std::time::Duration::from_millis(until.ms_since(now).max(1));
    Ttr::new(left.min(Ttr::MAX)).expect("it is in range")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(text: &str) -> Whole {
        match read(text) {
            Ok(Line::Job(job)) => *job,
            Ok(_) => panic!("it is no job"),
            Err(refused) => panic!("{}", refused.message()),
        }
    }

    const LEAST: &str = r#"{"kind":"job","topic":"t","id":"1","state":"delayed",
        "due":"2026-12-01T09:00:00.000Z","created":"2026-11-01T09:00:00.000Z"}"#;

    #[test]
    fn a_line_is_read_as_it_was_written() {
        let mut full = whole(LEAST);
        let at = |ms: u64| Time::from_ms(1_800_000_000_000 + ms).unwrap();
        full.body = Body::json("{\n \"a\": 1 }").unwrap();
        full.by = "shop".parse().ok();
        full.last_error = Some("no".into());
        full.life.first_due = at(1);
        full.life.base = at(2);
        full.life.slot = at(3);
        full.life.occurrence = 4;
        full.life.hand_outs = 5;
        full.life.tally.buries = 6;
        full.life.state =
            State::Finished { at: at(4), until: at(5), lease: "00000000000000ff".parse().ok() };
        full.history = What::ALL
            .into_iter()
            .map(|what| Entry {
                at: at(6),
                what,
                attempt: 3,
                took_ms: Some(1234),
                error: Some("é\n".into()),
                report: Some(Report { status: Some(503), excerpt: Some("busy".into()) }),
                by: "ops".parse().ok(),
            })
            .collect();
        let line = job(&full);
        assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
        assert_eq!(whole(std::str::from_utf8(&line).unwrap()), full);
        full.life.state = State::Waiting { retry: true, held: true };
        full.body = Body::bytes(vec![0, 255]);
        assert_eq!(whole(std::str::from_utf8(&job(&full)).unwrap()), full);
    }

    #[test]
    fn what_is_wrong_is_told_by_its_field() {
        for (from, to, field) in [
            ("\"delayed\"", "\"asleep\"", "state"),
            ("\"delayed\"", "\"reserved\"", "lease"),
            ("\"delayed\"", "\"dead\"", "dead_since"),
            ("2026-12-01T09:00:00.000Z", "tomorrow", "due"),
            ("\"id\":\"1\",", "", "id"),
            ("\"id\":\"1\"", "\"id\":\"1\",\"history\":[{\"what\":\"x\"}]", "history.at"),
            ("\"id\":\"1\"", "\"id\":\"1\",\"more\":1", "more"),
            ("\"kind\":\"job\"", "\"kind\":\"thing\"", "kind"),
        ] {
            let text = LEAST.replace(from, to);
            let refused = read(&text).err().unwrap_or_else(|| panic!("{text}"));
            let told = refused.field().unwrap_or_default();
            assert!(field.ends_with(told) && !told.is_empty(), "{field}: {told}");
        }
    }
}
