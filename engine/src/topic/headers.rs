//! What every push of a topic brings along in its head.

use std::sync::Arc;

use crate::error::{Error, Result, excerpt};

/// Headers by name, in lower case, each once, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers(Arc<[(Arc<str>, Arc<str>)]>);

/// Names that belong to the protocols, or that Linger sets.
const TAKEN: [&str; 11] = [
    "connection",
    "content-length",
    "content-type",
    "expect",
    "host",
    "keep-alive",
    "te",
    "traceparent",
    "trailer",
    "transfer-encoding",
    "upgrade",
];
const TAKEN_BEGINNINGS: [&str; 5] = ["ce-", "grpc-", "linger-", "proxy-", "webhook-"];

impl Headers {
    /// The most headers a topic may have.
    pub const COUNT_MAX: usize = 32;
    /// The most bytes of names and values together.
    pub const BYTES_MAX: usize = 4096;

    /// These headers; refused where one cannot stand in a request, or is not the topic's to set.
    pub fn new<N: AsRef<str>, V: AsRef<str>>(
        given: impl IntoIterator<Item = (N, V)>,
    ) -> Result<Headers> {
        let mut headers: Vec<(Arc<str>, Arc<str>)> = Vec::new();
        for (name, value) in given {
            let (name, value) = (name.as_ref(), value.as_ref());
            check_name(name)?;
            check_value(name, value)?;
            headers.push((name.to_ascii_lowercase().into(), value.into()));
        }
        headers.sort();
        if let Some(twice) = headers.windows(2).find(|two| two[0].0 == two[1].0) {
            return wrong(format!("header `{}` is given twice", twice[0].0));
        }
        let bytes: usize = headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        if headers.len() > Headers::COUNT_MAX || bytes > Headers::BYTES_MAX {
            let (count, count_max, bytes_max) =
                (headers.len(), Headers::COUNT_MAX, Headers::BYTES_MAX);
            return wrong(format!(
                "headers are {count} with {bytes} bytes, over the limit of {count_max} with {bytes_max}"
            ));
        }
        Ok(Headers(headers.into()))
    }

    /// Each with its value, by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (&**name, &**value))
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn check_name(name: &str) -> Result<()> {
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || !name.bytes().all(token) {
        return wrong(format!(
            "`{}` is not the name of a header; use letters, digits and -",
            excerpt(name)
        ));
    }
    let lower = name.to_ascii_lowercase();
    let begins = |beginning: &&str| lower.starts_with(*beginning);
    if TAKEN.contains(&&*lower) || TAKEN_BEGINNINGS.iter().any(begins) {
        return wrong(format!("header `{lower}` is not for a topic to set; take another name"));
    }
    Ok(())
}

fn check_value(name: &str, value: &str) -> Result<()> {
    // It goes into the head as it is, so that nothing may end the line.
    if value.trim() != value || !value.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
        return wrong(format!(
            "the value of header `{}` has blanks at its ends or is not plain ASCII; percent-encode it",
            excerpt(name)
        ));
    }
    Ok(())
}

fn wrong<T>(why: String) -> Result<T> {
    Err(Error::invalid("headers", why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_checked() {
        let good = Headers::new([("X-Shop", "1 2"), ("authorization", "Bearer abc")]).unwrap();
        let all: Vec<_> = good.iter().collect();
        assert_eq!(all, [("authorization", "Bearer abc"), ("x-shop", "1 2")]);
        for (name, value) in [
            ("", "x"),
            ("a b", "x"),
            ("a:", "x"),
            ("é", "x"),
            ("Host", "x"),
            ("content-length", "1"),
            ("Webhook-Id", "x"),
            ("linger-lease", "x"),
            ("ce-id", "x"),
            ("a", "x\r\nb: c"),
            ("a", " x"),
            ("a", "é"),
        ] {
            let refused = Headers::new([(name, value)]).unwrap_err();
            assert_eq!(refused.at_field(), Some("headers"), "{name:?} {value:?}");
        }
        assert!(Headers::new([("a", "1"), ("A", "2")]).is_err());
        assert!(Headers::new((0..33).map(|n| (format!("a{n}"), "1"))).is_err());
        assert!(Headers::new([("a", "x".repeat(4096))]).is_err());
    }
}
