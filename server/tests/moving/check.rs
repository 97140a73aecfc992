//! `linger check` of a store on Redis.

use crate::redis_servers::{Standalone, there};
use crate::run::{done, run, text};

/// A store with one job that waits, taken in from a file.
fn filled(folder: &std::path::Path) -> Standalone {
    let server = Standalone::start(&[]);
    let file = folder.join("jobs.jsonl");
    let lines = [
        r#"{"kind":"export","format":"linger","version":1}"#,
        r#"{"kind":"job","topic":"t","id":"1","state":"delayed","due":"2999-12-01T09:00:00.000Z","created":"2026-11-01T09:00:00.000Z"}"#,
        r#"{"kind":"end","jobs":1}"#,
    ];
    std::fs::write(&file, lines.join("\n")).unwrap();
    done(&["import", "--store", &server.url(), text(&file)]);
    server
}

#[test]
fn a_store_on_redis_is_checked_and_repaired() {
    if !there() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let server = filled(folder.path());
    let url = server.url();
    let fine = done(&["check", &url]);
    assert!(fine.contains("jobs        1\n") && fine.ends_with(": in good order\n"), "{fine}");

    let mut plain = server.plain();
    let orders = plain.ask(&["KEYS", "linger:{*}:t*:d"]);
    plain.ask(&["DEL", orders.list()[0].text()]);
    plain.ask(&["ZADD", orders.list()[0].text(), "5", "nobody"]);
    let broken = run(&["check", &url]);
    assert_eq!((broken.code, broken.err.as_str()), (1, ""), "{}", broken.out);
    for told in [
        "fault: job_out_of_order: 1, 0 repaired: jobs that do not stand where their state says\n  job ",
        "(`1`) lacks its entry in d",
        "fault: entry_without_job: 1, 0 repaired: ",
        "damaged, 2 faults; put right what can be with --repair\n",
    ] {
        assert!(broken.out.contains(told), "{told}: {}", broken.out);
    }
    let repaired = done(&["check", &url, "--repair"]);
    assert!(repaired.ends_with(": in good order now, 2 faults repaired\n"), "{repaired}");
    assert!(done(&["check", &url]).ends_with(": in good order\n"));
}

#[test]
fn what_cannot_be_checked_or_repaired_is_said() {
    if !there() {
        return;
    }
    let (folder, server) = (tempfile::tempdir().unwrap(), Standalone::start(&[]));
    let none = run(&["check", &server.url(), "--set", "store.prefix=shop"]);
    assert_eq!((none.code, none.out.as_str()), (2, ""));
    assert!(none.err.contains("no store whose keys begin with `shop`"), "{}", none.err);
    let here = run(&["check", text(folder.path()), "--repair"]);
    assert!(here.code == 2 && here.err.contains("cannot be repaired"), "{}", here.err);
}
