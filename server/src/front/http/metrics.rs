//! What Prometheus reads.

use std::fmt::Write as _;
use std::sync::Arc;

use axum::extract;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use linger::queue::{Queue, TopicInfo, Topics};
use linger::stats::{BOUNDS_US, Lateness, SIZE_BOUNDS, Sizes, Stats};
use linger::store::embedded::Measured;
use linger::topic::Counts;
use linger::worker::Totals;

use super::App;
use super::error::Result;
use crate::alarms::{Alarms, State};
use crate::store::Store;

/// So many topics have figures of their own; those of the others are summed up.
const TOPICS_MAX: usize = 1000;
/// What the sum of the others is called.
const OTHER: &str = "other";

/// `GET /metrics`.
pub(crate) async fn show(extract::State(app): extract::State<Arc<App>>) -> Result<Response> {
    let store = app.store()?;
    let kind = [(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
    let mut out = Text::default();
    // Of a store that is away nothing else is known.
    if store.away_for().is_none() {
        let stats = store.stats().await?;
        let page = Topics::Page { prefix: "".into(), after: None, limit: TOPICS_MAX };
        let topics = store.topics(page).await?;
        out = written(&stats, &topics);
    }
    match store.embedded() {
        Some(embedded) => disk(&mut out, &embedded.measured().await?),
        None => shared(&mut out, store),
    }
    if let Some(runner) = app.runner() {
        pushes(&mut out, &runner.totals(), runner.closed().len() as u64);
    }
    if let Some(eureka) = app.eureka() {
        let away = eureka.away_for().unwrap_or_default().as_secs_f64();
        let help = "For how long no server of Eureka answers.";
        out.one("linger_eureka_away_seconds", "gauge", help, away);
    }
    if let Some(events) = app.events() {
        let (written, dropped) = events.counts();
        let help = "Events that were written to the log.";
        out.one("linger_events_total", "counter", help, written);
        let help = "Events that were not, as they came too fast or there was no place for them.";
        out.one("linger_events_dropped_total", "counter", help, dropped);
    }
    if let Ok(watched) = app.alarms() {
        alarms(&mut out, watched);
    }
    Ok((kind, out.0).into_response())
}

/// What is to be known of a store that several share.
fn shared(out: &mut Text, store: &Store) {
    let missing = u64::from(store.without_timer().is_some());
    let help = "Whether no live instance has the role timer.";
    out.one("linger_without_timer", "gauge", help, missing);
    let away = store.away_for().unwrap_or_default().as_secs_f64();
    out.one("linger_store_away_seconds", "gauge", "For how long the store is away.", away);
}

fn written(stats: &Stats, topics: &[TopicInfo]) -> Text {
    let mut out = Text::default();
    out.about("linger_jobs", "gauge", "Jobs there are, by topic and state.");
    let mut others = stats.counts;
    for topic in topics {
        others = less(others, topic.counts);
        out.jobs(topic.topic.as_str(), &topic.counts);
    }
    if stats.topics > topics.len() as u64 {
        out.jobs(OTHER, &others);
    }
    out.one("linger_topics", "gauge", "Topics there are.", stats.topics);
    out.one("linger_waiting", "gauge", "Calls that wait for jobs.", stats.waiting);
    for (name, help, count) in [
        ("added", "Jobs that were added.", stats.added),
        ("handed_out", "Hand-outs.", stats.handed_out),
        ("finished", "Attempts that ended in a finish.", stats.finished),
        ("failed", "Attempts that failed.", stats.failed),
        ("again", "Attempts that said not yet.", stats.again),
        ("timed_out", "Leases that ran out.", stats.timed_out),
        ("died", "Jobs and occurrences that died.", stats.died),
        ("deleted", "Jobs that were cancelled.", stats.deleted),
        ("clock_steps", "Steps of the wall clock that were noticed.", stats.clock_steps),
        (
            "stray_entries",
            "Entries that were dropped since their jobs are gone.",
            stats.stray_entries,
        ),
    ] {
        out.one(&format!("linger_{name}_total"), "counter", help, count);
    }
    let help = "From due to ready: the server's part of being late.";
    out.histogram("linger_due_to_ready_seconds", help, &stats.due_to_ready);
    let help = "From ready to handed out: the consumers' part of being late.";
    out.histogram("linger_ready_to_handed_out_seconds", help, &stats.ready_to_handed_out);
    let help = "Attempts that were taken when a job or occurrence was finished or died.";
    out.sizes("linger_attempts", help, &stats.attempts);
    out
}

/// What only a store on this machine's disk has.
fn disk(out: &mut Text, measured: &Measured) {
    let help = "How long syncing the log took, each time.";
    out.histogram("linger_sync_seconds", help, &measured.syncs);
    out.sizes("linger_batch_records", "Records in each batch of the log.", &measured.batches);
    for (name, kind, help, bytes) in [
        ("appended_bytes_total", "counter", "Bytes appended to the log.", measured.appended_bytes),
        ("bytes", "gauge", "Bytes that the log takes on disk.", measured.log_bytes),
        ("live_bytes", "gauge", "Bytes of the log that are still wanted.", measured.live_bytes),
    ] {
        out.one(&format!("linger_log_{name}"), kind, help, bytes);
    }
    let (name, help) = ("linger_checkpoint_bytes", "Bytes that checkpoints take on disk.");
    out.one(name, "gauge", help, measured.checkpoint_bytes);
    let (name, help) = ("linger_disk_full", "1 while the disk is too full for new jobs.");
    out.one(name, "gauge", help, u8::from(measured.full));
    if let Some(bytes) = measured.free_bytes {
        out.one("linger_disk_free_bytes", "gauge", "Bytes that are free on the disk.", bytes);
    }
}

fn pushes(out: &mut Text, totals: &Totals, closed: u64) {
    let name = "linger_pushes_total";
    out.about(name, "counter", "Attempts to push, by how they ended.");
    for (outcome, count) in outcomes(totals) {
        let _ = writeln!(out.0, r#"{name}{{outcome="{outcome}"}} {count}"#);
    }
    out.one("linger_pushes_running", "gauge", "Pushes under way.", totals.running);
    let help = "Destinations that are closed until a probe succeeds.";
    out.one("linger_destinations_closed", "gauge", help, closed);
}

/// Attempts to push, by how they ended.
pub(crate) fn outcomes(totals: &Totals) -> [(&'static str, u64); 8] {
    [
        ("done", totals.done),
        ("failed", totals.failed),
        ("again", totals.again),
        ("dead", totals.dead),
        ("left", totals.left),
        ("released", totals.released),
        ("nobody_there", totals.unbegun),
        ("lost", totals.lost + totals.gone + totals.unsettled),
    ]
}

fn alarms(out: &mut Text, alarms: &Alarms) {
    let (settings, looked) = (alarms.settings(), alarms.looked());
    if settings.rules.is_empty() {
        return;
    }
    let name = "linger_alarms";
    out.about(name, "gauge", "What is not well, by alarm and whether it was told.");
    for rule in &settings.rules {
        let (alarm, kind) = (escaped(&rule.name), rule.kind.as_str());
        for state in [State::Pending, State::Firing] {
            let count = looked.shown.iter().filter(|one| one.is(rule, state)).count();
            let state = state.as_str();
            let labels = format!(r#"alarm="{alarm}",kind="{kind}",state="{state}""#);
            let _ = writeln!(out.0, "{name}{{{labels}}} {count}");
        }
    }
}

/// The text that Prometheus reads, in its format 0.0.4.
#[derive(Default)]
struct Text(String);

impl Text {
    fn about(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn one(&mut self, name: &str, kind: &str, help: &str, value: impl std::fmt::Display) {
        self.about(name, kind, help);
        let _ = writeln!(self.0, "{name} {value}");
    }

    fn jobs(&mut self, topic: &str, counts: &Counts) {
        let topic = escaped(topic);
        for (state, count) in states(counts) {
            let _ = writeln!(self.0, r#"linger_jobs{{topic="{topic}",state="{state}"}} {count}"#);
        }
    }

    /// Moments in microseconds, shown in seconds.
    fn histogram(&mut self, name: &str, help: &str, lateness: &Lateness) {
        let bounds = BOUNDS_US.map(|bound_us| bound_us as f64 / 1e6);
        self.classes(name, help, (&bounds, lateness.counts()), lateness.sum_us() as f64 / 1e6);
    }

    fn sizes(&mut self, name: &str, help: &str, sizes: &Sizes) {
        let bounds = SIZE_BOUNDS.map(|bound| bound as f64);
        self.classes(name, help, (&bounds, sizes.counts()), sizes.sum() as f64);
    }

    fn classes(&mut self, name: &str, help: &str, classes: (&[f64], &[u64]), sum: f64) {
        self.about(name, "histogram", help);
        let (bounds, counts) = classes;
        let mut below = 0;
        for (bound, count) in bounds.iter().zip(counts) {
            below += count;
            let _ = writeln!(self.0, r#"{name}_bucket{{le="{bound}"}} {below}"#);
        }
        let total: u64 = counts.iter().sum();
        let _ = writeln!(self.0, r#"{name}_bucket{{le="+Inf"}} {total}"#);
        let _ = writeln!(self.0, "{name}_sum {sum}\n{name}_count {total}");
    }
}

fn states(counts: &Counts) -> [(&'static str, u64); 7] {
    [
        ("delayed", counts.delayed),
        ("ready", counts.ready),
        ("reserved", counts.reserved),
        ("retry", counts.retry),
        ("held", counts.held),
        ("dead", counts.dead),
        ("finished", counts.finished),
    ]
}

/// What is left of `all` without `some`. Both were counted one after the other, so that a few may
/// have moved in between.
fn less(all: Counts, some: Counts) -> Counts {
    Counts {
        delayed: all.delayed.saturating_sub(some.delayed),
        retry: all.retry.saturating_sub(some.retry),
        held: all.held.saturating_sub(some.held),
        ready: all.ready.saturating_sub(some.ready),
        urgent: all.urgent.saturating_sub(some.urgent),
        reserved: all.reserved.saturating_sub(some.reserved),
        dead: all.dead.saturating_sub(some.dead),
        finished: all.finished.saturating_sub(some.finished),
    }
}

/// A label's value, with what would end it escaped.
fn escaped(text: &str) -> String {
    text.replace('\\', r"\\").replace('"', r#"\""#).replace('\n', r"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_end_a_label_is_escaped() {
        assert_eq!(escaped("a\"b\\c\nd"), r#"a\"b\\c\nd"#);
    }

    #[test]
    fn topics_past_the_limit_are_summed_up() {
        let counts = Counts { ready: 5, delayed: 7, ..Counts::default() };
        let stats = Stats { counts, topics: 3, ..Stats::default() };
        let text = written(&stats, &[]).0;
        assert!(text.contains(r#"linger_jobs{topic="other",state="ready"} 5"#), "{text}");
        let known = Stats { topics: 0, ..stats };
        assert!(!written(&known, &[]).0.contains("other"));
    }

    #[test]
    fn a_histogram_counts_up_to_all() {
        let mut stats = Stats::default();
        [50, 1_500, u64::MAX].iter().for_each(|late| stats.due_to_ready.record(*late));
        let text = written(&stats, &[]).0;
        let name = "linger_due_to_ready_seconds";
        for line in [
            format!(r#"{name}_bucket{{le="0.0001"}} 1"#),
            format!(r#"{name}_bucket{{le="0.002"}} 2"#),
            format!(r#"{name}_bucket{{le="+Inf"}} 3"#),
            format!("{name}_count 3"),
        ] {
            assert!(text.contains(&line), "{line} is not in\n{text}");
        }
    }
}
