//! Writing JSON: straight into bytes, because bodies are given back as they were given and must
//! not be parsed again.

use std::time::Duration;

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
    pub(crate) fn text(&mut self, name: &'static str, text: &str) {
        put_text(self.name(name), text);
    }

    /// A string, or null.
    pub(crate) fn text_or_null(&mut self, name: &'static str, text: Option<&str>) {
        match text {
            Some(text) => self.text(name, text),
            None => self.raw(name, b"null"),
        }
    }

    /// A string, if there is one.
    pub(crate) fn text_if(&mut self, name: &'static str, text: Option<&str>) {
        if let Some(text) = text {
            self.text(name, text);
        }
    }

    /// A whole number.
    pub(crate) fn number(&mut self, name: &'static str, number: u64) {
        put_number(self.name(name), number);
    }

    /// A whole number, if there is one.
    pub(crate) fn number_if(&mut self, name: &'static str, number: Option<u64>) {
        if let Some(number) = number {
            self.number(name, number);
        }
    }

    /// A number with a fraction.
    pub(crate) fn decimal(&mut self, name: &'static str, number: f64) {
        put_decimal(self.name(name), number);
    }

    /// True or false.
    pub(crate) fn flag(&mut self, name: &'static str, flag: bool) {
        self.raw(name, if flag { b"true" } else { b"false" });
    }

    /// A moment, in RFC 3339 with milliseconds.
    pub(crate) fn time(&mut self, name: &'static str, time: Time) {
        put_time(self.name(name), time);
    }

    /// A length of time, as people write it.
    pub(crate) fn duration(&mut self, name: &'static str, duration: Duration) {
        self.text(name, &format_duration(duration));
    }

    /// JSON that is right already.
    pub(crate) fn raw(&mut self, name: &'static str, json: &[u8]) {
        self.name(name).extend_from_slice(json);
    }

    /// An object within.
    pub(crate) fn object(&mut self, name: &'static str, write: impl FnOnce(&mut Object<'_>)) {
        put_object(self.name(name), write);
    }

    /// An array within.
    pub(crate) fn array(&mut self, name: &'static str, write: impl FnOnce(&mut Array<'_>)) {
        put_array(self.name(name), write);
    }

    /// JSON that is right already, by a name that somebody has given.
    pub(crate) fn pair(&mut self, name: &str, json: &[u8]) {
        self.next();
        put_text(self.out, name);
        self.out.push(b':');
        self.out.extend_from_slice(json);
    }

    /// Names of ours have nothing to escape.
    fn name(&mut self, name: &'static str) -> &mut Vec<u8> {
        self.next();
        self.out.push(b'"');
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
        self.out
    }

    fn next(&mut self) {
        if !std::mem::take(&mut self.first) {
            self.out.push(b',');
        }
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
fn put_text(out: &mut Vec<u8>, text: &str) {
    if !is_plain(text.as_bytes()) {
        return serde_json::to_writer(out, text).expect("a string can be written");
    }
    out.reserve(text.len() + 2);
    out.push(b'"');
    out.extend_from_slice(text.as_bytes());
    out.push(b'"');
}

/// Whether a text has nothing to escape, as nearly all have. There is no branch in the loop, so that many
/// bytes are looked at in one step.
fn is_plain(text: &[u8]) -> bool {
    let is_special = |byte: u8| (byte < b' ') | (byte == b'"') | (byte == b'\\');
    !text.iter().fold(false, |found, byte| found | is_special(*byte))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_written_as_serde_json_writes_them() {
        for special in (0..=0x2100).filter_map(char::from_u32) {
            for around in ["", "x", "sixteen bytes of", "more than thirty-two bytes of text"] {
                let text = format!("{around}{special}{around}");
                let mut out = Vec::new();
                put_text(&mut out, &text);
                assert_eq!(String::from_utf8(out).unwrap(), serde_json::to_string(&text).unwrap());
            }
        }
    }
}
