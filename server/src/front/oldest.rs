//! The job that has been due for longest: looked for now and then, for all who ask.

use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use linger::error::Result;
use linger::job::Id;
use linger::queue::{PAGE_MAX, Queue, TopicInfo, Topics};
use linger::time::{SECOND, Time};
use linger::topic::Topic;

use crate::store::Store;

/// What was found is told for so long.
const FRESH: Duration = SECOND.saturating_mul(2);
/// More topics with ready jobs are not looked into.
const HEADS_MAX: usize = 1000;
/// More topics are not gone through to find those.
const TOPICS_MAX: usize = 10_000;

/// What was last found, and when it was begun to look.
#[derive(Default)]
pub(super) struct Oldest(Mutex<Looked>);

#[derive(Default)]
struct Looked {
    at: Option<Instant>,
    found: Option<Found>,
}

/// A job that is next in line in its topic, and since when it is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) topic: Topic,
    pub(super) id: Id,
    pub(super) due: Time,
}

impl Oldest {
    /// What was found at most [`FRESH`] ago. One caller looks; who comes meanwhile is told what was
    /// found before.
    pub(super) async fn get(&self, store: &Store) -> Result<Option<Found>> {
        if !self.is_stale(Instant::now()) {
            return Ok(self.looked().found.clone());
        }
        let found = look(store).await?;
        self.looked().found.clone_from(&found);
        Ok(found)
    }

    /// Whether it is time to look, which the caller then does.
    fn is_stale(&self, now: Instant) -> bool {
        let mut looked = self.looked();
        let stale = looked.at.is_none_or(|at| now.duration_since(at) >= FRESH);
        if stale {
            looked.at = Some(now);
        }
        stale
    }

    fn looked(&self) -> MutexGuard<'_, Looked> {
        self.0.lock().expect("nobody panics holding it")
    }
}

async fn look(store: &Store) -> Result<Option<Found>> {
    let mut oldest: Option<Found> = None;
    for topic in waiting(store).await? {
        let Some(job) = store.next_in_line(&topic).await? else { continue };
        if oldest.as_ref().is_none_or(|oldest| job.due < oldest.due) {
            oldest = Some(Found { topic, id: job.spec.id.clone(), due: job.due });
        }
    }
    Ok(oldest)
}

/// Topics with jobs that wait for someone to take them. One that is paused makes nobody wait who
/// does not want to.
async fn waiting(store: &Store) -> Result<Vec<Topic>> {
    let waits = |info: &TopicInfo| info.counts.ready > 0 && info.paused.is_none();
    let (mut found, mut after) = (Vec::new(), None);
    for _ in 0..TOPICS_MAX / PAGE_MAX {
        let page = Topics::Page { prefix: "".into(), after, limit: PAGE_MAX };
        let page = store.topics(page).await?;
        let (is_last, last) = (page.len() < PAGE_MAX, page.last().map(|info| info.topic.clone()));
        found.extend(page.into_iter().filter(waits).map(|info| info.topic));
        if is_last || found.len() >= HEADS_MAX {
            break;
        }
        after = last;
    }
    found.truncate(HEADS_MAX);
    Ok(found)
}

#[cfg(test)]
mod tests {
    use linger::job::{Body, NewJob, When};
    use linger::queue::TopicChange;
    use linger::store::Options;
    use linger::store::embedded::{Embedded, Settings};

    use super::*;

    async fn add(store: &Store, topic: &str, late_ms: u64) {
        let id = late_ms.to_string().parse().unwrap();
        let mut job = NewJob::new(topic.parse().unwrap(), id, Body::text("x"));
        job.when = Some(When::At(store.clock().now().time().saturating_sub_ms(late_ms)));
        store.add_all(vec![job]).await.unwrap().remove(0).unwrap();
    }

    #[tokio::test]
    async fn it_is_the_longest_due_of_topics_that_are_not_paused() {
        let folder = tempfile::tempdir().unwrap();
        let store = Embedded::open(folder.path(), Options::default(), Settings::default());
        let store = Store::from(store.unwrap());
        assert_eq!(look(&store).await.unwrap(), None);
        for (topic, late_ms) in [("a", 1000), ("b", 3000), ("b", 2000), ("c", 9000), ("z", 500)] {
            add(&store, topic, late_ms).await;
        }
        store.configure(&"c".parse().unwrap(), TopicChange::Pause(None)).await.unwrap();
        let found = look(&store).await.unwrap().expect("one is due");
        assert_eq!((found.topic.as_str(), found.id.as_str()), ("b", "3000"));
    }

    #[test]
    fn one_caller_looks_and_not_again_while_that_is_fresh() {
        let (oldest, now) = (Oldest::default(), Instant::now());
        assert!(oldest.is_stale(now));
        assert!(!oldest.is_stale(now) && !oldest.is_stale(now + FRESH - SECOND));
        assert!(oldest.is_stale(now + FRESH) && !oldest.is_stale(now + FRESH));
    }
}
