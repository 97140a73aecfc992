//! Alarms as a setting: what is watched, from when on it is told, and where to.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use linger::job::{Destination, Target};
use linger::time::{DAY, MINUTE, duration_ms, format_duration};
use linger::topic::Topic;
use serde::{Deserialize, Serialize};

use super::place::Place;
use super::value::{Raw, Size, Value, quoted};

/// What is told when it is not well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alarms {
    /// How often it is looked.
    pub every: Duration,
    /// What for.
    pub rules: Vec<Rule>,
}

/// One thing that is watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// What people call it; no other rule has it.
    pub name: String,
    /// What is watched.
    pub kind: Kind,
    /// Of which topics or destinations.
    pub of: Of,
    /// Told when over it, or below it for a disk: a number, milliseconds or bytes.
    pub threshold: u64,
    /// How long it must be so before it is told.
    pub holds: Duration,
    /// How long it must not have been so before its end is told.
    pub quiet: Duration,
    /// Where it is told.
    pub to: Target,
}

/// What is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// How many jobs have died lately.
    Dead,
    /// How long ago the job was due that is next in line.
    Late,
    /// How many jobs are ready.
    Backlog,
    /// How many jobs are ready for workers of whom none is there.
    Worker,
    /// How many destinations are closed after failures.
    Destination,
    /// How many bytes are free on the disk.
    Disk,
    /// Whether no instance makes jobs ready.
    Timer,
}

/// Of what a rule is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Of {
    /// Of all there are, together.
    All,
    /// Of each that fits, by itself.
    Each(Pattern),
}

/// A name, or with a `*` at its end the beginning of names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern(String);

/// The topic of the jobs by which alarms are told. It is not watched.
pub(crate) const TOPIC: &str = "linger.alarms";

const NAME_BYTES_MAX: usize = 100;
/// Each is looked at every few seconds.
const RULES_MAX: usize = 100;
const QUIET_DEFAULT: Duration = MINUTE;
/// Below it the store takes no new jobs, so that nothing could be told: the room that it keeps for
/// itself, and a checkpoint of a few million jobs.
const DISK_MIN: Size = Size(512 << 20);

impl Pattern {
    /// A topic, or the beginning of topics; or what is wrong with it.
    pub(crate) fn of_topics(text: &str) -> Result<Pattern, String> {
        // What is left of a beginning may be no topic yet.
        let name = match text.strip_suffix('*') {
            Some("") => return Ok(Pattern(text.to_owned())),
            Some(beginning) => format!("{beginning}x"),
            None => text.to_owned(),
        };
        if name.contains('*') {
            let text = quoted(&Raw::from(text));
            return Err(format!("{text} has a `*` before its end; there it stands for the rest"));
        }
        let _: Topic = name.parse().map_err(|why: linger::Error| why.message().to_owned())?;
        Ok(Pattern(text.to_owned()))
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The one name that fits, if it is no beginning.
    pub fn one(&self) -> Option<&str> {
        (!self.0.ends_with('*')).then_some(&self.0)
    }

    /// Whether a name fits.
    pub fn fits(&self, name: &str) -> bool {
        match self.0.strip_suffix('*') {
            Some(beginning) => name.starts_with(beginning),
            None => name == self.0,
        }
    }
}

impl Of {
    /// The pattern, if it is not all.
    pub fn pattern(&self) -> Option<&Pattern> {
        match self {
            Of::All => None,
            Of::Each(pattern) => Some(pattern),
        }
    }

    /// Whether something of this name counts.
    pub fn fits(&self, name: &str) -> bool {
        self.pattern().is_none_or(|pattern| pattern.fits(name))
    }
}

impl Kind {
    /// All there are, by their names.
    pub const ALL: [(&str, Kind); 7] = [
        ("dead", Kind::Dead),
        ("late", Kind::Late),
        ("backlog", Kind::Backlog),
        ("worker", Kind::Worker),
        ("destination", Kind::Destination),
        ("disk", Kind::Disk),
        ("timer", Kind::Timer),
    ];

    /// Its name.
    pub fn as_str(self) -> &'static str {
        let named = Kind::ALL.iter().find(|(_, kind)| *kind == self);
        named.expect("every kind has a name").0
    }

    /// Whether it is a matter of topics.
    pub fn is_of_topics(self) -> bool {
        matches!(self, Kind::Dead | Kind::Late | Kind::Backlog | Kind::Worker)
    }

    /// A value or threshold as JSON has it: a number, seconds or bytes.
    pub(crate) fn shown(self, value: u64) -> serde_json::Number {
        let seconds = || serde_json::Number::from_f64(value as f64 / 1000.0);
        match self {
            Kind::Late => seconds().unwrap_or_else(|| value.into()),
            _ => value.into(),
        }
    }

    fn read(text: &str) -> Result<Kind, String> {
        let named = Kind::ALL.iter().find(|(name, _)| *name == text);
        named.map(|(_, kind)| *kind).ok_or_else(|| {
            let words: Vec<&str> = Kind::ALL.iter().map(|(name, _)| *name).collect();
            format!("kind {} is not known; give {}", quoted(&Raw::from(text)), words.join(", "))
        })
    }

    fn threshold(self, given: Option<&Raw>) -> Result<u64, String> {
        let name = self.as_str();
        let missing = |such| format!("threshold is missing; {name} needs one, such as {such}");
        match (self, given) {
            (Kind::Dead, None) => Ok(0),
            (Kind::Dead | Kind::Backlog, Some(raw)) => usize::read(raw).map(|number| number as u64),
            (Kind::Backlog, None) => Err(missing("1000")),
            (Kind::Late, Some(raw)) => Duration::read(raw).map(duration_ms),
            (Kind::Late, None) => Err(missing("\"1m\"")),
            (Kind::Disk, Some(raw)) => match Size::read(raw)? {
                size if size < DISK_MIN => Err(format!(
                    "threshold is {}; give at least {}: with less the store takes no new jobs, \
                     and so could tell nothing",
                    quoted(raw),
                    quoted(&DISK_MIN.show()),
                )),
                size => Ok(size.0 as u64),
            },
            (Kind::Disk, None) => Err(missing("\"10GiB\"")),
            (Kind::Worker | Kind::Destination | Kind::Timer, None) => Ok(0),
            (_, Some(_)) => Err(format!("threshold is not for {name}; leave it out")),
        }
    }
}

impl Alarms {
    /// Refuses rules that cannot do what they say with this store and this haste.
    pub(super) fn check(&self, store: &Place) -> Result<(), String> {
        for rule in &self.rules {
            let refused = |why: String| Err(format!("rule `{}`: {why}", rule.name));
            match (rule.kind, store) {
                (Kind::Disk, Place::Redis(_)) => {
                    return refused("kind disk is for a store in a folder; watch Redis's".into());
                }
                (Kind::Timer, Place::Folder(_)) => {
                    return refused("kind timer is for a store on Redis; a folder has one".into());
                }
                _ => {}
            }
            // So that of several servers one that sees it is heard before another ends it.
            let least = 2 * self.every;
            if rule.quiet < least {
                let [quiet, least] = [rule.quiet, least].map(format_duration);
                return refused(format!(
                    "quiet is {quiet}; give at least {least}, twice `alarms.every`"
                ));
            }
        }
        Ok(())
    }
}

/// A rule as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleShape {
    name: Option<String>,
    kind: Option<String>,
    topic: Option<String>,
    destination: Option<String>,
    threshold: Option<Raw>,
    #[serde(rename = "for")]
    holds: Option<Raw>,
    quiet: Option<Raw>,
    to: Option<String>,
}

impl RuleShape {
    fn read(self) -> Result<Rule, String> {
        let missing = |name: &str, right: &str| format!("{name} is missing; give {right}");
        let name = self.name.as_deref().unwrap_or_default();
        if !(1..=NAME_BYTES_MAX).contains(&name.len()) || name.chars().any(char::is_control) {
            let name = quoted(&Raw::from(name));
            return Err(format!(
                "name is {name}; give 1 to {NAME_BYTES_MAX} bytes without control characters"
            ));
        }
        let kind = self.kind.as_deref().ok_or_else(|| missing("kind", "what is watched"))?;
        let kind = Kind::read(kind)?;
        let of = match (self.topic, self.destination) {
            (Some(topic), None) if kind.is_of_topics() => Of::Each(topic_pattern(topic)?),
            (None, Some(destination)) if kind == Kind::Destination => {
                Of::Each(Pattern(destination))
            }
            (None, None) => Of::All,
            (Some(_), _) if !kind.is_of_topics() => {
                return Err(format!("topic is not for {}; leave it out", kind.as_str()));
            }
            _ => return Err(format!("destination is not for {}; leave it out", kind.as_str())),
        };
        if kind == Kind::Dead && self.holds.is_some() {
            return Err("for is not for dead: it is told when the shelf grows; leave it out".into());
        }
        let length = |name: &str, given: Option<Raw>, usual: Duration| {
            let length = given.as_ref().map_or(Ok(usual), Duration::read)?;
            match length > DAY {
                true => Err(format!("{name} is {}; give a day at most", format_duration(length))),
                false => Ok(length),
            }
        };
        let to = self.to.ok_or_else(|| missing("to", "a target, such as https://ops.example/"))?;
        // Not quoted: what is secret about it may be in its path.
        let to: Target = to.parse().map_err(
            |_| "to is no target; give http(s)://…, grpc://host:port, worker:APP or sink:NAME",
        )?;
        if shown_target(&to).contains('@') {
            return Err("to has a user name or password; leave it out, and sign instead".into());
        }
        Ok(Rule {
            name: name.into(),
            kind,
            of,
            threshold: kind.threshold(self.threshold.as_ref())?,
            holds: length("for", self.holds, Duration::ZERO)?,
            quiet: length("quiet", self.quiet, QUIET_DEFAULT)?,
            to,
        })
    }
}

fn topic_pattern(text: String) -> Result<Pattern, String> {
    if text == TOPIC {
        return Err(format!("topic `{TOPIC}` is what alarms are told by, and is not watched"));
    }
    // What is left of a beginning may be no topic yet.
    if !text.ends_with('*') {
        let _: Topic = text.parse().map_err(|why: linger::Error| why.message().to_owned())?;
    }
    Ok(Pattern(text))
}

/// A target for people: what follows its host is often a secret.
pub(crate) fn shown_target(target: &Target) -> String {
    match target.as_str().contains("://") {
        true => Destination::of(&Topic::default(), target).to_string(),
        false => target.to_string(),
    }
}

impl Rule {
    fn table(&self, to: &str) -> Raw {
        let mut table = BTreeMap::from([
            ("name", Raw::from(self.name.as_str())),
            ("kind", Raw::from(self.kind.as_str())),
            ("quiet", self.quiet.show()),
            ("to", Raw::from(to)),
        ]);
        let length = |ms| Duration::from_millis(ms).show();
        match self.kind {
            Kind::Dead | Kind::Backlog => {
                table.insert("threshold", (self.threshold as usize).show());
            }
            Kind::Late => drop(table.insert("threshold", length(self.threshold))),
            Kind::Disk => {
                table.insert("threshold", Size(self.threshold as usize).show());
            }
            Kind::Worker | Kind::Destination | Kind::Timer => {}
        }
        if self.kind != Kind::Dead {
            table.insert("for", self.holds.show());
        }
        if let Some(pattern) = self.of.pattern() {
            let name = if self.kind.is_of_topics() { "topic" } else { "destination" };
            table.insert(name, Raw::from(pattern.as_str()));
        }
        Raw::from(table)
    }
}

impl Value for Vec<Rule> {
    fn read(raw: &Raw) -> Result<Vec<Rule>, String> {
        let wrong = || "it is no list of rules; write [[alarms.rules]] and name, kind, to below";
        let items = match raw {
            // The environment and flags can have a list too, written as in the file.
            Raw::String(text) if text.trim_start().starts_with('[') => {
                let list: Result<Raw, toml::de::Error> = text.parse();
                return Vec::read(&list.map_err(|why| format!("not TOML: {}", why.message()))?);
            }
            Raw::Array(items) if items.len() > RULES_MAX => {
                return Err(format!("there are {} rules; give {RULES_MAX} at most", items.len()));
            }
            Raw::Array(items) => items,
            _ => return Err(wrong().into()),
        };
        let (mut rules, mut names): (Vec<Rule>, BTreeSet<String>) = Default::default();
        for (n, item) in items.iter().enumerate() {
            let named = item.get("name").and_then(Raw::as_str);
            let which = named.map_or(format!("rule {}", n + 1), |name| {
                format!("rule {}", quoted(&Raw::from(name)))
            });
            let shape: RuleShape = item
                .clone()
                .try_into()
                .map_err(|why: toml::de::Error| format!("{which}: {}", why.message()))?;
            let rule = shape.read().map_err(|why| format!("{which}: {why}"))?;
            if !names.insert(rule.name.clone()) {
                return Err(format!("{which}: another has this name"));
            }
            rules.push(rule);
        }
        Ok(rules)
    }

    fn show(&self) -> Raw {
        Raw::Array(self.iter().map(|rule| rule.table(rule.to.as_str())).collect())
    }

    fn show_to_people(&self) -> Raw {
        Raw::Array(self.iter().map(|rule| rule.table(&shown_target(&rule.to))).collect())
    }
}

#[cfg(test)]
mod tests {
    use linger::time::{HOUR, SECOND};

    use super::*;

    fn read(toml: &str) -> Result<Vec<Rule>, String> {
        let table: toml::Table = toml.parse().unwrap();
        Vec::read(&table["rules"])
    }

    fn rule(fields: &str) -> Result<Rule, String> {
        read(&format!("rules = [{{ name = 'a', to = 'http://o/', {fields} }}]"))
            .map(|mut rules| rules.remove(0))
    }

    #[test]
    fn rules_are_read_and_written_back() {
        let toml = "[[rules]]\nname = 'x'\nkind = 'late'\ntopic = 'o.*'\nthreshold = 90\n\
                    for = '2m'\nto = 'https://ops.example/hooks/T0/secret'\n\
                    [[rules]]\nname = 'y'\nkind = 'dead'\nto = 'worker:ops'\n\
                    [[rules]]\nname = 'z'\nkind = 'disk'\nthreshold = '10GiB'\nquiet = '1h'\n\
                    to = 'sink:ops'\n\
                    [[rules]]\nname = 'd'\nkind = 'destination'\ndestination = 'https://a*'\n\
                    to = 'http://ops'\n";
        let rules = read(toml).unwrap();
        let [late, dead, disk, destination] = &rules[..] else { panic!("{rules:?}") };
        assert_eq!((late.threshold, late.holds, late.quiet), (90_000, 2 * MINUTE, MINUTE));
        assert!(late.of.fits("o.1") && !late.of.fits("p"));
        assert_eq!((dead.threshold, dead.of.clone()), (0, Of::All));
        assert_eq!((disk.threshold, disk.quiet), (10 << 30, HOUR));
        assert!(destination.of.fits("https://a.example"));
        assert_eq!(Vec::read(&rules.show()).as_ref(), Ok(&rules));
        assert_eq!(Vec::read(&Raw::String(rules.show().to_string())).as_ref(), Ok(&rules));
        let shown = rules.show_to_people().to_string();
        assert!(shown.contains("https://ops.example\"") && !shown.contains("secret"), "{shown}");
    }

    #[test]
    fn a_wrong_rule_says_which_and_why() {
        for (fields, why) in [
            ("kind = 'slow'", "rule `a`: kind `slow` is not known; give dead, late, backlog"),
            ("", "kind is missing"),
            ("kind = 'late'", "threshold is missing; late needs one"),
            ("kind = 'late', threshold = '5x'", "not a duration"),
            ("kind = 'backlog'", "threshold is missing; backlog needs one, such as 1000"),
            ("kind = 'backlog', threshold = '1m'", "not a whole number"),
            ("kind = 'disk', threshold = '1MiB'", "give at least `512MiB`"),
            ("kind = 'timer', threshold = 1", "threshold is not for timer"),
            ("kind = 'timer', topic = 'a'", "topic is not for timer"),
            ("kind = 'dead', destination = 'a'", "destination is not for dead"),
            ("kind = 'dead', for = '1m'", "for is not for dead"),
            ("kind = 'dead', topic = ''", "topic is empty"),
            ("kind = 'dead', topic = 'linger.alarms'", "is not watched"),
            ("kind = 'worker', for = '2d'", "for is 2d; give a day at most"),
            ("kind = 'dead', treshold = 1", "unknown field `treshold`"),
        ] {
            let refused = rule(fields).unwrap_err();
            assert!(refused.starts_with("rule `a`: ") && refused.contains(why), "{refused}");
        }
        for (toml, why) in [
            ("rules = 5", "no list of rules"),
            ("rules = '[{'", "not TOML"),
            ("rules = [{ kind = 'dead', to = 'http://o' }]", "rule 1: name is ``"),
            ("rules = [{ name = 'a', kind = 'dead' }]", "rule `a`: to is missing"),
            ("rules = [{ name = 'a', kind = 'dead', to = 'ftp://o' }]", "to is no target"),
            ("rules = [{ name = 'a', kind = 'dead', to = 'http://u:p@o' }]", "user name"),
        ] {
            let refused = read(toml).unwrap_err();
            assert!(refused.contains(why), "{toml}: {refused}");
        }
        let one = "{ name = 'a', kind = 'dead', to = 'http://o' }";
        let refused = read(&format!("rules = [{one}, {one}]")).unwrap_err();
        assert_eq!(refused, "rule `a`: another has this name");
    }

    #[test]
    fn a_rule_must_fit_the_store_and_the_haste() {
        let check = |fields: &str, store: &str| {
            let alarms = Alarms { every: 30 * SECOND, rules: vec![rule(fields).unwrap()] };
            alarms.check(&store.parse().unwrap())
        };
        let timer = "kind = 'timer'";
        assert!(check(timer, "./data").unwrap_err().contains("for a store on Redis"));
        assert_eq!(check(timer, "redis://h"), Ok(()));
        let disk = "kind = 'disk', threshold = '1GiB'";
        assert!(check(disk, "redis://h").unwrap_err().contains("for a store in a folder"));
        assert_eq!(check(disk, "./data"), Ok(()));
        let hasty = check("kind = 'dead', quiet = '59s'", "./data").unwrap_err();
        assert_eq!(hasty, "rule `a`: quiet is 59s; give at least 1m, twice `alarms.every`");
    }
}
