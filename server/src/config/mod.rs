//! The settings in force: the defaults, a file, the environment and flags, one over the other.

mod alarms;
mod api_key;
mod eureka;
mod loaded;
mod network;
mod node;
mod place;
mod retry;
mod sinks;
mod source;
mod traces;
mod value;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use linger::queue::UniqueIds;
use linger::store::embedded::Durability;
use linger::time::{DAY, HOUR};
use linger::topic::{Defaults, Rate};

pub use alarms::{Alarms, Kind, Of, Pattern, Rule};
pub(crate) use alarms::{TOPIC as ALARMS_TOPIC, shown_target};
pub use api_key::ApiKey;
pub use eureka::{EurekaApp, EurekaServers};
pub use loaded::{Change, Changes, Common, Loaded, Setting};
pub use network::Network;
pub use node::{Label, Node};
pub use place::{Place, Prefix, Shared, Url};
pub use sinks::{Broker, Sasl, Sink, Sinks, Template};
pub use source::{DEFAULTS, Origin, ServeFlags};
pub use traces::{Endpoint, Ratio, SentHeaders, Traces};
pub use value::{Host, Level, LogFormat, Networks, Roles};

pub use crate::secrets::SigningKey;

use crate::listen::Most;
use crate::registry::{LEASE_MAX, LEASE_MIN};
use source::Values;
use value::Size;

/// What `linger serve` runs by. `linger.toml` says what each setting is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Where HTTP is served.
    pub listen: SocketAddr,
    /// Where the beanstalkd protocol is served. None: it is off.
    pub beanstalkd: Option<SocketAddr>,
    /// The networks that may speak the beanstalkd protocol. None: this machine, or anyone if that
    /// was agreed to.
    pub beanstalkd_allow: Vec<Network>,
    /// Where the jobs are kept.
    pub store: Place,
    /// How the store is used if it is on Redis.
    pub shared: Shared,
    /// When an answer may leave.
    pub durability: Durability,
    /// What this instance does.
    pub role: Roles,
    /// What it is to others that share its store.
    pub node: Node,
    /// Whether listening beyond this machine without API keys was agreed to.
    pub insecure: bool,
    /// A key that may administer, for the first start.
    pub bootstrap_key: Option<ApiKey>,
    /// The file that it stands in instead.
    pub bootstrap_key_file: Option<PathBuf>,
    /// Names by which the server may be called, besides loopback's.
    pub allowed_hosts: Vec<Host>,
    /// Whether the same id may stand in several topics.
    pub unique_ids: UniqueIds,
    /// How long a stop waits for the requests under way.
    pub drain: Duration,
    /// What holds for jobs whose topic does not say.
    pub defaults: Defaults,
    /// The most that a caller may ask for.
    pub limits: Limits,
    /// How ports are served by TLS.
    pub tls: Tls,
    /// Which older protocols are understood.
    pub fronts: Fronts,
    /// How jobs are pushed.
    pub push: Push,
    /// How jobs are pushed by webhook.
    pub webhooks: Webhooks,
    /// The brokers that jobs can be pushed to.
    pub sinks: Sinks,
    /// How workers are registered.
    pub workers: Workers,
    /// Where jobs are kept whose life is over.
    pub archive: Archive,
    /// What is kept of what happens.
    pub events: Events,
    /// What is told when it is not well.
    pub alarms: Alarms,
    /// What is logged, and how.
    pub log: Log,
    /// Where traces are sent.
    pub traces: Traces,
}

/// The most that a caller may ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// A job's body, in bytes.
    pub body_bytes: usize,
    /// The body of a job that is put by the beanstalkd protocol, in bytes.
    pub beanstalkd_body_bytes: usize,
    /// Jobs in one batch.
    pub batch_jobs: usize,
    /// A request, in bytes.
    pub batch_bytes: usize,
    /// An answer, in bytes.
    pub answer_bytes: usize,
    /// The longest that a pop may wait for a job.
    pub wait: Duration,
    /// How many pops may wait at once.
    pub waiting: usize,
    /// Connections at once.
    pub connections: usize,
    /// Of them, those from one address.
    pub connections_per_address: usize,
    /// Requests in work at once, those that wait for a job apart.
    pub requests: usize,
    /// The bytes of all large requests in work at once.
    pub requests_bytes: usize,
    /// How long a request's head may take to arrive.
    pub header_time: Duration,
    /// How long a request's body may take to arrive.
    pub body_time: Duration,
    /// How long a connection may be kept open without a request.
    pub idle_time: Duration,
    /// Requests by one key, if it has no limit of its own.
    pub key_rate: Option<Rate>,
    /// Attempts with a wrong key by one address in a minute.
    pub failed_keys: usize,
}

impl Limits {
    /// The most connections at once.
    pub(crate) fn most_connections(&self) -> Most {
        Most { connections: self.connections, per_address: self.connections_per_address }
    }
}

/// How ports are served by TLS: not at all without a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// A file with the certificate, and those between it and its authority.
    pub cert: Option<PathBuf>,
    /// A file with its key.
    pub key: Option<PathBuf>,
    /// A file with the authorities whose certificates clients must have, if they must.
    pub client_ca: Option<PathBuf>,
    /// Whether the port of the beanstalkd protocol is served so as well.
    pub beanstalkd: bool,
    /// How often it is looked whether the files have changed.
    pub poll: Duration,
}

/// Which older protocols are understood besides version 1 of the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fronts {
    /// Commands at `POST /` and `/v1/command`.
    pub command: bool,
    /// The calls of ouqiang's delay-queue.
    pub ouqiang: bool,
    /// `/task/add`, `/task/get`, `/task/remove`.
    pub tasks: bool,
}

/// How jobs are pushed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Push {
    /// The most pushes under way.
    pub concurrency: usize,
    /// The most of them to one destination.
    pub per_destination: usize,
    /// So many failures in a row close a destination.
    pub failures: usize,
    /// How long it is closed at first.
    pub pause: Duration,
    /// How long at most.
    pub pause_max: Duration,
}

/// How jobs are pushed by webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Webhooks {
    /// Where they may lead.
    pub networks: Networks,
    /// Networks that they may lead to although they are not public.
    pub allow: Vec<Network>,
    /// How long it may take until a connection stands.
    pub connect_time: Duration,
    /// How much of an answer is read, in bytes.
    pub answer_bytes: usize,
    /// What signs where neither topic nor target has a key of its own.
    pub secret: Vec<SigningKey>,
    /// A file with certificates of authorities to be trusted besides those of the system.
    pub ca: Option<PathBuf>,
}

/// How workers are registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workers {
    /// How long a registration holds without a heartbeat, for those that do not say.
    pub lease: Duration,
    /// The most that may be registered.
    pub max: usize,
    /// The servers of Eureka in which workers are found as well; none if they are not.
    pub eureka: EurekaServers,
    /// How often Eureka is asked.
    pub eureka_poll: Duration,
    /// The application as which this server registers there, if it does.
    pub eureka_register: Option<EurekaApp>,
}

/// Where jobs are kept whose life is over, if their topic has them kept in files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Archive {
    /// The folder of the files.
    pub folder: PathBuf,
    /// How large a file gets.
    pub file_bytes: usize,
    /// How many of them are kept; all if 0.
    pub files: usize,
}

/// What is kept of what happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Events {
    /// Whether anything is.
    pub enabled: bool,
    /// For how long.
    pub keep: Duration,
    /// How much in a folder, in bytes.
    pub size: usize,
    /// How much on Redis, in bytes.
    pub redis_size: usize,
}

/// What is logged, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    /// How a line looks.
    pub format: LogFormat,
    /// Which events are worth one.
    pub level: Level,
}

/// The largest body that can be allowed: the embedded store takes jobs of up to half a segment.
const BODY_MAX: Size = Size(16 << 20);
const TRANSFER_MIN: Size = Size(1 << 10);
const TRANSFER_MAX: Size = Size(1 << 30);
/// Each push under way may hold as much.
const ANSWER_BYTES_MAX: Size = Size(16 << 20);
const REQUESTS_BYTES_MAX: Size = Size(1 << 40);
const BATCH_JOBS_MAX: usize = 100_000;
const AT_ONCE_MAX: usize = 10_000_000;
const WORKERS_MAX: usize = 100_000;
const CONCURRENCY_MAX: usize = 100_000;
const ARCHIVE_BYTES_MAX: Size = Size(1 << 40);
/// Less would be a piece of the log, of which the oldest goes as a whole.
const EVENTS_SIZE_MIN: Size = Size(64 << 10);
const EVENTS_KEEP_MIN: Duration = Duration::from_secs(60);
const EVENTS_KEEP_MAX: Duration = Duration::from_secs(366 * 86_400);
/// Less would be to try again and again.
const PAUSE_MIN: Duration = Duration::from_millis(100);
/// Less would be to look without a pause.
const EVERY_MIN: Duration = Duration::from_millis(100);
/// Less would be to ask without a pause.
const POLL_MIN: Duration = Duration::from_millis(10);
/// Less would be to ask without a pause, more to call for long what is gone.
const EUREKA_POLL_MIN: Duration = Duration::from_millis(100);
const EUREKA_POLL_MAX: Duration = Duration::from_secs(300);
const REPLICAS_MAX: usize = 10;
/// Less would be to say without a pause that one is alive, more to leave the dead's work undone.
const BUCKET_LEASE_MIN: Duration = Duration::from_millis(100);
const BUCKET_LEASE_MAX: Duration = Duration::from_secs(600);
const WEIGHT_MAX: usize = 10_000;
/// Less would be no time at all, and every request would be late.
const TIME_MIN: Duration = Duration::from_millis(1);

impl Config {
    /// The settings by all sources, each over the one before: defaults, file, `env`, `flags`.
    ///
    /// The file is the one that `flags` or `LINGER_CONFIG` name, else `linger.toml` in `folder` if
    /// it is there. Of `env` only `LINGER_…` is looked at.
    pub fn load(
        flags: &ServeFlags,
        env: impl IntoIterator<Item = (String, String)>,
        folder: &Path,
    ) -> Result<Loaded> {
        Loaded::load(flags.clone(), env.into_iter().collect(), folder.to_owned())
    }

    /// The settings by the built-in file alone.
    pub fn defaults() -> Config {
        Config::read(&mut Values::defaults()).expect("the built-in linger.toml is right")
    }

    /// Takes each setting out of `values`.
    ///
    /// A setting has one line here, its field, and its place in `linger.toml`: whatever lacks one
    /// of them does not compile or stops every test.
    fn read(values: &mut Values) -> Result<Config> {
        let config = Config {
            listen: values.take("listen")?,
            beanstalkd: values.take("beanstalkd")?,
            beanstalkd_allow: values.take("beanstalkd_allow")?,
            store: values.take("store")?,
            shared: Shared {
                prefix: values.take("store.prefix")?,
                poll: values.take_in("store.poll", POLL_MIN..=HOUR)?,
                wait: values.take_in("store.wait", 0..=REPLICAS_MAX)?,
                lease: values.take_in("store.lease", BUCKET_LEASE_MIN..=BUCKET_LEASE_MAX)?,
            },
            durability: values.take("durability")?,
            role: values.take("role")?,
            node: Node {
                name: values.take("name")?,
                group: values.take("group")?,
                weight: values.take_in("weight", 1..=WEIGHT_MAX)?,
                threshold: values.take_in("threshold", 0..=AT_ONCE_MAX)?,
            },
            insecure: values.take("insecure")?,
            bootstrap_key: values.take("bootstrap_key")?,
            bootstrap_key_file: values.take("bootstrap_key_file")?,
            allowed_hosts: values.take("allowed_hosts")?,
            unique_ids: values.take("unique_ids")?,
            drain: values.take_in("drain", Duration::ZERO..=DAY)?,
            defaults: Defaults {
                ttr: values.take("defaults.ttr")?,
                retry: values.take("defaults.retry")?,
                retain: values.take("defaults.retain")?,
            },
            limits: Limits {
                body_bytes: values.take_in("limits.body", Size(1)..=BODY_MAX)?.0,
                beanstalkd_body_bytes: values
                    .take_in("limits.beanstalkd_body", Size(1)..=BODY_MAX)?
                    .0,
                batch_jobs: values.take_in("limits.batch_jobs", 1..=BATCH_JOBS_MAX)?,
                batch_bytes: values.take_in("limits.batch_bytes", TRANSFER_MIN..=TRANSFER_MAX)?.0,
                answer_bytes: values.take_in("limits.answer_bytes", TRANSFER_MIN..=TRANSFER_MAX)?.0,
                wait: values.take_in("limits.wait", Duration::ZERO..=DAY)?,
                waiting: values.take_in("limits.waiting", 0..=AT_ONCE_MAX)?,
                connections: values.take_in("limits.connections", 1..=AT_ONCE_MAX)?,
                connections_per_address: values
                    .take_in("limits.connections_per_address", 1..=AT_ONCE_MAX)?,
                requests: values.take_in("limits.requests", 1..=AT_ONCE_MAX)?,
                requests_bytes: values
                    .take_in("limits.requests_bytes", TRANSFER_MIN..=REQUESTS_BYTES_MAX)?
                    .0,
                header_time: values.take_in("limits.header_time", TIME_MIN..=HOUR)?,
                body_time: values.take_in("limits.body_time", TIME_MIN..=HOUR)?,
                idle_time: values.take_in("limits.idle_time", TIME_MIN..=DAY)?,
                key_rate: values.take("limits.key_rate")?,
                failed_keys: values.take_in("limits.failed_keys", 1..=AT_ONCE_MAX)?,
            },
            tls: Tls {
                cert: values.take("tls.cert")?,
                key: values.take("tls.key")?,
                client_ca: values.take("tls.client_ca")?,
                beanstalkd: values.take("tls.beanstalkd")?,
                poll: values.take_in("tls.poll", POLL_MIN..=HOUR)?,
            },
            fronts: Fronts {
                command: values.take("fronts.command")?,
                ouqiang: values.take("fronts.ouqiang")?,
                tasks: values.take("fronts.tasks")?,
            },
            push: Push {
                concurrency: values.take_in("push.concurrency", 1..=CONCURRENCY_MAX)?,
                per_destination: values.take_in("push.per_destination", 1..=CONCURRENCY_MAX)?,
                failures: values.take_in("push.failures", 1..=CONCURRENCY_MAX)?,
                pause: values.take_in("push.pause", PAUSE_MIN..=DAY)?,
                pause_max: values.take_in("push.pause_max", PAUSE_MIN..=DAY)?,
            },
            webhooks: Webhooks {
                networks: values.take("webhooks.networks")?,
                allow: values.take("webhooks.allow")?,
                connect_time: values.take_in("webhooks.connect_time", TIME_MIN..=HOUR)?,
                answer_bytes: values
                    .take_in("webhooks.answer_bytes", TRANSFER_MIN..=ANSWER_BYTES_MAX)?
                    .0,
                secret: values.take("webhooks.secret")?,
                ca: values.take("webhooks.ca")?,
            },
            sinks: values.take("sinks")?,
            workers: Workers {
                lease: values.take_in("workers.lease", LEASE_MIN..=LEASE_MAX)?,
                max: values.take_in("workers.max", 1..=WORKERS_MAX)?,
                eureka: values.take("workers.eureka")?,
                eureka_poll: values
                    .take_in("workers.eureka_poll", EUREKA_POLL_MIN..=EUREKA_POLL_MAX)?,
                eureka_register: values.take("workers.eureka_register")?,
            },
            archive: Archive {
                folder: values.take("archive.folder")?,
                file_bytes: values
                    .take_in("archive.file_bytes", TRANSFER_MIN..=ARCHIVE_BYTES_MAX)?
                    .0,
                files: values.take_in("archive.files", 0..=AT_ONCE_MAX)?,
            },
            events: Events {
                enabled: values.take("events.enabled")?,
                keep: values.take_in("events.keep", EVENTS_KEEP_MIN..=EVENTS_KEEP_MAX)?,
                size: values.take_in("events.size", EVENTS_SIZE_MIN..=ARCHIVE_BYTES_MAX)?.0,
                redis_size: values
                    .take_in("events.redis_size", EVENTS_SIZE_MIN..=ARCHIVE_BYTES_MAX)?
                    .0,
            },
            alarms: Alarms {
                every: values.take_in("alarms.every", EVERY_MIN..=HOUR)?,
                rules: values.take("alarms.rules")?,
            },
            log: Log { format: values.take("log.format")?, level: values.take("log.level")? },
            traces: Traces {
                endpoint: values.take("traces.endpoint")?,
                headers: values.take("traces.headers")?,
                ratio: values.take("traces.ratio")?,
            },
        };
        values.assert_all_taken();
        config.check_tls(values)?;
        config.check_exposure(values)?;
        config.check_bootstrap(values)?;
        config.check_alarms(values)?;
        config.check_eureka(values)?;
        Ok(config)
    }

    /// Half of TLS is none, and nobody would notice.
    fn check_tls(&self, values: &Values) -> Result<()> {
        let Tls { cert, key, client_ca, .. } = &self.tls;
        let (given, lacks) = match (cert, key, client_ca) {
            (Some(_), None, _) => ("tls.cert", "tls.key"),
            (None, Some(_), _) => ("tls.key", "tls.cert"),
            (None, None, Some(_)) => ("tls.client_ca", "tls.cert"),
            _ => return Ok(()),
        };
        let place = values.origin(given).place();
        bail!("wrong setting `{given}` ({place}): it is of no use alone; set `{lacks}` too")
    }

    /// Rules that cannot do what they say.
    fn check_alarms(&self, values: &Values) -> Result<()> {
        self.alarms.check(&self.store).map_err(|why| {
            let key = "alarms.rules";
            anyhow!("wrong setting `{key}` ({}): {why}", values.origin(key).place())
        })
    }

    /// To register somewhere, one must know where.
    fn check_eureka(&self, values: &Values) -> Result<()> {
        if self.workers.eureka_register.is_none() || !self.workers.eureka.urls().is_empty() {
            return Ok(());
        }
        let key = "workers.eureka_register";
        bail!(
            "wrong setting `{key}` ({}): there is no Eureka to register in; set `workers.eureka`",
            values.origin(key).place()
        )
    }

    /// Beanstalkd's protocol knows no keys, so who may connect must have been said. Whether there
    /// are keys for the other port is known when the store is open.
    fn check_exposure(&self, values: &Values) -> Result<()> {
        let key = "beanstalkd";
        let reachable = self.beanstalkd.filter(|address| !is_loopback(address));
        let Some(address) =
            reachable.filter(|_| !self.insecure && self.beanstalkd_allow.is_empty())
        else {
            return Ok(());
        };
        bail!(
            "setting `{key}` ({}) is `{address}`, which others can reach, and its protocol knows no \
             keys: listen on 127.0.0.1, say in `beanstalkd_allow` which networks may connect, or \
             give --insecure (`insecure = true`) if the network itself keeps strangers out",
            values.origin(key).place(),
        )
    }

    /// One way to give a key is enough.
    fn check_bootstrap(&self, values: &Values) -> Result<()> {
        if self.bootstrap_key.is_none() || self.bootstrap_key_file.is_none() {
            return Ok(());
        }
        let key = "bootstrap_key_file";
        bail!(
            "wrong setting `{key}` ({}): `bootstrap_key` is set as well; give one of them",
            values.origin(key).place()
        )
    }

    /// Whether others can reach it, so that nobody may be let in without a key.
    pub fn is_exposed(&self) -> bool {
        !self.insecure && !is_loopback(&self.listen)
    }
}

fn is_loopback(address: &SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

#[cfg(test)]
mod tests {
    use linger::time::{MINUTE, SECOND};

    use super::*;

    #[test]
    fn the_built_in_file_says_what_the_documents_say() {
        let expected = Config {
            listen: "127.0.0.1:7300".parse().unwrap(),
            beanstalkd: None,
            beanstalkd_allow: vec![],
            store: "./linger-data".into(),
            shared: Shared { prefix: Prefix::default(), poll: SECOND, wait: 0, lease: 3 * SECOND },
            durability: Durability::Sync,
            role: Roles { api: true, timer: true, worker: true },
            node: Node { name: None, group: Label::default(), weight: 1, threshold: 0 },
            insecure: false,
            bootstrap_key: None,
            bootstrap_key_file: None,
            allowed_hosts: vec![],
            unique_ids: UniqueIds::PerTopic,
            drain: 30 * SECOND,
            defaults: Defaults::default(),
            limits: Limits {
                body_bytes: linger::job::Body::BYTES_MAX_DEFAULT,
                beanstalkd_body_bytes: 65_535,
                batch_jobs: 1000,
                batch_bytes: 16 << 20,
                answer_bytes: 8 << 20,
                wait: 10 * MINUTE,
                waiting: 100_000,
                connections: 10_000,
                connections_per_address: 5000,
                requests: 10_000,
                requests_bytes: 256 << 20,
                header_time: 10 * SECOND,
                body_time: 30 * SECOND,
                idle_time: 5 * MINUTE,
                key_rate: None,
                failed_keys: 10,
            },
            tls: Tls {
                cert: None,
                key: None,
                client_ca: None,
                beanstalkd: true,
                poll: 10 * SECOND,
            },
            fronts: Fronts { command: true, ouqiang: true, tasks: true },
            push: Push {
                concurrency: 512,
                per_destination: 32,
                failures: 8,
                pause: SECOND,
                pause_max: MINUTE,
            },
            webhooks: Webhooks {
                networks: Networks::Any,
                allow: vec![],
                connect_time: 5 * SECOND,
                answer_bytes: 64 << 10,
                secret: vec![],
                ca: None,
            },
            sinks: Sinks::default(),
            workers: Workers {
                lease: 30 * SECOND,
                max: 10_000,
                eureka: EurekaServers::default(),
                eureka_poll: 30 * SECOND,
                eureka_register: None,
            },
            archive: Archive { folder: "./linger-archive".into(), file_bytes: 64 << 20, files: 0 },
            events: Events { enabled: true, keep: 7 * DAY, size: 1 << 30, redis_size: 64 << 20 },
            alarms: Alarms { every: 5 * SECOND, rules: vec![] },
            log: Log { format: LogFormat::Human, level: Level::default() },
            traces: Traces { endpoint: None, headers: SentHeaders::default(), ratio: Ratio::ALL },
        };
        assert_eq!(Config::defaults(), expected);
    }

    #[test]
    fn every_setting_of_the_built_in_file_stands_below_a_comment() {
        let mut commented = false;
        for line in DEFAULTS.lines() {
            let is_setting = line.contains(" = ") && !line.starts_with('#');
            assert!(commented || !is_setting, "`{line}` has no comment");
            commented = line.starts_with('#') || (commented && is_setting);
        }
    }
}
