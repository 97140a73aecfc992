//! A job's body, from the command line or stdin.

use std::io::Read;

use anyhow::{Context, Result, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::value::RawValue;

use super::json::Object;

/// The most that is read from stdin: what a server can be set to take at most.
const STDIN_BYTES_MAX: u64 = 1 << 30;

/// How text that is JSON is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Take {
    /// As JSON.
    AsItLooks,
    /// As text, like any other.
    AsText,
}

impl Take {
    /// What the flag `--text` says.
    pub(super) fn unless_text(is_text: bool) -> Take {
        if is_text { Take::AsText } else { Take::AsItLooks }
    }
}

/// Adds a body to a request: `-` is whatever stdin has.
pub(super) fn with_body(request: Object, body: &str, take: Take) -> Result<Object> {
    Ok(match body {
        "-" => with_bytes(request, stdin()?, take),
        text => with_text(request, text, take),
    })
}

fn stdin() -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = std::io::stdin().lock().take(STDIN_BYTES_MAX + 1).read_to_end(&mut bytes);
    if read.context("cannot read stdin")? as u64 > STDIN_BYTES_MAX {
        bail!("stdin has over {STDIN_BYTES_MAX} bytes, more than any server takes");
    }
    Ok(bytes)
}

fn with_bytes(request: Object, bytes: Vec<u8>, take: Take) -> Object {
    match std::str::from_utf8(&bytes) {
        Ok(text) => with_text(request, text, take),
        Err(_) => request.with("body_base64", BASE64.encode(bytes)),
    }
}

fn with_text(request: Object, text: &str, take: Take) -> Object {
    match serde_json::from_str::<&RawValue>(text) {
        // A JSON string would lose its quotes on the way, and may be meant to have them.
        Ok(json) if take == Take::AsItLooks && !json.get().starts_with('"') => {
            request.with("body", json)
        }
        _ => request.with("body", text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(bytes: &[u8], take: Take) -> String {
        serde_json::to_string(&with_bytes(Object::default(), bytes.to_vec(), take)).unwrap()
    }

    #[test]
    fn json_is_sent_as_json_and_all_else_as_text() {
        for (body, right) in [
            (r#"{"b": 1, "a": 1.50}"#, r#"{"body":{"b": 1, "a": 1.50}}"#),
            ("[1]\n", r#"{"body":[1]}"#),
            ("-5", r#"{"body":-5}"#),
            ("null", r#"{"body":null}"#),
            ("true", r#"{"body":true}"#),
            ("hello", r#"{"body":"hello"}"#),
            ("hello\n", r#"{"body":"hello\n"}"#),
            (r#""quoted""#, r#"{"body":"\"quoted\""}"#),
            ("007", r#"{"body":"007"}"#),
            ("{", r#"{"body":"{"}"#),
            ("", r#"{"body":""}"#),
        ] {
            assert_eq!(sent(body.as_bytes(), Take::AsItLooks), right);
        }
        assert_eq!(sent(b"[1]", Take::AsText), r#"{"body":"[1]"}"#);
        assert_eq!(sent(b"\xff\x00", Take::AsItLooks), r#"{"body_base64":"/wA="}"#);
    }
}
