//! The key-value side: small values under versions that are never used again.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::{Subject, Trial, suite};
use crate::error::{Code, Result};
use crate::job::Job;
use crate::queue::{
    Expect, KV_KEY_BYTES_MAX, KV_VALUE_BYTES_MAX, KvEntry, KvQuery, KvWrite, PAGE_MAX, Queue,
    TopicChange,
};
use crate::time::{MINUTE, SECOND};

suite! {
    async fn what_was_written_is_read_back_with_its_version(t) {
        let version = put(&t, "a", "1").await;
        assert_eq!(read(&t, "a").await, Some(("1".into(), version)));
    }

    async fn a_key_that_was_never_written_is_not_there(t) {
        put(&t, "ab", "1").await;
        assert_eq!(read(&t, "a").await, None);
        assert_eq!(read(&t, "abc").await, None);
        assert_eq!(read(&t, "AB").await, None);
    }

    async fn a_second_write_takes_the_place_of_the_first(t) {
        let first = put(&t, "a", "1").await;
        let second = put(&t, "a", "2").await;
        assert!(second > first);
        assert_eq!(read(&t, "a").await, Some(("2".into(), second)));
        assert_eq!(list(&t, "").await, ["a"]);
    }

    async fn a_removed_key_is_gone(t) {
        put(&t, "a", "1").await;
        put(&t, "b", "2").await;
        remove(&t, "a", Expect::Any).await.unwrap();
        assert_eq!(read(&t, "a").await, None);
        assert_eq!(list(&t, "").await, ["b"]);
    }

    async fn a_version_is_not_used_again_after_the_key_was_removed(t) {
        let old = put(&t, "a", "1").await;
        let removed = remove(&t, "a", Expect::Any).await.unwrap();
        let new = put(&t, "a", "1").await;
        assert!(old < removed && removed < new, "{old}, {removed}, {new}");
        let late = write(&t, "a", "2", Expect::Version(old)).await.unwrap_err();
        assert_eq!(late.code(), Code::VersionMismatch);
        assert_eq!(read(&t, "a").await, Some(("1".into(), new)));
    }

    async fn a_version_is_not_used_again_after_the_key_lapsed(t) {
        let old = put_for(&t, "a", SECOND).await;
        t.pass(SECOND).await;
        assert!(put(&t, "a", "again").await > old);
    }

    async fn a_write_that_expects_nothing_there_is_refused_when_something_is(t) {
        let version = write(&t, "a", "1", Expect::Absent).await.unwrap();
        let refused = write(&t, "a", "2", Expect::Absent).await.unwrap_err();
        assert_eq!((refused.code(), refused.at_field()), (Code::AlreadyExists, Some("key")));
        assert_eq!(read(&t, "a").await, Some(("1".into(), version)));
    }

    async fn a_write_that_expects_a_version_is_refused_when_it_is_another(t) {
        let first = put(&t, "a", "1").await;
        let second = write(&t, "a", "2", Expect::Version(first)).await.unwrap();
        for seen in [first, second + 1, 0] {
            let refused = write(&t, "a", "3", Expect::Version(seen)).await.unwrap_err();
            assert_eq!((refused.code(), refused.at_field()), (Code::VersionMismatch, Some("key")));
        }
        assert_eq!(read(&t, "a").await, Some(("2".into(), second)));
    }

    async fn a_write_that_expects_a_version_is_refused_when_nothing_is_there(t) {
        let elsewhere = put(&t, "b", "1").await;
        for seen in [0, 1, elsewhere] {
            let refused = write(&t, "a", "1", Expect::Version(seen)).await.unwrap_err();
            assert_eq!(refused.code(), Code::VersionMismatch);
        }
        assert_eq!(read(&t, "a").await, None);
    }

    async fn a_removal_says_what_it_expects_too(t) {
        let version = put(&t, "a", "1").await;
        for (expect, code) in [
            (Expect::Version(version + 1), Code::VersionMismatch),
            (Expect::Absent, Code::AlreadyExists),
        ] {
            assert_eq!(remove(&t, "a", expect).await.unwrap_err().code(), code);
        }
        assert_eq!(read(&t, "a").await, Some(("1".into(), version)));
        remove(&t, "a", Expect::Version(version)).await.unwrap();
        assert_eq!(read(&t, "a").await, None);
    }

    async fn what_is_not_there_cannot_be_removed(t) {
        let refused = remove(&t, "a", Expect::Any).await.unwrap_err();
        assert_eq!((refused.code(), refused.at_field()), (Code::NotFound, Some("key")));
    }

    async fn a_key_with_a_ttl_is_gone_at_its_end_and_not_before(t) {
        put_for(&t, "a", 10 * SECOND).await;
        t.pass(Duration::from_millis(9_999)).await;
        assert!(read(&t, "a").await.is_some());
        t.pass(Duration::from_millis(1)).await;
        assert_eq!(read(&t, "a").await, None);
        assert_eq!(list(&t, "").await, [""; 0]);
    }

    async fn a_write_renews_the_ttl(t) {
        put_for(&t, "a", 10 * SECOND).await;
        t.pass(6 * SECOND).await;
        put_for(&t, "a", 10 * SECOND).await;
        t.pass(9 * SECOND).await;
        assert!(read(&t, "a").await.is_some());
        t.pass(SECOND).await;
        assert_eq!(read(&t, "a").await, None);
    }

    async fn a_write_without_ttl_keeps_the_key_for_good(t) {
        put_for(&t, "a", SECOND).await;
        put(&t, "a", "for good").await;
        t.pass(MINUTE).await;
        assert!(read(&t, "a").await.is_some());
    }

    async fn a_refused_write_does_not_renew_the_ttl(t) {
        put_for(&t, "a", 10 * SECOND).await;
        t.pass(6 * SECOND).await;
        let renew = KvWrite { ttl: Some(MINUTE), expect: Expect::Absent, ..bare("a", Some("2")) };
        t.queue.kv_write(renew).await.unwrap_err();
        t.pass(4 * SECOND).await;
        assert_eq!(read(&t, "a").await, None);
    }

    async fn a_key_removed_and_written_again_outlives_its_old_ttl(t) {
        put_for(&t, "a", SECOND).await;
        remove(&t, "a", Expect::Any).await.unwrap();
        put(&t, "a", "again").await;
        t.pass(MINUTE).await;
        assert!(read(&t, "a").await.is_some());
    }

    async fn a_key_past_its_ttl_counts_as_absent(t) {
        let old = put_for(&t, "a", SECOND).await;
        put_for(&t, "b", SECOND).await;
        t.pass(SECOND).await;
        let late = write(&t, "a", "1", Expect::Version(old)).await.unwrap_err();
        assert_eq!(late.code(), Code::VersionMismatch);
        assert_eq!(remove(&t, "a", Expect::Any).await.unwrap_err().code(), Code::NotFound);
        write(&t, "a", "1", Expect::Absent).await.unwrap();
        assert_eq!(list(&t, "").await, ["a"]);
    }

    async fn a_list_is_in_the_order_of_keys_whatever_order_they_were_written_in(t) {
        for key in ["node/b", "node/a", "node/é", "node/B", "node", "node/支", "node/aa", "nod"] {
            put(&t, key, "x").await;
        }
        let node = ["node", "node/B", "node/a", "node/aa", "node/b", "node/é", "node/支"];
        assert_eq!(list(&t, "node").await, node);
    }

    async fn a_list_has_only_what_begins_like_its_prefix(t) {
        for key in ["key/1", "key/2", "keys", "key", "ke", "xkey/1", "Key/1"] {
            put(&t, key, "x").await;
        }
        assert_eq!(list(&t, "key/").await, ["key/1", "key/2"]);
        assert_eq!(list(&t, "nothing").await, [""; 0]);
        assert_eq!(list(&t, "").await.len(), 7);
    }

    async fn a_prefix_is_text_and_no_pattern(t) {
        for key in ["a*", "a*b", "ab", "a?", "[a]", "a\\*"] {
            put(&t, key, "x").await;
        }
        assert_eq!(list(&t, "a*").await, ["a*", "a*b"]);
        assert_eq!(list(&t, "a?").await, ["a?"]);
        assert_eq!(list(&t, "[a]").await, ["[a]"]);
        assert_eq!(list(&t, "a\\").await, ["a\\*"]);
    }

    async fn a_list_goes_on_after_the_key_that_was_named(t) {
        for key in ["p/1", "p/2", "p/3", "p/4", "q"] {
            put(&t, key, "x").await;
        }
        for (after, limit, expected) in [
            ("p/1", 2, &["p/2", "p/3"][..]),
            ("p/3", 2, &["p/4"]),
            ("p/4", 2, &[]),
            ("p/25", 1, &["p/3"]),
            ("a", 2, &["p/1", "p/2"]),
            ("q", 2, &[]),
        ] {
            assert_eq!(page(&t, "p/", Some(after), limit).await, expected, "after {after}");
        }
    }

    async fn a_list_has_at_most_as_many_as_asked_for(t) {
        for key in ["a", "b", "c"] {
            put(&t, key, "x").await;
        }
        assert_eq!(page(&t, "", None, 2).await, ["a", "b"]);
        assert_eq!(page(&t, "", None, PAGE_MAX).await, ["a", "b", "c"]);
    }

    async fn many_keys_are_listed_completely_page_by_page(t) {
        let all: Vec<String> = (0..250).map(|n| format!("k/{n:03}")).collect();
        for key in all.iter().rev() {
            put(&t, key, "x").await;
        }
        let mut seen: Vec<String> = Vec::new();
        loop {
            let next = page(&t, "k/", seen.last().map(String::as_str), 7).await;
            if next.is_empty() {
                break;
            }
            seen.extend(next);
            assert!(all.starts_with(&seen), "{seen:?}");
        }
        assert_eq!(seen.len(), all.len());
    }

    async fn a_list_carries_values_and_versions(t) {
        let versions = [put(&t, "a", "1").await, put(&t, "b", "2").await];
        let query = KvQuery::Prefix { prefix: "".into(), after: None, limit: 10 };
        let entries = t.queue.kv_read(query).await.unwrap();
        let entry = |key: &str, value: &'static str, version| {
            KvEntry { key: key.into(), value: value.into(), version }
        };
        assert_eq!(entries, [entry("a", "1", versions[0]), entry("b", "2", versions[1])]);
    }

    async fn a_key_has_1_to_512_bytes(t) {
        let longest = "k".repeat(KV_KEY_BYTES_MAX);
        let wide = "支".repeat(KV_KEY_BYTES_MAX / 3 + 1);
        put(&t, &longest, "x").await;
        assert!(read(&t, &longest).await.is_some());
        for key in ["", &format!("{longest}k"), &wide] {
            let refused = write(&t, key, "x", Expect::Any).await.unwrap_err();
            assert_eq!((refused.code(), refused.at_field()), (Code::Invalid, Some("key")));
        }
        assert_eq!(list(&t, "").await, [longest]);
    }

    async fn a_value_over_its_limit_is_refused_and_changes_nothing(t) {
        let largest = Bytes::from(vec![7; KV_VALUE_BYTES_MAX]);
        let too_large = Bytes::from(vec![8; KV_VALUE_BYTES_MAX + 1]);
        let bytes = |value| KvWrite { value: Some(value), ..bare("a", None) };
        let version = t.queue.kv_write(bytes(largest.clone())).await.unwrap();
        let refused = t.queue.kv_write(bytes(too_large)).await.unwrap_err();
        assert_eq!((refused.code(), refused.at_field()), (Code::TooLarge, Some("value")));
        assert_eq!(read(&t, "a").await, Some((largest, version)));
    }

    async fn a_page_of_no_or_too_many_keys_is_refused(t) {
        for limit in [0, PAGE_MAX + 1] {
            let query = KvQuery::Prefix { prefix: "".into(), after: None, limit };
            let refused = t.queue.kv_read(query).await.unwrap_err();
            assert_eq!((refused.code(), refused.at_field()), (Code::Invalid, Some("limit")));
        }
    }

    async fn a_value_is_bytes_whatever_they_are(t) {
        for value in [&[][..], &[0], &[0xff, 0, 0xfe, b'\r', b'\n'], "支".as_bytes()] {
            let bytes = Bytes::copy_from_slice(value);
            let write = KvWrite { value: Some(bytes.clone()), ..bare("a", None) };
            let version = t.queue.kv_write(write).await.unwrap();
            assert_eq!(read(&t, "a").await, Some((bytes, version)));
        }
    }

    async fn keys_and_jobs_do_not_know_of_each_other(t) {
        put(&t, "orders", "x").await;
        assert_eq!((t.topic("orders").await, t.stats().await.counts.total()), (None, 0));
        t.add(Job::new("orders", "x").id("orders")).await;
        t.configure("orders", TopicChange::Forget).await.unwrap();
        assert_eq!(list(&t, "").await, ["orders"]);
        t.add(Job::new("orders", "x").id("orders")).await;
        remove(&t, "orders", Expect::Any).await.unwrap();
        assert_eq!(t.counts("orders").await.ready, 1);
    }
}

fn bare(key: &str, value: Option<&'static str>) -> KvWrite {
    KvWrite { key: key.into(), value: value.map(Bytes::from), expect: Expect::Any, ttl: None }
}

async fn write<S: Subject>(
    t: &Trial<S>,
    key: &str,
    value: &'static str,
    expect: Expect,
) -> Result<u64> {
    t.queue.kv_write(KvWrite { expect, ..bare(key, Some(value)) }).await
}

async fn remove<S: Subject>(t: &Trial<S>, key: &str, expect: Expect) -> Result<u64> {
    t.queue.kv_write(KvWrite { expect, ..bare(key, None) }).await
}

async fn put<S: Subject>(t: &Trial<S>, key: &str, value: &'static str) -> u64 {
    write(t, key, value, Expect::Any).await.expect("a right write")
}

async fn put_for<S: Subject>(t: &Trial<S>, key: &str, ttl: Duration) -> u64 {
    let write = KvWrite { ttl: Some(ttl), ..bare(key, Some("for a while")) };
    t.queue.kv_write(write).await.expect("a right write")
}

/// The value and version of a key, if it is there.
async fn read<S: Subject>(t: &Trial<S>, key: &str) -> Option<(Bytes, u64)> {
    let found = t.queue.kv_read(KvQuery::Key(key.into())).await.expect("a right question");
    assert!(found.len() <= 1 && found.iter().all(|entry| &*entry.key == key));
    found.into_iter().next().map(|entry| (entry.value, entry.version))
}

async fn list<S: Subject>(t: &Trial<S>, prefix: &str) -> Vec<String> {
    page(t, prefix, None, PAGE_MAX).await
}

async fn page<S: Subject>(
    t: &Trial<S>,
    prefix: &str,
    after: Option<&str>,
    limit: usize,
) -> Vec<String> {
    let query = KvQuery::Prefix { prefix: prefix.into(), after: after.map(Arc::from), limit };
    let found = t.queue.kv_read(query).await.expect("a right question");
    found.into_iter().map(|entry| entry.key.to_string()).collect()
}
