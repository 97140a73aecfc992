//! Looking at jobs and topics without touching them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::core::{Core, arg};
use super::job::{Kept, decode_settings};
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
            after,
            fetched: VecDeque::new(),
            over: false,
        }
    }

    pub(super) async fn browse(&self, query: &Query) -> Result<Page> {
        let after = query.cursor.as_ref().map(Cursor::place).transpose()?;
        let mut walk = self.walk(&query.topic, &query.filter, after);
        let (mut page, mut last) = (Page::default(), None);
        for _ in 0..SCAN_MAX {
            let Some((place, Seen { kept, now, .. })) = walk.next(self).await? else {
                return Ok(page);
            };
            last = Some(place);
            if fits(&query.filter, &kept.record) {
                page.jobs.push(match query.bodies {
                    Bodies::With => kept.record.info_with_body(now),
                    Bodies::Without => kept.record.info(now),
                });
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
            Some(topic) => {
                vec![self.ask(&scripts::FORECAST, self.bucket_of(topic), args).await?]
            }
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
        let mut reply = self.ask(&scripts::ERRORS, self.bucket_of(topic), args).await?;
        let mut errors = Vec::<(Arc<str>, u64)>::new();
        while !reply.is_empty() {
            errors.push((reply.text()?.into(), reply.u64()?));
        }
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
                vec![self.ask(&scripts::TOPICS, self.bucket_of(topic), args).await?]
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
                topics.insert(info.topic.clone(), info);
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
        Ok(TopicInfo { topic, settings, paused, counts: counts(reply)?, waiting: 0, added })
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
        let waiting = known.waiters.popping();
        Ok(Stats { counts: sum, topics, waiting, ..known.stats.clone() })
    }

    async fn topics_there(&self, topic: &Topic) -> Result<bool> {
        let args = [b"one".into(), topic.as_str().into()];
        let mut reply = self.ask(&scripts::TOPICS, self.bucket_of(topic), args).await?;
        let _now = reply.now()?;
        Ok(!reply.is_empty())
    }
}

impl Walk {
    /// The next job, if there is one.
    pub(super) async fn next(&mut self, core: &Core) -> Result<Option<(Place, Seen)>> {
        if self.fetched.is_empty() && !self.over {
            self.fetch(core).await?;
        }
        let next = self.fetched.pop_front();
        Ok(next.filter(|(place, _)| self.end.is_none_or(|end| place[0] < end)))
    }

    async fn fetch(&mut self, core: &Core) -> Result<()> {
        let (after, score) = match (self.after, self.stage) {
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
        let bucket = core.bucket_of(&self.topic);
        let mut reply = core.ask(&scripts::BROWSE, bucket, args).await?;
        let now = reply.now()?;
        let settings = decode_settings(&reply.bytes()?)?;
        while !reply.is_empty() {
            let mut one = reply.list()?;
            let score = one.bytes()?;
            let number = one.number()?;
            let kept = Kept::decode(number, &one.bytes()?)?;
            let life = &kept.record.life;
            let place = match self.stage {
                Some(Stage::Ready) => [life.priority.into(), life.due.as_ms(), number],
                _ => [integer(redis::Value::BulkString(score.into()))? as u64, number, 0],
            };
            let seen = Seen { kept, settings: settings.clone(), now };
            self.fetched.push_back((place, seen));
        }
        self.over = self.fetched.len() < AT_ONCE;
        self.after = self.fetched.back().map(|(place, _)| *place).or(self.after);
        Ok(())
    }
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
