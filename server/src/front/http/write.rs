//! Writing JSON: straight into bytes, because bodies are given back as they were given and must
//! not be parsed again.

use std::time::Duration;

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use linger::time::{Time, format_duration};

/// A JSON object being written.
pub(crate) struct Object<'a> {
    out: &'a mut Vec<u8>,
    first: bool,
}

/// A JSON array being written.
pub(crate) struct Array<'a> {
    out: &'a mut Vec<u8>,
    first: bool,
}

impl Object<'_> {
    /// A string.
    pub(crate) fn text(&mut self, name: &str, text: &str) {
        put_text(self.name(name), text);
    }

    /// A string, or null.
    pub(crate) fn text_or_null(&mut self, name: &str, text: Option<&str>) {
        match text {
            Some(text) => self.text(name, text),
            None => self.raw(name, b"null"),
        }
    }

    /// A whole number.
    pub(crate) fn number(&mut self, name: &str, number: u64) {
        put_number(self.name(name), number);
    }

    /// A number with a fraction.
    pub(crate) fn decimal(&mut self, name: &str, number: f64) {
        put_decimal(self.name(name), number);
    }

    /// True or false.
    pub(crate) fn flag(&mut self, name: &str, flag: bool) {
        self.raw(name, if flag { b"true" } else { b"false" });
    }

    /// A moment, in RFC 3339 with milliseconds.
    pub(crate) fn time(&mut self, name: &str, time: Time) {
        put_time(self.name(name), time);
    }

    /// A length of time, as people write it.
    pub(crate) fn duration(&mut self, name: &str, duration: Duration) {
        self.text(name, &format_duration(duration));
    }

    /// JSON that is right already.
    pub(crate) fn raw(&mut self, name: &str, json: &[u8]) {
        self.name(name).extend_from_slice(json);
    }

    /// An object within.
    pub(crate) fn object(&mut self, name: &str, write: impl FnOnce(&mut Object<'_>)) {
        put_object(self.name(name), write);
    }

    /// An array within.
    pub(crate) fn array(&mut self, name: &str, write: impl FnOnce(&mut Array<'_>)) {
        put_array(self.name(name), write);
    }

    fn name(&mut self, name: &str) -> &mut Vec<u8> {
        if !std::mem::take(&mut self.first) {
            self.out.push(b',');
        }
        put_text(self.out, name);
        self.out.push(b':');
        self.out
    }
}

impl Array<'_> {
    /// An object within.
    pub(crate) fn object(&mut self, write: impl FnOnce(&mut Object<'_>)) {
        put_object(self.next(), write);
    }

    /// A string.
    pub(crate) fn text(&mut self, text: &str) {
        put_text(self.next(), text);
    }

    /// A whole number.
    pub(crate) fn number(&mut self, number: u64) {
        put_number(self.next(), number);
    }

    /// A number with a fraction.
    pub(crate) fn decimal(&mut self, number: f64) {
        put_decimal(self.next(), number);
    }

    /// A moment, in RFC 3339 with milliseconds.
    pub(crate) fn time(&mut self, time: Time) {
        put_time(self.next(), time);
    }

    /// How much has been written, all around included.
    pub(crate) fn len(&self) -> usize {
        self.out.len()
    }

    fn next(&mut self) -> &mut Vec<u8> {
        if !std::mem::take(&mut self.first) {
            self.out.push(b',');
        }
        self.out
    }
}

/// Writes an object.
pub(crate) fn put_object(out: &mut Vec<u8>, write: impl FnOnce(&mut Object<'_>)) {
    out.push(b'{');
    write(&mut Object { out, first: true });
    out.push(b'}');
}

/// Writes an array.
pub(crate) fn put_array(out: &mut Vec<u8>, write: impl FnOnce(&mut Array<'_>)) {
    out.push(b'[');
    write(&mut Array { out, first: true });
    out.push(b']');
}

/// Writes a string.
pub(crate) fn put_text(out: &mut Vec<u8>, text: &str) {
    serde_json::to_writer(out, text).expect("a string can be written");
}

fn put_number(out: &mut Vec<u8>, number: u64) {
    serde_json::to_writer(out, &number).expect("a number can be written");
}

fn put_decimal(out: &mut Vec<u8>, number: f64) {
    serde_json::to_writer(out, &number).expect("a number can be written");
}

fn put_time(out: &mut Vec<u8>, time: Time) {
    out.push(b'"');
    time.write_to(out);
    out.push(b'"');
}

/// An answer that is an object.
pub(crate) fn json(status: StatusCode, write: impl FnOnce(&mut Object<'_>)) -> Response {
    json_answer(status, Body::from(json_bytes(write)))
}

/// An object by itself.
pub(crate) fn json_bytes(write: impl FnOnce(&mut Object<'_>)) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    put_object(&mut out, write);
    out
}

/// An answer that is an array.
pub(crate) fn json_array(status: StatusCode, write: impl FnOnce(&mut Array<'_>)) -> Response {
    let mut out = Vec::with_capacity(4096);
    put_array(&mut out, write);
    json_answer(status, Body::from(out))
}

/// An answer that is JSON.
pub(crate) fn json_answer(status: StatusCode, body: Body) -> Response {
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer
}
