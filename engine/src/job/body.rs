//! What a job carries.

use std::fmt;

use bytes::Bytes;
use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};

use crate::error::{Code, Error, Result};

/// What form a body was given in, so that it can be given back in the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// A JSON value, kept byte for byte.
    Json,
    /// Text.
    Text,
    /// Bytes.
    Bytes,
}

/// What a job carries: opaque, with the form it was given in.
#[derive(Clone, PartialEq, Eq)]
pub struct Body {
    form: Form,
    bytes: Bytes,
}

impl Body {
    /// The largest body a store takes unless it is set otherwise.
    pub const BYTES_MAX_DEFAULT: usize = 1 << 20;

    /// JSON as it was written, never re-serialised. A JSON string is kept as its text.
    pub fn json(raw: impl Into<Bytes>) -> Result<Body> {
        let bytes = raw.into();
        let wrong = |cause| Error::invalid("body", format!("body is not JSON: {cause}"));
        if bytes.trim_ascii_start().first() == Some(&b'"') {
            return Ok(Body::text(serde_json::from_slice::<String>(&bytes).map_err(wrong)?));
        }
        // As text: serde_json does not look into the strings that it passes over.
        let text = std::str::from_utf8(&bytes)
            .map_err(|cause| Error::invalid("body", format!("body is not JSON: {cause}")))?;
        serde_json::from_str::<IgnoredAny>(text).map_err(wrong)?;
        Ok(Body { form: Form::Json, bytes })
    }

    /// JSON that was read already, so that nobody need look at it again.
    pub fn json_value(raw: &serde_json::value::RawValue) -> Result<Body> {
        match raw.get().as_bytes() {
            text @ [b'"', ..] => Body::json(Bytes::copy_from_slice(text)),
            json => Ok(Body { form: Form::Json, bytes: Bytes::copy_from_slice(json) }),
        }
    }

    /// A value, written as JSON.
    pub fn json_of(value: &impl Serialize) -> Result<Body> {
        let raw = serde_json::to_vec(value).map_err(|cause| {
            Error::invalid("body", format!("body cannot be written as JSON: {cause}"))
        })?;
        Body::json(raw)
    }

    /// Text.
    pub fn text(text: impl Into<String>) -> Body {
        Body { form: Form::Text, bytes: text.into().into() }
    }

    /// Bytes, whatever they are.
    pub fn bytes(bytes: impl Into<Bytes>) -> Body {
        Body { form: Form::Bytes, bytes: bytes.into() }
    }

    /// Bytes from a protocol that knows no forms: text if they are valid UTF-8.
    pub fn from_wire(bytes: impl Into<Bytes>) -> Body {
        let bytes = bytes.into();
        let form = if std::str::from_utf8(&bytes).is_ok() { Form::Text } else { Form::Bytes };
        Body { form, bytes }
    }

    /// A body that a store has kept. JSON was checked when it was given and is not parsed again.
    pub(crate) fn kept(form: Form, bytes: Bytes) -> Result<Body> {
        if form != Form::Bytes && std::str::from_utf8(&bytes).is_err() {
            return Err(Error::invalid("body", "body is kept as text but is not UTF-8"));
        }
        Ok(Body { form, bytes })
    }

    /// The form it was given in.
    pub fn form(&self) -> Form {
        self.form
    }

    /// The bytes themselves.
    pub fn as_bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The text, if it is any.
    pub fn as_str(&self) -> Option<&str> {
        std::str::from_utf8(&self.bytes).ok()
    }

    /// Reads the body as JSON.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_slice(&self.bytes).map_err(|cause| {
            Error::invalid("body", format!("body does not read as the type wanted: {cause}"))
        })
    }

    /// Refuses a body over the limit.
    pub fn check_size(&self, bytes_max: usize) -> Result<()> {
        if self.bytes.len() > bytes_max {
            let len = self.bytes.len();
            let message = format!("job body is {len} bytes, over the limit of {bytes_max}");
            return Err(Error::new(Code::TooLarge, message).field("body"));
        }
        Ok(())
    }

    /// The content type to deliver it with when the job does not say.
    pub fn content_type(&self) -> &'static str {
        match self.form {
            Form::Json => "application/json",
            Form::Bytes => "application/octet-stream",
            Form::Text if self.is_json_object_or_array() => "application/json",
            Form::Text => "text/plain; charset=utf-8",
        }
    }

    fn is_json_object_or_array(&self) -> bool {
        matches!(self.bytes.trim_ascii_start().first(), Some(b'{' | b'['))
            && serde_json::from_slice::<IgnoredAny>(&self.bytes).is_ok()
    }
}

impl Default for Body {
    fn default() -> Self {
        Body::text("")
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} of {} bytes", self.form, self.bytes.len())
    }
}

impl From<&str> for Body {
    fn from(text: &str) -> Body {
        Body::text(text)
    }
}

impl From<String> for Body {
    fn from(text: String) -> Body {
        Body::text(text)
    }
}

impl From<Vec<u8>> for Body {
    fn from(bytes: Vec<u8>) -> Body {
        Body::bytes(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_kept_byte_for_byte_and_a_string_as_its_text() {
        let raw = "{ \"a\" : 1.000, \"a\": 2 }";
        let body = Body::json(raw).unwrap();
        assert_eq!((body.form(), body.as_str()), (Form::Json, Some(raw)));
        let text = Body::json(" \"he\\nllo\" ").unwrap();
        assert_eq!((text.form(), text.as_str()), (Form::Text, Some("he\nllo")));
        for bad in ["", "{", "nope", "\"open", "1 2", "[1,]"] {
            assert_eq!(Body::json(bad).unwrap_err().at_field(), Some("body"), "{bad:?}");
        }
        for bad in [&b"[\"\xff\"]"[..], b"{\"\xc3\": 1}", b"\"\xff\"", b"\xff"] {
            assert_eq!(Body::json(bad).unwrap_err().at_field(), Some("body"), "{bad:?}");
        }
    }

    #[test]
    fn wire_bytes_are_text_if_they_can_be() {
        assert_eq!(Body::from_wire("héllo").form(), Form::Text);
        assert_eq!(Body::from_wire(vec![0xff, 0xfe]).form(), Form::Bytes);
    }

    #[test]
    fn the_content_type_follows_the_form() {
        for (body, expected) in [
            (Body::json("5").unwrap(), "application/json"),
            (Body::text("{\"a\":1}"), "application/json"),
            (Body::text("[1]"), "application/json"),
            (Body::text("{oops"), "text/plain; charset=utf-8"),
            (Body::text("5"), "text/plain; charset=utf-8"),
            (Body::bytes(vec![1]), "application/octet-stream"),
            (Body::default(), "text/plain; charset=utf-8"),
        ] {
            assert_eq!(body.content_type(), expected, "{body:?}");
        }
    }

    #[test]
    fn a_body_over_the_limit_says_both_sizes() {
        let refused = Body::bytes(vec![0; 11]).check_size(10).unwrap_err();
        assert_eq!(refused.code(), Code::TooLarge);
        assert_eq!(refused.message(), "job body is 11 bytes, over the limit of 10");
        assert!(Body::bytes(vec![0; 10]).check_size(10).is_ok());
    }
}
