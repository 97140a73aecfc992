//! Hears messages, on connections of its own, and subscribes anew after each loss.

use std::collections::{BTreeSet, HashMap};

use redis::{Cmd, PushInfo, PushKind, Value};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

use super::cluster::Cluster;
use super::dial::{Dialer, Line};
use super::fault::{Fault, Then};
use super::link::{Place, longer};
use super::{CONNECT_TIMEOUT, Heard, PING_EVERY, WAIT_MIN};
use crate::error::{Code, Error, Result};
use crate::store::redis::address::Node;

/// Where channels are.
#[derive(Clone)]
pub(super) enum Source {
    One(Place),
    Many(Cluster),
}

type Channel = Vec<u8>;

/// Which server a connection is to; None where there is only one, wherever that is.
type Spot = Option<Node>;

/// What someone wants to hear, and how much of it is heard at present.
pub(super) struct Listener {
    source: Source,
    dialer: Dialer,
    unheard: BTreeSet<Channel>,
    ears: HashMap<Spot, Ear>,
    /// Counts the connections, so that the end of an old one is not taken for that of the new.
    dialled: u64,
    pushed: (UnboundedSender<Push>, UnboundedReceiver<Push>),
    out: UnboundedSender<Heard>,
}

struct Ear {
    number: u64,
    line: Line,
    channels: BTreeSet<Channel>,
}

/// What a server has said on the connection with this number.
struct Push {
    number: u64,
    info: PushInfo,
}

impl Listener {
    /// Subscribes to all channels, and goes on by itself until the receiver is dropped.
    pub(super) async fn open(
        source: Source,
        dialer: Dialer,
        channels: Vec<Channel>,
    ) -> Result<UnboundedReceiver<Heard>> {
        let (out, heard) = mpsc::unbounded_channel();
        let mut listener = Listener {
            source,
            dialer,
            unheard: channels.into_iter().collect(),
            ears: HashMap::new(),
            dialled: 0,
            pushed: mpsc::unbounded_channel(),
            out,
        };
        if let Some(fault) = listener.join().await.1 {
            return Err(fault.of_a_call());
        }
        tokio::spawn(listener.run());
        Ok(heard)
    }

    async fn run(mut self) {
        let mut wait = WAIT_MIN;
        let mut join_at = tokio::time::Instant::now();
        let mut ping = tokio::time::interval(PING_EVERY);
        loop {
            tokio::select! {
                () = self.out.closed() => return,
                push = self.pushed.1.recv() => {
                    let all_heard = self.unheard.is_empty();
                    self.take(push.expect("we hold a sender of it ourselves"));
                    if all_heard {
                        wait = WAIT_MIN;
                        join_at = tokio::time::Instant::now() + wait;
                    }
                }
                () = tokio::time::sleep_until(join_at), if !self.unheard.is_empty() => {
                    let (joined, _) = self.join().await;
                    if joined {
                        let _ = self.out.send(Heard::Again);
                    }
                    wait = longer(wait);
                    join_at = tokio::time::Instant::now() + wait;
                }
                _ = ping.tick() => self.ping().await,
            }
        }
    }

    /// Subscribes to what is not heard: whether to any of it, and why not to all.
    async fn join(&mut self) -> (bool, Option<Fault>) {
        let mut groups: HashMap<Spot, Vec<Channel>> = HashMap::new();
        let mut fault = None;
        for channel in &self.unheard {
            match self.spot(channel) {
                Ok(spot) => groups.entry(spot).or_default().push(channel.clone()),
                Err(unserved) => fault = Some(unserved),
            }
        }
        let mut joined = false;
        for (spot, channels) in groups {
            match self.join_at(&spot, &channels).await {
                Ok(()) => joined = true,
                Err(refused) => {
                    self.look();
                    fault = Some(refused);
                }
            }
        }
        (joined, fault)
    }

    fn spot(&self, channel: &[u8]) -> Result<Spot, Fault> {
        match &self.source {
            Source::One(_) => Ok(None),
            Source::Many(cluster) => cluster.owner(channel).map(Some).ok_or_else(|| {
                cluster.look();
                let message = "no node of the Redis cluster serves a channel at present";
                Fault::new(Then::LookAround, Code::Unavailable, message)
            }),
        }
    }

    async fn join_at(&mut self, spot: &Spot, channels: &[Channel]) -> Result<(), Fault> {
        if !self.ears.contains_key(spot) {
            let ear = self.dial(spot).await?;
            self.ears.insert(spot.clone(), ear);
        }
        let ear = self.ears.get_mut(spot).expect("it is there by now");
        let outcome = ear.subscribe(channels).await;
        for channel in &ear.channels {
            self.unheard.remove(channel);
        }
        if outcome.as_ref().is_err_and(|fault| fault.then == Then::Reconnect) {
            self.hang_up(spot);
        }
        outcome
    }

    async fn dial(&mut self, spot: &Spot) -> Result<Ear, Fault> {
        let node = match (spot, &self.source) {
            (Some(node), _) => node.clone(),
            (None, Source::One(place)) => place.find(&self.dialer).await?,
            (None, Source::Many(_)) => unreachable!("each channel of a cluster has an owner"),
        };
        self.dialled += 1;
        let number = self.dialled;
        let pushed = self.pushed.0.clone();
        // Nobody takes them any more when the listener has ended, and this with it.
        let heard = move |info| _ = pushed.send(Push { number, info });
        let line = self.dialer.dial_to_listen(&node, heard).await?;
        Ok(Ear { number, line, channels: BTreeSet::new() })
    }

    /// The channels of this connection are heard no more.
    fn hang_up(&mut self, spot: &Spot) {
        if let Some(ear) = self.ears.remove(spot) {
            self.unheard.extend(ear.channels);
        }
        self.look();
    }

    fn look(&self) {
        if let Source::Many(cluster) = &self.source {
            cluster.look();
        }
    }

    fn take(&mut self, Push { number, info }: Push) {
        let spot = self.ears.iter().find(|(_, ear)| ear.number == number);
        let spot = spot.map(|(spot, _)| spot.clone());
        match (info.kind, spot) {
            (PushKind::SMessage, _) => {
                if let [Value::BulkString(channel), Value::BulkString(payload)] = &*info.data {
                    let (channel, payload) = (channel.clone(), payload.clone());
                    let _ = self.out.send(Heard::Message { channel, payload });
                }
            }
            (PushKind::Disconnection, Some(spot)) => self.hang_up(&spot),
            // A node says so when the channel's slot has moved to another one.
            (PushKind::SUnsubscribe, Some(spot)) => {
                if let Some(Value::BulkString(channel)) = info.data.first()
                    && let Some(ear) = self.ears.get_mut(&spot)
                    && ear.channels.remove(channel)
                {
                    self.unheard.insert(channel.clone());
                    self.look();
                }
            }
            _ => {}
        }
    }

    /// A connection that hears nothing may be dead, and nobody would know.
    async fn ping(&mut self) {
        let spots: Vec<Spot> = self.ears.keys().cloned().collect();
        for spot in spots {
            let ping = redis::cmd("PING");
            let answer = self.ears[&spot].line.call(&ping);
            match tokio::time::timeout(CONNECT_TIMEOUT, answer).await {
                Ok(Ok(_)) => {}
                Ok(Err(_)) | Err(_) => self.hang_up(&spot),
            }
        }
    }
}

impl Ear {
    /// One command for each channel, since those of one command must share a slot.
    async fn subscribe(&mut self, channels: &[Channel]) -> Result<(), Fault> {
        let mut all = redis::pipe();
        for channel in channels {
            all.add_command(subscription(channel));
        }
        let mut conn = self.line.conn.clone();
        let answers = conn.send_packed_commands(&all, 0, channels.len()).await;
        let answers = answers.map_err(|error| Fault::read(&error, &self.line.node))?;
        let mut outcome = Ok(());
        for (channel, answer) in channels.iter().zip(answers) {
            match answer.extract_error() {
                Ok(answer) if confirms(&answer, channel) => {
                    _ = self.channels.insert(channel.clone())
                }
                Ok(_) => outcome = Err(self.confused()),
                Err(error) => outcome = Err(Fault::read(&error, &self.line.node)),
            }
        }
        outcome
    }

    /// A slot that moved in this very moment, say: what was answered to what cannot be told.
    fn confused(&self) -> Fault {
        let node = &self.line.node;
        let message = format!("Redis at `{node}` did not confirm a subscription");
        Fault { then: Then::Reconnect, error: Error::new(Code::Unavailable, message), lost: false }
    }
}

fn subscription(channel: &[u8]) -> Cmd {
    let mut command = redis::cmd("SSUBSCRIBE");
    command.arg(channel);
    command
}

fn confirms(answer: &Value, channel: &[u8]) -> bool {
    match answer {
        Value::Push { kind: PushKind::SSubscribe, data } => {
            matches!(data.first(), Some(Value::BulkString(told)) if told == channel)
        }
        _ => false,
    }
}
