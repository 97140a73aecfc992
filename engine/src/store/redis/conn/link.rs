//! A connection to one server that finds its way again by itself.

use std::sync::Arc;
use std::time::Duration;

use redis::Value;
use redis::aio::MultiplexedConnection;
use tokio::sync::watch;
use tokio::time::Instant;

use super::dial::{Dialer, Line, Request, Task, call};
use super::fault::{Fault, Then};
use super::sentinel::Watched;
use super::{CONNECT_TIMEOUT, PING_EVERY, WAIT_MAX, WAIT_MIN};
use crate::error::{Code, Error};
use crate::store::redis::address::Node;

/// Where the server is.
#[derive(Clone)]
pub(super) enum Place {
    At(Node),
    /// Wherever the sentinels say.
    Watched(Arc<Watched>),
}

impl Place {
    pub(super) async fn dial(&self, dialer: &Dialer) -> Result<Line, Fault> {
        match self {
            Place::At(node) => dialer.dial(node).await,
            Place::Watched(watched) => watched.dial(dialer).await,
        }
    }

    /// Which server it is at present.
    pub(super) async fn find(&self, dialer: &Dialer) -> Result<Node, Fault> {
        match self {
            Place::At(node) => Ok(node.clone()),
            Place::Watched(watched) => Ok(watched.dial(dialer).await?.node),
        }
    }
}

/// A connection to one server, shared by all who call. It ends with its last clone.
#[derive(Clone)]
pub(super) struct Link {
    state: watch::Sender<State>,
    /// Whether sentinels can name another server when this one is no master any more.
    watched: bool,
    _keeper: Arc<Task>,
}

enum State {
    /// Dialled for the first time: calls wait for how that ends.
    Opening,
    Up {
        /// Counts the connections, so that a late error of an old one is not held against the new.
        number: u64,
        node: Node,
        conn: MultiplexedConnection,
    },
    Away {
        since: Instant,
        why: Error,
    },
}

impl Link {
    /// Starts with a line that is open already.
    pub(super) fn over(line: Line, place: Place, dialer: Dialer) -> Link {
        Link::start(Some(line), place, dialer)
    }

    /// Starts dialling.
    pub(super) fn to(node: Node, dialer: Dialer) -> Link {
        Link::start(None, Place::At(node), dialer)
    }

    fn start(line: Option<Line>, place: Place, dialer: Dialer) -> Link {
        let first = line.as_ref().map_or(State::Opening, |line| State::up(1, line));
        let state = watch::Sender::new(first);
        let watched = matches!(place, Place::Watched(_));
        let keeper = Keeper { state: state.clone(), place, dialer };
        Link { state, watched, _keeper: Arc::new(Task(tokio::spawn(keeper.run(line)))) }
    }

    /// One command, sent once. While the server is away the answer is an error, at once.
    pub(super) async fn call(&self, request: Request<'_>) -> Result<Value, Fault> {
        self.send(request, false).await
    }

    /// Several commands, sent at once; each has its own answer.
    pub(super) async fn call_all(&self, commands: &redis::Pipeline) -> Vec<Result<Value, Fault>> {
        let alike = |fault: Fault| vec![Err(fault); commands.len()];
        let (number, node, conn) = match self.up().await {
            Ok(up) => up,
            Err(fault) => return alike(fault),
        };
        let answers = conn.clone().send_packed_commands(commands, 0, commands.len()).await;
        let answers = match answers {
            Ok(answers) => answers,
            Err(error) => {
                let fault = Fault::read(&error, &node);
                self.heed(number, &fault);
                return alike(fault);
            }
        };
        let read = |answer: Value| {
            let answer = answer.extract_error().map_err(|error| Fault::read(&error, &node));
            answer.inspect_err(|fault| self.heed(number, fault))
        };
        answers.into_iter().map(read).collect()
    }

    /// One command for a key that this server is being given.
    pub(super) async fn call_asking(&self, request: Request<'_>) -> Result<Value, Fault> {
        self.send(request, true).await
    }

    async fn send(&self, request: Request<'_>, asking: bool) -> Result<Value, Fault> {
        let (number, node, conn) = self.up().await?;
        let answer = request.send(&conn, &node, asking).await;
        answer.inspect_err(|fault| self.heed(number, fault))
    }

    /// Waits until the first dialling has ended, well or not.
    pub(super) async fn opened(&self) -> Result<(), Error> {
        self.up().await.map(drop).map_err(|fault| fault.error)
    }

    pub(super) fn away_since(&self) -> Option<Instant> {
        match &*self.state.borrow() {
            State::Away { since, .. } => Some(*since),
            State::Opening | State::Up { .. } => None,
        }
    }

    /// Has the server looked for anew, if `number` is still the connection in use.
    fn heed(&self, number: u64, fault: &Fault) {
        let useless = match fault.then {
            Then::Reconnect => true,
            Then::LookAround => self.watched,
            Then::Nothing | Then::SendLibrary(_) | Then::Follow(_) | Then::Ask(_) => false,
        };
        if useless {
            self.state.lose(number, fault.error.clone());
        }
    }

    async fn up(&self) -> Result<(u64, Node, MultiplexedConnection), Fault> {
        if let Some(up) = self.state.borrow().as_up() {
            return up;
        }
        let mut state = self.state.subscribe();
        let opened = state.wait_for(|state| !matches!(state, State::Opening));
        match tokio::time::timeout(2 * CONNECT_TIMEOUT, opened).await {
            Ok(Ok(state)) => state.as_up().expect("it is not being opened any more"),
            // The keeper lives as long as the link, and its dialling has a limit.
            Ok(Err(_)) | Err(_) => {
                let message = "the connection to Redis is still being opened";
                Err(Fault::new(Then::Nothing, Code::Unavailable, message))
            }
        }
    }
}

impl State {
    fn up(number: u64, line: &Line) -> State {
        State::Up { number, node: line.node.clone(), conn: line.conn.clone() }
    }

    /// None while it is not known yet.
    fn as_up(&self) -> Option<Result<(u64, Node, MultiplexedConnection), Fault>> {
        match self {
            State::Opening => None,
            State::Up { number, node, conn } => Some(Ok((*number, node.clone(), conn.clone()))),
            State::Away { why, .. } => {
                Some(Err(Fault::new(Then::LookAround, Code::Unavailable, why.message())))
            }
        }
    }
}

/// What both sides do to the state.
trait Change {
    fn lose(&self, number: u64, why: Error);
    fn still_away(&self, why: Error);
}

impl Change for watch::Sender<State> {
    fn lose(&self, number: u64, why: Error) {
        self.send_if_modified(|state| {
            let current = matches!(state, State::Up { number: current, .. } if *current == number);
            if current {
                *state = State::Away { since: tokio::time::Instant::now(), why };
            }
            current
        });
    }

    fn still_away(&self, why: Error) {
        self.send_modify(|state| {
            let since = match state {
                State::Away { since, .. } => *since,
                State::Opening | State::Up { .. } => tokio::time::Instant::now(),
            };
            *state = State::Away { since, why };
        });
    }
}

/// Keeps a link up: dials, waits for the loss, dials anew.
struct Keeper {
    state: watch::Sender<State>,
    place: Place,
    dialer: Dialer,
}

impl Keeper {
    async fn run(self, mut first: Option<Line>) {
        let mut wait = Duration::ZERO;
        for number in 1.. {
            let mut line = match first.take() {
                Some(line) => line,
                None => self.connect(number, &mut wait).await,
            };
            let up_since = tokio::time::Instant::now();
            let why = self.attend(number, &mut line).await;
            tracing::warn!(%why, "the connection to Redis is lost; it is dialled again");
            // One that takes connections and drops them at once is away just as well.
            let lasted = up_since.elapsed() > WAIT_MAX;
            wait = if lasted { WAIT_MIN } else { longer(wait) };
        }
    }

    async fn connect(&self, number: u64, wait: &mut Duration) -> Line {
        let line = self.find(wait).await;
        self.state.send_replace(State::up(number, &line));
        if number > 1 {
            tracing::info!(node = %line.node, "Redis is connected again");
        }
        line
    }

    /// Until the other side has closed the connection, or someone has found it useless: and why.
    async fn attend(&self, number: u64, line: &mut Line) -> Error {
        let mut state = self.state.subscribe();
        let (conn, node) = (line.conn.clone(), line.node.clone());
        let why = tokio::select! {
            why = until_silent(&conn, &node) => why,
            _ = &mut line.driver.0 => {
                let why = format!("Redis at `{node}` has closed the connection");
                Error::new(Code::Unavailable, why)
            }
            why = until_away(&mut state) => why,
        };
        self.state.lose(number, why.clone());
        why
    }

    /// Dials until someone answers.
    async fn find(&self, wait: &mut Duration) -> Line {
        loop {
            tokio::time::sleep(*wait).await;
            *wait = longer(*wait);
            match self.place.dial(&self.dialer).await {
                Ok(line) => return line,
                Err(fault) => self.state.still_away(fault.error),
            }
        }
    }
}

/// Until a call has found out.
async fn until_away(state: &mut watch::Receiver<State>) -> Error {
    let away = state.wait_for(|state| matches!(state, State::Away { .. })).await;
    match away.as_deref() {
        Ok(State::Away { why, .. }) => why.clone(),
        _ => unreachable!("the keeper itself holds a sender, and waits for nothing else"),
    }
}

/// Asks now and then: of a connection that a firewall forgot nobody is told otherwise.
async fn until_silent(conn: &MultiplexedConnection, node: &Node) -> Error {
    loop {
        tokio::time::sleep(PING_EVERY).await;
        match call(conn, &redis::cmd("PING"), node).await {
            Err(fault) if fault.then == Then::Reconnect => return fault.error,
            Ok(_) | Err(_) => {}
        }
    }
}

/// The wait after this one, when there was no answer again.
pub(super) fn longer(wait: Duration) -> Duration {
    (2 * wait).clamp(WAIT_MIN, WAIT_MAX)
}
