//! What is asked for on the command line.

use std::path::PathBuf;
use std::time::Duration;

use lexopt::prelude::*;

pub(crate) const HELP: &str = "\
usage: linger-bench engine|http|grpc|beanstalk|push|redis|compare [options]
       linger-bench plot FILE... [--out DIR] [--into FILE]

engine     the embedded store, beside an engine without an index and beside the bare file
http       the server over HTTP, beside a bare JSON echo
grpc       the same over gRPC, beside a bare echo of that and beside HTTP
beanstalk  its beanstalkd port, beside beanstalkd and beside Redis with scripts
push       what it pushes to webhooks and brokers, beside bare loops of the same clients
redis      a store on Redis, beside a bare queue of scripts there and beside BullMQ
compare    the server beside all peers that are installed, with the same work
plot       tables and pictures of what `compare --json` has written

  --sizes LIST    with so many jobs waiting: 10k,1m,10m unless given; http 10k,10m; redis 100k, of
                  which it tells the memory; compare 10k,1m,5m,10m, of which peers have 5m at
                  most, or 100k if it is to be quick; all others 10k
  --only LIST     only these parts: keep, rates, lateness, stalls; the servers have rates and lateness,
                  redis has keep, rates, lateness and takeover, compare has keep, rates and lateness
  --rates TEXT    of the rates only those whose names have this in them
  --quick         shorter rounds
  --smoke         next to nothing, to see that it runs
  --folder DIR    where to put the stores; else the system's temporary folder
  --json FILE     the figures for programs, too
  --linger FILE   this server is measured, and not the one of this tree
  --peers LIST    compare only with these: beanstalkd, redis, postgres, rabbitmq, lmstfy, faktory, asynq,
                  bullmq, nats, celery
  --out DIR       where plot puts the pictures; else there are the tables alone
  --into FILE     plot puts the tables into this document, between <!-- compare --> and <!-- /compare -->
  --beanstalkd FILE, --redis FILE
                  these programs are run; else those in PATH or in target/tools/bin
";

/// What can be measured.
const WHAT: &str = "`engine`, `http`, `grpc`, `beanstalk`, `push`, `redis`, `compare` or `plot`";

const PEERS: [&str; 10] = [
    "beanstalkd",
    "redis",
    "postgres",
    "rabbitmq",
    "lmstfy",
    "faktory",
    "asynq",
    "bullmq",
    "nats",
    "celery",
];

const PARTS: &str = "keep, rates, lateness, stalls or takeover";

pub(crate) enum Command {
    Help,
    Engine(Box<Args>),
    Http(Box<Args>),
    Grpc(Box<Args>),
    Beanstalk(Box<Args>),
    Push(Box<Args>),
    Redis(Box<Args>),
    Compare(Box<Args>),
    /// Shows what was measured before.
    Plot {
        files: Vec<PathBuf>,
        out: Option<PathBuf>,
        into: Option<PathBuf>,
    },
    /// A store in a process of its own, to be watched and killed.
    Child {
        folder: PathBuf,
        segment_bytes: u32,
    },
}

pub(crate) struct Args {
    pub(crate) sizes: Vec<u64>,
    pub(crate) only: Vec<Part>,
    /// Of the rates only those whose names have this in them.
    pub(crate) rates: String,
    pub(crate) effort: Effort,
    pub(crate) folder: Option<PathBuf>,
    pub(crate) json: Option<PathBuf>,
    /// The server to measure, if it is not that of this tree.
    pub(crate) linger: Option<PathBuf>,
    pub(crate) beanstalkd: Option<PathBuf>,
    pub(crate) redis: Option<PathBuf>,
    /// Who is measured beside Linger; all, if none is named.
    pub(crate) peers: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Memory, disk, idle CPU, opening.
    Keep,
    Rates,
    Lateness,
    Stalls,
    /// What comes of an instance's jobs when it is killed.
    Takeover,
}

/// How long and how often.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    pub(crate) name: &'static str,
    pub(crate) rounds: usize,
    /// A rate is measured for so long.
    pub(crate) rate: Duration,
    /// Or until so many jobs were touched, so that the store keeps its size.
    pub(crate) jobs_max: u64,
    pub(crate) lateness: Duration,
    pub(crate) stalls: Duration,
    pub(crate) idle: Duration,
    /// How long the store is left alone after most of its jobs are gone.
    pub(crate) rest: Duration,
    /// How large the log's files are.
    pub(crate) segment_bytes: u32,
    /// How long instances that share a store keep their buckets without a word.
    pub(crate) lease: Duration,
}

const FULL: Effort = Effort {
    name: "full",
    rounds: 3,
    rate: Duration::from_millis(1500),
    jobs_max: 100_000,
    lateness: Duration::from_secs(5),
    stalls: Duration::from_secs(20),
    idle: Duration::from_secs(10),
    rest: Duration::from_secs(60),
    segment_bytes: 64 << 20,
    lease: Duration::from_secs(3),
};

const QUICK: Effort = Effort {
    name: "quick",
    rate: Duration::from_millis(500),
    lateness: Duration::from_secs(2),
    stalls: Duration::from_secs(8),
    idle: Duration::from_secs(4),
    rest: Duration::from_secs(20),
    ..FULL
};

const SMOKE: Effort = Effort {
    name: "smoke",
    rounds: 1,
    rate: Duration::from_millis(20),
    jobs_max: 500,
    lateness: Duration::from_millis(100),
    stalls: Duration::from_millis(200),
    idle: Duration::from_millis(100),
    rest: Duration::from_millis(100),
    segment_bytes: 1 << 20,
    lease: Duration::from_millis(500),
};

impl Effort {
    /// Whether it may take hours.
    pub(crate) fn is_full(self) -> bool {
        self.name == FULL.name
    }

    pub(crate) fn is_quick(self) -> bool {
        self.name == QUICK.name
    }
}

pub(crate) fn parse() -> Result<Command, String> {
    read(lexopt::Parser::from_env()).map_err(|wrong| wrong.to_string())
}

fn read(mut given: lexopt::Parser) -> Result<Command, lexopt::Error> {
    let mut args = Args {
        sizes: Vec::new(),
        only: vec![Part::Keep, Part::Rates, Part::Lateness, Part::Stalls, Part::Takeover],
        rates: String::new(),
        effort: FULL,
        folder: None,
        json: None,
        linger: None,
        beanstalkd: None,
        redis: None,
        peers: Vec::new(),
    };
    let (mut command, mut files) = (None, Vec::new());
    let (mut out, mut into) = (None, None);
    while let Some(arg) = given.next()? {
        match arg {
            Long("help") | Short('h') => return Ok(Command::Help),
            Long("sizes") => args.sizes = list(&given.value()?.string()?, size)?,
            Long("only") => args.only = list(&given.value()?.string()?, part)?,
            Long("rates") => args.rates = given.value()?.string()?,
            Long("quick") => args.effort = QUICK,
            Long("smoke") => args.effort = SMOKE,
            Long("folder") => args.folder = Some(given.value()?.into()),
            Long("json") => args.json = Some(given.value()?.into()),
            Long("linger") => args.linger = Some(given.value()?.into()),
            Long("beanstalkd") => args.beanstalkd = Some(given.value()?.into()),
            Long("redis") => args.redis = Some(given.value()?.into()),
            Long("peers") => args.peers = list(&given.value()?.string()?, peer)?,
            Long("out") => out = Some(given.value()?.into()),
            Long("into") => into = Some(given.value()?.into()),
            Value(name) if command.is_none() && name == "child" => {
                let folder = given.value()?.into();
                return Ok(Command::Child { folder, segment_bytes: given.value()?.parse()? });
            }
            Value(name) if command.is_none() => command = Some(name.string()?),
            Value(file) if command.as_deref() == Some("plot") => files.push(file.into()),
            other => return Err(other.unexpected()),
        }
    }
    let sizes_of = |sizes: &[u64]| if args.sizes.is_empty() { sizes.to_vec() } else { args.sizes };
    match command.as_deref() {
        Some("engine") => {
            let sizes = sizes_of(&[10_000, 1_000_000, 10_000_000]);
            Ok(Command::Engine(Box::new(Args { sizes, ..args })))
        }
        Some("http") => {
            let sizes = sizes_of(&[10_000, 10_000_000]);
            Ok(Command::Http(Box::new(Args { sizes, ..args })))
        }
        Some("grpc") => {
            let sizes = sizes_of(&[10_000]);
            Ok(Command::Grpc(Box::new(Args { sizes, ..args })))
        }
        Some("beanstalk") => {
            let sizes = sizes_of(&[10_000]);
            Ok(Command::Beanstalk(Box::new(Args { sizes, ..args })))
        }
        Some("push") => {
            let sizes = sizes_of(&[10_000]);
            Ok(Command::Push(Box::new(Args { sizes, ..args })))
        }
        Some("redis") => {
            let sizes = sizes_of(&[100_000]);
            Ok(Command::Redis(Box::new(Args { sizes, ..args })))
        }
        Some("compare") => {
            let (few, many): (&[u64], &[u64]) =
                (&[100_000], &[10_000, 1_000_000, 5_000_000, 10_000_000]);
            let sizes = sizes_of(if args.effort.is_full() { many } else { few });
            Ok(Command::Compare(Box::new(Args { sizes, ..args })))
        }
        Some("plot") if files.is_empty() => Err("say which files to plot".into()),
        Some("plot") => Ok(Command::Plot { files, out, into }),
        Some(other) => Err(format!("there is no `{other}`; say {WHAT}").into()),
        None => Err(format!("say what to measure: {WHAT}").into()),
    }
}

fn list<T>(text: &str, one: fn(&str) -> Result<T, lexopt::Error>) -> Result<Vec<T>, lexopt::Error> {
    text.split(',').map(one).collect()
}

fn part(text: &str) -> Result<Part, lexopt::Error> {
    match text {
        "keep" => Ok(Part::Keep),
        "rates" => Ok(Part::Rates),
        "lateness" => Ok(Part::Lateness),
        "stalls" => Ok(Part::Stalls),
        "takeover" => Ok(Part::Takeover),
        _ => Err(format!("there is no part `{text}`; give {PARTS}").into()),
    }
}

fn peer(text: &str) -> Result<String, lexopt::Error> {
    match PEERS.contains(&text) {
        true => Ok(text.to_owned()),
        false => {
            Err(format!("there is no peer `{text}`; give some of {}", PEERS.join(", ")).into())
        }
    }
}

fn size(text: &str) -> Result<u64, lexopt::Error> {
    let (digits, scale) = match text.as_bytes().last() {
        Some(b'k') => (&text[..text.len() - 1], 1000),
        Some(b'm') => (&text[..text.len() - 1], 1_000_000),
        _ => (text, 1),
    };
    let number: Option<u64> = digits.parse().ok().and_then(|n: u64| n.checked_mul(scale));
    // Slots of the index are 32 bits wide.
    match number.filter(|number| (1..=1_000_000_000).contains(number)) {
        Some(number) => Ok(number),
        None => Err(format!("`{text}` is no size; write 500, 10k or 1m").into()),
    }
}

/// A size as it is written.
pub(crate) fn size_text(size: u64) -> String {
    match size {
        0 => "0".into(),
        _ if size.is_multiple_of(1_000_000) => format!("{} M", size / 1_000_000),
        _ if size.is_multiple_of(1000) => format!("{} k", size / 1000),
        _ => size.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_they_are_written() {
        let read = |text| list(text, size).ok();
        assert_eq!(read("500,10k,1m"), Some(vec![500, 10_000, 1_000_000]));
        for wrong in ["", "k", "0", "-1", "1x", "10k,", "5000000k"] {
            assert_eq!(read(wrong), None, "{wrong:?}");
        }
    }
}
