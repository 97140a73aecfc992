//! Looking at jobs and topics without touching them.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::conn::Script;
use super::core::{Core, all, arg};
use super::job::{Kept, decode_settings};
use super::keys::Bucket;
use super::moves::Seen;
use super::reply::{Reply, integer, strange};
use super::scripts;
use crate::error::Result;
use crate::machine::Stage;
use crate::queue::{
    Bodies, Cursor, ERRORS_MAX, Filter, Forecast, Page, PausedFor, Query, SCAN_MAX, TopicInfo,
    Topics,
};
use crate::record::Record;
use crate::stats::Stats;
use crate::time::{Now, Tick, Time};
use crate::topic::{Counts, Pause, Settings, Topic};

/// How many jobs are fetched at once.
const AT_ONCE: usize = 200;

/// A place in an order: what it is sorted by, and the number. Ready jobs: priority, due, number.
type Place = [u64; 3];

/// The jobs of a topic, one after the other.
pub(super) struct Walk {
    topic: Topic,
    stage: Option<Stage>,
    start: u64,
    end: Option<u64>,
    parts: Vec<Part>,
}

/// Those of them that lie in one bucket.
struct Part {
    bucket: Bucket,
    after: Option<Place>,
    fetched: VecDeque<(Place, Seen)>,
    over: bool,
}

impl Core {
    /// The jobs of a topic in the order of the filter's stage, after a place. Bounds on the due time
    /// narrow the walk where the order is by due time.
    pub(super) fn walk(&self, topic: &Topic, filter: &Filter, after: Option<Place>) -> Walk {
        let stage = filter.stage;
        let by_due = matches!(stage, None | Some(Stage::Delayed | Stage::Retry | Stage::Held));
        let edge = |due: Option<Time>| due.filter(|_| by_due).map(Time::as_ms);
        Walk {
            topic: topic.clone(),
            stage,
            start: edge(filter.due_after).unwrap_or_default(),
            end: edge(filter.due_before),
            parts: self
                .buckets_of_topic(topic)
                .into_iter()
                .map(|bucket| Part { bucket, after, fetched: VecDeque::new(), over: false })
                .collect(),
        }
    }

    pub(super) async fn browse(&self, query: &Query) -> Result<Page> {
        self.page(query, |record, now| match query.bodies {
            Bodies::With => record.info_with_body(now),
            Bodies::Without => record.info(now),
        })
        .await
    }

    /// A page of whatever is shown of each job.
    pub(super) async fn page<T>(
        &self,
        query: &Query,
        show: impl Fn(&Record, Now) -> T,
    ) -> Result<Page<T>> {
        let after = query.cursor.as_ref().map(Cursor::place).transpose()?;
        let mut walk = self.walk(&query.topic, &query.filter, after);
        let (mut page, mut last) = (Page::default(), None);
        for _ in 0..SCAN_MAX {
            let Some((place, Seen { kept, now, .. })) = walk.next(self).await? else {
                return Ok(page);
            };
            last = Some(place);
            if fits(&query.filter, &kept.record) {
                page.jobs.push(show(&kept.record, now));
            }
            if page.jobs.len() == query.limit {
                break;
            }
        }
        if walk.next(self).await?.is_some() {
            page.cursor = last.map(Cursor::at);
        }
        Ok(page)
    }

    pub(super) async fn forecast(&self, forecast: &Forecast) -> Result<Vec<u64>> {
        let bounds = (0..=forecast.buckets).map(|n| forecast.bucket_start(n).as_ms());
        let mut args = vec![forecast.topic.as_ref().map_or_else(Vec::new, |t| t.as_str().into())];
        args.extend(bounds.map(arg));
        let mut counts = vec![0; forecast.buckets as usize];
        let replies = match &forecast.topic {
            Some(topic) => self.ask_parts(topic, &scripts::FORECAST, &args).await?,
            None => self.ask_all(&scripts::FORECAST, &args).await?,
        };
        for mut reply in replies {
            for count in &mut counts {
                *count += reply.u64()?;
            }
        }
        Ok(counts)
    }

    pub(super) async fn dead_by_error(&self, topic: &Topic) -> Result<Vec<(Arc<str>, u64)>> {
        let args = [topic.as_str().into()];
        let mut errors = BTreeMap::<Arc<str>, u64>::new();
        for mut reply in self.ask_parts(topic, &scripts::ERRORS, &args).await? {
            while !reply.is_empty() {
                let (error, count) = (reply.text()?, reply.u64()?);
                *errors.entry(error.into()).or_default() += count;
            }
        }
        let mut errors: Vec<_> = errors.into_iter().collect();
        errors.sort_by(|(a, many), (b, few)| few.cmp(many).then_with(|| a.cmp(b)));
        errors.truncate(ERRORS_MAX);
        Ok(errors)
    }

    pub(super) async fn topics(&self, which: &Topics) -> Result<Vec<TopicInfo>> {
        let (mut topics, limit) = (
            BTreeMap::new(),
            match which {
                Topics::One(_) => 1,
                Topics::Page { limit, .. } => *limit,
            },
        );
        let replies = match which {
            Topics::One(topic) => {
                let args = [b"one".into(), topic.as_str().into()];
                self.ask_parts(topic, &scripts::TOPICS, &args).await?
            }
            Topics::Page { prefix, after, limit } => {
                let [from, to] = bounds(prefix, after.as_ref().map(Topic::as_str));
                self.ask_all(&scripts::TOPICS, &[b"page".into(), from, to, arg(limit)]).await?
            }
        };
        for mut reply in replies {
            let now = reply.now()?;
            while !reply.is_empty() {
                let info = self.topic_info(&mut reply.list()?, now)?;
                match topics.entry(info.topic.clone()) {
                    Entry::Vacant(place) => drop(place.insert(info)),
                    // Another part of it.
                    Entry::Occupied(mut there) => {
                        let there: &mut TopicInfo = there.get_mut();
                        there.counts += info.counts;
                        there.added += info.added;
                        there.bytes = there.bytes.zip(info.bytes).map(|(a, b)| a + b);
                    }
                }
            }
        }
        let fits = |topic: &Topic| match which {
            Topics::One(one) => topic == one,
            Topics::Page { prefix, after, .. } => {
                topic.as_str().starts_with(&**prefix)
                    && after.as_ref().is_none_or(|after| topic > after)
            }
        };
        let waited_for: Vec<Topic> = self.known().waiters.topics().cloned().collect();
        for topic in waited_for.into_iter().filter(fits) {
            topics.entry(topic.clone()).or_insert_with(|| self.only_waited_for(topic));
        }
        let mut topics: Vec<TopicInfo> = topics.into_values().collect();
        for info in &mut topics {
            info.waiting = self.known().waiters.naming(&info.topic);
        }
        topics.truncate(limit);
        Ok(topics)
    }

    fn only_waited_for(&self, topic: Topic) -> TopicInfo {
        TopicInfo {
            topic,
            settings: Settings::default(),
            paused: None,
            counts: Counts::default(),
            waiting: 0,
            added: 0,
            bytes: None,
        }
    }

    fn topic_info(&self, reply: &mut Reply, now: Now) -> Result<TopicInfo> {
        let topic: Topic = reply.text()?.parse()?;
        let settings = decode_settings(&reply.bytes()?)?;
        let pause = match &*reply.bytes()? {
            b"" => Pause::No,
            b"ever" => Pause::Indefinitely,
            end => {
                let end = std::str::from_utf8(end).ok().and_then(|end| end.parse().ok());
                Pause::Until(Tick::from_us(end.ok_or_else(strange)?))
            }
        };
        let (paused, added) = (PausedFor::of(pause, now.tick), reply.u64()?);
        let bytes = reply.text()?.parse().ok().filter(|_| settings.bytes_max.is_some());
        Ok(TopicInfo { topic, settings, paused, counts: counts(reply)?, waiting: 0, added, bytes })
    }

    pub(super) async fn stats(&self) -> Result<Stats> {
        let (mut sum, mut topics) = (Counts::default(), 0);
        for mut reply in self.ask_all(&scripts::TOPICS, &[b"sum".into()]).await? {
            let _now = reply.now()?;
            let mut reply = reply.list()?;
            topics += reply.u64()?;
            sum += counts(&mut reply)?;
        }
        let waited_for: Vec<Topic> = self.known().waiters.topics().cloned().collect();
        for topic in waited_for {
            let there = self.topics_there(&topic).await?;
            topics += u64::from(!there);
        }
        let known = self.known();
        topics = topics.saturating_sub(known.spread.extra(&self.keys));
        let waiting = known.waiters.popping();
        Ok(Stats { counts: sum, topics, waiting, ..known.stats.clone() })
    }

    async fn topics_there(&self, topic: &Topic) -> Result<bool> {
        // One that is spread is there in each of its buckets.
        let bucket = self.keys.bucket_of_part(topic, 0);
        let args = [b"one".into(), topic.as_str().into()];
        let mut reply = self.ask(&scripts::TOPICS, bucket, args).await?;
        let _now = reply.now()?;
        Ok(!reply.is_empty())
    }

    /// Runs a script with the same arguments in all buckets of a topic.
    async fn ask_parts(&self, topic: &Topic, ask: &Script, args: &[Vec<u8>]) -> Result<Vec<Reply>> {
        let buckets = self.buckets_of_topic(topic).into_iter();
        all(buckets.map(|bucket| self.ask(ask, bucket, args.to_vec()))).await
    }
}

impl Walk {
    /// The next job, if there is one.
    pub(super) async fn next(&mut self, core: &Core) -> Result<Option<(Place, Seen)>> {
        for at in 0..self.parts.len() {
            while self.parts[at].fetched.is_empty() && !self.parts[at].over {
                self.fetch(at, core).await?;
            }
        }
        let place = |part: &Part| part.fetched.front().map(|(place, _)| *place);
        let first = self
            .parts
            .iter_mut()
            .filter(|part| !part.fetched.is_empty())
            .min_by_key(|part| place(part));
        let next = first.and_then(|part| part.fetched.pop_front());
        Ok(next.filter(|(place, _)| self.end.is_none_or(|end| place[0] < end)))
    }

    async fn fetch(&mut self, at: usize, core: &Core) -> Result<()> {
        let part = &mut self.parts[at];
        let (after, score) = match (part.after, self.stage) {
            (None, _) => (Vec::new(), Vec::new()),
            (Some([priority, due, number]), Some(Stage::Ready)) => {
                let mut place = (priority as u32).to_be_bytes().to_vec();
                place.extend(due.to_be_bytes());
                place.extend(number.to_be_bytes());
                (place, Vec::new())
            }
            (Some([score, number, _]), _) => (number.to_be_bytes().to_vec(), arg(score)),
        };
        let stage: &[u8] = match self.stage {
            None => b"a",
            Some(Stage::Delayed) => b"d",
            Some(Stage::Retry) => b"r",
            Some(Stage::Held) => b"h",
            Some(Stage::Ready) => b"y",
            Some(Stage::Reserved) => b"v",
            Some(Stage::Dead) => b"x",
            Some(Stage::Finished) => b"f",
        };
        let args =
            [self.topic.as_str().into(), stage.into(), arg(AT_ONCE), arg(self.start), after, score];
        let mut reply = core.ask(&scripts::BROWSE, part.bucket, args).await?;
        let now = reply.now()?;
        let settings = decode_settings(&reply.bytes()?)?;
        part.over = reply.i64()? == 0;
        while !reply.is_empty() {
            let mut one = reply.list()?;
            let at = one.bytes()?;
            let number = one.number()?;
            let place = match self.stage {
                Some(Stage::Ready) => ready_place(&at, number)?,
                _ => [integer(redis::Value::BulkString(at.into()))? as u64, number, 0],
            };
            part.after = Some(place);
            let stored = one.bytes()?;
            if stored.is_empty() {
                continue;
            }
            let kept = Kept::decode(number, &stored)?;
            let seen = Seen { kept, settings: settings.clone(), now };
            part.fetched.push_back((place, seen));
        }
        Ok(())
    }
}

/// The place of a ready job: priority and due, and then its number.
fn ready_place(bytes: &[u8], number: u64) -> Result<Place> {
    let (priority, rest) = bytes.split_first_chunk().ok_or_else(strange)?;
    let due = rest.first_chunk().ok_or_else(strange)?;
    Ok([u32::from_be_bytes(*priority).into(), u64::from_be_bytes(*due), number])
}

pub(super) fn fits(filter: &Filter, job: &Record) -> bool {
    filter.fits(job.life.stage(), job.life.due, &job.spec.id, job.notes.last_error())
}

/// From and to where names that begin so are looked for, after one of them.
pub(super) fn bounds(prefix: &str, after: Option<&str>) -> [Vec<u8>; 2] {
    let from = match after {
        Some(after) if after >= prefix => [b"(", after.as_bytes()].concat(),
        _ => [b"[", prefix.as_bytes()].concat(),
    };
    // No text has this byte in it.
    let to =
        if prefix.is_empty() { b"+".into() } else { [b"(", prefix.as_bytes(), b"\xff"].concat() };
    [from, to]
}

fn counts(reply: &mut Reply) -> Result<Counts> {
    Ok(Counts {
        delayed: reply.u64()?,
        retry: reply.u64()?,
        held: reply.u64()?,
        ready: reply.u64()?,
        urgent: reply.u64()?,
        reserved: reply.u64()?,
        dead: reply.u64()?,
        finished: reply.u64()?,
    })
}
