//! `linger log`.

use std::time::Duration;

use anyhow::Result;
use hyper::Method;
use linger::time::{Clock, SystemClock, duration_ms, parse_duration};
use serde::Deserialize;

use super::client::{Client, Patience, Remote};
use super::json::Object;
use super::text::plain;
use super::{End, Reader, note, output, path};

/// Show what happened: adds, changes, hand-outs, outcomes, cancels and deaths, the oldest first
///
/// Exit code 1: there is none.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Log {
    /// Go on with what happens, until it is interrupted
    #[arg(long, short)]
    follow: bool,
    /// Only of this topic
    #[arg(long)]
    topic: Option<String>,
    /// Only of jobs with this id
    #[arg(long)]
    id: Option<String>,
    /// Only of these kinds, with commas between them: added, handed_out, failed, died, …
    #[arg(long)]
    kind: Option<String>,
    /// Only with this in the error
    #[arg(long, value_name = "TEXT")]
    error: Option<String>,
    /// All from this moment on, or from so long ago: 2026-12-01T09:00:00Z, 1h
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Only before this moment, or before so long ago
    #[arg(long, value_name = "TIME", conflicts_with = "follow")]
    until: Option<String>,
    /// The last so many, unless there is a --since [default: 20 with --follow, else 100]
    #[arg(long, short = 'n', value_name = "N", conflicts_with = "since")]
    limit: Option<u32>,
    #[command(flatten)]
    remote: Remote,
}

const EXAMPLES: &str = "\
Examples:
  linger log --follow
  linger log --topic orders --id 42
  linger log --kind failed,died,timed_out --since 1h
  linger log --since 1d --json | jq -r 'select(.kind == \"died\") | .id'";

/// How long one call waits for what happens next.
const WAIT: &str = "30s";
/// The most on a page.
const PAGE: u32 = 1000;

#[derive(Deserialize)]
struct Page {
    events: Vec<Object>,
    cursor: Option<String>,
    end: String,
}

impl Log {
    pub(super) fn run(self) -> Result<End> {
        let client = self.remote.client()?;
        let mut shown = false;
        let from = match &self.since {
            // The last ones, and what follows them.
            None => {
                let (events, end) = self.last(&client)?;
                shown |= !events.is_empty();
                if self.print(&events)? == Reader::Gone {
                    return Ok(End::Done);
                }
                Some(end)
            }
            Some(_) => None,
        };
        if self.since.is_some() || self.follow {
            shown |= self.forwards(&client, from)?;
        }
        if !shown {
            note("no such events");
            return Ok(End::No);
        }
        Ok(End::Done)
    }

    /// The last events, oldest first, and where the log ended.
    fn last(&self, client: &Client) -> Result<(Vec<Object>, String)> {
        let limit = self.limit.unwrap_or(if self.follow { 20 } else { 100 });
        let (mut events, mut cursor, mut end) = (Vec::new(), None, None);
        while (events.len() as u32) < limit {
            let left = (limit - events.len() as u32).min(PAGE).to_string();
            let query = [("limit", Some(left.as_str())), ("cursor", cursor.as_deref())];
            let page = self.page(client, &query, Patience::Usual)?;
            events.extend(page.events);
            end.get_or_insert(page.end);
            cursor = page.cursor;
            if cursor.is_none() {
                break;
            }
        }
        events.reverse();
        Ok((events, end.unwrap_or_default()))
    }

    /// All from there on; says whether there was any.
    fn forwards(&self, client: &Client, mut from: Option<String>) -> Result<bool> {
        let (mut shown, limit) = (false, PAGE.to_string());
        loop {
            let wait = self.follow.then_some(WAIT);
            let query = [
                ("order", Some("oldest")),
                ("limit", Some(limit.as_str())),
                ("cursor", from.as_deref()),
                ("wait", wait),
            ];
            let page = self.page(client, &query, Patience::Server)?;
            shown |= !page.events.is_empty();
            let is_end = page.cursor.as_deref() == Some(page.end.as_str());
            let reader = self.print(&page.events)?;
            if reader == Reader::Gone || (is_end && !self.follow) {
                return Ok(shown || reader == Reader::Gone);
            }
            from = page.cursor;
        }
    }

    fn page(
        &self,
        client: &Client,
        query: &[(&str, Option<&str>)],
        patience: Patience,
    ) -> Result<Page> {
        let (since, until) = (moment(&self.since), moment(&self.until));
        let mut all = vec![
            ("topic", self.topic.as_deref()),
            ("id", self.id.as_deref()),
            ("kind", self.kind.as_deref()),
            ("error", self.error.as_deref()),
            ("since", since.as_deref()),
            ("until", until.as_deref()),
        ];
        all.extend(query);
        let path = path::with_query("/v1/events", &all);
        client.call(Method::GET, &path, None, patience)?.read()
    }

    fn print(&self, events: &[Object]) -> Result<Reader> {
        if events.is_empty() {
            return Ok(Reader::There);
        }
        let mut text = String::new();
        for event in events {
            match self.remote.json {
                true => text.push_str(&serde_json::to_string(event)?),
                false => text.push_str(&line(event)),
            }
            text.push('\n');
        }
        output(text)
    }
}

/// A moment as it was written, or that long ago.
fn moment(text: &Option<String>) -> Option<String> {
    let text = text.as_ref()?;
    let ago = parse_duration(text).ok().filter(|ago| *ago < Duration::from_secs(1_000_000_000));
    Some(match ago {
        Some(ago) => {
            let now = SystemClock::new().now().time();
            now.saturating_sub_ms(duration_ms(ago)).to_string()
        }
        None => text.clone(),
    })
}

/// An event for people.
fn line(event: &Object) -> String {
    let mut line = format!("{}  {:<10}", event.shown("at"), event.shown("kind"));
    for part in ["topic", "id"].map(|name| event.shown(name)).iter().filter(|part| !part.is_empty())
    {
        line.push_str("  ");
        line.push_str(&plain(part));
    }
    let caller = event.object("caller");
    let by = [caller.shown("front"), caller.shown("address"), caller.shown("key")];
    let by: Vec<String> = by.into_iter().filter(|part| !part.is_empty()).collect();
    let latency = event.shown("latency_ms");
    let latency = if latency.is_empty() { latency } else { latency + "ms" };
    for (name, value) in [
        (
            "number",
            if event.shown("id").is_empty() { event.shown("number") } else { String::new() },
        ),
        ("attempt", event.shown("attempt")),
        ("count", event.shown("count")),
        ("latency", latency),
        ("status", event.shown("status")),
        ("by", by.join(" ")),
        ("node", event.shown("node")),
        ("error", event.shown("error")),
    ] {
        if !value.is_empty() {
            line.push_str(&format!("  {name}={}", plain(&value)));
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line_that_does_nothing_to_a_terminal() {
        let json = r#"{"at":"2026-12-01T09:00:00.000Z","kind":"failed","topic":"a b","id":"1",
            "number":7,"attempt":2,"latency_ms":12,"status":500,"error":"no\n\u001b[2J","node":"n",
            "caller":{"front":"push"}}"#;
        let right = "2026-12-01T09:00:00.000Z  failed      a b  1  attempt=2  latency=12ms  \
                     status=500  by=push  node=n  error=no\\n\\u{1b}[2J";
        assert_eq!(line(&serde_json::from_str(json).unwrap()), right);
    }
}
