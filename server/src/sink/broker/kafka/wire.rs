//! Connections to brokers, and what is asked on them.
//!
//! The crate's own client has a connection and a request for each partition, where a broker takes
//! several partitions at once for little more than one; and it writes what is over 8 KiB in two pieces
//! without `TCP_NODELAY`, of which the second may be kept back for 40 ms. So only its protocol is used.

use std::collections::HashMap;
use std::fmt::Display;
use std::sync::Arc;

use futures_util::future::select_ok;
use rskafka::client::SaslConfig;
use rskafka::client::error::{ProtocolError, RequestError};
use rskafka::messenger::Messenger;
use rskafka::protocol::messages::{
    MetadataRequest, ProduceRequest, ProduceRequestPartitionData, ProduceRequestTopicData,
};
use rskafka::protocol::primitives::{Int16, Int32, NullableString, Records, String_};
use rskafka::protocol::record::{
    ControlBatchOrRecords, Record, RecordBatch, RecordBatchCompression, RecordBatchTimestampType,
};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, BufStream};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// What is written and read in one piece.
const BUFFER_BYTES: usize = 64 << 10;
/// No answer is longer; that of what topics there are may be long.
const ANSWER_BYTES_MAX: usize = 100 << 20;
/// How long a broker waits for its replicas.
const REPLICAS_MS: i32 = 30_000;
/// All replicas that are in sync.
const ACKS: i16 = -1;

/// How brokers are reached.
pub(super) struct Dialer {
    /// With their ports.
    pub(super) hosts: Vec<String>,
    pub(super) login: Option<SaslConfig>,
    pub(super) tls: Option<TlsConnector>,
}

/// Who leads the partitions of each topic, by their numbers, and where those brokers are.
#[derive(Default)]
pub(super) struct Listed {
    pub(super) topics: HashMap<String, Arc<[i32]>>,
    pub(super) brokers: HashMap<i32, String>,
}

/// Records for one partition.
pub(super) struct Part {
    pub(super) topic: String,
    pub(super) partition: i32,
    pub(super) records: Vec<Record>,
}

/// The offset of the first record of a part, or why it was not taken.
pub(super) type Taken = Result<i64, ProtocolError>;

/// A connection to a broker. Requests on it are answered one after the other.
pub(super) struct Wire(Messenger<BufStream<Box<dyn Stream>>>);

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

impl Dialer {
    /// Connects and logs in.
    pub(super) async fn connect(&self, to: &str) -> Result<Wire, String> {
        let failed = |why: &dyn Display| format!("could not connect to `{to}`: {why}");
        let stream = self.stream(to).await.map_err(|why| failed(&why))?;
        let stream = BufStream::with_capacity(BUFFER_BYTES, BUFFER_BYTES, stream);
        let mut messenger = Messenger::new(stream, ANSWER_BYTES_MAX, "linger".into());
        messenger.sync_versions().await.map_err(|why| failed(&why))?;
        if let Some(login) = &self.login {
            messenger.do_sasl(login.clone()).await.map_err(|why| failed(&why))?;
        }
        Ok(Wire(messenger))
    }

    async fn stream(&self, to: &str) -> std::io::Result<Box<dyn Stream>> {
        let stream = TcpStream::connect(to).await?;
        stream.set_nodelay(true)?;
        let Some(tls) = &self.tls else { return Ok(Box::new(stream)) };
        let host = to.rsplit_once(':').map_or(to, |(host, _)| host);
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let name = ServerName::try_from(host).map_err(std::io::Error::other)?;
        Ok(Box::new(tls.connect(name, stream).await?))
    }

    /// What there is, by whichever broker answers first.
    pub(super) async fn list(&self) -> Result<Listed, String> {
        let asking = self.hosts.iter().map(|host| {
            Box::pin(async move {
                let wire = self.connect(host).await?;
                wire.list().await
            })
        });
        select_ok(asking).await.map(|(listed, _)| listed)
    }
}

impl Wire {
    async fn list(&self) -> Result<Listed, String> {
        let all = MetadataRequest { topics: None, allow_auto_topic_creation: None };
        let answer = self.0.request(all).await.map_err(broke_off)?;
        let brokers = answer.brokers.into_iter();
        let brokers = brokers.map(|broker| {
            // As it stands in an address.
            let host = if broker.host.0.contains(':') {
                format!("[{}]", broker.host.0)
            } else {
                broker.host.0
            };
            (broker.node_id.0, format!("{host}:{}", broker.port.0))
        });
        let topics = answer.topics.into_iter().filter(|topic| !topic.partitions.is_empty());
        let topics = topics.map(|mut topic| {
            topic.partitions.sort_unstable_by_key(|partition| partition.partition_index.0);
            let leaders = topic.partitions.iter().map(|partition| partition.leader_id.0);
            (topic.name.0, leaders.collect())
        });
        Ok(Listed { topics: topics.collect(), brokers: brokers.collect() })
    }

    /// Sends records at this time, and answers for each part what became of it, if the broker said.
    pub(super) async fn produce(
        &self,
        parts: Vec<Part>,
        now_ms: i64,
    ) -> Result<Vec<Option<Taken>>, String> {
        let mut places: HashMap<(String, i32), usize> = HashMap::new();
        let mut topics: Vec<ProduceRequestTopicData> = Vec::new();
        for (place, Part { topic, partition, records }) in parts.into_iter().enumerate() {
            places.insert((topic.clone(), partition), place);
            let data = ProduceRequestPartitionData {
                index: Int32(partition),
                records: Records(vec![batch(records, now_ms)]),
            };
            match topics.iter_mut().find(|one| one.name.0 == topic) {
                Some(one) => one.partition_data.push(data),
                None => topics.push(ProduceRequestTopicData {
                    name: String_(topic),
                    partition_data: vec![data],
                }),
            }
        }
        let request = ProduceRequest {
            transactional_id: NullableString(None),
            acks: Int16(ACKS),
            timeout_ms: Int32(REPLICAS_MS),
            topic_data: topics,
        };
        let mut taken: Vec<Option<Taken>> = vec![None; places.len()];
        let answer = self.0.request(request).await.map_err(broke_off)?;
        for topic in answer.responses {
            for one in topic.partition_responses {
                if let Some(place) = places.get(&(topic.name.0.clone(), one.index.0)) {
                    taken[*place] = Some(one.error.map_or(Ok(one.base_offset.0), Err));
                }
            }
        }
        Ok(taken)
    }
}

fn broke_off(why: RequestError) -> String {
    format!("the connection broke off: {why}")
}

/// All of this moment, by nobody who would be known again.
fn batch(records: Vec<Record>, now_ms: i64) -> RecordBatch {
    RecordBatch {
        base_offset: 0,
        partition_leader_epoch: 0,
        last_offset_delta: records.len() as i32 - 1,
        first_timestamp: now_ms,
        max_timestamp: now_ms,
        producer_id: -1,
        producer_epoch: -1,
        base_sequence: -1,
        records: ControlBatchOrRecords::Records(records),
        compression: RecordBatchCompression::NoCompression,
        is_transactional: false,
        timestamp_type: RecordBatchTimestampType::CreateTime,
    }
}
