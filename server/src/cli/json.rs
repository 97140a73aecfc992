//! JSON as it was written: fields keep their order and numbers their digits.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};

/// An object's fields, in order: of an answer, or of a request.
#[derive(Debug, Default)]
pub(super) struct Object(Vec<(String, Box<RawValue>)>);

impl Object {
    /// With a field more.
    pub(super) fn with(mut self, name: &str, value: impl Serialize) -> Object {
        let value = to_raw_value(&value).expect("text, numbers and lists can be written");
        self.0.push((name.to_owned(), value));
        self
    }

    /// With a field more, if there is a value for it.
    pub(super) fn with_some(self, name: &str, value: Option<impl Serialize>) -> Object {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    /// The fields.
    pub(super) fn fields(&self) -> impl Iterator<Item = (&str, &RawValue)> {
        self.0.iter().map(|(name, value)| (name.as_str(), &**value))
    }

    /// A field as people read it; empty if it is missing.
    pub(super) fn shown(&self, name: &str) -> String {
        self.get(name).map(shown).unwrap_or_default()
    }

    /// The object in a field; an empty one if there is none.
    pub(super) fn object(&self, name: &str) -> Object {
        self.get(name).and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
    }

    fn get(&self, name: &str) -> Option<&RawValue> {
        self.fields().find(|(field, _)| *field == name).map(|(_, value)| value)
    }
}

/// A value as people read it: text without its quotes, all else as JSON.
pub(super) fn shown(raw: &RawValue) -> String {
    serde_json::from_str(raw.get()).unwrap_or_else(|_| raw.get().to_owned())
}

/// JSON that is right, each value on a line of its own.
pub(super) fn indented(json: &str) -> String {
    let (mut out, mut depth, mut within_text, mut escaped) = (String::new(), 0, false, false);
    let mut chars = json.chars().peekable();
    while let Some(c) = chars.next() {
        if within_text {
            out.push(c);
            within_text = escaped || c != '"';
            escaped = !escaped && c == '\\';
            continue;
        }
        match c {
            ' ' | '\t' | '\r' | '\n' => {}
            '{' | '[' => {
                out.push(c);
                while chars.next_if(char::is_ascii_whitespace).is_some() {}
                if let Some(end) = chars.next_if(|c| matches!(c, '}' | ']')) {
                    out.push(end);
                } else {
                    depth += 1;
                    new_line(&mut out, depth);
                }
            }
            '}' | ']' => {
                depth -= 1;
                new_line(&mut out, depth);
                out.push(c);
            }
            ',' => {
                out.push(c);
                new_line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            _ => {
                out.push(c);
                within_text = c == '"';
            }
        }
    }
    out
}

fn new_line(out: &mut String, depth: usize) {
    out.push('\n');
    out.extend(std::iter::repeat_n("  ", depth));
}

impl Serialize for Object {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.fields())
    }
}

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Object, D::Error> {
        struct Reads;

        impl<'de> Visitor<'de> for Reads {
            type Value = Object;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Object, M::Error> {
                let mut fields = Vec::with_capacity(16);
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Object(fields))
            }
        }

        deserializer.deserialize_map(Reads)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_written_as_it_was_read() {
        let json = r#"{"z":1.50,"a":{"y":1,"b":[ 2 ]},"n":12345678901234567890123,"t":"\u00e9"}"#;
        let object: Object = serde_json::from_str(json).unwrap();
        assert_eq!(serde_json::to_string(&object).unwrap(), json);
        assert_eq!(object.shown("n"), "12345678901234567890123");
        assert_eq!(object.shown("t"), "é");
        assert_eq!(object.shown("none"), "");
        assert_eq!(object.object("a").shown("b"), "[ 2 ]");
    }

    #[test]
    fn indenting_changes_blanks_only() {
        let json = r#"{"a":[1.50, {"b":"x, {\"y\\"},[ ],{}],"c":null}"#;
        let right = r#"{
  "a": [
    1.50,
    {
      "b": "x, {\"y\\"
    },
    [],
    {}
  ],
  "c": null
}"#;
        assert_eq!(indented(json), right);
        assert_eq!(indented(right), right);
    }
}
