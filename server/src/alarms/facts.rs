//! What there is to be known, once for all rules, and what each of them makes of it.

use std::collections::BTreeMap;

use linger::error::Result;
use linger::job::{Destination, Target};
use linger::queue::{JobInfo, PAGE_MAX, Queue, TopicInfo, Topics};
use linger::time::Time;
use linger::topic::Topic;

use super::TOPIC;
use super::book::Subject;
use crate::config::{Kind, Of, Rule};
use crate::registry::{AppName, Registry};
use crate::store::Store;

/// More topics are not looked at.
const TOPICS_MAX: usize = 10_000;

/// What there is to be known.
#[derive(Default)]
pub(super) struct Facts {
    topics: Vec<Fact>,
    closed: Vec<Destination>,
    without_timer: bool,
    free_bytes: Option<u64>,
}

/// A topic.
struct Fact {
    topic: Topic,
    ready: u64,
    dead: u64,
    /// How long ago the job was due that is next in line.
    late_ms: u64,
    /// Whether that is for workers of whom none is there.
    without_worker: bool,
}

impl Facts {
    /// Looks at all that these rules need.
    pub(super) async fn gather(
        store: &Store,
        registry: &Registry,
        closed: Vec<Destination>,
        rules: &[Rule],
    ) -> Result<Facts> {
        let mut facts =
            Facts { closed, without_timer: store.without_timer().is_some(), ..Facts::default() };
        if let Some(embedded) = store.embedded()
            && rules.iter().any(|rule| rule.kind == Kind::Disk)
        {
            facts.free_bytes = embedded.measured().await?.free_bytes;
        }
        for info in topics(store, rules).await?.into_values() {
            let needs_head = |rule: &Rule| {
                matches!(rule.kind, Kind::Late | Kind::Worker) && rule.of.fits(info.topic.as_str())
            };
            // A topic that is paused makes nobody wait who does not want to.
            let waits = info.counts.ready > 0 && info.paused.is_none();
            let head = match waits && rules.iter().any(needs_head) {
                true => store.next_in_line(&info.topic).await?,
                false => None,
            };
            facts.topics.push(Fact::new(&info, head, registry, store.clock().now().time()));
        }
        Ok(facts)
    }

    /// What a rule watches, and how much of it there is.
    pub(super) fn read(&self, rule: &Rule) -> Vec<(Subject, u64)> {
        let value = |fact: &Fact| match rule.kind {
            Kind::Dead => fact.dead,
            Kind::Late => fact.late_ms,
            Kind::Worker if !fact.without_worker => 0,
            _ => fact.ready,
        };
        match (rule.kind, &rule.of) {
            (Kind::Dead | Kind::Late | Kind::Backlog | Kind::Worker, Of::Each(pattern)) => {
                let fits = self.topics.iter().filter(|fact| pattern.fits(fact.topic.as_str()));
                fits.map(|fact| (Subject::Topic(fact.topic.as_str().into()), value(fact))).collect()
            }
            (Kind::Late, Of::All) => {
                vec![(Subject::All, self.topics.iter().map(value).max().unwrap_or_default())]
            }
            (Kind::Dead | Kind::Backlog | Kind::Worker, Of::All) => {
                vec![(Subject::All, self.topics.iter().map(value).sum())]
            }
            (Kind::Destination, Of::Each(pattern)) => {
                let fits = self.closed.iter().filter(|closed| pattern.fits(closed.as_str()));
                fits.map(|closed| (Subject::Destination(closed.as_str().into()), 1)).collect()
            }
            (Kind::Destination, Of::All) => vec![(Subject::All, self.closed.len() as u64)],
            (Kind::Timer, _) => vec![(Subject::All, self.without_timer.into())],
            (Kind::Disk, _) => {
                self.free_bytes.map(|free| (Subject::All, free)).into_iter().collect()
            }
        }
    }
}

impl Fact {
    fn new(info: &TopicInfo, head: Option<JobInfo>, registry: &Registry, now: Time) -> Fact {
        let target = head
            .as_ref()
            .and_then(|job| job.spec.target.as_ref().or(info.settings.target.as_ref()));
        Fact {
            topic: info.topic.clone(),
            ready: info.counts.ready,
            dead: info.counts.dead,
            late_ms: head.as_ref().map_or(0, |job| now.ms_since(job.due)),
            without_worker: target.is_some_and(|target| is_unserved(registry, &info.topic, target)),
        }
    }
}

/// Whether a target means workers, and none is there.
fn is_unserved(registry: &Registry, topic: &Topic, target: &Target) -> bool {
    match target.as_str().strip_prefix("worker:") {
        None => false,
        Some("") => !registry.is_served(None, topic),
        Some(app) => {
            let app: Option<AppName> = app.parse().ok();
            app.is_none_or(|app| !registry.is_served(Some(&app), topic))
        }
    }
}

/// The topics that these rules watch, without our own.
async fn topics(store: &Store, rules: &[Rule]) -> Result<BTreeMap<Topic, TopicInfo>> {
    let mut found = BTreeMap::new();
    let mut keep = |some: Vec<TopicInfo>| {
        let others = some.into_iter().filter(|info| info.topic.as_str() != TOPIC);
        found.extend(others.map(|info| (info.topic.clone(), info)));
    };
    let of_topics = || rules.iter().filter(|rule| rule.kind.is_of_topics());
    let one = |rule: &Rule| rule.of.pattern().and_then(|pattern| pattern.one()).map(str::to_owned);
    if of_topics().all(|rule| one(rule).is_some()) {
        for name in of_topics().filter_map(one) {
            keep(store.topics(Topics::One(name.parse()?)).await?);
        }
        return Ok(found);
    }
    let mut after = None;
    for _ in 0..TOPICS_MAX / PAGE_MAX {
        let page = Topics::Page { prefix: "".into(), after, limit: PAGE_MAX };
        let page = store.topics(page).await?;
        let (is_last, last) = (page.len() < PAGE_MAX, page.last().map(|info| info.topic.clone()));
        keep(page);
        if is_last {
            break;
        }
        after = last;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use linger::job::{Body, NewJob, When, made_id};
    use linger::queue::TopicChange;
    use linger::store::Options;
    use linger::store::embedded::{Embedded, Settings};

    use super::*;
    use crate::config::Config;

    /// The rule that a table of `linger.toml` says.
    fn rule(fields: &str) -> Rule {
        let folder = tempfile::tempdir().unwrap();
        let toml = format!("[[alarms.rules]]\nname = 'a'\nto = 'http://o'\n{fields}\n");
        std::fs::write(folder.path().join("linger.toml"), toml).unwrap();
        let mut loaded = Config::load(&Default::default(), [], folder.path()).unwrap();
        loaded.config.alarms.rules.remove(0)
    }

    fn facts() -> Facts {
        let fact = |name: &str, ready, dead, late_ms, without_worker| Fact {
            topic: name.parse().unwrap(),
            ready,
            dead,
            late_ms,
            without_worker,
        };
        let topics = vec![
            fact("a.1", 5, 1, 7000, true),
            fact("a.2", 3, 2, 0, false),
            fact("b", 1, 4, 9000, true),
        ];
        let target: Target = "https://shop.example/hooks".parse().unwrap();
        let closed = vec![Destination::of(&Topic::default(), &target)];
        Facts { topics, closed, without_timer: true, free_bytes: Some(77) }
    }

    #[tokio::test]
    async fn what_is_paused_waits_as_it_should_and_our_own_topic_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let store = Embedded::open(folder.path(), Options::default(), Settings::default());
        let store = Arc::new(Store::from(store.unwrap()));
        let registry = Registry::open(store.clone()).await.unwrap();
        let now = store.clock().now().time();
        for topic in ["a", "paused", TOPIC] {
            let mut job = NewJob::new(topic.parse().unwrap(), made_id(now), Body::text("x"));
            job.spec.target = Some("worker:shop".parse().unwrap());
            job.when = Some(When::At(now.saturating_sub_ms(60_000)));
            store.add_all(vec![job]).await.unwrap().remove(0).unwrap();
        }
        let pause = TopicChange::Pause(None);
        store.configure(&"paused".parse().unwrap(), pause).await.unwrap();
        let topic = |name: &str| Subject::Topic(name.into());
        for (fields, expected) in [
            ("kind = 'backlog'\nthreshold = 0", vec![(topic("a"), 1), (topic("paused"), 1)]),
            ("kind = 'worker'", vec![(topic("a"), 1), (topic("paused"), 0)]),
        ] {
            let rules = [rule(&format!("{fields}\ntopic = '*'"))];
            let facts = Facts::gather(&store, &registry, vec![], &rules).await.unwrap();
            assert_eq!(facts.read(&rules[0]), expected);
        }
        let rules = [rule("kind = 'late'\nthreshold = 1\ntopic = '*'")];
        let facts = Facts::gather(&store, &registry, vec![], &rules).await.unwrap();
        let late = facts.read(&rules[0]);
        assert!(late[0].1 >= 60_000 && late[1] == (topic("paused"), 0), "{late:?}");
    }

    #[test]
    fn a_rule_is_of_all_together_or_of_each_that_fits() {
        let topic = |name: &str| Subject::Topic(name.into());
        for (fields, expected) in [
            ("kind = 'dead'", vec![(Subject::All, 7)]),
            (
                "kind = 'dead'\ntopic = '*'",
                vec![(topic("a.1"), 1), (topic("a.2"), 2), (topic("b"), 4)],
            ),
            ("kind = 'dead'\ntopic = 'a.2'", vec![(topic("a.2"), 2)]),
            ("kind = 'late'\nthreshold = '1s'", vec![(Subject::All, 9000)]),
            (
                "kind = 'late'\nthreshold = '1s'\ntopic = 'a.*'",
                vec![(topic("a.1"), 7000), (topic("a.2"), 0)],
            ),
            ("kind = 'backlog'\nthreshold = 1", vec![(Subject::All, 9)]),
            ("kind = 'worker'", vec![(Subject::All, 6)]),
            ("kind = 'worker'\ntopic = 'a.*'", vec![(topic("a.1"), 5), (topic("a.2"), 0)]),
            ("kind = 'destination'", vec![(Subject::All, 1)]),
            (
                "kind = 'destination'\ndestination = 'https://shop.*'",
                vec![(Subject::Destination("https://shop.example".into()), 1)],
            ),
            ("kind = 'destination'\ndestination = 'https://other*'", vec![]),
            ("kind = 'disk'\nthreshold = '1GiB'", vec![(Subject::All, 77)]),
        ] {
            assert_eq!(facts().read(&rule(fields)), expected, "{fields}");
        }
        let timer = Rule { kind: Kind::Timer, holds: Duration::ZERO, ..rule("kind = 'dead'") };
        assert_eq!(facts().read(&timer), [(Subject::All, 1)]);
    }
}
