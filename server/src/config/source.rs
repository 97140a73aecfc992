//! Where settings come from: each source as a list of keys and values, and all of them as one.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use serde::Deserialize;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use super::loaded::Setting;
use super::value::{Raw, Value, quoted};

/// The built-in `linger.toml`: every setting at its default.
pub const DEFAULTS: &str = include_str!("../../linger.toml");

/// The one section whose settings are not known beforehand: it is a value as a whole.
const SINKS: &str = "sinks";

/// What `linger serve` can be told on the command line.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct ServeFlags {
    /// Read settings from this file [env: LINGER_CONFIG] [default: ./linger.toml if it is there]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Serve HTTP here [env: LINGER_LISTEN] [default: 127.0.0.1:7300]
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<String>,
    /// Serve the beanstalkd protocol here, such as 127.0.0.1:11300 [env: LINGER_BEANSTALKD]
    #[arg(long, value_name = "ADDRESS")]
    pub beanstalkd: Option<String>,
    /// Keep the jobs in this folder, or on redis://HOST:PORT [env: LINGER_STORE] [default: ./linger-data]
    #[arg(long, value_name = "FOLDER|URL")]
    pub store: Option<String>,
    /// Answer when it is synced, or when it is written [env: LINGER_DURABILITY] [default: sync]
    #[arg(long, value_name = "HOW", value_parser = ["sync", "relaxed"])]
    pub durability: Option<String>,
    /// What this instance does [env: LINGER_ROLE] [default: api,timer,worker]
    #[arg(long, value_name = "ROLES")]
    pub role: Option<String>,
    /// What others are shown this instance by [env: LINGER_NAME] [default: the machine's name]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Instances that take load off each other first [env: LINGER_GROUP] [default: default]
    #[arg(long, value_name = "GROUP")]
    pub group: Option<String>,
    /// How large its share of the timers' work is, against that of others [env: LINGER_WEIGHT] [default: 1]
    #[arg(long, value_name = "WEIGHT")]
    pub weight: Option<String>,
    /// Listen beyond this machine without API keys [env: LINGER_INSECURE]
    #[arg(long)]
    pub insecure: bool,
    /// Set any other setting, such as limits.body=2MiB; `linger config` lists them (repeatable)
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
}

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The built-in file.
    Default,
    /// A line of a file.
    File {
        /// The file, as it was named.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
    /// What all who share the store have, and which write of it.
    Common(u64),
    /// A variable of the environment.
    Env(String),
    /// A flag.
    Flag(&'static str),
}

impl Origin {
    /// The origin within a sentence.
    pub(super) fn place(&self) -> String {
        match self {
            Origin::Default => "the default".into(),
            Origin::Common(_) => "the shared settings".into(),
            Origin::File { path, line } => format!("{} line {line}", path.display()),
            other => other.to_string(),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.pad("default"),
            Origin::File { path, line } => f.pad(&format!("{}:{line}", path.display())),
            Origin::Common(version) => f.pad(&format!("shared settings {version}")),
            Origin::Env(name) => f.pad(name),
            Origin::Flag(name) => f.pad(name),
        }
    }
}

/// A value somebody gave for a key, not looked at yet.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) key: String,
    pub(super) raw: Raw,
    pub(super) origin: Origin,
}

/// What a file says. Its name is for messages.
pub(super) fn of_file(path: &Path, text: &str) -> Result<Vec<Found>> {
    flatten(text, |line| Origin::File { path: path.to_owned(), line }).map_err(|wrong| {
        let (path, line) = (path.display(), wrong.line);
        anyhow!("{path} line {line} is not TOML: {}", wrong.message)
    })
}

/// What the environment says: variables named after a setting. An empty one counts as not set.
pub(super) fn of_env(env: &[(String, String)]) -> Result<Vec<Found>> {
    let names: BTreeMap<String, String> =
        known().map(|key| (variable(key), key.to_owned())).collect();
    let mut found = Vec::new();
    for (name, value) in env {
        if !name.starts_with(PREFIX) || value.is_empty() || is_no_setting(name, value) {
            continue;
        }
        let Some(key) = names.get(name) else {
            let hint = hint(name, names.keys().map(String::as_str));
            bail!("unknown setting `{name}` in the environment; {hint}");
        };
        let origin = Origin::Env(name.clone());
        found.push(Found { key: key.clone(), raw: Raw::String(value.clone()), origin });
    }
    Ok(found)
}

/// What the flags say, those with a name of their own over `--set`.
pub(super) fn of_flags(flags: &ServeFlags) -> Result<Vec<Found>> {
    let mut found = Vec::new();
    let mut push = |key: &str, value: &str, flag| {
        let raw = Raw::String(value.to_owned());
        found.push(Found { key: key.to_owned(), raw, origin: Origin::Flag(flag) });
    };
    for set in &flags.set {
        let (key, value) = set.split_once('=').with_context(|| {
            let set = quoted(&Raw::String(set.clone()));
            format!("{set} in --set has no `=`; write --set limits.body=2MiB")
        })?;
        push(key.trim(), value.trim(), "--set");
    }
    for (key, value, flag) in [
        ("listen", &flags.listen, "--listen"),
        ("beanstalkd", &flags.beanstalkd, "--beanstalkd"),
        ("store", &flags.store, "--store"),
        ("durability", &flags.durability, "--durability"),
        ("role", &flags.role, "--role"),
        ("name", &flags.name, "--name"),
        ("group", &flags.group, "--group"),
        ("weight", &flags.weight, "--weight"),
    ] {
        if let Some(value) = value {
            push(key, value, flag);
        }
    }
    if flags.insecure {
        push("insecure", "true", "--insecure");
    }
    Ok(found)
}

const PREFIX: &str = "LINGER_";

/// The variable that names a file of settings.
pub(super) const CONFIG_VARIABLE: &str = "LINGER_CONFIG";

fn variable(key: &str) -> String {
    format!("{PREFIX}{}", key.replace('.', "_").to_uppercase())
}

/// Whether a variable begins like ours and is still none of the server's settings.
fn is_no_setting(name: &str, value: &str) -> bool {
    let for_others = [CONFIG_VARIABLE, "LINGER_SERVER", "LINGER_KEY", "LINGER_SEED"];
    let for_calls = ["LINGER_CA", "LINGER_CLIENT_CERT", "LINGER_CLIENT_KEY"];
    for_others.contains(&name)
        || for_calls.contains(&name)
        || name.starts_with("LINGER_TEST_")
        || is_kubernetes(name, value)
}

/// A service called `linger`, or `linger-…`, gives every pod near it LINGER_SERVICE_HOST,
/// LINGER_PORT=tcp://…, LINGER_PORT_7300_TCP_ADDR and the like.
fn is_kubernetes(name: &str, value: &str) -> bool {
    name.ends_with("_SERVICE_HOST")
        || name.contains("_SERVICE_PORT")
        || name.ends_with("_PORT") && value.contains("://")
        || name.contains("_PORT_") && ["_TCP", "_UDP"].iter().any(|part| name.contains(part))
}

/// The values of all sources, to be taken out one by one as what they should be.
pub(super) struct Values {
    found: BTreeMap<String, Found>,
    /// What was taken out, in order.
    taken: Vec<Setting>,
}

impl Values {
    /// The built-in file alone.
    pub(super) fn defaults() -> Values {
        let found = flatten(DEFAULTS, |_| Origin::Default)
            .unwrap_or_else(|wrong| panic!("linger.toml line {}: {}", wrong.line, wrong.message));
        let found = found.into_iter().map(|found| (found.key.clone(), found)).collect();
        Values { found, taken: Vec::new() }
    }

    /// Puts values over those that are there. Only what the built-in file has is known.
    pub(super) fn put(&mut self, source: Vec<Found>) -> Result<()> {
        for found in source {
            if self.found.contains_key(&found.key) {
                self.found.insert(found.key.clone(), found);
            } else if !(self.is_section(&found.key) && is_empty_table(&found.raw)) {
                // A section with nothing in it says nothing; all else should have been known.
                return Err(self.unknown(&found));
            }
        }
        Ok(())
    }

    /// The value of `key`.
    pub(super) fn take<T: Value>(&mut self, key: &'static str) -> Result<T> {
        self.take_if(key, |_| Ok(()))
    }

    /// The value of `key`, refused if it is not within `range`.
    pub(super) fn take_in<T>(&mut self, key: &'static str, range: RangeInclusive<T>) -> Result<T>
    where
        T: Value + PartialOrd,
    {
        self.take_if(key, |value| {
            if range.contains(value) {
                return Ok(());
            }
            let [value, min, max] = [value, range.start(), range.end()].map(|v| quoted(&v.show()));
            Err(format!("{value} is out of range; give {min} to {max}"))
        })
    }

    fn take_if<T: Value>(
        &mut self,
        key: &'static str,
        check: impl FnOnce(&T) -> Result<(), String>,
    ) -> Result<T> {
        let found = self.found.remove(key);
        let Found { raw, origin, .. } =
            found.unwrap_or_else(|| panic!("every setting stands in linger.toml, and `{key}` not"));
        let value = T::read(&raw)
            .and_then(|value| check(&value).map(|()| value))
            .map_err(|why| anyhow!("wrong setting `{key}` ({}): {why}", origin.place()))?;
        self.taken.push(Setting::new(key, &value, origin));
        Ok(value)
    }

    /// Holds the built-in file to what is read of it.
    pub(super) fn assert_all_taken(&self) {
        let left: Vec<&String> = self.found.keys().collect();
        assert!(left.is_empty(), "every setting in linger.toml is read, and {left:?} not");
    }

    /// Where a value that was taken out came from.
    pub(super) fn origin(&self, key: &str) -> &Origin {
        let taken = self.taken.iter().find(|setting| setting.key == key);
        &taken.expect("it was taken").origin
    }

    /// What was taken out, in order.
    pub(super) fn into_taken(self) -> Vec<Setting> {
        self.taken
    }

    fn is_section(&self, key: &str) -> bool {
        self.found.keys().any(|known| known.split_once('.').is_some_and(|(first, _)| first == key))
    }

    fn unknown(&self, found: &Found) -> anyhow::Error {
        let Found { key, origin, .. } = found;
        let place = origin.place();
        if self.is_section(key) {
            return anyhow!(
                "`{key}` in {place} is a section; write [{key}] and its settings below"
            );
        }
        let hint = hint(key, self.found.keys().map(String::as_str));
        let key = quoted(&Raw::String(key.clone()));
        anyhow!("unknown setting {key} in {place}; {hint}")
    }
}

/// The keys there are.
fn known() -> impl Iterator<Item = &'static str> {
    static KNOWN: std::sync::LazyLock<Vec<String>> =
        std::sync::LazyLock::new(|| Values::defaults().found.into_keys().collect());
    KNOWN.iter().map(String::as_str)
}

/// Whether there is such a setting.
pub(super) fn is_known(key: &str) -> bool {
    known().any(|known| known == key)
}

fn is_empty_table(raw: &Raw) -> bool {
    raw.as_table().is_some_and(|table| table.is_empty())
}

/// Text that is not TOML.
struct NotToml {
    line: usize,
    message: String,
}

/// The settings in a text, in its order. A table at the top is a section, one below it a value.
fn flatten(text: &str, origin: impl Fn(usize) -> Origin) -> Result<Vec<Found>, NotToml> {
    let line_at = |offset: usize| text[..offset].matches('\n').count() + 1;
    let wrong = |cause: toml::de::Error| NotToml {
        line: cause.span().map_or(1, |span| line_at(span.start)),
        message: cause.message().to_owned(),
    };
    let mut leaves = Vec::new();
    for (name, value) in DeTable::parse(text).map_err(wrong)?.into_inner() {
        let (at, name) = (name.span().start, name.into_inner());
        match value.get_ref() {
            // What is in it is named by whoever writes it.
            DeValue::Table(section) if !section.is_empty() && name != SINKS => {
                for (key, value) in section.clone() {
                    leaves.push((key.span().start, format!("{name}.{}", key.get_ref()), value));
                }
            }
            _ => leaves.push((at, name.into_owned(), value)),
        }
    }
    leaves.sort_by_key(|(at, ..)| *at);
    let found = leaves.into_iter().map(|(at, key, value)| {
        let raw = Raw::deserialize(ValueDeserializer::from(value)).map_err(wrong)?;
        Ok(Found { key, raw, origin: origin(line_at(at)) })
    });
    found.collect()
}

/// What somebody may have meant.
fn hint<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    let likeness = |key: &str| {
        // `body` for `limits.body` is a slip too, if a lesser one than `limit.body`.
        let bare = key.rsplit('.').next().unwrap_or(key);
        strsim::jaro_winkler(name, key).max(0.95 * strsim::jaro_winkler(name, bare))
    };
    let nearest = known.map(|key| (likeness(key), key)).max_by(|a, b| a.0.total_cmp(&b.0));
    match nearest {
        Some((likeness, key)) if likeness > 0.8 => format!("did you mean `{key}`?"),
        _ => "`linger config` lists all there are".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_has_a_variable_of_its_own() {
        let variables: std::collections::BTreeSet<String> = known().map(variable).collect();
        assert_eq!(variables.len(), known().count());
        assert!(variables.contains("LINGER_LIMITS_BATCH_JOBS"));
        for name in &variables {
            assert!(!is_no_setting(name, "tcp://"), "`{name}` is passed over");
        }
    }

    #[test]
    fn a_slip_is_recognised_and_a_stranger_is_not() {
        for (name, expected) in [
            ("lisen", Some("listen")),
            ("limit.body", Some("limits.body")),
            ("limits.bdoy", Some("limits.body")),
            ("body", Some("limits.body")),
            ("ttr", Some("defaults.ttr")),
            ("log.levle", Some("log.level")),
            ("zebra", None),
            ("", None),
        ] {
            let expected = match expected {
                Some(key) => format!("did you mean `{key}`?"),
                None => "`linger config` lists all there are".into(),
            };
            assert_eq!(hint(name, known()), expected, "{name}");
        }
    }

    #[test]
    fn a_file_is_read_with_its_lines_and_in_its_order() {
        let text = "\n# é\nlisten = 'x'\n\n[log]\nlevel = 'a'\nformat = 'b'\n[defaults.retry]\nattempts = 1\n";
        let found = of_file(Path::new("a.toml"), text).unwrap();
        let found: Vec<String> =
            found.iter().map(|found| format!("{} {}", found.key, found.origin)).collect();
        let expected = [
            "listen a.toml:3",
            "log.level a.toml:6",
            "log.format a.toml:7",
            "defaults.retry a.toml:8",
        ];
        assert_eq!(found, expected);
    }
}
