//! Where traces are sent.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use axum::http::{HeaderName, HeaderValue};
use url::Url;

use super::value::{Raw, Value, quoted};

/// Where traces go, and which.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traces {
    /// Who takes them. None: they are off.
    pub endpoint: Option<Endpoint>,
    /// What is sent along with each call.
    pub headers: SentHeaders,
    /// How many of the jobs that bring no trace get one.
    pub ratio: Ratio,
}

/// Who takes traces by OTLP over HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint(Url);

impl Endpoint {
    /// The URL that is called.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl FromStr for Endpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Endpoint, String> {
        let right = "write the URL of a receiver of OTLP over HTTP, such as http://localhost:4318";
        // Never quoted: somebody may have put a password into it.
        let mut url =
            Url::parse(text).map_err(|cause| format!("it is no URL: {cause}; {right}"))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(format!("it is no http or https URL; {right}"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("it has a user name or password; give `traces.headers` instead".to_owned());
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(format!("it has a `?` or `#` in it; {right}"));
        }
        // As other programs take it from OTEL_EXPORTER_OTLP_ENDPOINT.
        if matches!(url.path(), "" | "/") {
            url.set_path("/v1/traces");
        }
        Ok(Endpoint(url))
    }
}

/// Empty is none.
impl Value for Option<Endpoint> {
    fn read(raw: &Raw) -> Result<Option<Endpoint>, String> {
        match raw.as_str() {
            Some("") => Ok(None),
            Some(text) => text.parse().map(Some),
            None => Err("it is no URL; write one such as http://localhost:4318".to_owned()),
        }
    }

    fn show(&self) -> Raw {
        Raw::from(self.as_ref().map(Endpoint::as_str).unwrap_or_default())
    }
}

/// Headers by name. Their values are shown to nobody: mostly they are a key.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct SentHeaders(BTreeMap<String, String>);

impl SentHeaders {
    /// Each with its value.
    pub fn iter(&self) -> impl Iterator<Item = (String, String)> {
        self.0.iter().map(|(name, value)| (name.clone(), value.clone()))
    }

    fn joined(&self, shown: impl Fn(&str) -> String) -> String {
        let each = self.0.iter().map(|(name, value)| format!("{name}={}", shown(value)));
        each.collect::<Vec<_>>().join(",")
    }
}

impl Value for SentHeaders {
    fn read(raw: &Raw) -> Result<SentHeaders, String> {
        let right = "write name=value, with commas between several";
        let text = raw.as_str().ok_or_else(|| format!("they are no text; {right}"))?;
        let given = text.split(',').map(str::trim).filter(|one| !one.is_empty());
        let headers = given.enumerate().map(|(at, one)| {
            let wrong = |why: &str| format!("header {} {why}; {right}", at + 1);
            let (name, value) = one.split_once('=').ok_or_else(|| wrong("has no `=`"))?;
            let (name, value) = (name.trim().to_ascii_lowercase(), value.trim());
            HeaderName::from_str(&name).map_err(|_| wrong("has a wrong name"))?;
            HeaderValue::from_str(value).map_err(|_| wrong("has a wrong value"))?;
            Ok((name, value.to_owned()))
        });
        headers.collect::<Result<_, _>>().map(SentHeaders)
    }

    fn show(&self) -> Raw {
        Raw::String(self.joined(str::to_owned))
    }

    fn show_to_people(&self) -> Raw {
        Raw::String(self.joined(|_| "***".to_owned()))
    }
}

impl FromStr for SentHeaders {
    type Err = String;

    fn from_str(text: &str) -> Result<SentHeaders, String> {
        SentHeaders::read(&Raw::from(text))
    }
}

impl fmt::Debug for SentHeaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.joined(|_| "***".to_owned()))
    }
}

/// How many of all, from 0 to 1, in millionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ratio(u32);

const MILLION: f64 = 1e6;

impl Ratio {
    /// All of them.
    pub const ALL: Ratio = Ratio(MILLION as u32);

    /// From 0 to 1.
    pub fn as_f64(self) -> f64 {
        f64::from(self.0) / MILLION
    }

    /// Whether there are any.
    pub fn is_any(self) -> bool {
        self.0 > 0
    }
}

impl Value for Ratio {
    fn read(raw: &Raw) -> Result<Ratio, String> {
        let number = match raw {
            Raw::String(text) => text.parse().ok(),
            Raw::Float(number) => Some(*number),
            Raw::Integer(number) => Some(*number as f64),
            _ => None,
        };
        let within = number.filter(|number| (0.0..=1.0).contains(number));
        let within = within.ok_or_else(|| format!("{} is not from 0 to 1", quoted(raw)))?;
        Ok(Ratio((within * MILLION).round() as u32))
    }

    fn show(&self) -> Raw {
        Raw::Float(self.as_f64())
    }
}

impl FromStr for Ratio {
    type Err = String;

    fn from_str(text: &str) -> Result<Ratio, String> {
        Ratio::read(&Raw::from(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_has_the_usual_path_and_no_password() {
        let read = |text: &str| Option::<Endpoint>::read(&Raw::from(text));
        assert_eq!(read(""), Ok(None));
        let shown = |text| read(text).unwrap().unwrap().as_str().to_owned();
        assert_eq!(shown("http://localhost:4318"), "http://localhost:4318/v1/traces");
        assert_eq!(shown("https://x.example/otlp/t"), "https://x.example/otlp/t");
        let given = read("http://localhost:4318").unwrap();
        assert_eq!(read(given.show().as_str().unwrap()).unwrap(), given);
        for (bad, why) in [
            ("localhost:4318", "such as http://localhost:4318"),
            ("geheim", "such as http://localhost:4318"),
            ("grpc://u:geheim@x", "is no http or https URL"),
            ("http://x/?geheim", "has a `?`"),
            ("http://u:geheim@x", "give `traces.headers` instead"),
        ] {
            let refused = read(bad).unwrap_err();
            assert!(refused.contains(why) && !refused.contains("geheim"), "{refused}");
        }
    }

    #[test]
    fn headers_are_a_list_and_their_values_are_never_shown() {
        let read = |text: &str| SentHeaders::read(&Raw::from(text));
        assert_eq!(read("").unwrap(), SentHeaders::default());
        let two = read("X-Key = geheim=1, b=2").unwrap();
        let all: Vec<_> = two.iter().collect();
        assert_eq!(all, [("b".into(), "2".into()), ("x-key".into(), "geheim=1".into())]);
        assert_eq!(SentHeaders::read(&two.show()).unwrap(), two);
        for shown in [two.show_to_people().to_string(), format!("{two:?}")] {
            assert!(shown.contains("x-key=***") && !shown.contains("geheim"), "{shown}");
        }
        for (bad, why) in
            [("geheim", "header 1 has no"), ("a=1,b c=geheim", "header 2 has a wrong name")]
        {
            let refused = read(bad).unwrap_err();
            assert!(refused.contains(why) && !refused.contains("geheim"), "{refused}");
        }
    }

    #[test]
    fn a_ratio_is_from_0_to_1() {
        for (raw, right) in [(Raw::from("0.25"), 0.25), (Raw::from(1), 1.0), (Raw::from(0.0), 0.0)]
        {
            let ratio = Ratio::read(&raw).unwrap();
            assert_eq!((ratio.as_f64(), ratio.is_any()), (right, right > 0.0));
            assert_eq!(Ratio::read(&ratio.show()), Ok(ratio));
        }
        for bad in [Raw::from("1.5"), Raw::from(-1), Raw::from("all"), Raw::from(f64::NAN)] {
            assert!(Ratio::read(&bad).unwrap_err().contains("is not from 0 to 1"));
        }
    }
}
