//! Reading JSON objects field by field, so that whatever is wrong is told by its name.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use linger::error::Code;
use linger::time::{Time, format_duration, parse_duration};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::error::{Refused, Result};
pub(crate) use crate::front::short;

/// The fields of an object: each is taken once, and what is left at the end is unknown.
pub(crate) struct Fields<'a> {
    fields: Vec<(Cow<'a, str>, &'a RawValue)>,
    /// What the object is, for messages: empty for the request itself.
    within: Cow<'static, str>,
    asked: Vec<&'static str>,
}

/// The most fields that an object may have: far more than any has, and few enough to be compared
/// with one another.
const FIELDS_MAX: usize = 256;

/// About as many fields as a job may have.
const ASKED: usize = 24;

/// The bytes of a request as text.
pub(crate) fn utf8(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes).map_err(|cause| {
        let at = cause.valid_up_to();
        Refused::new(Code::Invalid, format!("the request is not UTF-8 at byte {at}"))
    })
}

/// Whether a request is an array.
pub(crate) fn is_array(text: &str) -> bool {
    text.trim_ascii_start().starts_with('[')
}

/// The items of an array.
pub(crate) fn items(text: &str) -> Result<Vec<&RawValue>> {
    serde_json::from_str(text).map_err(not_json)
}

fn not_json(cause: serde_json::Error) -> Refused {
    Refused::new(Code::Invalid, format!("the request is not JSON: {cause}"))
}

impl<'a> Fields<'a> {
    /// The object that a request is. Nothing at all is an empty one.
    pub(crate) fn of_request(text: &'a str) -> Result<Fields<'a>> {
        match text {
            "" => Ok(Fields { fields: Vec::new(), within: "".into(), asked: Vec::new() }),
            text => Fields::read(text, ""),
        }
    }

    /// The object in a field.
    pub(crate) fn within(name: &'static str, raw: &'a RawValue) -> Result<Fields<'a>> {
        Fields::read(raw.get(), name)
    }

    fn read(text: &'a str, within: &'static str) -> Result<Fields<'a>> {
        if !text.trim_ascii_start().starts_with('{') {
            // Told apart: serde would say what it expected in its own words.
            serde_json::from_str::<serde::de::IgnoredAny>(text).map_err(not_json)?;
            return Err(match within {
                "" => Refused::new(Code::Invalid, "the request is not a JSON object"),
                name => Refused::invalid(name, format!("{name} is not a JSON object")),
            });
        }
        let Pairs(fields) = serde_json::from_str(text).map_err(not_json)?;
        if fields.len() > FIELDS_MAX {
            let given = fields.len();
            let message = format!("an object has {given} fields, over the limit of {FIELDS_MAX}");
            return Err(Refused::new(Code::TooLarge, message));
        }
        for (at, (name, _)) in fields.iter().enumerate() {
            if fields[..at].iter().any(|(earlier, _)| earlier == name) {
                let message = format!("`{}` is given twice", short(name));
                return Err(Refused::invalid(joined(within, name), message));
            }
        }
        Ok(Fields { fields, within: within.into(), asked: Vec::with_capacity(ASKED) })
    }

    /// The value of a field as it was written; none if it is missing.
    pub(crate) fn raw(&mut self, name: &'static str) -> Option<&'a RawValue> {
        self.asked.push(name);
        let at = self.fields.iter().position(|(field, _)| field == name)?;
        Some(self.fields.swap_remove(at).1)
    }

    /// The value of a field; none if it is missing or null.
    pub(crate) fn given(&mut self, name: &'static str) -> Option<&'a RawValue> {
        self.raw(name).filter(|raw| raw.get() != "null")
    }

    /// The value of a field whose name may be written in capitals; none if it is missing or null.
    pub(crate) fn given_in_any_case(&mut self, name: &str) -> Option<&'a RawValue> {
        let at = self.fields.iter().position(|(field, _)| field.eq_ignore_ascii_case(name))?;
        Some(self.fields.swap_remove(at).1).filter(|raw| raw.get() != "null")
    }

    /// A field read by `read`; none if it is missing or null.
    pub(crate) fn read_by<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&'static str, &'a RawValue) -> Result<T>,
    ) -> Result<Option<T>> {
        self.given(name).map(|raw| read(name, raw)).transpose()
    }

    /// All fields, where their names are the caller's to choose.
    pub(crate) fn all(self) -> impl Iterator<Item = (impl AsRef<str>, &'a RawValue)> {
        self.fields.into_iter()
    }

    /// Refuses what nobody asked for.
    pub(crate) fn end(self) -> Result<()> {
        let Some((name, _)) = self.fields.first() else { return Ok(()) };
        let known = nearest(name, &self.asked);
        let hint = known.map_or_else(
            || format!("known here: {}", self.asked.join(", ")),
            |known| format!("did you mean `{known}`?"),
        );
        let message = format!("unknown field `{}`; {hint}", short(name));
        Err(Refused::invalid(joined(&self.within, name), message))
    }
}

fn joined(within: &str, name: &str) -> String {
    if within.is_empty() { short(name) } else { format!("{within}.{}", short(name)) }
}

/// The known word that is written most like this one.
pub(crate) fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let distance = |known: &str| strsim::levenshtein(&short(word), known);
    let near = |known: &&str| distance(known) <= known.len().div_ceil(3);
    known.iter().copied().filter(near).min_by_key(|known| distance(known))
}

/// An object's fields in order, none dropped: serde's own maps would keep the last of two.
struct Pairs<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Pairs<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct Reads<'a>(std::marker::PhantomData<&'a ()>);

        impl<'de: 'a, 'a> Visitor<'de> for Reads<'a> {
            type Value = Pairs<'a>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<M: MapAccess<'de>>(
                self,
                mut map: M,
            ) -> std::result::Result<Self::Value, M::Error> {
                let mut pairs = Vec::with_capacity(8);
                while let Some(Name(name)) = map.next_key()? {
                    pairs.push((name, map.next_value()?));
                }
                Ok(Pairs(pairs))
            }
        }

        deserializer.deserialize_map(Reads(std::marker::PhantomData))
    }
}

/// A field's name, borrowed where nothing in it is escaped.
struct Name<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Name<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct Reads<'a>(std::marker::PhantomData<&'a ()>);

        impl<'de: 'a, 'a> Visitor<'de> for Reads<'a> {
            type Value = Name<'a>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name")
            }

            fn visit_borrowed_str<E>(self, name: &'de str) -> std::result::Result<Self::Value, E> {
                Ok(Name(Cow::Borrowed(name)))
            }

            fn visit_str<E>(self, name: &str) -> std::result::Result<Self::Value, E> {
                Ok(Name(Cow::Owned(name.to_owned())))
            }
        }

        deserializer.deserialize_str(Reads(std::marker::PhantomData))
    }
}

/// A string.
pub(crate) fn text(name: &'static str, raw: &RawValue) -> Result<String> {
    serde_json::from_str(raw.get()).map_err(|_| wrong(name, raw, "a string"))
}

/// True or false.
pub(crate) fn flag(name: &'static str, raw: &RawValue) -> Result<bool> {
    serde_json::from_str(raw.get()).map_err(|_| wrong(name, raw, "true or false"))
}

/// A whole number from 0 to 4294967295.
pub(crate) fn small(name: &'static str, raw: &RawValue) -> Result<u32> {
    let wrong = || wrong(name, raw, "a whole number from 0 to 4294967295");
    whole(raw).and_then(|number| u32::try_from(number).ok()).ok_or_else(wrong)
}

/// A whole number.
pub(crate) fn number(name: &'static str, raw: &RawValue) -> Result<u64> {
    whole(raw).ok_or_else(|| wrong(name, raw, "a whole number from 0 up"))
}

/// A whole number, however it is written: in JSON 5.0 is one.
fn whole(raw: &RawValue) -> Option<u64> {
    serde_json::from_str(raw.get()).ok().or_else(|| {
        let number: f64 = serde_json::from_str(raw.get()).ok()?;
        let is_whole = number.fract() == 0.0 && (0.0..u64::MAX as f64).contains(&number);
        is_whole.then_some(number as u64)
    })
}

/// Text or a bare number, as it was written.
pub(crate) fn word(name: &'static str, raw: &RawValue) -> Result<String> {
    match raw.get().as_bytes().first() {
        Some(b'"') => text(name, raw),
        Some(b'0'..=b'9') => Ok(raw.get().to_owned()),
        _ => Err(wrong(name, raw, "a string or a number")),
    }
}

/// The longest time that anything takes: 27,000 years, so that sums of them stay far from what overflows.
pub(crate) const DURATION_MAX: Duration = Duration::from_secs(10_000_000 * 86_400);

/// A length of time: text as people write it, or a number of seconds.
pub(crate) fn duration(name: &'static str, raw: &RawValue) -> Result<Duration> {
    const RIGHT: &str = "a number of seconds, or text such as \"500ms\", \"30s\" or \"2h30m\"";
    let duration = match raw.get().as_bytes().first() {
        Some(b'"') => parse_duration(&text(name, raw)?).ok(),
        _ => serde_json::from_str(raw.get())
            .ok()
            .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
    };
    let duration = duration.ok_or_else(|| wrong(name, raw, RIGHT))?;
    if duration > DURATION_MAX {
        let (short, max) = (short(raw.get()), format_duration(DURATION_MAX));
        return Err(Refused::invalid(name, format!("{name} is {short}, over the limit of {max}")));
    }
    Ok(duration)
}

/// A moment: RFC 3339, or Unix time.
pub(crate) fn time(name: &'static str, raw: &RawValue) -> Result<Time> {
    let text = word(name, raw).map_err(|_| wrong(name, raw, TIME))?;
    time_of(name, &text)
}

const TIME: &str =
    "RFC 3339 such as \"2026-12-01T09:00:00+08:00\", or Unix time in 10, 13 or 16 digits";

/// A moment, from text.
pub(crate) fn time_of(name: &'static str, text: &str) -> Result<Time> {
    text.parse()
        .map_err(|_| Refused::invalid(name, format!("{name} is `{}`; give {TIME}", short(text))))
}

/// What a field is, and what would have been right.
pub(crate) fn wrong(name: &'static str, raw: &RawValue, right: &str) -> Refused {
    Refused::invalid(name, format!("{name} is {}; give {right}", short(raw.get())))
}
