//! Peers that are libraries, or speak protocols of their own: each has programs in `bench/peers`.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use super::ask::{Ask, Told, Work};
use super::peer::{Class, Doer, redis_settings, start_redis};
use crate::args::Effort;
use crate::server::Server;
use crate::{Result, tools};

pub(super) struct Driven {
    /// What its figures are called.
    pub(super) title: &'static str,
    /// Where its programs are.
    folder: PathBuf,
    version: String,
    /// How it is usually run.
    usual: &'static [Class],
    /// The Redis that it needs, and what that is told; or it has a server of its own.
    redis: Option<(PathBuf, Vec<String>)>,
}

/// Calls the program.
pub(super) struct Driver {
    run: PathBuf,
    port: u16,
}

/// Their folders, what they are called, and how they are usually run.
const ALL: [(&str, &str, &[Class]); 6] = [
    ("lmstfy", "lmstfy", &[Class::Relaxed]),
    ("faktory", "Faktory", &[Class::Relaxed]),
    ("asynq", "asynq", &[Class::Relaxed]),
    ("bullmq", "BullMQ", &[Class::Relaxed]),
    ("nats", "NATS schedules", &Class::ALL),
    ("celery", "Celery", &[Class::Relaxed]),
];
/// Where they find what was installed for them.
const TOOLS: &str = "LINGER_BENCH_TOOLS";
/// What a program may take beside the time that it is told, for starting and for jobs that are to be there.
const BESIDE_MAX: Duration = Duration::from_secs(180);
/// And for each job that it is to add first.
const EACH_MAX: Duration = Duration::from_millis(2);

impl Driven {
    /// All that are wanted, or why one is not there.
    pub(super) fn all(
        redis: Option<&Path>,
        wanted: impl Fn(&str) -> bool,
    ) -> Vec<(&'static str, std::result::Result<Driven, String>)> {
        let all = ALL.iter().filter(|(name, ..)| wanted(name));
        let find = |name, title, usual| {
            Driven::find(name, title, usual, redis)
                .map_err(|why| format!("not found: skipped ({why})"))
        };
        all.map(|(name, title, usual)| (*name, find(name, title, usual))).collect()
    }

    fn find(
        name: &str,
        title: &'static str,
        usual: &'static [Class],
        redis: Option<&Path>,
    ) -> Result<Driven> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers").join(name);
        if !folder.join("run").is_file() {
            return Err(format!("there is no bench/peers/{name}/run").into());
        }
        let said = command(&folder.join("version")).output()?;
        let line = |bytes: &[u8]| {
            let text = String::from_utf8_lossy(bytes);
            text.lines().next().unwrap_or_default().trim().to_owned()
        };
        if !said.status.success() {
            let Output { stdout, stderr, .. } = said;
            return Err(line(if stdout.is_empty() { &stderr } else { &stdout }).into());
        }
        let redis = match std::fs::read_to_string(folder.join("redis")) {
            Ok(more) => {
                let program = redis.ok_or("it needs redis-server")?.to_owned();
                Some((program, more.split_whitespace().map(str::to_owned).collect()))
            }
            Err(_) => None,
        };
        Ok(Driven { title, folder, version: line(&said.stdout), usual, redis })
    }

    pub(super) fn about(&self) -> String {
        self.version.clone()
    }

    /// A quick run has it as it is usually run.
    pub(super) fn classes(&self, effort: Effort) -> Vec<Class> {
        if effort.is_full() { Class::ALL.to_vec() } else { self.usual.to_vec() }
    }

    pub(super) fn settings(&self, class: Class) -> String {
        let said = std::fs::read_to_string(self.folder.join("settings")).unwrap_or_default();
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        let server = match &self.redis {
            Some((_, more)) => {
                format!("redis-server {} {}", redis_settings(class), more.join(" "))
            }
            None => format!("server: {}", class.name()),
        };
        [server.trim().to_owned(), said].join("; ").trim_end_matches("; ").to_owned()
    }

    pub(super) fn start(&self, folder: &Path, port: u16, class: Class) -> Result<Server> {
        if let Some((program, more)) = &self.redis {
            return start_redis(program, folder, port, class, more);
        }
        let mut serve = command(&self.folder.join("serve"));
        serve.arg(port.to_string()).arg(folder).arg(class.word()).stderr(Stdio::null());
        Server::start_on(port, serve)
    }

    pub(super) fn doer(&self, port: u16) -> Driver {
        Driver { run: self.folder.join("run"), port }
    }
}

impl Doer for Driver {
    fn run(&mut self, ask: Ask) -> Result<Told> {
        let mut run = command(&self.run);
        run.arg(self.port.to_string()).arg(ask.work.word()).arg(ask.at_once.to_string());
        run.arg(ask.limit.turns.to_string());
        // It need not hold more than 32 bits.
        run.arg(ask.limit.time.as_millis().min(u128::from(u32::MAX >> 1)).to_string());
        if let Work::Lateness(pace) = ask.work {
            run.arg(pace.to_string());
        }
        let beside = BESIDE_MAX + EACH_MAX * u32::try_from(ask.limit.turns).unwrap_or(u32::MAX);
        let output = within(run, ask.limit.time.saturating_add(beside))?;
        let (said, wrong) = (output.stdout, String::from_utf8_lossy(&output.stderr).into_owned());
        if !output.status.success() {
            let last = wrong.trim().lines().last().unwrap_or("it said nothing").to_owned();
            return Err(format!("{}: {last}", output.status).into());
        }
        let said = String::from_utf8_lossy(&said);
        Told::read(said.trim().lines().last().unwrap_or_default())
    }
}

fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    if let Some(tools) = tools::folder() {
        command.env(TOOLS, tools);
    }
    command
}

/// What a program says that ends within this time; else it is ended.
fn within(mut command: Command, time: Duration) -> Result<Output> {
    let process = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = process.spawn().map_err(|cause| format!("{command:?}: {cause}"))?;
    // What it says is short, and fits into a pipe.
    let start = Instant::now();
    while process.try_wait()?.is_none() {
        if start.elapsed() > time {
            for id in crate::process::tree(process.id()) {
                _ = Command::new("kill").args(["-9", &id.to_string()]).status();
            }
            process.wait()?;
            return Err(format!("{command:?} did not end within {time:?}").into());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(process.wait_with_output()?)
}
