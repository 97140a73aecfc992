//! What a caller gave: written when a job is added, and again when an update changes it.

use bytes::Bytes;

use super::own::Own;
use super::wire::{
    Malformed, Reader, Result, flag, put_bytes, put_str, put_varint, str_size, varint_size, whole,
};
use crate::job::{Body, Caller, Form, Id, PRIORITY_DEFAULT, Spec, Traceparent};
use crate::topic::Topic;

/// What a caller gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cold {
    pub(crate) spec: Spec,
    pub(crate) body: Body,
    pub(crate) by: Option<Caller>,
    pub(crate) priority: u32,
    pub(crate) held: bool,
}

/// What the index wants to know about a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Peek<'a> {
    pub(crate) topic: &'a str,
    pub(crate) id: &'a str,
    pub(crate) priority: u32,
    pub(crate) held: bool,
    pub(crate) own: Option<Own>,
    pub(crate) body_bytes: usize,
}

const FORM: u8 = 0b11;
const HELD: u8 = 1 << 2;
const PRIORITY: u8 = 1 << 3;
const OWN: u8 = 1 << 4;
const BY: u8 = 1 << 5;
const CONTENT_TYPE: u8 = 1 << 6;
const TRACEPARENT: u8 = 1 << 7;

/// Writes what a caller gave at the end of `out`.
pub(crate) fn encode_cold(
    out: &mut Vec<u8>,
    spec: &Spec,
    body: &Body,
    by: Option<&Caller>,
    priority: u32,
    held: bool,
) {
    let own = Own::of(spec);
    let priority = Some(priority).filter(|priority| *priority != PRIORITY_DEFAULT);
    let flags = form_bits(body.form())
        | flag(HELD, held)
        | flag(PRIORITY, priority.is_some())
        | flag(OWN, own.is_some())
        | flag(BY, by.is_some())
        | flag(CONTENT_TYPE, spec.content_type.is_some())
        | flag(TRACEPARENT, spec.traceparent.is_some());

    let texts = [
        Some(spec.topic.as_str()),
        Some(spec.id.as_str()),
        by.map(Caller::as_str),
        spec.content_type.as_ref().map(|content_type| content_type.as_str()),
    ];
    let size = 1
        + texts.iter().flatten().map(|text| str_size(text.len())).sum::<usize>()
        + priority.map_or(0, |priority| varint_size(priority.into()))
        + own.as_ref().map_or(0, Own::size_max)
        + spec.traceparent.as_ref().map_or(0, |_| TRACEPARENT_BYTES)
        + str_size(body.as_bytes().len());

    out.reserve(size);
    out.push(flags);
    texts.iter().flatten().for_each(|text| put_str(out, text));
    if let Some(priority) = priority {
        put_varint(out, priority.into());
    }
    if let Some(own) = own {
        own.encode(out);
    }
    if let Some(traceparent) = &spec.traceparent {
        put_traceparent(out, traceparent);
    }
    put_bytes(out, body.as_bytes());
}

impl Cold {
    /// Reads a whole payload. The body stays where it is, and keeps the payload alive.
    pub(crate) fn decode(payload: Bytes) -> Result<Cold> {
        let parts = whole(&payload, Parts::read)?;
        let own = parts.own.unwrap_or(NOTHING);
        let spec = Spec {
            topic: parts.topic.parse().map_err(|_| BAD_TOPIC)?,
            id: parts.id.parse().map_err(|_| BAD_ID)?,
            content_type: parts
                .content_type
                .map(|text| text.parse().map_err(|_| Malformed("a content type is not one")))
                .transpose()?,
            ttr: own.ttr,
            retry: own.retry,
            repeat: own.repeat,
            target: own.target,
            confirm: own.confirm,
            envelope: own.envelope,
            retain: own.retain,
            traceparent: parts.traceparent.map(traceparent).transpose()?,
        };
        let by = parts.by.map(|text| text.parse().map_err(|_| Malformed("a caller is not one")));
        let body = Body::kept(parts.form, payload.slice_ref(parts.body))
            .map_err(|_| Malformed("a text body is not UTF-8"))?;
        let (priority, held) = (parts.priority, parts.held);
        Ok(Cold { spec, body, by: by.transpose()?, priority, held })
    }

    /// Reads what the index wants to know, and copies nothing but settings of the job's own.
    pub(crate) fn peek(payload: &[u8]) -> Result<Peek<'_>> {
        let Parts { topic, id, priority, held, own, body, .. } = whole(payload, Parts::read)?;
        Topic::check(topic).map_err(|_| BAD_TOPIC)?;
        Id::check(id).map_err(|_| BAD_ID)?;
        Ok(Peek { topic, id, priority, held, own, body_bytes: body.len() })
    }
}

const BAD_TOPIC: Malformed = Malformed("a topic's name is not one");
const BAD_ID: Malformed = Malformed("an id is not one");
const NOTHING: Own = Own {
    ttr: None,
    retry: None,
    repeat: None,
    target: None,
    confirm: None,
    retain: None,
    envelope: None,
};

/// A payload taken apart: its names are not checked yet.
struct Parts<'a> {
    form: Form,
    held: bool,
    topic: &'a str,
    id: &'a str,
    by: Option<&'a str>,
    content_type: Option<&'a str>,
    priority: u32,
    own: Option<Own>,
    traceparent: Option<[u8; TRACEPARENT_BYTES]>,
    body: &'a [u8],
}

impl<'a> Parts<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Parts<'a>> {
        let flags = reader.u8()?;
        Ok(Parts {
            form: form(flags & FORM)?,
            held: flags & HELD != 0,
            topic: reader.str()?,
            id: reader.str()?,
            by: reader.option(flags & BY != 0, Reader::str)?,
            content_type: reader.option(flags & CONTENT_TYPE != 0, Reader::str)?,
            priority: reader
                .option(flags & PRIORITY != 0, Reader::varint_u32)?
                .unwrap_or(PRIORITY_DEFAULT),
            own: reader.option(flags & OWN != 0, Own::decode)?,
            traceparent: reader.option(flags & TRACEPARENT != 0, Reader::array)?,
            body: reader.bytes()?,
        })
    }
}

fn form_bits(form: Form) -> u8 {
    match form {
        Form::Json => 0,
        Form::Text => 1,
        Form::Bytes => 2,
    }
}

fn form(bits: u8) -> Result<Form> {
    match bits {
        0 => Ok(Form::Json),
        1 => Ok(Form::Text),
        2 => Ok(Form::Bytes),
        _ => Err(Malformed("a body is of no form")),
    }
}

/// The 52 digits of a trace as numbers: less than half of its text.
const TRACEPARENT_BYTES: usize = 26;

fn put_traceparent(out: &mut Vec<u8>, traceparent: &Traceparent) {
    let digits = traceparent.as_str().bytes().filter(|byte| *byte != b'-');
    let mut values = digits.map(|digit| match digit {
        b'0'..=b'9' => digit - b'0',
        _ => digit - b'a' + 10,
    });
    while let (Some(high), Some(low)) = (values.next(), values.next()) {
        out.push((high << 4) | low);
    }
}

fn traceparent(bytes: [u8; TRACEPARENT_BYTES]) -> Result<Traceparent> {
    let mut text = String::with_capacity(2 * TRACEPARENT_BYTES + 3);
    for (at, byte) in bytes.iter().enumerate() {
        if [1, 17, 25].contains(&at) {
            text.push('-');
        }
        text.extend(
            [byte >> 4, byte & 0xf]
                .map(|digit| char::from(b"0123456789abcdef"[usize::from(digit)])),
        );
    }
    text.parse().map_err(|_| Malformed("a traceparent is not one"))
}
