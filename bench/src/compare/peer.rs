//! Who is measured: Linger and those who stand beside it, each a program of its own that is started
//! anew.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

use linger::store::embedded::Durability;
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

use super::ask::{Ask, Told};
use super::bytes::{Beanstalk, Lua};
use super::driven::Driven;
use super::http::Http;
use super::works::Works;
use super::{postgres, rabbitmq};
use crate::args::{Args, Effort};
use crate::beanstalk::client::{Speaks, Target};
use crate::push::broker::rabbitmq::{Served, serve};
use crate::server::{Linger, Ports, Server, free_port};
use crate::{Result, process, tools};

/// Whether what is answered can still be lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// It is on the disk before the answer.
    Synced,
    Relaxed,
}

/// A program and how it is to run.
#[derive(Clone)]
pub(super) struct Peer {
    /// What its figures are called.
    pub(super) name: String,
    pub(super) class: Class,
    pub(super) settings: String,
    kind: Kind,
}

#[derive(Clone)]
enum Kind {
    Linger(Rc<Linger>, Door),
    Beanstalkd(PathBuf, &'static [&'static str]),
    Redis(PathBuf),
    Postgres(postgres::Programs),
    RabbitMq(PathBuf),
    Driven(Rc<Driven>),
}

/// Which door of Linger's is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Door {
    Http,
    Beanstalkd,
}

/// One that runs; it ends with this, and so does its folder.
pub(super) struct Running {
    peer: Peer,
    /// The first is the one that is called.
    servers: Vec<Server>,
    doer: Box<dyn Doer>,
    port: u16,
    folder: TempDir,
}

/// Whoever does works on a server.
pub(super) trait Doer {
    fn run(&mut self, ask: Ask) -> Result<Told>;
}

impl<C: super::works::Client> Doer for Works<C> {
    fn run(&mut self, ask: Ask) -> Result<Told> {
        Works::run(self, ask)
    }
}

pub(super) const HTTP: &str = "Linger, HTTP";
pub(super) const PORT: &str = "Linger, beanstalkd port";
const NO_LOG: &[&str] = &[];
const SYNC_EACH: &[&str] = &["-f0"];
const SYNC_AT_50_MS: &[&str] = &["-f50"];
const SYNC_NEVER: &[&str] = &["-F"];
/// One that listens answers within this time; with millions of jobs that takes a while.
const READY_MAX: Duration = Duration::from_secs(600);
/// Within this time a process that was killed is gone.
const GONE_MAX: Duration = Duration::from_secs(10);

/// All that can be measured, and what there is to say of each program.
pub(super) struct Peers {
    pub(super) all: Vec<Peer>,
    pub(super) facts: Vec<(String, String)>,
}

impl Class {
    pub(super) const ALL: [Class; 2] = [Class::Synced, Class::Relaxed];

    pub(super) fn name(self) -> &'static str {
        match self {
            Class::Synced => "synced",
            Class::Relaxed => "relaxed",
        }
    }

    /// What Linger calls it, and programs are told.
    pub(super) fn word(self) -> &'static str {
        match self {
            Class::Synced => "sync",
            Class::Relaxed => "relaxed",
        }
    }

    fn durability(self) -> Durability {
        match self {
            Class::Synced => Durability::Sync,
            Class::Relaxed => Durability::Relaxed,
        }
    }
}

impl Peers {
    /// Finds the programs. Linger is always there, for it is built.
    pub(super) fn find(args: &Args, within: &Path) -> Result<Peers> {
        let mut peers = Peers { all: Vec::new(), facts: Vec::new() };
        peers.lingers(Linger::build(args.linger.as_deref())?);
        let wanted = |name: &str| args.peers.is_empty() || args.peers.iter().any(|one| one == name);
        let redis = args.redis.clone().or_else(|| tools::find("redis-server"));
        if wanted("beanstalkd") {
            peers.beanstalkds(args.beanstalkd.clone().or_else(|| tools::find("beanstalkd")));
        }
        // Others need it, too.
        peers.fact("redis", redis.as_deref().map(tools::version));
        if wanted("redis") {
            peers.redises(redis.as_deref());
        }
        if wanted("postgres") {
            peers.postgreses(postgres::Programs::find());
        }
        if wanted("rabbitmq") {
            peers.rabbits(tools::find("rabbitmq-server"), args.effort, within);
        }
        for (name, driven) in Driven::all(redis.as_deref(), wanted) {
            peers.driven(name, driven, args.effort);
        }
        Ok(peers)
    }

    fn lingers(&mut self, linger: Linger) {
        let linger = Rc::new(linger);
        for class in Class::ALL {
            let settings = format!("--durability {}", class.word());
            for (name, door) in [(HTTP, Door::Http), (PORT, Door::Beanstalkd)] {
                self.push(name, class, settings.clone(), Kind::Linger(linger.clone(), door));
            }
        }
    }

    fn beanstalkds(&mut self, program: Option<PathBuf>) {
        self.fact("beanstalkd", program.as_deref().map(tools::version));
        let Some(program) = program else { return };
        for (name, class, log) in [
            ("beanstalkd -f0", Class::Synced, SYNC_EACH),
            ("beanstalkd", Class::Relaxed, NO_LOG),
            ("beanstalkd -f50", Class::Relaxed, SYNC_AT_50_MS),
        ] {
            let settings =
                if log == NO_LOG { "no log".into() } else { format!("-b DIR {}", log[0]) };
            self.push(name, class, settings, Kind::Beanstalkd(program.clone(), log));
        }
    }

    fn redises(&mut self, program: Option<&Path>) {
        let Some(program) = program else { return };
        for class in Class::ALL {
            let settings = format!("{}; scripts, polled every ms", redis_settings(class));
            self.push("Redis + Lua", class, settings, Kind::Redis(program.to_owned()));
        }
    }

    fn postgreses(&mut self, programs: Option<postgres::Programs>) {
        self.fact("postgres", programs.as_ref().map(postgres::Programs::version));
        let Some(programs) = programs else { return };
        for class in Class::ALL {
            let kind = Kind::Postgres(programs.clone());
            self.push("PostgreSQL", class, postgres::settings(class), kind);
        }
    }

    fn rabbits(&mut self, program: Option<PathBuf>, effort: Effort, within: &Path) {
        let version = program.as_ref().map(|program| {
            let said = rabbitmq_version(program, within);
            said.unwrap_or_else(|wrong| format!("does not start: {wrong}"))
        });
        self.fact("rabbitmq", version);
        let Some(program) = program else { return };
        // It takes seconds to start, so that a quick run has it as it is usually run.
        let classes = if effort.is_quick() { &Class::ALL[..1] } else { &Class::ALL };
        for class in classes {
            let settings = rabbitmq::settings(*class).to_owned();
            self.push("RabbitMQ", *class, settings, Kind::RabbitMq(program.clone()));
        }
    }

    fn driven(&mut self, name: &str, driven: std::result::Result<Driven, String>, effort: Effort) {
        let fact = driven.as_ref().map_or_else(Clone::clone, Driven::about);
        self.facts.push((name.to_owned(), fact));
        let Ok(driven) = driven else { return };
        let driven = Rc::new(driven);
        for class in driven.classes(effort) {
            let settings = driven.settings(class);
            self.push(driven.title, class, settings, Kind::Driven(driven.clone()));
        }
    }

    fn push(&mut self, name: &str, class: Class, settings: String, kind: Kind) {
        self.all.push(Peer { name: name.to_owned(), class, settings, kind });
    }

    fn fact(&mut self, name: &str, version: Option<String>) {
        let missing = || "not found: skipped".into();
        self.facts.push((name.to_owned(), version.unwrap_or_else(missing)));
    }
}

impl Peer {
    pub(super) fn is_linger(&self) -> bool {
        matches!(self.kind, Kind::Linger(..))
    }

    /// Whether it has anything to come back with.
    pub(super) fn keeps(&self) -> bool {
        let forgets = matches!(self.kind, Kind::Beanstalkd(_, log) if log == NO_LOG)
            || matches!(self.kind, Kind::RabbitMq(_)) && self.class == Class::Relaxed;
        !forgets
    }

    pub(super) fn start(&self, within: &Path) -> Result<Running> {
        let (folder, port) = (tempfile::tempdir_in(within)?, free_port()?);
        let (servers, doer) = self.start_at(folder.path(), port)?;
        Ok(Running { peer: self.clone(), servers, doer, port, folder })
    }

    /// Starts it in a way that takes many jobs soon; when it is restarted it is what it should be.
    pub(super) fn start_to_fill(&self, within: &Path) -> Result<Running> {
        let mut filling = self.clone();
        match &mut filling.kind {
            Kind::Beanstalkd(_, log @ SYNC_EACH) => *log = SYNC_NEVER,
            // What is in their files is the same.
            Kind::Redis(_) | Kind::Driven(_) => filling.class = Class::Relaxed,
            _ => {}
        }
        let mut running = filling.start(within)?;
        running.peer = self.clone();
        Ok(running)
    }

    /// Starts it on a folder, and waits until it answers.
    fn start_at(&self, folder: &Path, port: u16) -> Result<(Vec<Server>, Box<dyn Doer>)> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        match &self.kind {
            Kind::Linger(linger, door) => {
                let (store, durability) = (folder.join("store"), self.class.durability());
                let server =
                    linger.start_with(&store, durability, Ports::HttpAndBeanstalkd, &[])?;
                let port = server.beanstalkd.ok_or("linger has no beanstalkd port")?;
                let doer: Box<dyn Doer> = match door {
                    Door::Http => Box::new(Works::<Http>::new(one_thread()?, server.address)),
                    Door::Beanstalkd => Box::new(beanstalk(port)?),
                };
                Ok((vec![server], doer))
            }
            Kind::Beanstalkd(program, log) => {
                let mut command = Command::new(program);
                command.args(["-l", "127.0.0.1", "-p", &port.to_string()]);
                if *log != NO_LOG {
                    command.arg("-b").arg(folder).args(*log);
                }
                // It tells of every connection that is not closed in good order.
                command.stderr(Stdio::null());
                let server = Server::start_on(port, command)?;
                // It listens before it has read its log.
                said(address, "list-tube-used\r\n", "USING")?;
                Ok((vec![server], Box::new(beanstalk(address)?)))
            }
            Kind::Redis(program) => {
                let server = start_redis(program, folder, port, self.class, &[])?;
                let target = Target { address, speaks: Speaks::Redis };
                Ok((vec![server], Box::new(Works::<Lua>::new(one_thread()?, target))))
            }
            Kind::Postgres(programs) => {
                let server = programs.start(folder, self.class, port)?;
                let runtime = Runtime::new()?;
                until_ready(|| runtime.block_on(postgres::ready(address)))?;
                Ok((vec![server], Box::new(Works::<postgres::Connection>::new(runtime, address))))
            }
            Kind::RabbitMq(program) => {
                let Served { server, epmd } = serve(program, folder, port, rabbitmq::SETTINGS)?;
                let (runtime, to) = (Runtime::new()?, (address, self.class));
                until_ready(|| runtime.block_on(rabbitmq::ready(address, self.class)))?;
                Ok((vec![server, epmd], Box::new(Works::<rabbitmq::Rabbit>::new(runtime, to))))
            }
            Kind::Driven(driven) => {
                let server = driven.start(folder, port, self.class)?;
                Ok((vec![server], Box::new(driven.doer(port))))
            }
        }
    }
}

impl Running {
    /// Has a work done. One that goes wrong is said, and others can go on.
    pub(super) fn ask(&mut self, ask: Ask) -> Told {
        let run = AssertUnwindSafe(|| self.doer.run(ask));
        match catch_unwind(run) {
            Ok(Ok(told)) => told,
            Ok(Err(wrong)) => Told::Not(format!("failed: {wrong}")),
            Err(_) => Told::Not("failed".into()),
        }
    }

    /// Memory in use, in bytes.
    pub(super) fn memory(&self) -> u64 {
        process::bytes_of(&self.servers[0].processes())
    }

    /// What it has on the disk, in bytes.
    pub(super) fn disk(&self) -> u64 {
        crate::disk::allocated(self.folder.path())
    }

    /// Kills it as `kill -9` does, and starts it again; answers how long it took to be there.
    pub(super) fn restart(&mut self) -> Result<Duration> {
        self.kill();
        let start = Instant::now();
        (self.servers, self.doer) = self.peer.start_at(self.folder.path(), self.port)?;
        Ok(start.elapsed())
    }

    fn kill(&mut self) {
        let all: Vec<u32> = self.servers.iter().flat_map(Server::processes).collect();
        self.servers.clear();
        let is_there = |id: &&u32| Path::new("/proc").join(id.to_string()).exists();
        let rest: Vec<String> = all.iter().filter(is_there).map(u32::to_string).collect();
        if !rest.is_empty() {
            let mut kill = Command::new("kill");
            // Some may be gone in between.
            _ = kill.arg("-9").args(&rest).stderr(Stdio::null()).status();
        }
        let start = Instant::now();
        while all.iter().any(|id| is_there(&id)) && start.elapsed() < GONE_MAX {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

/// It tells only when it runs.
fn rabbitmq_version(program: &Path, within: &Path) -> Result<String> {
    let folder = tempfile::tempdir_in(within)?;
    let served = serve(program, folder.path(), free_port()?, "")?;
    rabbitmq::version(served.server.address)
}

fn one_thread() -> Result<Runtime> {
    Ok(Builder::new_current_thread().enable_all().build()?)
}

fn beanstalk(address: SocketAddr) -> Result<Works<Beanstalk>> {
    let target = Target { address, speaks: Speaks::Beanstalk };
    Ok(Works::new(one_thread()?, target))
}

/// Starts a Redis in a folder, and waits until it has read what is there.
pub(super) fn start_redis(
    program: &Path,
    folder: &Path,
    port: u16,
    class: Class,
    more: &[String],
) -> Result<Server> {
    let mut command = Command::new(program);
    command.args(["--bind", "127.0.0.1", "--port", &port.to_string()]);
    command.arg("--dir").arg(folder).args(redis_args(class)).args(more);
    let server = Server::start_on(port, command)?;
    until_ready(|| said(server.address, "PING\r\n", "+PONG"))?;
    Ok(server)
}

/// No snapshots, and no rewriting of the log in the midst of a round.
fn redis_args(class: Class) -> [&'static str; 8] {
    let sync = if class == Class::Synced { "always" } else { "everysec" };
    let (save, rewrite) = ("--save", "--auto-aof-rewrite-percentage");
    ["--appendonly", "yes", "--appendfsync", sync, save, "", rewrite, "0"]
}

/// As they would be typed.
pub(super) fn redis_settings(class: Class) -> String {
    redis_args(class).map(|arg| if arg.is_empty() { "''" } else { arg }).join(" ")
}

/// Says something to a server, whose answer must begin so.
fn said(address: SocketAddr, words: &str, answer: &str) -> Result<()> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(READY_MAX))?;
    stream.write_all(words.as_bytes())?;
    let mut input = [0; 256];
    let read = stream.read(&mut input)?;
    let said = String::from_utf8_lossy(&input[..read]);
    if read == 0 || !said.starts_with(answer) {
        return Err(format!("it says {said}").into());
    }
    Ok(())
}

/// Asks again and again until there is an answer: one that listens may not be ready yet.
fn until_ready(mut ask: impl FnMut() -> Result<()>) -> Result<()> {
    let start = Instant::now();
    loop {
        match ask() {
            Ok(()) => return Ok(()),
            Err(why) if start.elapsed() > READY_MAX => return Err(why),
            Err(_) => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}
