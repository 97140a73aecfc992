//! One connection: reads, has done what was read together, writes, and lets go of what it holds
//! when it ends.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::BytesMut;
use linger::machine::Owner;
use linger::queue::{Ask, Delivery, LetGo, Queue};
use linger::topic::Topic;
use tokio::io::AsyncWriteExt;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::Server;
use super::held::Held;
use super::parse::{Amid, Command, Parser};
use super::reply::Out;
use crate::author::{Author, Front};
use crate::front::next_owner;
use crate::stream::Stream;

/// A read takes so much at first, and more if that was not enough.
const READ_BYTES_MIN: usize = 2 << 10;
/// What was read and not done yet is at most this, and what the body of one job lacks.
const READ_BYTES_MAX: usize = 64 << 10;
/// Answers are sent at the latest when they are so long.
const OUT_BYTES_MAX: usize = 256 << 10;
/// So many commands are taken up at once.
const COMMANDS_MAX: usize = 1000;

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// By the client, or because of it.
    Gone,
    /// By a stop of the server.
    Stopped,
}

/// Serves a connection to its end.
pub(super) async fn serve(server: Arc<Server>, stream: Stream, stopping: CancellationToken) {
    let peer = stream.peer_addr().ok().map(|peer| peer.to_string().into());
    let author = Author::by(Front::Beanstalkd, peer);
    let mut connection = Connection::new(server, stream, stopping);
    // A connection that breaks is its client's affair.
    let end = author.scope(connection.run()).await.unwrap_or(End::Gone);
    connection.let_go(end).await;
    connection.stream.say_goodbye().await;
}

/// A connection and its state.
pub(super) struct Connection {
    pub(super) server: Arc<Server>,
    stream: Stream,
    stopping: Pin<Box<WaitForCancellationFutureOwned>>,
    is_stopped: bool,
    /// The client will say no more.
    is_half_closed: bool,
    parser: Parser,
    input: BytesMut,
    read_bytes: usize,
    /// What it is in the midst of, and until when that may last.
    begun: Option<(Amid, Instant)>,
    pub(super) out: Out,
    pub(super) owner: Owner,
    pub(super) held: Held,
    pub(super) used: Topic,
    pub(super) watched: Vec<Topic>,
    pub(super) is_producer: bool,
    pub(super) is_worker: bool,
}

impl Connection {
    fn new(server: Arc<Server>, stream: Stream, stopping: CancellationToken) -> Connection {
        let (used, owner) = (Topic::default(), next_owner());
        server.tubes.used(&used);
        server.tubes.watched(&used);
        server.tally.connections.fetch_add(1, Ordering::Relaxed);
        server.tally.total_connections.fetch_add(1, Ordering::Relaxed);
        Connection {
            server,
            stream,
            stopping: Box::pin(stopping.cancelled_owned()),
            is_stopped: false,
            is_half_closed: false,
            parser: Parser::default(),
            input: BytesMut::new(),
            read_bytes: READ_BYTES_MIN,
            begun: None,
            out: Out::default(),
            owner,
            held: Held::default(),
            watched: vec![used.clone()],
            used,
            is_producer: false,
            is_worker: false,
        }
    }

    async fn run(&mut self) -> io::Result<End> {
        loop {
            let commands = self.commands();
            if !commands.is_empty() {
                self.begun = None;
                if let Some(end) = self.act_all(commands).await? {
                    self.flush().await?;
                    return Ok(end);
                }
                continue;
            }
            self.flush().await?;
            if self.is_half_closed {
                return Ok(End::Gone);
            }
            if let Some(end) = self.read_more().await? {
                return Ok(end);
            }
        }
    }

    /// The commands that are there.
    fn commands(&mut self) -> Vec<Command> {
        let body_bytes_max = self.server.config().limits.beanstalkd_body_bytes;
        let mut commands = Vec::new();
        while commands.len() < COMMANDS_MAX {
            match self.parser.next(&mut self.input, body_bytes_max) {
                Some(command) => commands.push(command),
                None => break,
            }
        }
        commands
    }

    /// Waits for more, or for a reason to end.
    async fn read_more(&mut self) -> io::Result<Option<End>> {
        let amid = self.parser.amid(&self.input);
        if amid == Amid::Nothing {
            // Many are silent for long, and need no room meanwhile.
            self.input = BytesMut::new();
            if self.is_stopped {
                return Ok(Some(End::Stopped));
            }
            tokio::select! {
                biased;
                () = self.stopping.as_mut() => return Ok(Some(End::Stopped)),
                readable = self.stream.readable() => readable?,
            }
        } else {
            // A stop waits for the end of a command that was begun, for as long as the drain is.
            let until = self.patience(amid);
            match tokio::time::timeout_at(until, self.stream.readable()).await {
                Ok(readable) => readable?,
                Err(_) => return Ok(Some(End::Gone)),
            }
        }
        self.read()?;
        Ok(None)
    }

    /// Until when the rest of a command may come. More of it is no news: it would never have to end.
    fn patience(&mut self, amid: Amid) -> Instant {
        let limits = &self.server.config().limits;
        match self.begun {
            Some((begun, until)) if begun == amid => until,
            _ => {
                let patience = match amid {
                    Amid::Body => limits.body_time,
                    Amid::Line | Amid::Nothing => limits.idle_time,
                };
                let until = Instant::now() + patience;
                self.begun = Some((amid, until));
                until
            }
        }
    }

    /// Reads what is there. That may be nothing, though it was said to be readable: to wait for more
    /// here would be to miss a stop.
    fn read(&mut self) -> io::Result<()> {
        let lacks = self.parser.lacks(&self.input);
        self.input.reserve(self.read_bytes.max(lacks));
        let room = self.input.capacity() - self.input.len();
        let read = match self.stream.try_read_buf(&mut self.input) {
            Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            read => read?,
        };
        self.is_half_closed = read == 0;
        // Who fills it has more to say.
        if read == room {
            self.read_bytes = (self.read_bytes * 2).min(READ_BYTES_MAX);
        } else if read < self.read_bytes / 4 {
            self.read_bytes = (self.read_bytes / 2).max(READ_BYTES_MIN);
        }
        Ok(())
    }

    /// Sends the answers.
    pub(super) async fn flush(&mut self) -> io::Result<()> {
        if self.out.len() == 0 {
            return Ok(());
        }
        let patience = self.server.config().limits.idle_time;
        let write = async {
            self.stream.write_all(self.out.as_bytes()).await?;
            self.stream.flush().await
        };
        tokio::time::timeout(patience, write).await.map_err(|_| io::ErrorKind::TimedOut)??;
        self.out.clear();
        Ok(())
    }

    /// Sends the answers if they are long.
    pub(super) async fn flush_if_long(&mut self) -> io::Result<()> {
        if self.out.len() >= OUT_BYTES_MAX { self.flush().await } else { Ok(()) }
    }

    /// Whether there is any use in waiting for jobs.
    pub(super) fn may_wait(&self) -> bool {
        !self.is_stopped && !self.is_half_closed
    }

    /// Jobs, when there are some; none when the wait is over, the client has said its last word or
    /// the server stops.
    pub(super) async fn wait_for(&mut self, ask: Ask) -> io::Result<linger::Result<Vec<Delivery>>> {
        let server = self.server.clone();
        let mut pop = std::pin::pin!(server.store.pop(ask));
        loop {
            let has_room = self.input.len() < READ_BYTES_MAX;
            tokio::select! {
                biased;
                jobs = pop.as_mut() => return Ok(jobs),
                () = self.stopping.as_mut() => {
                    self.is_stopped = true;
                    return Ok(Ok(Vec::new()));
                }
                readable = self.stream.readable(), if has_room => readable?,
            }
            self.read()?;
            if self.is_half_closed {
                return Ok(Ok(Vec::new()));
            }
        }
    }

    async fn let_go(&mut self, end: End) {
        if !self.is_worker {
            return;
        }
        let how = if end == End::Stopped { LetGo::Released } else { LetGo::Lost };
        if let Err(cause) = self.server.store.let_go(self.owner, how).await {
            tracing::warn!("the jobs of a connection wait for their time to run out: {cause}");
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let Server { tubes, tally, .. } = &*self.server;
        tubes.unused(&self.used);
        self.watched.iter().for_each(|tube| tubes.unwatched(tube));
        for (counter, counted) in [
            (&tally.connections, true),
            (&tally.producers, self.is_producer),
            (&tally.workers, self.is_worker),
        ] {
            counter.fetch_sub(u64::from(counted), Ordering::Relaxed);
        }
    }
}
