//! The brokers that jobs can be pushed to: a section `[sinks.NAME]` each.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::Context;
use linger::topic::Topic;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use url::Url;

use super::value::{Raw, Value, quoted};

/// The brokers by their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sinks(BTreeMap<String, Sink>);

/// A broker, as the settings have it. It is shown without its passwords.
#[derive(Clone, PartialEq)]
pub struct Sink {
    /// What it is.
    pub broker: Broker,
    /// Where in it a job goes: the routing key, stream, subject or topic.
    pub route: Template,
    /// A file with certificates of authorities to be trusted besides those of the system.
    pub ca: Option<PathBuf>,
    /// As it was written. The user, the password and its file stand here alone, and are looked at by
    /// [`Sink::url`].
    table: toml::Table,
}

/// What kind of broker it is, with what only that kind has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Broker {
    /// RabbitMQ.
    RabbitMq {
        /// The exchange; the default one if it is empty.
        exchange: String,
    },
    /// A stream of Redis.
    Redis {
        /// About how many entries a stream keeps; all if 0.
        length: usize,
    },
    /// NATS with JetStream.
    Nats,
    /// Kafka.
    Kafka {
        /// How a password is given, if there is one.
        sasl: Sasl,
    },
}

/// How a user of Kafka says who it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sasl {
    /// As it is, which TLS should hide.
    #[default]
    Plain,
    /// By a proof that does not give it away.
    ScramSha256,
    /// Likewise, with a longer hash.
    ScramSha512,
}

/// A text in which `{topic}` stands for a job's topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template(String);

const NAME_BYTES_MAX: usize = 64;
/// The longest routing key that the protocol of RabbitMQ has room for.
const ROUTING_KEY_BYTES_MAX: usize = 255;
const TOPIC: &str = "{topic}";
/// What stands in for a password.
const MASK: &str = "***";

/// What a kind is called, how its URLs begin, what its route is called, and what it has besides.
struct Kind {
    word: &'static str,
    schemes: &'static [&'static str],
    route: &'static str,
    more: &'static [&'static str],
}

const KINDS: [Kind; 4] = [
    Kind {
        word: "rabbitmq",
        schemes: &["amqp", "amqps"],
        route: "routing_key",
        more: &["exchange"],
    },
    Kind {
        word: "redis",
        schemes: &[
            "redis",
            "rediss",
            "redis+sentinel",
            "rediss+sentinel",
            "redis+cluster",
            "rediss+cluster",
        ],
        route: "stream",
        more: &["length"],
    },
    Kind { word: "nats", schemes: &["nats", "tls"], route: "subject", more: &[] },
    Kind { word: "kafka", schemes: &["kafka", "kafkas"], route: "topic", more: &["sasl"] },
];
/// What every kind has.
const FIELDS: [&str; 6] = ["type", "url", "user", "password", "password_file", "ca"];
/// How those URLs begin that go by TLS.
const SECURE: [&str; 6] = ["amqps", "rediss", "rediss+sentinel", "rediss+cluster", "tls", "kafkas"];

/// What Kafka calls them.
const SASL: [(&str, Sasl); 3] = [
    ("PLAIN", Sasl::Plain),
    ("SCRAM-SHA-256", Sasl::ScramSha256),
    ("SCRAM-SHA-512", Sasl::ScramSha512),
];

impl Sinks {
    /// Each with its name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Sink)> {
        self.0.iter().map(|(name, sink)| (name.as_str(), sink))
    }
}

/// Reads the text of a section `sinks`, as it may stand in `linger.toml`.
impl FromStr for Sinks {
    type Err = String;

    fn from_str(text: &str) -> Result<Sinks, String> {
        let file: toml::Table = text.parse().map_err(|cause: toml::de::Error| {
            // Not the cause's own text, which repeats the line, be it one with a password.
            format!("it is not TOML: {}", cause.message())
        })?;
        match file.get("sinks") {
            Some(sinks) => Sinks::read(sinks),
            None => Ok(Sinks::default()),
        }
    }
}

impl Value for Sinks {
    fn read(raw: &Raw) -> Result<Sinks, String> {
        let right = "write a section [sinks.NAME] for each";
        match raw {
            // The environment and flags can have a table too, written as in the file.
            Raw::String(text) if text.trim_start().starts_with('{') => {
                let table: Raw = text.parse().map_err(|cause: toml::de::Error| {
                    format!("it is not TOML: {}", cause.message())
                })?;
                Sinks::read(&table)
            }
            Raw::Table(sinks) => {
                let sinks = sinks.iter().map(|(name, raw)| {
                    check_name(name)?;
                    let shown = quoted(&Raw::from(name.as_str()));
                    let table = raw.as_table();
                    let table = table.ok_or_else(|| format!("{shown} is no sink; {right}"))?;
                    let sink = Sink::read(table).map_err(|why| format!("sink {shown}: {why}"))?;
                    Ok((name.clone(), sink))
                });
                sinks.collect::<Result<_, String>>().map(Sinks)
            }
            // Not quoted: there may be a password in it.
            _ => Err(format!("it holds no sinks; {right}")),
        }
    }

    fn show(&self) -> Raw {
        let sinks = self.0.iter().map(|(name, sink)| (name.clone(), Raw::from(sink.table.clone())));
        Raw::Table(sinks.collect())
    }

    fn show_to_people(&self) -> Raw {
        let sinks = self.0.iter().map(|(name, sink)| (name.clone(), Raw::from(sink.masked())));
        Raw::Table(sinks.collect())
    }
}

fn check_name(name: &str) -> Result<(), String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    if (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(plain) {
        return Ok(());
    }
    Err(format!(
        "{} cannot name a sink; give 1 to {NAME_BYTES_MAX} letters, digits, `.`, `-` or `_`",
        quoted(&Raw::from(name))
    ))
}

impl Sink {
    fn read(table: &toml::Table) -> Result<Sink, String> {
        let kinds = KINDS.map(|kind| kind.word).join(", ");
        let word = text(table, "type")?.ok_or_else(|| format!("it has no type; give {kinds}"))?;
        let kind = KINDS.iter().find(|kind| kind.word == word).ok_or_else(|| {
            format!("type {} is not known; give {kinds}", quoted(&Raw::from(word)))
        })?;
        kind.check_fields(table)?;
        let route = Template::new(text(table, kind.route)?.unwrap_or(TOPIC))
            .map_err(|why| format!("{} {why}", kind.route))?;
        let broker = match kind.word {
            "rabbitmq" => {
                let exchange = text(table, "exchange")?.unwrap_or_default();
                if exchange.len() > ROUTING_KEY_BYTES_MAX || route.len_max() > ROUTING_KEY_BYTES_MAX
                {
                    return Err(format!(
                        "exchange and routing_key have room for {ROUTING_KEY_BYTES_MAX} bytes, \
                         {} of them for each {TOPIC}",
                        Topic::BYTES_MAX
                    ));
                }
                Broker::RabbitMq { exchange: exchange.to_owned() }
            }
            "redis" => {
                let length = table.get("length").map(usize::read).transpose();
                let length = length.map_err(|why| format!("length {why}"))?;
                Broker::Redis { length: length.unwrap_or(0) }
            }
            "kafka" => {
                let sasl = text(table, "sasl")?.unwrap_or(SASL[0].0);
                let known = SASL.iter().find(|(word, _)| *word == sasl);
                let (_, sasl) = known.ok_or_else(|| {
                    let words = SASL.map(|(word, _)| word).join(", ");
                    format!("sasl {} is not known; give {words}", quoted(&Raw::from(sasl)))
                })?;
                Broker::Kafka { sasl: *sasl }
            }
            _ => Broker::Nats,
        };
        let ca = text(table, "ca")?.map(PathBuf::from);
        let sink = Sink { broker, route, ca, table: table.clone() };
        sink.check_url(kind)?;
        Ok(sink)
    }

    /// Where it is, with user and password, wherever they stand.
    pub fn url(&self) -> anyhow::Result<String> {
        let url = self.field("url").unwrap_or_default();
        let password = match self.field("password_file") {
            Some(file) => Some(
                std::fs::read_to_string(file)
                    .with_context(|| format!("cannot read the password in `{file}`"))?
                    .trim_end_matches(['\r', '\n'])
                    .to_owned(),
            ),
            None => self.field("password").map(str::to_owned),
        };
        let login = match (self.field("user"), password) {
            (None, None) => return Ok(url.to_owned()),
            (user, None) => encoded(user.unwrap_or_default()),
            (user, Some(password)) => {
                format!("{}:{}", encoded(user.unwrap_or_default()), encoded(&password))
            }
        };
        let (scheme, rest) = url.split_once("://").context("it was looked at before")?;
        Ok(format!("{scheme}://{login}@{rest}"))
    }

    /// Where it is, for people to see.
    pub fn shown_url(&self) -> String {
        masked_url(self.field("url").unwrap_or_default())
    }

    fn check_url(&self, kind: &Kind) -> Result<(), String> {
        let right = format!("write {}://host:port", kind.schemes.join(":// or "));
        let url = text(&self.table, "url")?.ok_or_else(|| format!("it has no url; {right}"))?;
        let (scheme, rest) = url.split_once("://").unwrap_or_default();
        if !kind.schemes.contains(&scheme) {
            return Err(format!("url `{}` is for another kind; {right}", masked_url(url)));
        }
        let of_its_own = ["user", "password", "password_file"];
        let of_its_own: Vec<&str> =
            of_its_own.into_iter().filter(|name| self.table.contains_key(*name)).collect();
        if rest.contains('@') && !of_its_own.is_empty() {
            return Err(format!("it has a login in its url and in {}", of_its_own.join(", ")));
        }
        if of_its_own.ends_with(&["password", "password_file"]) {
            return Err("it has both password and password_file; give one".into());
        }
        if self.ca.is_some() && !SECURE.contains(&scheme) {
            return Err(format!("it has a ca and no TLS, which is {}", SECURE.join(", ")));
        }
        self.check_host(kind, url).map_err(|why| format!("url `{}` {why}", masked_url(url)))
    }

    fn check_host(&self, kind: &Kind, url: &str) -> Result<(), String> {
        if kind.word == "redis" {
            // Its message has the address in it, without its password.
            let address: linger::error::Result<linger::store::redis::Address> = url.parse();
            return match address {
                Ok(_) => Ok(()),
                Err(cause) => Err(format!("is wrong: {}", cause.message())),
            };
        }
        // Several hosts have commas between them, and no parser of URLs takes that.
        let (scheme, rest) = url.split_once("://").unwrap_or_default();
        let (login, hosts) =
            rest.rsplit_once('@').map_or(("", rest), |(login, rest)| (login, rest));
        let end = hosts.find(['/', '?', '#']).unwrap_or(hosts.len());
        let (hosts, rest) = hosts.split_at(end);
        if hosts.contains(',') && kind.word == "rabbitmq" {
            return Err("names several hosts; give one, such as that of a load balancer".into());
        }
        for host in hosts.split(',') {
            let login = if login.is_empty() { String::new() } else { format!("{login}@") };
            let one = Url::parse(&format!("{scheme}://{login}{host}{rest}"));
            let one = one.map_err(|cause| format!("is wrong: {cause}"))?;
            if one.host_str().is_none_or(str::is_empty) {
                return Err("names no host".into());
            }
        }
        Ok(())
    }

    fn field(&self, name: &str) -> Option<&str> {
        self.table.get(name).and_then(Raw::as_str)
    }

    fn masked(&self) -> toml::Table {
        let mut table = self.table.clone();
        for (name, value) in &mut table {
            match name.as_str() {
                "password" => *value = Raw::from(MASK),
                "url" => *value = Raw::String(self.shown_url()),
                _ => {}
            }
        }
        table
    }
}

impl Eq for Sink {}

impl fmt::Debug for Sink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.masked().fmt(f)
    }
}

impl Kind {
    fn check_fields(&self, table: &toml::Table) -> Result<(), String> {
        let own = self.more.iter().copied().chain([self.route]);
        let known: Vec<&str> = FIELDS.into_iter().chain(own).collect();
        match table.keys().find(|name| !known.contains(&name.as_str())) {
            Some(name) => Err(format!(
                "{} is not known; of type {} are {}",
                quoted(&Raw::from(name.as_str())),
                self.word,
                known.join(", ")
            )),
            None => Ok(()),
        }
    }
}

/// A field that is a text. What it is is not repeated: it may be a secret.
fn text<'a>(table: &'a toml::Table, name: &str) -> Result<Option<&'a str>, String> {
    match table.get(name) {
        None => Ok(None),
        Some(Raw::String(text)) => Ok(Some(text)),
        Some(_) => Err(format!("{name} is no text; write it in quotes")),
    }
}

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

/// A URL without its secrets.
pub(super) fn masked_url(url: &str) -> String {
    let url = match url.rsplit_once('@') {
        Some((login, rest)) => {
            let (scheme, login) = login.split_once("://").unwrap_or(("", login));
            // A login without a password is a token.
            let user = login.split_once(':').map(|(user, _)| format!("{user}:"));
            format!("{scheme}://{}{MASK}@{rest}", user.unwrap_or_default())
        }
        None => url.to_owned(),
    };
    match url.split_once("password=") {
        Some((start, _)) => format!("{start}password={MASK}"),
        None => url,
    }
}

impl Template {
    fn new(text: &str) -> Result<Template, String> {
        if text.is_empty() {
            return Err(format!("is empty; write {TOPIC} or a fixed text"));
        }
        let rest = text.replace(TOPIC, "");
        if rest.contains(['{', '}']) {
            let text = quoted(&Raw::from(text));
            return Err(format!("{text} has braces; only {TOPIC} can stand in them"));
        }
        if rest.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Err(format!("{} has blanks or control characters", quoted(&Raw::from(text))));
        }
        Ok(Template(text.to_owned()))
    }

    /// The text for this topic.
    pub fn fill(&self, topic: &str) -> String {
        self.0.replace(TOPIC, topic)
    }

    /// The most bytes that it can become.
    fn len_max(&self) -> usize {
        let times = self.0.matches(TOPIC).count();
        self.0.len() - times * TOPIC.len() + times * Topic::BYTES_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sinks(text: &str) -> Result<Sinks, String> {
        text.parse()
    }

    fn one(fields: &str) -> Result<Sink, String> {
        let sinks = sinks(&format!("[sinks.events]\n{fields}"))?;
        Ok(sinks.0.into_values().next().unwrap())
    }

    #[test]
    fn each_kind_needs_its_type_and_url_alone() {
        for (fields, broker) in [
            ("type='rabbitmq'\nurl='amqp://h'", Broker::RabbitMq { exchange: String::new() }),
            ("type='redis'\nurl='redis+sentinel://a,b/m'", Broker::Redis { length: 0 }),
            ("type='nats'\nurl='nats://a:4222,b:4222'", Broker::Nats),
            ("type='kafka'\nurl='kafka://a,b:9092'", Broker::Kafka { sasl: Sasl::Plain }),
        ] {
            let sink = one(fields).unwrap();
            assert_eq!(sink.broker, broker);
            assert_eq!(sink.route.fill("order.close"), "order.close");
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_the_sink_and_the_remedy() {
        for (fields, why) in [
            ("", "it has no type; give rabbitmq, redis, nats, kafka"),
            ("type='mqtt'", "type `mqtt` is not known; give rabbitmq"),
            ("type='redis'", "it has no url; write redis://"),
            ("type='redis'\nurl='amqp://h'", "url `amqp://h` is for another kind; write redis://"),
            (
                "type='redis'\nurl='redis://h'\nexchange='x'",
                "`exchange` is not known; of type redis are type, url",
            ),
            ("type='redis'\nurl='redis://h'\nlength=-1", "length `-1` is not a whole number"),
            ("type='redis'\nurl='redis://h:x'", "has a port that is no number"),
            ("type='rabbitmq'\nurl='amqp://h:x'", "url `amqp://h:x` is wrong: invalid port number"),
            ("type='rabbitmq'\nurl='amqp://a,b'", "names several hosts"),
            ("type='rabbitmq'\nurl='amqp:///v'", "names no host"),
            ("type='nats'\nurl='nats://h'\nsubject=''", "subject is empty"),
            ("type='nats'\nurl='nats://h'\nsubject='a {topic}'", "has blanks"),
            ("type='nats'\nurl='nats://h'\nsubject='{id}'", "`{id}` has braces; only {topic}"),
            ("type='nats'\nurl='nats://h'\nca='f'", "it has a ca and no TLS"),
            ("type='rabbitmq'\nurl='amqp://h'\nrouting_key='{topic}.{topic}'", "have room for 255"),
            (
                "type='kafka'\nurl='kafka://h'\nsasl='GSSAPI'",
                "is not known; give PLAIN, SCRAM-SHA-256",
            ),
            ("type='rabbitmq'\nurl='amqp://u@h'\nuser='u'", "a login in its url and in user"),
        ] {
            let said = one(fields).unwrap_err();
            assert!(said.starts_with("sink `events`: ") && said.contains(why), "{fields}: {said}");
        }
        assert!(sinks("sinks.events = 5").unwrap_err().contains("`events` is no sink"));
        assert!(sinks("sinks = 5").unwrap_err().contains("it holds no sinks"));
        assert!(sinks("[sinks.'a b']").unwrap_err().contains("`a b` cannot name a sink"));
    }

    #[test]
    fn a_password_reaches_the_broker_and_nobody_else() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("password");
        std::fs::write(&file, "ge/heim\n").unwrap();
        let in_file = format!("url='amqp://h'\nuser='u'\npassword_file='{}'", file.display());
        for (fields, expected) in [
            ("url='amqp://u:ge%2Fheim@h/v'", "amqp://u:ge%2Fheim@h/v"),
            ("url='amqp://h/v'\nuser='u'\npassword='ge/heim'", "amqp://u:ge%2Fheim@h/v"),
            (&in_file, "amqp://u:ge%2Fheim@h"),
        ] {
            let text = format!("[sinks.events]\ntype='rabbitmq'\n{fields}");
            let sinks = sinks(&text).unwrap();
            let sink = &sinks.0["events"];
            assert_eq!(sink.url().unwrap(), expected);
            assert_eq!(Sinks::read(&sinks.show()).unwrap(), sinks);
            for shown in
                [format!("{sinks:?}"), sinks.show_to_people().to_string(), sink.shown_url()]
            {
                assert!(!shown.contains("heim"), "{shown}");
            }
        }
        let token = one("type='nats'\nurl='nats://geheim@h'").unwrap();
        assert_eq!(token.shown_url(), "nats://***@h");
        let gone = one("type='nats'\nurl='nats://h'\npassword_file='/nowhere/p'").unwrap();
        assert!(format!("{:#}", gone.url().unwrap_err()).contains("cannot read the password in"));
    }

    #[test]
    fn a_wrong_url_does_not_give_its_password_away() {
        for fields in [
            "type='rabbitmq'\nurl='redis://u:geheim@h'",
            "type='rabbitmq'\nurl='amqp://u:geheim@h:x'",
            "type='redis'\nurl='redis://u:geheim@h:x'",
            "type='redis'\nurl='redis+sentinel://h?sentinel_password=geheim'",
            "type='nats'\nurl='nats://geheim@h:x'",
            "type='nats'\nurl='geheim'\npassword=5\nurll='geheim'",
            "type='rabbitmq'\nurl='amqp://h'\npassword=['geheim']\nx=1",
        ] {
            let said = one(fields).unwrap_err();
            assert!(!said.contains("heim"), "{said}");
        }
    }
}
