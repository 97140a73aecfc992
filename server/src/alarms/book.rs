//! Incidents as the store keeps them, for all who share it, and the jobs by which they are told.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use linger::error::{Code, Error, Result};
use linger::job::{Body, NewJob, OnConflict, Target};
use linger::queue::{Expect, KvQuery, KvWrite, PAGE_MAX, Queue};
use linger::time::{DAY, Time, duration_ms};
use linger::topic::Topic;
use serde::{Deserialize, Serialize};
use serde_json::Number;
use sha2::{Digest, Sha256};

use crate::config::{Kind, Rule};

use super::TOPIC;

/// The keys of incidents begin so.
const PREFIX: &str = "alarms/";
/// How long the jobs by which incidents were told stay visible. So long one is known to have been
/// added when it is tried again.
const RETAIN: Duration = DAY;

/// Of what an incident is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Subject {
    /// Of all together that a rule watches.
    All,
    Topic(String),
    Destination(String),
}

/// What a rule has found, from then until its end was told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Incident {
    pub(super) alarm: String,
    pub(super) kind: Kind,
    pub(super) of: Subject,
    pub(super) value: u64,
    pub(super) threshold: u64,
    since_ms: u64,
    seen_ms: u64,
    /// Where it is told: its end where its beginning was, whatever became of the rule.
    to: String,
    quiet_ms: u64,
    stage: Stage,
}

/// How far an incident has come. What is to be told is stored before it is, so that it is told
/// once whatever happens in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Stage {
    /// It is to be told.
    Found,
    /// It was told.
    Firing,
    /// Its end is to be told.
    Over,
}

/// An incident, and at which version the store has it.
pub(super) type Kept = (Incident, u64);

impl Incident {
    /// One that this rule has found.
    pub(super) fn new(rule: &Rule, of: Subject, value: u64, since: Time, now: Time) -> Incident {
        Incident {
            alarm: rule.name.clone(),
            kind: rule.kind,
            of,
            value,
            threshold: rule.threshold,
            since_ms: since.as_ms(),
            seen_ms: now.as_ms(),
            to: rule.to.as_str().to_owned(),
            quiet_ms: duration_ms(rule.quiet),
            stage: Stage::Found,
        }
    }

    /// When anyone last saw it.
    pub(super) fn seen(&self) -> Time {
        Time::from_ms(self.seen_ms).unwrap_or(Time::MIN)
    }

    pub(super) fn since(&self) -> Time {
        Time::from_ms(self.since_ms).unwrap_or(Time::MIN)
    }

    /// How long it must not have been seen to be over.
    pub(super) fn quiet(&self) -> Duration {
        Duration::from_millis(self.quiet_ms)
    }

    /// Whether something about it is yet to be told.
    pub(super) fn is_untold(&self) -> bool {
        self.stage != Stage::Firing
    }

    /// The same, seen again.
    pub(super) fn renewed(&self, value: u64, quiet: Duration, now: Time) -> Incident {
        let quiet_ms = duration_ms(quiet);
        Incident { value, quiet_ms, seen_ms: now.as_ms(), ..self.clone() }
    }

    /// The same, at its end.
    pub(super) fn over(&self) -> Incident {
        Incident { stage: Stage::Over, ..self.clone() }
    }

    fn digest(&self) -> String {
        let of = serde_json::to_string(&(&self.alarm, &self.of)).expect("names can be written");
        Sha256::digest(of).iter().take(16).map(|byte| format!("{byte:02x}")).collect()
    }

    fn key(&self) -> Arc<str> {
        format!("{PREFIX}{}", self.digest()).into()
    }

    fn encode(&self) -> Bytes {
        serde_json::to_vec(self).expect("names and numbers can be written").into()
    }

    /// The job that tells what is to be told. Its name is always the same, so that it is added once.
    fn job(&self, instance: &str) -> Result<NewJob> {
        let word = if self.stage == Stage::Over { "resolved" } else { "firing" };
        let id = format!("{}-{}-{}-{word}", self.alarm, self.since_ms, &self.digest()[..8]);
        let message = Message {
            alarm: &self.alarm,
            kind: self.kind,
            topic: match &self.of {
                Subject::Topic(topic) => Some(topic),
                _ => None,
            },
            destination: match &self.of {
                Subject::Destination(destination) => Some(destination),
                _ => None,
            },
            state: word,
            value: self.kind.shown(self.value),
            threshold: self.kind.shown(self.threshold),
            since: self.since().to_string(),
            until: (self.stage == Stage::Over).then(|| self.seen().to_string()),
            instance,
        };
        let mut job = NewJob::new(TOPIC.parse::<Topic>()?, id.parse()?, Body::json_of(&message)?);
        job.spec.target = Some(self.to.parse::<Target>()?);
        job.spec.retain = Some(RETAIN);
        job.on_conflict = OnConflict::Keep;
        Ok(job)
    }
}

/// What is sent. `docs/operate.md` promises its form.
#[derive(Serialize)]
struct Message<'a> {
    alarm: &'a str,
    kind: Kind,
    topic: Option<&'a str>,
    destination: Option<&'a str>,
    state: &'static str,
    value: Number,
    threshold: Number,
    since: String,
    until: Option<String>,
    instance: &'a str,
}

/// The incidents of a store.
pub(super) struct Book<S> {
    store: Arc<S>,
    /// What this server is called.
    instance: String,
}

impl<S: Queue> Book<S> {
    pub(super) fn new(store: Arc<S>, instance: String) -> Book<S> {
        Book { store, instance }
    }

    /// All that are under way.
    pub(super) async fn load(&self) -> Result<BTreeMap<(String, Subject), Kept>> {
        let (mut kept, mut after) = (BTreeMap::new(), None);
        loop {
            let page = KvQuery::Prefix { prefix: PREFIX.into(), after, limit: PAGE_MAX };
            let page = self.store.kv_read(page).await?;
            for entry in &page {
                match serde_json::from_slice::<Incident>(&entry.value) {
                    Ok(one) => {
                        kept.insert((one.alarm.clone(), one.of.clone()), (one, entry.version));
                    }
                    Err(why) => {
                        tracing::warn!(key = %entry.key, "an incident cannot be read: {why}");
                    }
                }
            }
            match page.last() {
                Some(last) if page.len() == PAGE_MAX => after = Some(last.key.clone()),
                _ => return Ok(kept),
            }
        }
    }

    /// Notes an incident, and tells what is to be told of it. False if another server was faster,
    /// which sees to it then.
    pub(super) async fn put(&self, incident: Incident, there: Option<u64>) -> Result<bool> {
        let expect = there.map_or(Expect::Absent, Expect::Version);
        let Some(version) = self.write(&incident, Some(incident.encode()), expect).await? else {
            return Ok(false);
        };
        if incident.is_untold() {
            self.tell((incident, version)).await?;
        }
        Ok(true)
    }

    /// Tells what is to be told of an incident, and notes that it was.
    pub(super) async fn tell(&self, (incident, version): Kept) -> Result<()> {
        let job = incident.job(&self.instance)?;
        let added = self.store.add_all(vec![job]).await?.pop();
        added.unwrap_or_else(|| Err(Error::new(Code::Unavailable, "there is no answer")))?;
        let expect = Expect::Version(version);
        match incident.stage {
            Stage::Over => self.write(&incident, None, expect).await?,
            Stage::Found | Stage::Firing => {
                let told = Incident { stage: Stage::Firing, ..incident };
                self.write(&told, Some(told.encode()), expect).await?
            }
        };
        Ok(())
    }

    /// Writes one entry; none if another server has done so meanwhile.
    async fn write(
        &self,
        incident: &Incident,
        value: Option<Bytes>,
        expect: Expect,
    ) -> Result<Option<u64>> {
        let write = KvWrite { key: incident.key(), value, expect, ttl: None };
        let others = [Code::AlreadyExists, Code::VersionMismatch, Code::NotFound];
        match self.store.kv_write(write).await {
            Ok(version) => Ok(Some(version)),
            Err(why) if others.contains(&why.code()) => Ok(None),
            Err(why) => Err(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use linger::Linger;
    use linger::queue::Query;
    use linger::store::memory::Memory;

    use super::*;
    use crate::config::{Of, Rule};

    fn incident() -> Incident {
        let rule = Rule {
            name: "late".into(),
            kind: Kind::Late,
            of: Of::All,
            threshold: 60_000,
            holds: Duration::ZERO,
            quiet: DAY,
            to: "http://127.0.0.1:1/".parse().unwrap(),
        };
        let at = |ms| Time::from_ms(ms).unwrap();
        Incident::new(&rule, Subject::Topic("orders".into()), 61_500, at(1000), at(2000))
    }

    fn book(linger: &Linger<Memory>, instance: &str) -> Book<Memory> {
        Book::new(linger.store().clone(), instance.into())
    }

    async fn told(linger: &Linger<Memory>) -> Vec<String> {
        let page = linger.store().browse(Query::all(TOPIC.parse().unwrap())).await.unwrap();
        page.jobs.iter().map(|job| job.spec.id.to_string()).collect()
    }

    #[tokio::test]
    async fn servers_that_share_a_store_tell_an_incident_and_its_end_once() {
        let linger = Linger::memory();
        let (one, other) = (book(&linger, "one"), book(&linger, "other"));
        one.put(incident(), None).await.unwrap();
        other.put(incident(), None).await.unwrap();
        assert_eq!(told(&linger).await.len(), 1);
        let kept = one.load().await.unwrap();
        assert_eq!(kept, other.load().await.unwrap());
        let (firing, version) = kept.into_values().next().unwrap();
        assert!(!firing.is_untold());
        one.put(firing.over(), Some(version)).await.unwrap();
        other.put(firing.over(), Some(version)).await.unwrap();
        let told = told(&linger).await;
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told.iter().any(|id| id.ends_with("-firing")), "{told:?}");
        assert!(told.iter().any(|id| id.ends_with("-resolved")), "{told:?}");
        assert_eq!(other.load().await.unwrap(), BTreeMap::new());
    }

    #[tokio::test]
    async fn what_was_cut_short_before_it_was_told_is_told_once_by_whoever_comes() {
        let linger = Linger::memory();
        let book = book(&linger, "one");
        let found = incident();
        book.write(&found, Some(found.encode()), Expect::Absent).await.unwrap();
        let (_, untold) = book.load().await.unwrap().pop_first().unwrap();
        assert!(untold.0.is_untold());
        // Twice: two servers have read the same.
        book.tell(untold.clone()).await.unwrap();
        book.tell(untold).await.unwrap();
        assert_eq!(told(&linger).await.len(), 1);
        let (_, kept) = book.load().await.unwrap().pop_first().unwrap();
        assert!(!kept.0.is_untold());
    }

    #[test]
    fn the_message_has_its_form() {
        let text = |incident: &Incident| incident.job("queue-1").unwrap().body;
        let firing = text(&incident());
        assert_eq!(
            firing.as_str().unwrap(),
            r#"{"alarm":"late","kind":"late","topic":"orders","destination":null,"state":"firing","value":61.5,"threshold":60.0,"since":"1970-01-01T00:00:01.000Z","until":null,"instance":"queue-1"}"#
        );
        let over = text(&incident().over());
        let over: serde_json::Value = over.parse().unwrap();
        assert_eq!(
            (&over["state"], &over["until"]),
            (&"resolved".into(), &"1970-01-01T00:00:02.000Z".into())
        );
        assert_eq!(incident().job("a").unwrap().body.content_type(), "application/json");
    }
}
