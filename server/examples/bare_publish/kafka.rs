//! Kafka: a producer for each partition, which puts what there is at once into a batch. Its client
//! wants `acks=all`.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rskafka::chrono::DateTime;
use rskafka::client::ClientBuilder;
use rskafka::client::partition::{Compression, UnknownTopicHandling};
use rskafka::client::producer::aggregator::RecordAggregator;
use rskafka::client::producer::{BatchProducer, BatchProducerBuilder};
use rskafka::record::Record;

use super::{CONTENT_TYPE, Message, Publish};

/// With all that is around the records less than 8 KiB: for more its crate takes two writes, of which
/// the second is kept back for up to 40 ms.
const BATCH_BYTES: usize = 6 << 10;
/// How long a batch waits for more. The producer's own clock counts whole milliseconds, so that this
/// is up to one; with its default of 5 ms as few as wait here would be slower.
const LINGER: Duration = Duration::ZERO;

pub(super) struct Kafka(Vec<BatchProducer<RecordAggregator>>);

impl Publish for Kafka {
    async fn connect(url: &str, topic: &str) -> Kafka {
        let host = url.trim_start_matches("kafka://").to_owned();
        let client = ClientBuilder::new(vec![host]).build().await.expect("it takes connections");
        let topics = client.list_topics().await.expect("it lists topics");
        let topic = topics.into_iter().find(|one| one.name == topic).expect("the topic is there");
        let mut producers = Vec::new();
        for number in topic.partitions {
            let leader =
                client.partition_client(&*topic.name, number, UnknownTopicHandling::Error).await;
            let producer = BatchProducerBuilder::new(Arc::new(leader.expect("it has a leader")))
                .with_linger(LINGER)
                .with_compression(Compression::NoCompression);
            producers.push(producer.build(RecordAggregator::new(BATCH_BYTES)));
        }
        Kafka(producers)
    }

    async fn publish(&self, message: Message) {
        let producer = &self.0[message.number as usize % self.0.len()];
        let headers = message.headers().map(|(name, value)| (name.to_owned(), value.into_bytes()));
        let more = ("content-type".to_owned(), CONTENT_TYPE.as_bytes().to_vec());
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let record = Record {
            key: Some(message.id().into_bytes()),
            headers: headers.chain([more]).collect(),
            timestamp: DateTime::from_timestamp_millis(now.as_millis() as i64).unwrap_or_default(),
            value: Some(message.body.to_vec()),
        };
        producer.produce(record).await.expect("it takes the record");
    }
}
