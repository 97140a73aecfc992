//! The servers that are measured, each a process of its own.

use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use linger::store::embedded::Durability;
use serde_json::Value;

use crate::{Result, process};

/// The programs as they are now.
pub(crate) struct Programs {
    linger: Linger,
    echo: PathBuf,
    grpc_echo: PathBuf,
    receiver: PathBuf,
    bare_push: PathBuf,
    bare_publish: PathBuf,
}

/// The server to be measured.
pub(crate) struct Linger(PathBuf);

/// What cargo says that it has made.
struct Made(Vec<Value>);

/// A server that runs; it ends with this.
pub(crate) struct Server {
    process: Child,
    pub(crate) address: SocketAddr,
    /// Where Linger speaks beanstalkd's protocol, if it was told to.
    pub(crate) beanstalkd: Option<SocketAddr>,
}

/// Where Linger listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ports {
    Http,
    HttpAndBeanstalkd,
}

/// What stands beside Linger, of the server's examples.
const EXAMPLES: [&str; 5] = ["echo", "grpc_echo", "receiver", "bare_push", "bare_publish"];
/// Where the crate is that cargo runs.
const MANIFEST_DIR: &str = "CARGO_MANIFEST_DIR";
/// A server that is told its port listens there within this time. Brokers take seconds, and on a machine
/// that has much else to do a minute; one that ends is noticed at once.
const START_MAX: Duration = Duration::from_secs(180);

impl Programs {
    /// Builds them, so that what is measured is what stands in the tree.
    pub(crate) fn build(linger: Option<&Path>) -> Result<Programs> {
        let made = Made::build(&EXAMPLES)?;
        Ok(Programs {
            linger: match linger {
                Some(linger) => Linger(linger.to_owned()),
                None => Linger(made.program("linger")?),
            },
            echo: made.program("echo")?,
            grpc_echo: made.program("grpc_echo")?,
            receiver: made.program("receiver")?,
            bare_push: made.program("bare_push")?,
            bare_publish: made.program("bare_publish")?,
        })
    }

    /// Starts the echo of HTTP.
    pub(crate) fn echo(&self) -> Result<Server> {
        Programs::start(&self.echo, &[])
    }

    /// Starts the echo of gRPC.
    pub(crate) fn grpc_echo(&self) -> Result<Server> {
        Programs::start(&self.grpc_echo, &[])
    }

    /// Starts one that takes webhooks.
    pub(crate) fn receiver(&self) -> Result<Server> {
        Programs::start(&self.receiver, &[])
    }

    /// Starts the bare loop of posts.
    pub(crate) fn bare_push(&self) -> Result<Server> {
        Programs::start(&self.bare_push, &[])
    }

    /// Starts the bare client of a broker; these are its kind, its URL and where in it to publish.
    pub(crate) fn bare_publish(&self, to: &[&str; 3]) -> Result<Server> {
        Programs::start(&self.bare_publish, to)
    }

    /// Starts a program that first of all says where it listens.
    fn start(program: &Path, args: &[&str]) -> Result<Server> {
        let mut process = Command::new(program).args(args).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        let out = process.stdout.take().ok_or("the program has no output")?;
        BufReader::new(out).read_line(&mut line)?;
        Ok(Server { address: line.trim().parse()?, beanstalkd: None, process })
    }

    /// Starts Linger on a store.
    pub(crate) fn linger(
        &self,
        store: &Path,
        durability: Durability,
        ports: Ports,
    ) -> Result<Server> {
        self.linger_with(store, durability, ports, &[])
    }

    /// Starts Linger on a store, with some settings of its own.
    pub(crate) fn linger_with(
        &self,
        store: &Path,
        durability: Durability,
        ports: Ports,
        settings: &[&str],
    ) -> Result<Server> {
        self.linger.start_with(store, durability, ports, settings)
    }
}

impl Linger {
    /// The given one; else that of this tree, which is built.
    pub(crate) fn build(given: Option<&Path>) -> Result<Linger> {
        match given {
            Some(program) => Ok(Linger(program.to_owned())),
            None => Ok(Linger(Made::build(&[])?.program("linger")?)),
        }
    }

    /// Starts Linger on a store that is shared, with some settings of its own.
    pub(crate) fn start_on(&self, store: &str, settings: &[&str]) -> Result<Server> {
        Linger::start(self.serve(Path::new(store), settings))
    }

    /// Starts Linger on a store of its own, with some settings.
    pub(crate) fn start_with(
        &self,
        store: &Path,
        durability: Durability,
        ports: Ports,
        settings: &[&str],
    ) -> Result<Server> {
        let durability = if durability == Durability::Sync { "sync" } else { "relaxed" };
        let mut linger = self.serve(store, settings);
        linger.args(["--durability", durability]);
        if ports == Ports::HttpAndBeanstalkd {
            linger.args(["--beanstalkd", "127.0.0.1:0"]);
        }
        Linger::start(linger)
    }

    fn serve(&self, store: &Path, settings: &[&str]) -> Command {
        let mut linger = Command::new(&self.0);
        linger.args(["serve", "--listen", "127.0.0.1:0", "--store"]).arg(store);
        // Nobody's settings but these; `LINGER_BENCH_TOOLS` would be an unknown one.
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("LINGER_")) {
            linger.env_remove(name);
        }
        for setting in settings {
            linger.args(["--set", setting]);
        }
        linger
    }

    /// Starts it, and reads where it listens from what it says.
    fn start(mut linger: Command) -> Result<Server> {
        let mut process = linger.stderr(Stdio::piped()).spawn()?;
        let mut said = BufReader::new(process.stderr.take().ok_or("linger has no output")?);
        let (mut address, mut beanstalkd) = (None, None);
        let mut line = String::new();
        while said.read_line(&mut line)? > 0 && !line.contains("ready") {
            let words = line.split_once("http://").and_then(|(_, rest)| rest.split_once(','));
            address = address.or(words.and_then(|(words, _)| words.parse().ok()));
            let other = line.split_once("beanstalkd protocol is served on ");
            beanstalkd = beanstalkd.or(other.and_then(|(_, rest)| rest.trim().parse().ok()));
            line.clear();
        }
        // What it says from now on is nobody's, but somebody has to take it.
        std::thread::spawn(move || said.read_to_end(&mut Vec::new()));
        let address = address.ok_or("linger did not say where it listens")?;
        Ok(Server { address, beanstalkd, process })
    }
}

impl Made {
    /// Builds the server and some of its examples.
    fn build(examples: &[&str]) -> Result<Made> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut build = Command::new(cargo);
        build.args(["build", "-p", "linger-server", "--bin", "linger"]);
        for example in examples {
            build.args(["--example", example]);
        }
        build.args(["--message-format", "json-render-diagnostics"]);
        build.arg("--manifest-path").arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml"));
        if !cfg!(debug_assertions) {
            build.arg("--release");
        }
        // What a cargo that runs us says of this crate; some crates are built anew when it changes.
        for (name, _) in std::env::vars_os() {
            let is_of_crate = |name: &str| name.starts_with("CARGO_PKG_") || name == MANIFEST_DIR;
            if name.to_str().is_some_and(is_of_crate) {
                build.env_remove(name);
            }
        }
        let output = build.stderr(Stdio::inherit()).output()?;
        if !output.status.success() {
            return Err("the server could not be built".into());
        }
        let lines = output.stdout.split(|byte| *byte == b'\n');
        Ok(Made(lines.filter_map(|line| serde_json::from_slice(line).ok()).collect()))
    }

    fn program(&self, name: &str) -> Result<PathBuf> {
        let of = |line: &&Value| line["target"]["name"] == name && line["executable"].is_string();
        let line = self.0.iter().find(of).ok_or_else(|| format!("{name} was not built"))?;
        Ok(line["executable"].as_str().unwrap_or_default().into())
    }
}

impl Server {
    /// Starts a program that is told its port, and waits until it listens there.
    pub(crate) fn start_at(command: impl FnOnce(u16) -> Command) -> Result<Server> {
        let port = free_port()?;
        Server::start_on(port, command(port))
    }

    /// Starts a program that was told this port, and waits until it listens there.
    pub(crate) fn start_on(port: u16, mut command: Command) -> Result<Server> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let process = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        let process = process.map_err(|cause| format!("{command:?}: {cause}"))?;
        let mut server = Server { process, address, beanstalkd: None };
        let start = Instant::now();
        while TcpStream::connect(address).is_err() {
            if let Some(status) = server.process.try_wait()? {
                return Err(format!("{command:?} ended before it listened: {status}").into());
            }
            if start.elapsed() > START_MAX {
                return Err(format!("{command:?} does not listen after {START_MAX:?}").into());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(server)
    }

    /// The process and those that it has started.
    pub(crate) fn processes(&self) -> Vec<u32> {
        process::tree(self.process.id())
    }

    /// The time that it has run for.
    pub(crate) fn cpu(&self) -> Duration {
        process::cpu_of_process(self.process.id())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A port of loopback that is free. Nobody is likely to take it in between.
pub(crate) fn free_port() -> Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}
