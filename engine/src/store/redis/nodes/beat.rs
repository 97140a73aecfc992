//! The heartbeat of an instance.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use super::plan::{self, plan};
use super::share::Share;
use super::{Fleet, LEASE_MAX, LEASE_MIN, Node, Said, Seen};
use crate::error::{Error, Result};
use crate::store::redis::Settings;
use crate::store::redis::clock::RedisClock;
use crate::store::redis::core::{Core, arg};
use crate::time::{Clock, MINUTE, Tick, Time, duration_ms, format_duration};

/// How many beats there are in a lease: some may be late or lost.
const BEATS_A_LEASE: u32 = 3;
/// Loads are smoothed over so many leases.
const LEASES_A_WINDOW: u32 = 3;
/// Between two beats there is at least this, whatever others have to tell; less if leases are short.
const GAP: Duration = Duration::from_millis(100);
const BEATS_A_LEASE_MAX: u32 = 30;
/// How often it is said anew that nobody sees to buckets.
const SAY_AGAIN: Duration = MINUTE;

/// What says that this instance is alive, and has it hold its share of the buckets.
pub(in crate::store::redis) struct Beats {
    core: Arc<Core>,
    clock: Arc<RedisClock>,
    share: Arc<Share>,
    id: Arc<str>,
    said: Vec<u8>,
    is_timer: bool,
    lease: Duration,
    started: Option<Time>,
    /// When loads were last smoothed.
    smoothed: Tick,
    /// Who was there: names by id.
    known: BTreeMap<String, String>,
    /// When it was last said that nobody sees to buckets, while that is so.
    missed: Option<Tick>,
}

impl Beats {
    pub(in crate::store::redis) fn new(
        core: Arc<Core>,
        clock: Arc<RedisClock>,
        settings: &Settings,
    ) -> Result<Beats> {
        let (node, lease) = (&settings.node, settings.lease);
        node.check()?;
        if !(LEASE_MIN..=LEASE_MAX).contains(&lease) {
            let [lease, min, max] = [lease, LEASE_MIN, LEASE_MAX].map(format_duration);
            let message = format!("lease is {lease}; give {min} to {max}");
            return Err(Error::invalid("lease", message));
        }
        Ok(Beats {
            share: Arc::new(Share::new(core.keys.count())),
            // Enough by far to tell processes apart.
            id: uuid::Uuid::new_v4().simple().to_string()[..16].into(),
            said: said(node, settings.timer, lease),
            is_timer: settings.timer,
            lease,
            started: None,
            smoothed: clock.now().tick,
            known: BTreeMap::new(),
            missed: None,
            core,
            clock,
        })
    }

    /// What this instance holds.
    pub(in crate::store::redis) fn share(&self) -> Arc<Share> {
        self.share.clone()
    }

    /// The id by which others know this instance.
    pub(in crate::store::redis) fn id(&self) -> Arc<str> {
        self.id.clone()
    }

    /// Beats until it is aborted: regularly, and when others have something to tell.
    pub(in crate::store::redis) async fn run(mut self, told: Arc<Notify>) {
        let gap = GAP.min(self.lease / BEATS_A_LEASE_MAX);
        loop {
            tokio::time::sleep(gap).await;
            let _ = tokio::time::timeout(self.lease / BEATS_A_LEASE - gap, told.notified()).await;
            if let Err(error) = self.round().await {
                // While Redis is away everybody is told so already.
                tracing::debug!(%error, "a heartbeat failed");
            }
        }
    }

    /// Says that it is alive, and sees to its share.
    pub(in crate::store::redis) async fn round(&mut self) -> Result<()> {
        let seen = self.beat(&[], &[]).await?;
        self.tell_changes(&seen.fleet);
        if !self.is_timer {
            return Ok(());
        }
        let (gives, takes) = self.wishes(&seen);
        if !gives.is_empty() || !takes.is_empty() {
            tracing::debug!(gives = gives.len(), takes = takes.len(), "buckets move");
            self.beat(&gives, &takes).await?;
        }
        Ok(())
    }

    async fn beat(&mut self, gives: &[u16], takes: &[u16]) -> Result<Seen> {
        // From before it is asked for, so that it ends here before it ends there.
        let asked = self.clock.now().tick;
        let time = Duration::from_micros(asked.us_since(self.smoothed));
        let loads = self.share.loads(time, self.lease * LEASES_A_WINDOW);
        self.smoothed = asked;
        let loads: Vec<String> = loads.iter().map(|(at, load)| format!("{at}:{load}")).collect();
        let args = [
            b"beat".to_vec(),
            self.id.as_bytes().to_vec(),
            arg(duration_ms(self.lease)),
            self.said.clone(),
            self.started.map(|started| arg(started.as_ms())).unwrap_or_default(),
            listed(gives),
            listed(takes),
            loads.join(" ").into_bytes(),
        ];
        let seen = self.core.ask_nodes(&self.id, args).await?;
        self.clock.set_by(seen.now);
        self.started.get_or_insert(seen.now.time());
        self.share.set(&seen.fleet, &self.id, asked, self.lease);
        Ok(seen)
    }

    /// Which buckets it should give up and which it should take, by the plan.
    fn wishes(&self, seen: &Seen) -> (Vec<u16>, Vec<u16>) {
        let (fleet, timers) = (&seen.fleet, seen.timers());
        let Some(this) = timers.iter().position(|timer| *timer.id == *self.id) else {
            return Default::default();
        };
        let place = |id: &str| timers.iter().position(|timer| timer.id == id);
        let buckets: Vec<plan::Bucket> = fleet
            .buckets
            .iter()
            .map(|bucket| plan::Bucket {
                holder: bucket.holder.as_deref().and_then(place),
                load: bucket.load,
            })
            .collect();
        let timers: Vec<plan::Timer<'_>> = timers
            .iter()
            .map(|timer| plan::Timer {
                group: &timer.node.group,
                weight: timer.node.weight,
                threshold: timer.node.threshold,
            })
            .collect();
        let (mut gives, mut takes) = (Vec::new(), Vec::new());
        for ((at, bucket), planned) in (0..).zip(&buckets).zip(plan(&timers, &buckets)) {
            match (bucket.holder == Some(this), planned == Some(this)) {
                (true, false) => gives.push(at),
                (false, true) if bucket.holder.is_none() => takes.push(at),
                _ => {}
            }
        }
        (gives, takes)
    }

    /// Logs who has come and gone, and loudly that nobody sees to buckets.
    fn tell_changes(&mut self, fleet: &Fleet) {
        let is_first = self.known.is_empty();
        for node in
            fleet.nodes.iter().filter(|node| !is_first && !self.known.contains_key(&node.id))
        {
            let (name, group) = (&node.node.name, &node.node.group);
            tracing::info!(node = %node.id, name, group, "an instance has come");
        }
        let there = fleet.nodes.iter().map(|node| (node.id.clone(), node.node.name.clone()));
        let there: BTreeMap<String, String> = there.collect();
        for (node, name) in self.known.iter().filter(|(id, _)| !there.contains_key(*id)) {
            tracing::info!(%node, name, "an instance is gone");
        }
        self.known = there;
        self.tell_of_timers(fleet.has_timer());
    }

    fn tell_of_timers(&mut self, there_are: bool) {
        let now = self.clock.now().tick;
        if there_are {
            if self.missed.take().is_some() {
                tracing::info!("there is an instance with the role timer again");
            }
            return;
        }
        let said_ago = self.missed.map(|said| now.ms_since(said));
        if said_ago.is_none_or(|ago| ago >= duration_ms(SAY_AGAIN)) {
            self.missed = Some(now);
            tracing::error!("{NO_TIMER}");
        }
    }
}

/// What it means that nobody sees to buckets.
pub const NO_TIMER: &str = "no live instance has the role timer: jobs are not \
     pushed when they are due, and those who wait for one may get it late; start one with it";

fn said(node: &Node, timer: bool, lease: Duration) -> Vec<u8> {
    let Node { name, group, weight, threshold, roles, address } = node.clone();
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let lease_ms = duration_ms(lease);
    let said = Said { name, group, weight, threshold, roles, address, timer, version, lease_ms };
    serde_json::to_vec(&said).expect("text and numbers can be written")
}

fn listed(buckets: &[u16]) -> Vec<u8> {
    let buckets: Vec<String> = buckets.iter().map(u16::to_string).collect();
    buckets.join(" ").into_bytes()
}
