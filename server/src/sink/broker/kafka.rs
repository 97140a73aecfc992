//! Kafka: a record is done with when all replicas that are in sync have it, which is what its client
//! asks for (`acks=all`).

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use linger::time::{Clock, SystemClock, format_duration};
use percent_encoding::percent_decode_str;
use rskafka::chrono::DateTime;
use rskafka::client::error::{Error, ProtocolError};
use rskafka::client::partition::{Compression, PartitionClient, UnknownTopicHandling};
use rskafka::client::{Client, ClientBuilder, Credentials, SaslConfig};
use rskafka::record::Record;
use rskafka::{BackoffConfig, BackoffError, ConnectionError};
use tokio::sync::{Mutex as AsyncMutex, OnceCell, mpsc};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::task::AbortOnDropHandle;

use super::{Dialect, Fault, Message, Tell};
use crate::config::{Sasl, Sink};
use crate::tls;

/// Where brokers listen unless it is said.
const PORT: u16 = 9092;
/// How long it is believed how many partitions a topic has, and that there is none of a name.
const LISTED_TIME: Duration = Duration::from_secs(300);
const MISSING_TIME: Duration = Duration::from_secs(1);
/// How long a connection is kept that nobody uses. Brokers hang up after ten minutes.
const IDLE_TIME: Duration = Duration::from_secs(240);
/// How long a broker may be silent about a batch. It gives up on its replicas after 30 s.
const ANSWER_TIME: Duration = Duration::from_secs(40);
/// How much goes out at once: a broker takes a megabyte unless it is told otherwise.
const BATCH_BYTES: usize = 512 << 10;
const BATCH_RECORDS: usize = 1000;
/// What the client writes in one piece, without what is around the records. Of a larger request it
/// writes the length first, and the kernel keeps back the rest until that is acknowledged, which takes
/// up to 40 ms: the client does not set `TCP_NODELAY`, and has no way to be told to.
const PIECE_BYTES: usize = (8 << 10) - 512;
/// So many pieces, one after the other, take no longer than that.
const PIECES_MAX: usize = 8;
/// How many requests a partition may have under way. A broker looks at one of a connection when it is done
/// with the one before, and is to find the next there already.
const REQUESTS_MAX: usize = 4;
/// What is around a record, and around each of its headers.
const RECORD_EXTRA_BYTES: usize = 20;
const HEADER_EXTRA_BYTES: usize = 4;
const CONTENT_TYPE: &str = "content-type";

pub(super) struct Kafka {
    hosts: Vec<String>,
    login: Option<SaslConfig>,
    tls: Option<Arc<rustls::ClientConfig>>,
}

pub(super) struct Line {
    client: Arc<Client>,
    listed: AsyncMutex<Listed>,
    /// Of each topic that something was sent to, by their numbers.
    partitions: Mutex<HashMap<String, Vec<Partition>>>,
}

/// How many partitions each topic had at a time.
struct Listed {
    at: Instant,
    topics: HashMap<String, usize>,
}

/// Where records for a partition are queued, and who sends them.
struct Partition {
    queue: mpsc::UnboundedSender<Vec<Queued>>,
    _sending: AbortOnDropHandle<()>,
}

struct Queued {
    message: Message,
    /// Its place among those that are published together.
    at: usize,
    answers: mpsc::UnboundedSender<(usize, Answer)>,
}

/// Where in its partition a record is.
type Answer = Result<i64, Fault>;

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
            "kafkas" => Some(Arc::new(tls::client(sink.ca.as_deref(), None)?)),
            _ => None,
        };
        Ok(Kafka { hosts: hosts.collect(), login: login.transpose()?, tls })
    }
}

impl Dialect for Kafka {
    type Line = Line;

    async fn dial(&self) -> Result<Line, String> {
        // Nothing is tried again down there: whoever waits for an attempt is to hear of it.
        let once = BackoffConfig { deadline: Some(Duration::ZERO), ..Default::default() };
        let mut client =
            ClientBuilder::new(self.hosts.clone()).client_id("linger").backoff_config(once);
        if let Some(login) = &self.login {
            client = client.sasl_config(login.clone());
        }
        if let Some(tls) = &self.tls {
            client = client.tls_config(tls.clone());
        }
        let client =
            client.build().await.map_err(|why| format!("could not connect: {}", said(&why)))?;
        let topics = list(&client).await.map_err(|why| said(&why))?;
        let listed = Listed { at: Instant::now(), topics };
        Ok(Line {
            client: Arc::new(client),
            listed: AsyncMutex::new(listed),
            partitions: Mutex::default(),
        })
    }

    const GATHERS: bool = true;

    async fn publish(&self, line: &Line, messages: Vec<Message>, tell: &mut Tell<'_>) {
        let Some(topic) = messages.first().map(|message| message.route.clone()) else { return };
        let count = match line.partitions_of(&topic).await {
            Ok(count) => count,
            Err(why) => {
                return (0..messages.len()).for_each(|at| tell(at, Err(why.clone())));
            }
        };
        let (answers, mut answered) = mpsc::unbounded_channel();
        let mut places = Vec::with_capacity(messages.len());
        let mut shares: Vec<Vec<Queued>> = (0..count).map(|_| Vec::new()).collect();
        for (at, message) in messages.into_iter().enumerate() {
            let partition = partition(message.key.as_bytes(), count);
            places.push(Some(partition));
            shares[partition].push(Queued { message, at, answers: answers.clone() });
        }
        drop(answers);
        line.send(&topic, shares);
        // As they come: a partition that hangs keeps nobody waiting for the others.
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
    async fn partitions_of(&self, topic: &str) -> Result<usize, Fault> {
        let mut listed = self.listed.lock().await;
        let known = listed.topics.get(topic).copied();
        let lasts = if known.is_some() { LISTED_TIME } else { MISSING_TIME };
        if listed.at.elapsed() > lasts {
            // The broker may have hung up meanwhile, and that is noticed only now.
            let topics = match list(&self.client).await {
                Err(_) => list(&self.client).await,
                topics => topics,
            };
            let topics = topics.map_err(|why| fault(&why, topic))?;
            *listed = Listed { at: Instant::now(), topics };
        }
        listed.topics.get(topic).copied().ok_or_else(|| unknown(topic))
    }

    /// Queues what each partition of a topic is to have.
    fn send(&self, topic: &str, shares: Vec<Vec<Queued>>) {
        let mut topics = self.partitions.lock().expect("nobody panics holding it");
        if !topics.contains_key(topic) {
            topics.insert(topic.to_owned(), Vec::new());
        }
        let partitions = topics.get_mut(topic).expect("it was put there");
        for (number, share) in shares.into_iter().enumerate() {
            if partitions.len() == number {
                partitions.push(Partition::start(self.client.clone(), topic, number));
            }
            if !share.is_empty() {
                // If nobody sends any more, the answer says so.
                let _ = partitions[number].queue.send(share);
            }
        }
    }
}

impl Partition {
    fn start(client: Arc<Client>, topic: &str, number: usize) -> Partition {
        let number = i32::try_from(number).expect("a broker numbers them so");
        let to = Arc::new(Place { client, topic: topic.to_owned(), number });
        let (queue, queued) = mpsc::unbounded_channel();
        let sending = tokio::spawn(send_all(to, queued));
        Partition { queue, _sending: AbortOnDropHandle::new(sending) }
    }
}

/// How many partitions each topic has.
async fn list(client: &Client) -> Result<HashMap<String, usize>, Error> {
    let topics = client.list_topics().await?.into_iter();
    let topics = topics.filter(|topic| !topic.partitions.is_empty());
    Ok(topics.map(|topic| (topic.name, topic.partitions.len())).collect())
}

/// Which partition it is.
struct Place {
    client: Arc<Client>,
    topic: String,
    number: i32,
}

/// The connection to the leader of a partition, made by the first who needs it.
type Leader = Arc<OnceCell<PartitionClient>>;

/// A request under way, which answers by whom it was sent if that is of no use any more.
type Request = BoxFuture<'static, Option<Leader>>;

/// Sends what is queued, as much as there is at once.
async fn send_all(to: Arc<Place>, mut queue: mpsc::UnboundedReceiver<Vec<Queued>>) {
    let mut leader = Leader::default();
    let mut under_way: FuturesUnordered<Request> = FuturesUnordered::new();
    let (mut shares, mut waiting) = (Vec::new(), Vec::new());
    loop {
        tokio::select! {
            Some(broken) = under_way.next() => {
                if broken.is_some_and(|broken| Arc::ptr_eq(&broken, &leader)) {
                    leader = Leader::default();
                }
            }
            came = queue.recv_many(&mut shares, BATCH_RECORDS), if under_way.len() < REQUESTS_MAX => {
                if came == 0 {
                    return;
                }
                waiting.extend(shares.drain(..).flatten());
            }
            () = sleep(IDLE_TIME), if under_way.is_empty() => leader = Leader::default(),
        }
        while under_way.len() < REQUESTS_MAX {
            // Nobody waits any more for what was given up.
            waiting.retain(|queued: &Queued| !queued.answers.is_closed());
            let len = batch_len(&waiting);
            // To a broker a request is much and a record little: what is no full batch waits for more, as
            // long as there is something to wait for anyway.
            if waiting.is_empty() || len == waiting.len() && !under_way.is_empty() {
                break;
            }
            let rest = waiting.split_off(len);
            let batch = std::mem::replace(&mut waiting, rest);
            under_way.push(Box::pin(send_batch(to.clone(), leader.clone(), batch)));
        }
    }
}

async fn send_batch(to: Arc<Place>, leader: Leader, batch: Vec<Queued>) -> Option<Leader> {
    let records = batch.iter().map(|queued| record(&queued.message)).collect();
    let sent = to.send(&leader, records).await;
    let mut broken = false;
    // It takes all of a batch or nothing: one may be at fault.
    let one_by_one = matches!(sent, Err(Fault::Refused(_))) && batch.len() > 1;
    for (at, queued) in batch.into_iter().enumerate() {
        let answer = match &sent {
            Err(_) if one_by_one => {
                to.send(&leader, vec![record(&queued.message)]).await.map(|offsets| offsets[0])
            }
            sent => sent.as_ref().map(|offsets| offsets[at]).map_err(Fault::clone),
        };
        broken |= !matches!(answer, Ok(_) | Err(Fault::Refused(_)));
        let _ = queued.answers.send((queued.at, answer));
    }
    broken.then_some(leader)
}

/// Of how many of these a batch is made; at least one.
fn batch_len(waiting: &[Queued]) -> usize {
    let fit = |most: usize| {
        let mut bytes = 0;
        let fit = waiting.iter().take_while(|queued| {
            bytes += size(&queued.message);
            bytes <= most
        });
        fit.count()
    };
    let (piece, batch) = (fit(PIECE_BYTES), fit(BATCH_BYTES));
    if batch <= piece * PIECES_MAX { piece } else { batch }.max(1)
}

/// What it takes as a record, or a little more.
fn size(message: &Message) -> usize {
    let headers = message.headers().map(|(name, value)| name.len() + value.len());
    let headers: usize = headers.map(|bytes| bytes + HEADER_EXTRA_BYTES).sum();
    let content_type = CONTENT_TYPE.len() + message.content_type.len() + HEADER_EXTRA_BYTES;
    RECORD_EXTRA_BYTES + message.key.len() + headers + content_type + message.body.len()
}

impl Place {
    /// Sends to the leader of the partition, whoever that was when the connection was made.
    async fn send(&self, leader: &Leader, records: Vec<Record>) -> Result<Vec<i64>, Fault> {
        let Place { client, topic, number } = self;
        let sending = async {
            let connect = || client.partition_client(topic, *number, UnknownTopicHandling::Error);
            leader
                .get_or_try_init(connect)
                .await?
                .produce(records, Compression::NoCompression)
                .await
        };
        match timeout(ANSWER_TIME, sending).await {
            Ok(sent) => sent.map_err(|why| fault(&why, topic)),
            Err(_) => Err(Fault::Broken(format!(
                "the connection to partition {number} of `{topic}` was silent for {}",
                format_duration(ANSWER_TIME)
            ))),
        }
    }
}

fn record(message: &Message) -> Record {
    let headers = message.headers();
    let headers = headers.map(|(name, value)| (name.to_owned(), value.as_bytes().to_vec()));
    let more = (CONTENT_TYPE.to_owned(), message.content_type.as_bytes().to_vec());
    let headers = headers.chain([more]).collect();
    let now = i64::try_from(SystemClock::default().now().time().as_ms()).unwrap_or_default();
    Record {
        key: Some(message.key.clone().into_bytes()),
        value: Some(message.body.to_vec()),
        headers,
        timestamp: DateTime::from_timestamp_millis(now).unwrap_or_default(),
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

/// What an error about a topic means.
fn fault(why: &Error, topic: &str) -> Fault {
    match cause(why) {
        Error::ServerError { protocol_error, error_message, .. } => {
            let more = error_message.iter().map(|text| format!(": {text}"));
            let text = format!("{protocol_error}{}", more.collect::<String>());
            match protocol_error {
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
        _ => Fault::Broken(format!("the connection broke off: {}", said(why))),
    }
}

/// What the client would have tried again after.
fn cause(why: &Error) -> &Error {
    match why {
        Error::RetryFailed(BackoffError::DeadlineExceded { source, .. }) => {
            source.downcast_ref().map_or(why, cause)
        }
        why => why,
    }
}

fn said(why: &Error) -> String {
    match cause(why) {
        Error::RetryFailed(BackoffError::DeadlineExceded { source, .. })
        | Error::Connection(ConnectionError::RetryFailed(BackoffError::DeadlineExceded {
            source,
            ..
        })) => source.to_string(),
        Error::Connection(why) => why.to_string(),
        why => why.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of so many messages that have so many bytes, content type and body.
    fn batch_len_of(count: usize, bytes: usize) -> usize {
        let body = vec![0; bytes - CONTENT_TYPE.len() - HEADER_EXTRA_BYTES];
        let queued = |_| Queued {
            message: Message {
                route: String::new(),
                key: String::new(),
                id: String::new(),
                once: String::new(),
                headers: Vec::new(),
                content_type: String::new(),
                body: body.clone().into(),
            },
            at: 0,
            answers: mpsc::unbounded_channel().0,
        };
        batch_len(&(0..count).map(queued).collect::<Vec<_>>())
    }

    #[test]
    fn a_batch_is_one_piece_unless_that_takes_too_many() {
        assert_eq!(batch_len_of(3, 100), 3);
        assert_eq!(batch_len_of(500, 100), 64);
        assert_eq!(batch_len_of(600, 100), 600);
        assert_eq!(batch_len_of(8, 6000), 1);
        assert_eq!(batch_len_of(9, 6000), 9);
        // None of them is one piece.
        assert_eq!(batch_len_of(9, 10_000), 9);
        assert_eq!(batch_len_of(100, 10_000), 52);
        assert_eq!(batch_len_of(2, 1_000_000), 1);
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
