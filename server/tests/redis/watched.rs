//! What dashboards, alert rules and the page on operating say of metrics is so.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use hyper::Method;

use crate::fleet::Fleet;
use crate::served::Served;

/// Settings by which a server has something to tell of everything it knows.
const ALL: [&str; 6] = [
    "--set",
    r#"alarms.rules=[{ name = "late", kind = "late", threshold = "1m", to = "http://127.0.0.1:1/" }]"#,
    "--set",
    "workers.eureka=http://127.0.0.1:1/eureka",
    "--set",
    "workers.eureka_poll=5m",
];

/// The names that a server exports, and what each is.
async fn exported(server: &Served) -> BTreeMap<String, String> {
    let text = server.caller().text(Method::GET, "/metrics", String::new()).await;
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    types.map(|(name, kind)| (name.to_owned(), kind.to_owned())).collect()
}

/// Everything in a text that looks like the name of a metric.
fn named(text: &str) -> BTreeSet<&str> {
    let in_a_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = text.split(|c| !in_a_name(c));
    let is_name = |word: &&str| {
        word.starts_with("linger_") && !word.ends_with('_') && word.to_ascii_lowercase() == *word
    };
    words.filter(is_name).collect()
}

/// The metric that a series belongs to.
fn metric<'a>(series: &'a str, exported: &BTreeMap<String, String>) -> &'a str {
    let parts = ["_bucket", "_sum", "_count"];
    let whole = parts.iter().find_map(|part| series.strip_suffix(part));
    let of_histogram = |name: &&str| exported.get(*name).is_some_and(|kind| kind == "histogram");
    whole.filter(of_histogram).unwrap_or(series)
}

#[tokio::test]
async fn metrics_that_are_shown_alerted_on_or_described_are_exported() {
    let Some(fleet) = Fleet::start() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let shared = fleet.server(&ALL).await;
    let single = Served::start(folder.path(), &ALL).await;
    let mut all = exported(&shared).await;
    all.extend(exported(&single).await);

    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let read = |path: &str| std::fs::read_to_string(root.join(path)).expect(path);
    for path in ["deploy/grafana/linger.json", "deploy/prometheus/rules.yaml", "docs/operate.md"] {
        let text = read(path);
        let named = named(&text);
        assert!(named.len() > 10, "{path} names {named:?}");
        let unknown: Vec<_> =
            named.iter().filter(|name| !all.contains_key(metric(name, &all))).collect();
        assert!(unknown.is_empty(), "{path} names {unknown:?}; there are {:?}", all.keys());
    }
    let page = read("docs/operate.md");
    let described = named(&page);
    let missing: Vec<_> = all.keys().filter(|name| !described.contains(name.as_str())).collect();
    assert!(missing.is_empty(), "docs/operate.md does not describe {missing:?}");
    let dashboard: serde_json::Value =
        serde_json::from_str(&read("deploy/grafana/linger.json")).expect("JSON");
    let text = dashboard.to_string();
    let shown: BTreeSet<_> = named(&text).into_iter().map(|name| metric(name, &all)).collect();
    let unseen: Vec<_> = all.keys().filter(|name| !shown.contains(name.as_str())).collect();
    assert!(unseen.is_empty(), "the dashboard for Grafana does not show {unseen:?}");
}
