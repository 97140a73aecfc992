//! Answers that are JSON.

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;

pub(crate) use crate::json::{Array, Object};
use crate::json::{put_array, put_object};

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
