//! What a setting's value may be, read from any source and written as `linger.toml` has it.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use linger::job::Ttr;
use linger::queue::UniqueIds;
use linger::store::embedded::Durability;
use linger::time::{format_duration, parse_duration};
use linger::topic::Rate;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::EnvFilter;

use crate::secrets::SigningKey;

/// A value not looked at yet. What comes from the environment and from flags is a string.
pub(super) type Raw = toml::Value;

/// What a setting can be.
pub(super) trait Value: Sized {
    /// Reads it, or says what is given and what would be right.
    fn read(raw: &Raw) -> Result<Self, String>;

    /// Writes it so that [`Value::read`] reads the same.
    fn show(&self) -> Raw;

    /// Writes it for people to see: the same, unless it is a secret.
    fn show_to_people(&self) -> Raw {
        self.show()
    }
}

/// What somebody wrote, short enough to put into a message, and harmless in a log.
pub(super) fn quoted(raw: &Raw) -> String {
    let text = match raw {
        Raw::String(text) => text.clone(),
        other => other.to_string(),
    };
    let plain = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    format!("`{}`", text.chars().take(60).map(plain).collect::<String>())
}

/// A size in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Size(pub(super) usize);

const SIZE_UNITS: [(&str, usize); 4] =
    [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

impl Value for Size {
    fn read(raw: &Raw) -> Result<Size, String> {
        let wrong =
            || format!("{} is not a size; write it as 512, 64KiB, 1MiB or 1GiB", quoted(raw));
        let text = match raw {
            Raw::String(text) => text.clone(),
            other => other.to_string(),
        };
        let unit = SIZE_UNITS.iter().find(|(unit, _)| text.ends_with(unit));
        let (unit, scale) = unit.copied().unwrap_or(("", 1));
        let number = whole(&text[..text.len() - unit.len()]).ok_or_else(wrong)?;
        number.checked_mul(scale).map(Size).ok_or_else(wrong)
    }

    fn show(&self) -> Raw {
        let fits = |(_, scale): &&(&str, usize)| self.0.is_multiple_of(*scale) && self.0 > 0;
        match SIZE_UNITS.iter().find(fits) {
            Some((unit, scale)) if *scale > 1 => Raw::String(format!("{}{unit}", self.0 / scale)),
            _ => Raw::Integer(self.0 as i64),
        }
    }
}

/// Digits and nothing else: `parse` alone would take `+5` too.
fn whole(text: &str) -> Option<usize> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

impl Value for usize {
    fn read(raw: &Raw) -> Result<usize, String> {
        let number = match raw {
            Raw::String(text) => whole(text),
            Raw::Integer(number) => usize::try_from(*number).ok(),
            _ => None,
        };
        number.ok_or_else(|| format!("{} is not a whole number", quoted(raw)))
    }

    fn show(&self) -> Raw {
        Raw::Integer(*self as i64)
    }
}

impl Value for bool {
    fn read(raw: &Raw) -> Result<bool, String> {
        match (raw, raw.as_str()) {
            (Raw::Boolean(value), _) => Ok(*value),
            (_, Some("true" | "1")) => Ok(true),
            (_, Some("false" | "0")) => Ok(false),
            _ => Err(format!("{} is neither true nor false", quoted(raw))),
        }
    }

    fn show(&self) -> Raw {
        Raw::Boolean(*self)
    }
}

impl Value for Duration {
    fn read(raw: &Raw) -> Result<Duration, String> {
        let text = match raw {
            Raw::String(text) => text.clone(),
            other => other.to_string(),
        };
        parse_duration(&text).map_err(|cause| cause.message().to_owned())
    }

    fn show(&self) -> Raw {
        Raw::String(format_duration(*self))
    }
}

/// No time at all is none.
impl Value for Option<Duration> {
    fn read(raw: &Raw) -> Result<Option<Duration>, String> {
        Duration::read(raw).map(|length| (!length.is_zero()).then_some(length))
    }

    fn show(&self) -> Raw {
        self.unwrap_or_default().show()
    }
}

impl Value for Ttr {
    fn read(raw: &Raw) -> Result<Ttr, String> {
        Ttr::new(Duration::read(raw)?).map_err(|cause| cause.message().to_owned())
    }

    fn show(&self) -> Raw {
        self.as_duration().show()
    }
}

impl Value for SocketAddr {
    fn read(raw: &Raw) -> Result<SocketAddr, String> {
        raw.as_str().and_then(|text| text.parse().ok()).ok_or_else(|| {
            let raw = quoted(raw);
            format!("{raw} is not an IP address and a port, such as 127.0.0.1:7300 or [::1]:7300")
        })
    }

    fn show(&self) -> Raw {
        Raw::String(self.to_string())
    }
}

/// Empty is none.
impl Value for Option<SocketAddr> {
    fn read(raw: &Raw) -> Result<Option<SocketAddr>, String> {
        match raw.as_str() {
            Some("") => Ok(None),
            _ => SocketAddr::read(raw).map(Some),
        }
    }

    fn show(&self) -> Raw {
        Raw::String(self.map(|address| address.to_string()).unwrap_or_default())
    }
}

/// A folder.
impl Value for PathBuf {
    fn read(raw: &Raw) -> Result<PathBuf, String> {
        let given = quoted(raw);
        match raw.as_str() {
            None | Some("") => Err(format!("{given} is not a folder, such as ./linger-data")),
            Some(text) if text.contains("://") => Err(format!("{given} is not a folder")),
            Some(text) => Ok(text.into()),
        }
    }

    fn show(&self) -> Raw {
        Raw::String(self.to_string_lossy().into_owned())
    }
}

/// One of a few words.
trait Choice: Copy + PartialEq + 'static {
    const WORDS: &'static [(&'static str, Self)];
}

impl Choice for Durability {
    const WORDS: &'static [(&'static str, Durability)] =
        &[("sync", Durability::Sync), ("relaxed", Durability::Relaxed)];
}

impl Choice for UniqueIds {
    const WORDS: &'static [(&'static str, UniqueIds)] =
        &[("topic", UniqueIds::PerTopic), ("global", UniqueIds::Global)];
}

/// Where webhooks may lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Networks {
    /// Anywhere but to what is never called.
    Any,
    /// To the public internet, and what is allowed besides.
    Public,
}

impl Choice for Networks {
    const WORDS: &'static [(&'static str, Networks)] =
        &[("any", Networks::Any), ("public", Networks::Public)];
}

/// How a line of the log looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Human,
    /// For programs.
    Json,
}

impl Choice for LogFormat {
    const WORDS: &'static [(&'static str, LogFormat)] =
        &[("human", LogFormat::Human), ("json", LogFormat::Json)];
}

impl<T: Choice> Value for T {
    fn read(raw: &Raw) -> Result<T, String> {
        let chosen = T::WORDS.iter().find(|(word, _)| raw.as_str() == Some(word));
        chosen.map(|(_, value)| *value).ok_or_else(|| {
            let words: Vec<&str> = T::WORDS.iter().map(|(word, _)| *word).collect();
            format!("{} is not known; give {}", quoted(raw), words.join(" or "))
        })
    }

    fn show(&self) -> Raw {
        let word = T::WORDS.iter().find(|(_, value)| value == self);
        Raw::from(word.expect("every value has a word").0)
    }
}

/// What an instance does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Roles {
    /// It answers calls.
    pub api: bool,
    /// It makes jobs ready when they are due.
    pub timer: bool,
    /// It pushes jobs to their targets.
    pub worker: bool,
}

impl Value for Roles {
    fn read(raw: &Raw) -> Result<Roles, String> {
        let right = "give some of api, timer, worker";
        let mut roles = Roles { api: false, timer: false, worker: false };
        let words = list(raw).ok_or_else(|| format!("{} is no list; {right}", quoted(raw)))?;
        if words.is_empty() {
            return Err(format!("{} is no role; {right}", quoted(raw)));
        }
        for word in words {
            match word.as_str() {
                "api" => roles.api = true,
                "timer" => roles.timer = true,
                "worker" => roles.worker = true,
                _ => return Err(format!("{} is no role; {right}", quoted(&Raw::String(word)))),
            }
        }
        Ok(roles)
    }

    fn show(&self) -> Raw {
        Raw::String(self.words().join(","))
    }
}

impl Roles {
    /// Their names.
    pub fn words(self) -> Vec<&'static str> {
        let roles = [(self.api, "api"), (self.timer, "timer"), (self.worker, "worker")];
        roles.into_iter().filter(|(on, _)| *on).map(|(_, word)| word).collect()
    }
}

/// Strings in a list, or in one string with commas between them.
pub(super) fn list(raw: &Raw) -> Option<Vec<String>> {
    match raw {
        Raw::String(text) => {
            let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
            Some(items.map(str::to_owned).collect())
        }
        Raw::Array(items) => items.iter().map(|item| item.as_str().map(str::to_owned)).collect(),
        _ => None,
    }
}

/// Keys in a list, or in one string with blanks between them: all of them sign. People see only
/// whether there are any.
impl Value for Vec<SigningKey> {
    fn read(raw: &Raw) -> Result<Vec<SigningKey>, String> {
        let texts = match raw {
            Raw::String(text) => text.split_whitespace().map(str::to_owned).collect(),
            other => list(other).ok_or("it is no signing key; give whsec_… or whsk_…")?,
        };
        let keys: linger::error::Result<_> = texts.iter().map(|text| text.parse()).collect();
        keys.map_err(|cause| cause.message().to_owned())
    }

    fn show(&self) -> Raw {
        let texts: Vec<String> = self.iter().map(SigningKey::reveal).collect();
        Raw::String(texts.join(" "))
    }

    fn show_to_people(&self) -> Raw {
        Raw::from(if self.is_empty() { "" } else { SECRET })
    }
}

/// What stands for a secret.
pub(super) const SECRET: &str = "(set)";

/// Empty is none.
impl Value for Option<Rate> {
    fn read(raw: &Raw) -> Result<Option<Rate>, String> {
        let text = match raw {
            Raw::String(text) => text.clone(),
            other => other.to_string(),
        };
        match text.as_str() {
            "" => Ok(None),
            text => {
                text.parse().map(Some).map_err(|cause: linger::Error| cause.message().to_owned())
            }
        }
    }

    fn show(&self) -> Raw {
        Raw::String(self.map(crate::auth::written).unwrap_or_default())
    }
}

/// A file; empty is none.
impl Value for Option<PathBuf> {
    fn read(raw: &Raw) -> Result<Option<PathBuf>, String> {
        let text = raw.as_str().ok_or_else(|| format!("{} is not a file", quoted(raw)))?;
        Ok((!text.is_empty()).then(|| text.into()))
    }

    fn show(&self) -> Raw {
        let text = self.as_ref().map(|file| file.to_string_lossy().into_owned());
        Raw::String(text.unwrap_or_default())
    }
}

/// A host as `Host` headers name it, without a port: in lower case, an address without brackets;
/// `*` is any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host(String);

impl Host {
    /// The name or address.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// A host's name or address, or what is wrong with it.
    pub fn new(text: &str) -> Result<Host, String> {
        let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
        if let Ok(address) = bare.parse::<IpAddr>() {
            return Ok(Host(address.to_string()));
        }
        if text == "*" {
            return Ok(Host(text.to_owned()));
        }
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        if text.is_empty() || text.len() > HOST_BYTES_MAX || !text.bytes().all(plain) {
            let text = quoted(&Raw::from(text));
            return Err(format!(
                "{text} is not a host; give its name or address alone, without scheme, port or path"
            ));
        }
        Ok(Host(text.to_ascii_lowercase()))
    }
}

/// The longest name that DNS has.
const HOST_BYTES_MAX: usize = 253;

impl Value for Vec<Host> {
    fn read(raw: &Raw) -> Result<Vec<Host>, String> {
        let hosts = list(raw).ok_or_else(|| {
            format!("{} is no list of hosts, such as [\"queue.example.com\"]", quoted(raw))
        })?;
        hosts.iter().map(|host| Host::new(host)).collect()
    }

    fn show(&self) -> Raw {
        Raw::Array(self.iter().map(|host| Raw::from(host.as_str())).collect())
    }
}

/// Which events are logged: a level, or directives such as `info,linger=debug`. At first `info`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Level(String);

impl Level {
    /// The filter for `tracing`.
    pub fn filter(&self) -> EnvFilter {
        // Kafka's client tells at length what fails; we say so ourselves. Who asks for it gets it.
        let filter = format!("rskafka=off,{}", self.0);
        let filter = EnvFilter::try_new(filter).expect("a level is a filter");
        // It writes down every message that RabbitMQ returns, body and all; we say so ourselves.
        filter.add_directive("lapin::returned_messages=off".parse().expect("a directive"))
    }

    /// The directives as they were written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for Level {
    fn default() -> Self {
        Level("info".into())
    }
}

impl Value for Level {
    fn read(raw: &Raw) -> Result<Level, String> {
        let wrong = || {
            let raw = quoted(raw);
            format!(
                "{raw} is not a level; give error, warn, info, debug, trace or off, \
                 or directives such as info,linger=debug"
            )
        };
        let text = raw.as_str().filter(|text| !text.trim().is_empty()).ok_or_else(wrong)?;
        // A filter takes a word it does not know for a module, and logs all of that one: `inof`
        // would be as good as off.
        let mut words = text.split(',').filter(|part| !part.contains(['=', '[']));
        if !words.all(|word| word.trim().parse::<LevelFilter>().is_ok()) {
            return Err(wrong());
        }
        EnvFilter::try_new(text).map_err(|_| wrong())?;
        Ok(Level(text.to_owned()))
    }

    fn show(&self) -> Raw {
        Raw::String(self.0.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads what stands right of a `=`.
    fn read<T: Value>(toml: &str) -> Result<T, String> {
        T::read(&toml.parse().unwrap())
    }

    #[test]
    fn sizes_are_read_as_people_write_them_and_written_back() {
        for (toml, bytes, shown) in [
            ("512", 512, "512"),
            ("'512'", 512, "512"),
            ("'512B'", 512, "512"),
            ("'64KiB'", 64 << 10, "\"64KiB\""),
            ("1048576", 1 << 20, "\"1MiB\""),
            ("'16MiB'", 16 << 20, "\"16MiB\""),
            ("'1GiB'", 1 << 30, "\"1GiB\""),
            ("0", 0, "0"),
        ] {
            let size: Size = read(toml).unwrap();
            assert_eq!((size.0, size.show().to_string().as_str()), (bytes, shown), "{toml}");
        }
        for bad in [
            "''",
            "'MiB'",
            "-1",
            "'1.5MiB'",
            "'1MB'",
            "'1 MiB'",
            "'+1'",
            "true",
            "1.5",
            "'99999999999GiB'",
        ] {
            assert!(read::<Size>(bad).unwrap_err().contains("write it as"), "{bad}");
        }
    }

    #[test]
    fn a_level_is_one_or_says_so() {
        for good in ["info", "off", "WARN", "info,linger=debug", "linger[span]=trace,error"] {
            let level: Level = read(&format!("'{good}'")).unwrap();
            assert_eq!(level.as_str(), good);
            level.filter();
        }
        for bad in ["''", "' '", "'inof'", "'verbose'", "'info,linger'", "'linger=loud'", "3"] {
            assert!(read::<Level>(bad).unwrap_err().contains("not a level"), "{bad}");
        }
    }

    #[test]
    fn a_host_stands_alone() {
        let hosts: Vec<Host> =
            read("['Queue.Example.com', '10.0.0.1', '[FE80::1]', '::1', 'a_b']").unwrap();
        let names: Vec<&str> = hosts.iter().map(Host::as_str).collect();
        assert_eq!(names, ["queue.example.com", "10.0.0.1", "fe80::1", "::1", "a_b"]);
        let listed: Vec<Host> = read("'a.example, b.example,'").unwrap();
        assert_eq!(listed.len(), 2);
        for bad in ["['http://a']", "['a:80']", "['a/b']", "['']", "['a b']", "['*.a']", "['é']"] {
            assert!(read::<Vec<Host>>(bad).unwrap_err().contains("not a host"), "{bad}");
        }
        for bad in ["5", "[5]"] {
            assert!(read::<Vec<Host>>(bad).unwrap_err().contains("no list"), "{bad}");
        }
    }

    #[test]
    fn what_is_quoted_is_short_and_harmless() {
        assert_eq!(quoted(&Raw::from("a\nb\u{1b}[1m")), "`a\u{fffd}b\u{fffd}[1m`");
        assert_eq!(quoted(&Raw::from("é".repeat(100))).chars().count(), 62);
    }
}
