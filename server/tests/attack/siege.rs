//! A server under attack, and someone else who wants to be served.

use std::time::Duration;

use hyper::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::served::{Caller, Served};

/// Only to fail rather than hang.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
pub(crate) const MIB: u64 = 1 << 20;

/// So many in the sizes that are told of, or so few in the minute between two edits.
pub(crate) fn many(long: usize, short: usize) -> usize {
    if std::env::var_os("LINGER_TEST_LONG").is_some() { long } else { short }
}

/// The binary, and a client of good will.
pub(crate) struct Siege {
    pub(crate) served: Served,
    pub(crate) beanstalkd: String,
    other: Caller,
    before: u64,
    _folder: tempfile::TempDir,
}

impl Siege {
    /// Starts a server with some settings.
    pub(crate) async fn begin(settings: &[&str]) -> Siege {
        raise_file_limit();
        let folder = tempfile::tempdir().unwrap();
        let mut args = vec!["--beanstalkd", "127.0.0.1:0"];
        args.extend(settings.iter().flat_map(|setting| ["--set", setting]));
        let mut served = Served::listening(&folder.path().join("data"), &args).await;
        let line = served.says("the beanstalkd protocol").await;
        let beanstalkd = line.rsplit(' ').next().unwrap().to_owned();
        served.says(" ready").await;
        let other = served.caller();
        let mut siege = Siege { served, beanstalkd, other, before: 0, _folder: folder };
        // What is made at first use is no growth.
        siege.others_are_served().await;
        siege.before = siege.memory().0;
        siege
    }

    /// What it holds of the machine's memory, and the most it has held, in bytes.
    fn memory(&self) -> (u64, u64) {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.served.process.id()));
        let status = status.expect("it runs");
        let kib = |name: &str| -> u64 {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("it is told");
            line.trim().trim_end_matches(" kB").parse().expect("a number")
        };
        (kib("VmRSS:") << 10, kib("VmHWM:") << 10)
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(&self.served.address).await.expect("it listens")
    }

    /// So many connections that have all said this.
    pub(crate) async fn connect_many(&self, count: usize, say: &[u8]) -> Vec<TcpStream> {
        let mut streams = Vec::with_capacity(count);
        for _ in 0..count {
            let mut stream = self.connect().await;
            // It may have been cut off by then.
            let _ = stream.write_all(say).await;
            streams.push(stream);
        }
        streams
    }

    /// Adds, pops and finishes a job as anybody would.
    pub(crate) async fn others_are_served(&self) {
        let body = json!({ "topic": "others", "body": "x" }).to_string();
        self.other.post("/v1/jobs", &body).await.ok(201);
        let popped = self.other.post("/v1/topics/others/pop", "{}").await.ok(200);
        let job = &popped["jobs"][0];
        let path = format!("/v1/topics/others/jobs/{}/finish", job["id"].as_str().expect("an id"));
        self.other.post(&path, &json!({ "lease": job["lease"] }).to_string()).await.ok(200);
    }

    /// How many pops wait for jobs.
    pub(crate) async fn waiting(&self) -> u64 {
        let metrics = self.other.text(Method::GET, "/metrics", String::new()).await;
        let line = metrics.lines().find_map(|line| line.strip_prefix("linger_waiting "));
        line.expect("it is told").parse().expect("a number")
    }

    /// One who wants to wait is told that too many do.
    pub(crate) async fn refuses_to_wait(&self) {
        let refused = self.other.post("/v1/topics/others/pop", r#"{"wait":"30s"}"#).await;
        assert_eq!((refused.status, refused.code()), (503, "overloaded"));
    }

    /// Others are served, and the server has grown by less than this at any time.
    pub(crate) async fn holds(&self, attack: &str, growth_max: u64) {
        self.others_are_served().await;
        let (now, most) = self.memory();
        let grown = most.saturating_sub(self.before);
        println!(
            "{attack}: {} MiB before, {} MiB more at most, {} MiB now",
            self.before / MIB,
            grown / MIB,
            now / MIB
        );
        assert!(grown < growth_max, "{attack}: it has grown by {} MiB", grown / MIB);
    }
}

/// Reads until the server hangs up, in whatever way; what it said, as far as that is short.
pub(crate) async fn to_the_end(stream: &mut TcpStream) -> String {
    let (mut said, mut piece) = (Vec::new(), [0; 4096]);
    let read = async {
        while let Ok(count @ 1..) = stream.read(&mut piece).await {
            if said.len() < 1 << 16 {
                said.extend_from_slice(&piece[..count]);
            }
        }
    };
    tokio::time::timeout(PATIENCE, read).await.expect("the server hangs up");
    String::from_utf8_lossy(&said).into_owned()
}

/// All of them end, whatever they were told.
pub(crate) async fn all_end(streams: Vec<TcpStream>) {
    let mut ends = JoinSet::new();
    for mut stream in streams {
        ends.spawn(async move { to_the_end(&mut stream).await });
    }
    ends.join_all().await;
}

/// As many files as may be open, for us and those we start.
fn raise_file_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

/// How many connections this machine lets us have, of those that are wanted: each is a file here and
/// one there.
pub(crate) fn as_many_as_may_be(wanted: usize) -> usize {
    use rustix::process::{Resource, getrlimit};
    raise_file_limit();
    let most = getrlimit(Resource::Nofile).current.map_or(usize::MAX, |most| most as usize);
    wanted.min(most.saturating_sub(500))
}
