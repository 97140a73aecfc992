//! The way to Redis: one connection that many callers share and that outlives the server's
//! restarts, failovers and moves.
//!
//! A call is sent once. When its reply is lost the outcome is unknown and the caller is told so, unless
//! the store has said what may be called instead. Answers that say "not here" or "not this
//! way" (`MOVED`, `ASK`, a function that is not known) are followed, since nothing has been done by then.

mod cluster;
mod dial;
mod fault;
mod link;
mod listen;
mod sentinel;
mod slots;

use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, Value};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::Instant;

use self::cluster::Cluster;
use self::dial::{Dialer, Line, Request};
use self::fault::{Fault, Then};
use self::link::{Link, Place};
use self::listen::{Listener, Source};
use self::sentinel::Watched;
use super::address::{Address, Kind, Node};
use super::core::all;
use crate::error::{Code, Error, Result};

/// How long a call may go without its answer.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);

/// How long it may take until a server is connected, logged in and answers.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// How long to wait before a lost server is dialled again: at first, and at most.
const WAIT_MIN: Duration = Duration::from_millis(50);
const WAIT_MAX: Duration = Duration::from_secs(1);

/// How long a server may be away whose answer was lost, until the caller is told that nobody knows.
const AGAIN_WITHIN: Duration = Duration::from_secs(2);

/// How long replicas have until it is said that they do not have what was done.
const REPLICAS_WITHIN: Duration = Duration::from_secs(1);

/// How often, at most, a cluster is asked where its slots are.
const LOOK_GAP: Duration = Duration::from_millis(100);

/// How often a call follows a key before it gives up.
const REDIRECTS_MAX: usize = 5;

/// How often a connection is asked whether it still lives, since nobody else may ask it anything.
const PING_EVERY: Duration = Duration::from_secs(5);

/// How many calls stand in line for the socket; those beyond wait outside.
const IN_LINE_MAX: usize = 1024;

/// Functions that a server is given at once. Its name is made from its text, so that instances of
/// different versions can work side by side.
pub(crate) struct Library {
    name: String,
    text: String,
}

/// One of them.
pub(crate) struct Script {
    library: Arc<Library>,
    name: String,
    /// It does what callers are promised to last.
    lasts: bool,
}

impl Library {
    /// `LIBRARY` in the text stands for its name.
    pub(crate) fn new(text: &str) -> Library {
        let name = format!("linger_{}", &redis::Script::new(text).get_hash()[..16]);
        let text = format!("#!lua name={name}\n{}", text.replace("LIBRARY", &name));
        Library { name, text }
    }
}

impl Script {
    pub(crate) fn of(library: &Arc<Library>, function: &str, lasts: bool) -> Script {
        Script { library: library.clone(), name: format!("{}_{function}", library.name), lasts }
    }

    /// A library of one.
    #[cfg(test)]
    fn new(body: String) -> Script {
        let register = "redis.register_function('LIBRARY_it', function(KEYS, ARGV)";
        Script::of(&Arc::new(Library::new(&format!("{register} {body} end)"))), "it", true)
    }
}

/// A connection that many callers share: calls are pipelined, and it finds its way again by
/// itself.
#[derive(Clone)]
pub(crate) struct Conn {
    way: Way,
    dialer: Dialer,
    /// How many replicas have to have what is promised to last.
    replicas: u32,
}

#[derive(Clone)]
enum Way {
    /// To one server, the same or the one that sentinels name.
    One { link: Link, place: Place },
    /// To whichever node of a cluster has the key.
    Many(Cluster),
}

/// What a subscriber hears.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    Message {
        channel: Vec<u8>,
        payload: Vec<u8>,
    },
    /// Subscribed anew after a loss: messages may have been missed.
    Again,
}

impl Conn {
    /// Connects; an error says what is wrong with the address or the server.
    pub(crate) async fn open(address: &Address) -> Result<Conn> {
        let dialer = Dialer::new(address)?;
        let way = match &address.kind {
            Kind::Standalone => {
                let place = Place::At(address.nodes[0].clone());
                let line = place.dial(&dialer).await.map_err(|fault| fault.error)?;
                check_mode(&line).await?;
                Way::One { link: Link::over(line, place.clone(), dialer.clone()), place }
            }
            Kind::Sentinel { master } => {
                let login = address.sentinel_login.clone();
                let watched = Watched::new(address.nodes.clone(), login, master.clone());
                let place = Place::Watched(Arc::new(watched));
                let line = place.dial(&dialer).await.map_err(|fault| fault.error)?;
                Way::One { link: Link::over(line, place.clone(), dialer.clone()), place }
            }
            Kind::Cluster => Way::Many(Cluster::open(&address.nodes, dialer.clone()).await?),
        };
        Ok(Conn { way, dialer, replicas: 0 })
    }

    /// From now on what is promised to last is answered when so many replicas have it.
    pub(crate) fn with_replicas(self, replicas: u32) -> Conn {
        Conn { replicas, ..self }
    }

    /// Runs a script on the node that has this key.
    ///
    /// It is called by its name; only a node that does not know it is sent the text.
    pub(crate) async fn eval(
        &self,
        script: &Script,
        key: &[u8],
        args: Vec<Vec<u8>>,
    ) -> Result<Value> {
        self.run_script(script, key, &args).await.map_err(Fault::of_a_call)
    }

    async fn run_script(
        &self,
        script: &Script,
        key: &[u8],
        args: &[Vec<u8>],
    ) -> Result<Value, Fault> {
        let bytes = args.iter().map(Vec::len).sum::<usize>() + script.name.len() + key.len();
        let mut call = Cmd::with_capacity(args.len() + 4, bytes + "FCALL1".len());
        call.arg("FCALL").arg(&script.name).arg(1).arg(key).arg(args);
        let replicas = if script.lasts { self.replicas } else { 0 };
        let request = Request { command: &call, replicas };
        match self.run(key, request).await {
            Err(Fault { then: Then::SendLibrary(node), .. }) => {
                self.load(&node, &script.library).await?;
                self.run(key, request).await
            }
            answer => answer,
        }
    }

    /// As [`Conn::eval`]. When the answer is lost, `instead` is run once the server is back, which finds
    /// out what was done or may be done twice, with what `its_args` makes of the arguments; whether that
    /// was so is said.
    pub(crate) async fn eval_or(
        &self,
        key: &[u8],
        script: &Script,
        args: Vec<Vec<u8>>,
        instead: &Script,
        its_args: impl FnOnce(Vec<Vec<u8>>) -> Vec<Vec<u8>>,
    ) -> Result<(Value, bool)> {
        let lost = match self.run_script(script, key, &args).await {
            Err(fault) if fault.lost => fault,
            answer => return answer.map(|value| (value, false)).map_err(Fault::of_a_call),
        };
        let its_args = its_args(args);
        let found = tokio::time::timeout(AGAIN_WITHIN, async {
            loop {
                match self.run_script(instead, key, &its_args).await {
                    Err(fault) if fault.error.code() == Code::Unavailable => {}
                    answer => return answer.ok(),
                }
                tokio::time::sleep(WAIT_MIN).await;
            }
        });
        let found = found.await.ok().flatten();
        found.map(|value| (value, true)).ok_or_else(|| lost.of_a_call())
    }

    async fn load(&self, node: &Node, library: &Library) -> Result<Value, Fault> {
        let mut load = redis::cmd("FUNCTION");
        load.arg("LOAD").arg("REPLACE").arg(&library.text);
        match &self.way {
            Way::One { link, .. } => link.call((&load).into()).await,
            Way::Many(cluster) => cluster.call_at(node, &load).await,
        }
    }

    /// One command on the node that has this key; `args[0]` is the command's name.
    pub(crate) async fn command(&self, key: &[u8], args: &[&[u8]]) -> Result<Value> {
        self.run(key, (&made(args)).into()).await.map_err(Fault::of_a_call)
    }

    /// As [`Conn::command`], several at once.
    pub(crate) async fn commands(&self, key: &[u8], commands: &[Vec<&[u8]>]) -> Vec<Result<Value>> {
        match &self.way {
            Way::One { link, .. } => {
                let mut all = redis::pipe();
                for args in commands {
                    all.add_command(made(args));
                }
                let answers = link.call_all(&all).await.into_iter();
                answers.map(|answer| answer.map_err(Fault::of_a_call)).collect()
            }
            // Each finds its own way, if the slot is being moved.
            Way::Many(_) => {
                let answers = commands.iter().map(async |args| Ok(self.command(key, args).await));
                all(answers).await.expect("none of them is an error")
            }
        }
    }

    /// Messages on sharded pub/sub channels, until the receiver is dropped.
    ///
    /// Survives reconnects by subscribing anew; then the receiver is told [`Heard::Again`].
    pub(crate) async fn subscribe(
        &self,
        channels: Vec<Vec<u8>>,
    ) -> Result<UnboundedReceiver<Heard>> {
        let source = match &self.way {
            Way::One { place, .. } => Source::One(place.clone()),
            Way::Many(cluster) => Source::Many(cluster.clone()),
        };
        Listener::open(source, self.dialer.clone(), channels).await
    }

    /// Since when the server cannot be reached, if it cannot; of a cluster, any primary.
    pub(crate) fn away_since(&self) -> Option<Instant> {
        match &self.way {
            Way::One { link, .. } => link.away_since(),
            Way::Many(cluster) => cluster.away_since(),
        }
    }

    async fn run(&self, key: &[u8], request: Request<'_>) -> Result<Value, Fault> {
        match &self.way {
            Way::One { link, .. } => link.call(request).await,
            // Apart, so that calls to one server need not carry what following a key takes.
            Way::Many(cluster) => Box::pin(cluster.call(key, request)).await,
        }
    }
}

fn made(args: &[&[u8]]) -> Cmd {
    let mut command = Cmd::with_capacity(args.len(), args.iter().map(|arg| arg.len()).sum());
    for arg in args {
        command.arg(arg);
    }
    command
}

/// Refuses a server that `redis://` is the wrong way to. One that does not let us ask is taken.
async fn check_mode(line: &Line) -> Result<()> {
    let info = line.call(redis::cmd("INFO").arg("server")).await.ok();
    let info = info.and_then(|info| redis::from_redis_value::<String>(info).ok());
    let mode = info.as_ref().and_then(|info| {
        info.lines().find_map(|line| line.strip_prefix("redis_mode:").map(str::trim))
    });
    let (is, write) = match mode {
        Some("cluster") => ("a node of a cluster", "redis+cluster://"),
        Some("sentinel") => ("a sentinel", "redis+sentinel://host:port/master-name"),
        _ => return Ok(()),
    };
    let message =
        format!("Redis at `{}` is {is}; write the store's address as `{write}`", line.node);
    Err(Error::invalid("store", message))
}

#[cfg(test)]
mod tests;
