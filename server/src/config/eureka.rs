//! Where Eureka is, and as what it is told of us.

use std::fmt;
use std::str::FromStr;

use url::Url;

use super::sinks::masked_url;
use super::value::{Raw, Value, list, quoted};

/// Servers of Eureka that tell each other what they know. They are shown without their passwords.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct EurekaServers(Vec<Url>);

impl EurekaServers {
    /// In the order in which they are asked.
    pub fn urls(&self) -> &[Url] {
        &self.0
    }

    fn joined(&self, shown: impl Fn(&str) -> String) -> String {
        let shown: Vec<String> = self.0.iter().map(|url| shown(url.as_str())).collect();
        shown.join(",")
    }
}

impl Value for EurekaServers {
    fn read(raw: &Raw) -> Result<EurekaServers, String> {
        let right = "write http://host:8761/eureka, or several with commas between them";
        // Never quoted: whatever it is, there may be a password in it.
        let texts = list(raw).ok_or_else(|| format!("it is no list of servers; {right}"))?;
        let urls = texts.iter().enumerate().map(|(at, text)| {
            let wrong = |why: &str| format!("server {} {why}; {right}", at + 1);
            let url = Url::parse(text).map_err(|cause| wrong(&format!("is no URL: {cause}")))?;
            if !matches!(url.scheme(), "http" | "https") {
                return Err(wrong("is no http or https URL"));
            }
            if url.query().is_some() || url.fragment().is_some() {
                return Err(wrong("has a `?` or `#` in it"));
            }
            Ok(url)
        });
        urls.collect::<Result<_, _>>().map(EurekaServers)
    }

    fn show(&self) -> Raw {
        Raw::String(self.joined(str::to_owned))
    }

    fn show_to_people(&self) -> Raw {
        Raw::String(self.joined(masked_url))
    }
}

impl FromStr for EurekaServers {
    type Err = String;

    fn from_str(text: &str) -> Result<EurekaServers, String> {
        EurekaServers::read(&Raw::from(text))
    }
}

impl fmt::Debug for EurekaServers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.joined(masked_url))
    }
}

/// The name of an application in Eureka.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EurekaApp(String);

const APP_BYTES_MAX: usize = 128;

impl EurekaApp {
    /// The name as it was given; Eureka writes it in capitals.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for EurekaApp {
    type Err = String;

    fn from_str(text: &str) -> Result<EurekaApp, String> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        if (1..=APP_BYTES_MAX).contains(&text.len()) && text.bytes().all(plain) {
            return Ok(EurekaApp(text.to_owned()));
        }
        Err(format!(
            "{} is no name of an application; give 1 to {APP_BYTES_MAX} letters, digits, `-`, `.` \
             or `_`, such as linger",
            quoted(&Raw::from(text))
        ))
    }
}

/// Empty is none.
impl Value for Option<EurekaApp> {
    fn read(raw: &Raw) -> Result<Option<EurekaApp>, String> {
        match raw.as_str() {
            Some("") => Ok(None),
            Some(text) => text.parse().map(Some),
            None => Err(format!("{} is no name of an application", quoted(raw))),
        }
    }

    fn show(&self) -> Raw {
        Raw::from(self.as_ref().map(EurekaApp::as_str).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<EurekaServers, String> {
        EurekaServers::read(&Raw::from(text))
    }

    #[test]
    fn servers_stand_in_a_list_and_passwords_are_never_shown() {
        assert_eq!(read("").unwrap(), EurekaServers::default());
        let two = read("http://u:geheim@a:8761/eureka/, https://b/eureka/v2").unwrap();
        let hosts: Vec<_> = two.urls().iter().map(|url| url.host_str().unwrap()).collect();
        assert_eq!(hosts, ["a", "b"]);
        assert_eq!(EurekaServers::read(&two.show()).unwrap(), two);
        for shown in [two.show_to_people().to_string(), format!("{two:?}")] {
            assert!(shown.contains("u:***@a:8761/eureka") && !shown.contains("geheim"), "{shown}");
        }
        for (bad, why) in [
            ("u:geheim@host:8761", "server 1 is no http or https URL"),
            ("geheim", "server 1 is no URL"),
            ("http://a,ftp://u:geheim@b", "server 2 is no http or https URL"),
            ("http://u:geheim@a/eureka?x=1", "server 1 has a `?`"),
            ("http://", "server 1 is no URL: empty host"),
        ] {
            let refused = read(bad).unwrap_err();
            assert!(refused.contains(why) && !refused.contains("geheim"), "{bad}: {refused}");
            assert!(refused.contains("write http://host:8761/eureka"), "{refused}");
        }
    }

    #[test]
    fn an_application_has_a_plain_name_or_none() {
        let read = |text: &str| Option::<EurekaApp>::read(&Raw::from(text));
        assert_eq!(read(""), Ok(None));
        assert_eq!(read("linger-1.a_b").unwrap().unwrap().as_str(), "linger-1.a_b");
        for bad in ["a b", "a/b", "é", &"a".repeat(129)] {
            assert!(read(bad).unwrap_err().contains("is no name of an application"), "{bad}");
        }
    }
}
