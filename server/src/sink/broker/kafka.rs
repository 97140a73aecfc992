//! Kafka: a record is done with when all replicas that are in sync have it, which is what its client
//! asks for (`acks=all`).

mod wire;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use linger::time::{Clock, SystemClock, format_duration};
use percent_encoding::percent_decode_str;
use rskafka::client::error::ProtocolError;
use rskafka::client::{Credentials, SaslConfig};
use rskafka::protocol::record::{Record, RecordHeader};
use tokio::sync::{Mutex as AsyncMutex, OnceCell, mpsc};
use tokio::time::{Instant, sleep, timeout};
use tokio_rustls::TlsConnector;
use tokio_util::task::AbortOnDropHandle;

use super::{Dialect, Fault, Message, Tell};
use crate::config::{Sasl, Sink};
use crate::tls;
use wire::{Dialer, Listed, Part, Wire};

/// Where brokers listen unless it is said.
const PORT: u16 = 9092;
/// How long it is believed who leads the partitions of a topic, and that there is none of a name.
const LISTED_TIME: Duration = Duration::from_secs(300);
const MISSING_TIME: Duration = Duration::from_secs(1);
/// How long a connection is kept that nobody uses. Brokers hang up after ten minutes.
const IDLE_TIME: Duration = Duration::from_secs(240);
/// How long a broker may be silent about a request. It gives up on its replicas after 30 s.
const ANSWER_TIME: Duration = Duration::from_secs(40);
/// How much goes out at once: a broker takes a megabyte for a partition unless it is told otherwise.
const BATCH_BYTES: usize = 512 << 10;
const SHARES_MAX: usize = 1000;
/// How many requests a broker may have before it. It looks at one of a connection when it is done
/// with the one before, and is to find the next there already if that is a full one.
const REQUESTS_MAX: usize = 4;
/// What is around a record, and around each of its headers.
const RECORD_EXTRA_BYTES: usize = 20;
const HEADER_EXTRA_BYTES: usize = 4;
const CONTENT_TYPE: &str = "content-type";

pub(super) struct Kafka(Arc<Dialer>);

pub(super) struct Line {
    dialer: Arc<Dialer>,
    listed: AsyncMutex<(Instant, Listed)>,
    /// Those that something was sent to, by their numbers.
    brokers: Mutex<HashMap<i32, Broker>>,
}

/// Where records for a broker are queued, and who sends them.
struct Broker {
    address: String,
    queue: mpsc::UnboundedSender<Vec<Queued>>,
    _sending: AbortOnDropHandle<()>,
}

struct Queued {
    message: Message,
    partition: i32,
    /// What it takes as a record, or a little more.
    bytes: usize,
    /// Its place among those that are published together.
    at: usize,
    answers: mpsc::UnboundedSender<(usize, Answer)>,
}

/// Where in its partition a record is.
type Answer = Result<i64, Fault>;

/// Who leads the partitions of a topic, by their numbers.
type Leaders = Arc<[i32]>;

impl Kafka {
    pub(super) fn new(sink: &Sink, sasl: Sasl) -> anyhow::Result<Kafka> {
        let url = sink.url()?;
        let (scheme, rest) = url.split_once("://").unwrap_or_default();
        let (login, hosts) = rest.rsplit_once('@').map_or((None, rest), |(a, b)| (Some(a), b));
        let hosts = hosts.trim_end_matches('/').split(',');
        let hosts = hosts.map(|host| match host.rsplit_once(':') {
            Some((_, port)) if !port.ends_with(']') => host.to_owned(),
            _ => format!("{host}:{PORT}"),
        });
        let login = login.map(|login| {
            let plain = |text| percent_decode_str(text).decode_utf8_lossy().into_owned();
            let (user, password) = login.split_once(':').context("a user has no password")?;
            let who = Credentials::new(plain(user), plain(password));
            anyhow::Ok(match sasl {
                Sasl::Plain => SaslConfig::Plain(who),
                Sasl::ScramSha256 => SaslConfig::ScramSha256(who),
                Sasl::ScramSha512 => SaslConfig::ScramSha512(who),
            })
        });
        let tls = match scheme {
            "kafkas" => Some(TlsConnector::from(Arc::new(tls::client(sink.ca.as_deref(), None)?))),
            _ => None,
        };
        let hosts = hosts.collect();
        Ok(Kafka(Arc::new(Dialer { hosts, login: login.transpose()?, tls })))
    }
}

impl Dialect for Kafka {
    type Line = Line;

    async fn dial(&self) -> Result<Line, String> {
        let listed = self.0.list().await?;
        Ok(Line {
            dialer: self.0.clone(),
            listed: AsyncMutex::new((Instant::now(), listed)),
            brokers: Mutex::default(),
        })
    }

    const GATHERS: bool = true;

    async fn publish(&self, line: &Line, messages: Vec<Message>, tell: &mut Tell<'_>) {
        let Some(topic) = messages.first().map(|message| message.route.clone()) else { return };
        let leaders = match line.leaders_of(&topic).await {
            Ok(leaders) => leaders,
            Err(why) => {
                return (0..messages.len()).for_each(|at| tell(at, Err(why.clone())));
            }
        };
        let (answers, mut answered) = mpsc::unbounded_channel();
        let mut places = Vec::with_capacity(messages.len());
        let mut shares: HashMap<i32, Vec<Queued>> = HashMap::new();
        for (at, message) in messages.into_iter().enumerate() {
            let number = partition(message.key.as_bytes(), leaders.len());
            places.push(Some(number));
            let (bytes, partition) = (size(&message), number as i32);
            let queued = Queued { message, partition, bytes, at, answers: answers.clone() };
            shares.entry(leaders[number]).or_default().push(queued);
        }
        drop(answers);
        line.send(&topic, shares).await;
        // As they come: a broker that hangs keeps nobody waiting for the others.
        while let Some((at, answer)) = answered.recv().await {
            if let Some(partition) = places[at].take() {
                tell(at, answer.map(|at| Some(format!("partition {partition}, offset {at}"))));
            }
        }
        for (at, _) in places.iter().enumerate().filter(|(_, place)| place.is_some()) {
            tell(at, Err(Fault::Broken("the connection was given up".into())));
        }
    }
}

impl Line {
    async fn leaders_of(&self, topic: &str) -> Result<Leaders, Fault> {
        let (at, listed) = &mut *self.listed.lock().await;
        let lasts = if listed.topics.contains_key(topic) { LISTED_TIME } else { MISSING_TIME };
        if at.elapsed() > lasts {
            *listed = self.dialer.list().await.map_err(Fault::Broken)?;
            *at = Instant::now();
        }
        listed.topics.get(topic).cloned().ok_or_else(|| unknown(topic))
    }

    /// Queues what each broker is to have.
    async fn send(&self, topic: &str, shares: HashMap<i32, Vec<Queued>>) {
        let (_, listed) = &*self.listed.lock().await;
        let mut brokers = self.brokers.lock().expect("nobody panics holding it");
        for (number, share) in shares {
            let Some(address) = listed.brokers.get(&number) else {
                let why = |partition| format!("partition {partition} of `{topic}` has no leader");
                for Queued { partition, at, answers, .. } in share {
                    let _ = answers.send((at, Err(Fault::Broken(why(partition)))));
                }
                continue;
            };
            let new = || Broker::start(self.dialer.clone(), address);
            let broker = brokers.entry(number).or_insert_with(new);
            if broker.address != *address {
                *broker = new();
            }
            // If nobody sends any more, the answer says so.
            let _ = broker.queue.send(share);
        }
    }
}

impl Broker {
    fn start(dialer: Arc<Dialer>, address: &str) -> Broker {
        let to = Arc::new(Place { dialer, address: address.to_owned() });
        let (queue, queued) = mpsc::unbounded_channel();
        let sending = AbortOnDropHandle::new(tokio::spawn(send_all(to, queued)));
        Broker { address: address.to_owned(), queue, _sending: sending }
    }
}

/// Where a broker is.
struct Place {
    dialer: Arc<Dialer>,
    address: String,
}

/// The connection to a broker, made by the first who needs it.
type Connection = Arc<OnceCell<Wire>>;

/// A request under way. It answers how many records it had, and by what it was sent if that is of no use
/// any more.
type Request = BoxFuture<'static, (usize, Option<Connection>)>;

/// Sends what is queued, as much as there is at once.
async fn send_all(to: Arc<Place>, mut queue: mpsc::UnboundedReceiver<Vec<Queued>>) {
    let mut connection = Connection::default();
    let mut under_way: FuturesUnordered<Request> = FuturesUnordered::new();
    let (mut shares, mut waiting, mut records) = (Vec::new(), Vec::new(), 0);
    loop {
        tokio::select! {
            Some((sent, broken)) = under_way.next() => {
                records -= sent;
                if broken.is_some_and(|broken| Arc::ptr_eq(&broken, &connection)) {
                    connection = Connection::default();
                }
            }
            came = queue.recv_many(&mut shares, SHARES_MAX), if under_way.len() < REQUESTS_MAX => {
                if came == 0 {
                    return;
                }
                waiting.extend(shares.drain(..).flatten());
            }
            () = sleep(IDLE_TIME), if under_way.is_empty() => connection = Connection::default(),
        }
        while under_way.len() < REQUESTS_MAX {
            // Nobody waits any more for what was given up.
            waiting.retain(|queued: &Queued| !queued.answers.is_closed());
            let len = batch_len(&waiting);
            // To a broker a request is much and a record little: what is no full batch waits until it is as
            // much as is under way. So the broker finds the next there when it is done with one.
            if waiting.is_empty() || len == waiting.len() && len < records {
                break;
            }
            let rest = waiting.split_off(len);
            let batch = std::mem::replace(&mut waiting, rest);
            records += len;
            under_way.push(Box::pin(send_batch(to.clone(), connection.clone(), batch)));
        }
    }
}

/// Of how many of these a request is made; at least one.
fn batch_len(waiting: &[Queued]) -> usize {
    let mut bytes = 0;
    let fit = waiting.iter().take_while(|queued| {
        bytes += queued.bytes;
        bytes <= BATCH_BYTES
    });
    fit.count().max(1)
}

async fn send_batch(
    to: Arc<Place>,
    connection: Connection,
    batch: Vec<Queued>,
) -> (usize, Option<Connection>) {
    let (records, mut broken) = (batch.len(), false);
    let mut answer = |queued: Queued, answer: Answer| {
        broken |= !matches!(answer, Ok(_) | Err(Fault::Refused(_)));
        let _ = queued.answers.send((queued.at, answer));
    };
    let parts = parts_of(batch);
    let sent = to.send(&connection, &parts).await;
    let mut refused = Vec::new();
    for (part, sent) in parts.into_iter().zip(sent) {
        match sent {
            // A part is taken as a whole or not at all: one of it may be at fault.
            Err(Fault::Refused(_)) if part.len() > 1 => refused.extend(part),
            sent => part.into_iter().zip(0..).for_each(|(queued, after)| {
                answer(queued, sent.clone().map(|first: i64| first + after));
            }),
        }
    }
    for queued in refused {
        let alone = [vec![queued]];
        let sent = to.send(&connection, &alone).await;
        alone.into_iter().flatten().zip(sent).for_each(|(queued, sent)| answer(queued, sent));
    }
    (records, broken.then_some(connection))
}

/// By topic and partition, in the order in which they came.
fn parts_of(batch: Vec<Queued>) -> Vec<Vec<Queued>> {
    let mut parts: Vec<Vec<Queued>> = Vec::new();
    for queued in batch {
        let is_of = |part: &&mut Vec<Queued>| {
            (part[0].partition, &part[0].message.route) == (queued.partition, &queued.message.route)
        };
        match parts.iter_mut().find(is_of) {
            Some(part) => part.push(queued),
            None => parts.push(vec![queued]),
        }
    }
    parts
}

/// What it takes as a record, or a little more.
fn size(message: &Message) -> usize {
    let headers = message.headers().map(|(name, value)| name.len() + value.len());
    let headers: usize = headers.map(|bytes| bytes + HEADER_EXTRA_BYTES).sum();
    let content_type = CONTENT_TYPE.len() + message.content_type.len() + HEADER_EXTRA_BYTES;
    RECORD_EXTRA_BYTES + message.key.len() + headers + content_type + message.body.len()
}

impl Place {
    /// Sends parts in one request; answers for each where its first record is.
    async fn send(&self, connection: &Connection, parts: &[Vec<Queued>]) -> Vec<Answer> {
        let sending = async {
            let connect = || self.dialer.connect(&self.address);
            let wire = connection.get_or_try_init(connect).await?;
            let now = SystemClock::default().now().time().as_ms();
            let records = parts.iter().map(|part| part_of(part)).collect();
            wire.produce(records, i64::try_from(now).unwrap_or_default()).await
        };
        let all = |why: String| vec![Err(Fault::Broken(why)); parts.len()];
        let said = match timeout(ANSWER_TIME, sending).await {
            Ok(Ok(said)) => said,
            Ok(Err(why)) => return all(why),
            Err(_) => {
                let (to, time) = (&self.address, format_duration(ANSWER_TIME));
                return all(format!("the connection to `{to}` was silent for {time}"));
            }
        };
        let answer = |(said, part): (Option<wire::Taken>, &Vec<Queued>)| match said {
            Some(said) => said.map_err(|why| fault(why, &part[0].message.route)),
            None => Err(Fault::Broken("it said nothing of some records".into())),
        };
        said.into_iter().zip(parts).map(answer).collect()
    }
}

fn part_of(part: &[Queued]) -> Part {
    let records = part.iter().enumerate();
    let records = records.map(|(after, queued)| record(&queued.message, after as i32));
    Part {
        topic: part[0].message.route.clone(),
        partition: part[0].partition,
        records: records.collect(),
    }
}

/// A record that comes so many after the first of its part.
fn record(message: &Message, after: i32) -> Record {
    let more = (CONTENT_TYPE, &*message.content_type);
    let headers = message.headers().chain([more]);
    let headers =
        headers.map(|(key, value)| RecordHeader { key: key.to_owned(), value: value.into() });
    Record {
        timestamp_delta: 0,
        offset_delta: after,
        key: Some(message.key.clone().into_bytes()),
        value: Some(message.body.to_vec()),
        headers: headers.collect(),
    }
}

/// The partition of a key, as the producers of Java choose it.
fn partition(key: &[u8], count: usize) -> usize {
    (murmur2(key) & 0x7fff_ffff) as usize % count
}

/// A hash by Austin Appleby, with the seed that Kafka has for it.
fn murmur2(bytes: &[u8]) -> u32 {
    const SEED: u32 = 0x9747_b28c;
    const M: u32 = 0x5bd1_e995;
    let (words, rest) = bytes.as_chunks::<4>();
    let mut hash = SEED ^ bytes.len() as u32;
    for word in words {
        let mut word = u32::from_le_bytes(*word).wrapping_mul(M);
        word ^= word >> 24;
        hash = hash.wrapping_mul(M) ^ word.wrapping_mul(M);
    }
    if !rest.is_empty() {
        let mut word = [0; 4];
        word[..rest.len()].copy_from_slice(rest);
        hash = (hash ^ u32::from_le_bytes(word)).wrapping_mul(M);
    }
    hash = (hash ^ (hash >> 13)).wrapping_mul(M);
    hash ^ (hash >> 15)
}

fn unknown(topic: &str) -> Fault {
    Fault::Refused(format!("Kafka has no topic `{topic}`"))
}

/// What an error about a partition of a topic means.
fn fault(why: ProtocolError, topic: &str) -> Fault {
    let text = why.to_string();
    match why {
        // It was there when topics were listed: they are to be listed again.
        ProtocolError::UnknownTopicOrPartition => {
            Fault::Broken(format!("Kafka has no topic `{topic}` any more"))
        }
        ProtocolError::LeaderNotAvailable
        | ProtocolError::NotLeaderOrFollower
        | ProtocolError::BrokerNotAvailable
        | ProtocolError::ReplicaNotAvailable
        | ProtocolError::KafkaStorageError
        | ProtocolError::RequestTimedOut => Fault::Broken(text),
        ProtocolError::NotEnoughReplicas | ProtocolError::NotEnoughReplicasAfterAppend => {
            Fault::Down(text)
        }
        _ => Fault::Refused(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queued(route: &str, partition: i32, at: usize, bytes: usize) -> Queued {
        let message = Message {
            route: route.into(),
            key: String::new(),
            id: String::new(),
            once: String::new(),
            headers: Vec::new(),
            content_type: String::new(),
            body: Default::default(),
        };
        Queued { message, partition, bytes, at, answers: mpsc::unbounded_channel().0 }
    }

    #[test]
    fn a_request_has_at_least_one_record_and_no_more_than_a_broker_takes() {
        let len = |count, bytes| {
            batch_len(&Vec::from_iter((0..count).map(|at| queued("a", 0, at, bytes))))
        };
        assert_eq!(len(3, 100), 3);
        assert_eq!(len(9, 100_000), 5);
        assert_eq!(len(2, 1_000_000), 1);
    }

    #[test]
    fn a_request_has_a_part_for_each_partition_whose_records_stay_in_order() {
        let batch = [("a", 0), ("a", 1), ("b", 0), ("a", 0), ("b", 0)].into_iter().enumerate();
        let parts =
            parts_of(batch.map(|(at, (topic, number))| queued(topic, number, at, 1)).collect());
        let places = parts.iter().map(|part| part.iter().map(|one| one.at).collect());
        assert_eq!(places.collect::<Vec<Vec<_>>>(), [vec![0, 3], vec![1], vec![2, 4]]);
    }

    /// What `org.apache.kafka.common.utils.Utils` says, with seven partitions.
    #[test]
    fn a_key_has_the_partition_that_java_gives_it() {
        for (key, hash, of_seven) in [
            ("", 275_646_681, 2),
            ("21", -973_932_308, 3),
            ("abc", 479_470_107, 4),
            ("1001", 1_456_459_188, 2),
            ("foobar", -790_332_482, 0),
            ("支付宝", -1_787_470_983, 5),
            ("a-little-bit-long-string", -985_981_536, 1),
            ("a-little-bit-longer-string", -1_486_304_829, 0),
            ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971, 3),
        ] {
            assert_eq!(murmur2(key.as_bytes()).cast_signed(), hash, "{key}");
            assert_eq!(partition(key.as_bytes(), 7), of_seven, "{key}");
        }
    }
}
