//! The key by which a new server is reached.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use super::value::{Raw, SECRET, Value};

/// An API key that somebody chose. It is not shown.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(String);

/// Fewer could be guessed.
const LEN: RangeInclusive<usize> = 16..=200;

impl ApiKey {
    /// The key itself.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl FromStr for ApiKey {
    type Err = String;

    /// Whatever is wrong with it, it is not repeated.
    fn from_str(text: &str) -> Result<ApiKey, String> {
        if !LEN.contains(&text.len()) || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            let (least, most) = (LEN.start(), LEN.end());
            return Err(format!(
                "it is no key of {least} to {most} ASCII letters, digits and signs; \
                 make one by `openssl rand -hex 32`"
            ));
        }
        Ok(ApiKey(text.to_owned()))
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(SECRET)
    }
}

/// Empty is none. People see only whether there is one.
impl Value for Option<ApiKey> {
    fn read(raw: &Raw) -> Result<Option<ApiKey>, String> {
        match raw.as_str() {
            Some("") => Ok(None),
            Some(text) => text.parse().map(Some),
            None => Err("it is no key; give text".into()),
        }
    }

    fn show(&self) -> Raw {
        Raw::from(self.as_ref().map_or("", ApiKey::reveal))
    }

    fn show_to_people(&self) -> Raw {
        Raw::from(if self.is_some() { SECRET } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_long_enough_and_is_never_shown() {
        let key = Option::<ApiKey>::read(&Raw::from("0123456789abcdef")).unwrap();
        assert_eq!(key.as_ref().unwrap().reveal(), "0123456789abcdef");
        assert!(!format!("{key:?} {}", key.show_to_people()).contains("0123"));
        assert_eq!(Option::<ApiKey>::read(&Raw::from("")), Ok(None));
        for wrong in ["0123456789abcde", "0123456789 abcdef", "0123456789abcdefé", "secret"] {
            let why = Option::<ApiKey>::read(&Raw::from(wrong)).unwrap_err();
            assert!(!why.contains(wrong), "{why}");
        }
    }
}
