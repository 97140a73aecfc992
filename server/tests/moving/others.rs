//! From the Redis of other queues, laid out as they do.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::redis_servers::{Plain, Standalone, there};
use crate::run::{exported, json, run, text};

fn second(from_now: i64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
    now.checked_add_signed(from_now).expect("in range").to_string()
}

/// What a job is called in a script that lays it out.
const LMSTFY: &str = "
    local ns, q, id, tries, body, ttl = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5], ARGV[6]
    if body ~= '' then redis.call('SET', 'j/' .. ns .. '/' .. q .. '/' .. id, body, 'EX', ttl) end
    local listed = struct.pack('<HHc0', tries, #id, id)
    if ARGV[7] == 'q' then redis.call('LPUSH', 'q/' .. ns .. '/' .. q, listed) end
    if ARGV[7] == 'd' then redis.call('LPUSH', 'd/' .. ns .. '/' .. q, listed) end
    if ARGV[7] == 't' then
      redis.call('ZADD', 'timer_set', ARGV[8], struct.pack('<Hc0Hc0HHc0', #ns, ns, #q, q, tries, #id, id))
    end";

fn lmstfy(plain: &mut Plain, queue: &str, id: &str, tries: &str, body: &str, at: [&str; 2]) {
    plain.ask(&["EVAL", LMSTFY, "0", "shop", queue, id, tries, body, "86400", at[0], at[1]]);
}

fn job<'a>(lines: &'a [Value], id: &str) -> &'a Value {
    let found = lines.iter().find(|line| line["id"] == id);
    found.unwrap_or_else(|| panic!("no {id} in {lines:#?}"))
}

#[test]
fn jobs_of_an_lmstfy_pool_are_taken_in() {
    if !there() {
        return;
    }
    let (folder, server) = (tempfile::tempdir().unwrap(), Standalone::start(&[]));
    let (mut plain, later) = (server.plain(), second(3600));
    for (id, tries) in [("01EXAMPLEREADY1", "3"), ("01EXAMPLEREADY2", "1")] {
        lmstfy(&mut plain, "mail", id, tries, "支付", ["q", ""]);
    }
    lmstfy(&mut plain, "mail", "01EXAMPLEWAITS", "5", "later", ["t", &later]);
    lmstfy(&mut plain, "orders", "01EXAMPLELASTTRY", "0", "held", ["t", &later]);
    lmstfy(&mut plain, "orders", "01EXAMPLEDEAD", "1", "dead", ["d", ""]);
    lmstfy(&mut plain, "orders", "01EXAMPLEGONE", "1", "", ["q", ""]);
    // One with attributes: a version before its id, and a message around its body.
    let versioned = "1".to_owned() + "01ARZ3NDEKTSV4RRFFQ69G5FAV";
    lmstfy(
        &mut plain,
        "mail",
        &versioned,
        "2",
        "\n\u{3}abc\u{12}\u{6}\n\u{1}k\u{12}\u{1}v",
        ["q", ""],
    );
    plain.ask(&["ZADD", "timer_set", "1", "nonsense"]);
    let before = plain.ask(&["DBSIZE"]).int();

    let (url, store) = (server.url(), folder.path().join("store"));
    let from = ["import", "--from-lmstfy", &url, "--store", text(&store)];
    let refused = run(&from);
    assert_eq!(refused.code, 2);
    assert!(refused.err.contains("not written as entries are"), "{}", refused.err);
    let ran = run(&[&from[..], &["--skip-invalid", "--json"]].concat());
    let told: Value = serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{ran:?}"));
    let count = |name: &str| told["jobs"][name].as_u64().unwrap();
    // Some came before what stopped it at first.
    assert_eq!((&told["skipped"], count("new") + count("kept")), (&1.into(), 6), "{told}");
    let remarks: Vec<_> =
        told["remarks"].as_array().unwrap().iter().map(|it| &it["jobs"]).collect();
    assert_eq!(remarks, [&Value::from(1), &Value::from(1)]);
    assert_eq!(plain.ask(&["DBSIZE"]).int(), before, "nothing was changed there");

    let lines = exported(text(&store));
    let ready = job(&lines, "01EXAMPLEREADY1");
    assert_eq!((&ready["topic"], &ready["state"]), (&"shop.mail".into(), &"ready".into()));
    assert_eq!((&ready["body"], &ready["retry"]["attempts"]), (&"支付".into(), &3.into()));
    assert_eq!(job(&lines, &versioned)["body"], "abc");
    let waits = job(&lines, "01EXAMPLEWAITS");
    assert_eq!((&waits["state"], &waits["retry"]["attempts"]), (&"delayed".into(), &5.into()));
    let due: linger::time::Time = waits["due"].as_str().unwrap().parse().unwrap();
    assert_eq!((due.as_ms() / 1000).to_string(), later);
    let last = job(&lines, "01EXAMPLELASTTRY");
    assert_eq!((&last["topic"], &last["state"]), (&"shop.orders".into(), &"reserved".into()));
    let dead = job(&lines, "01EXAMPLEDEAD");
    assert_eq!(
        (&dead["state"], &dead["last_error"]),
        (&"dead".into(), &"its tries were used up".into())
    );
    // The oldest was first in line, and is.
    let at = |id: &str| lines.iter().position(|line| line["id"] == id);
    assert!(at("01EXAMPLEREADY1") < at("01EXAMPLEREADY2"));

    let other = folder.path().join("other");
    let into = ["--store", text(&other), "--topic-of", "{queue}", "--skip-invalid"];
    json(&[&["import", "--from-lmstfy", &url], &into[..]].concat());
    assert_eq!(job(&exported(text(&other)), "01EXAMPLEWAITS")["topic"], "mail");
}

/// Lays a job out as it is there: fields by their numbers, as a later version has them.
const OUQIANG: &str = "
    local function text(t) return string.char(0xa0 + #t) .. t end
    local function int(n) return struct.pack('>Bi8', 0xd3, n) end
    redis.call('SET', ARGV[2], string.char(0x85) .. text('1') .. text(ARGV[1]) .. text('2') .. text(ARGV[2])
      .. text('3') .. int(tonumber(ARGV[3])) .. text('4') .. int(tonumber(ARGV[4])) .. text('5') .. text(ARGV[5]))";

#[test]
fn jobs_of_an_ouqiang_delay_queue_are_taken_in() {
    if !there() {
        return;
    }
    let (folder, server) = (tempfile::tempdir().unwrap(), Standalone::start(&[]));
    let (mut plain, past, later, latest) =
        (server.plain(), second(-60), second(1800), second(3600));
    let mut put = |id: &str, delay: &str, body: &str| {
        plain.ask(&["EVAL", OUQIANG, "0", "order", id, delay, "45", body]);
    };
    put("1001", &later, "waits");
    put("1002", &past, "ready ✓");
    put("1003", &past, "handed out");
    put("1004", &latest, "put off since");
    let mut plain = server.plain();
    plain.ask(&["ZADD", "dq_bucket_1", &later, "1001", &later, "1003"]);
    plain.ask(&["ZADD", "dq_bucket_2", &later, "1004", &later, "deleted"]);
    plain.ask(&["RPUSH", "dq_queue_order", "1002"]);
    plain.ask(&["SET", "1005", "hello"]);
    plain.ask(&["ZADD", "dq_bucket_3", &later, "1005"]);

    let (url, store) = (server.url(), folder.path().join("store"));
    let ran = run(&["import", "--from-ouqiang", &url, "--store", text(&store), "--skip-invalid"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    for told in
        ["imported 4 jobs, kept 0", "passed over 1 that", "1 jobs: named there, but finished"]
    {
        assert!(ran.out.contains(told), "{told}: {}", ran.out);
    }
    let lines = exported(text(&store));
    let shown = |id: &str| {
        let job = job(&lines, id);
        let due: linger::time::Time = job["due"].as_str().unwrap().parse().unwrap();
        let state = job["state"].as_str().unwrap().to_owned();
        (state, (due.as_ms() / 1000).to_string(), job["body"].as_str().unwrap().to_owned())
    };
    let is =
        |state: &str, due: &str, body: &str| (state.to_owned(), due.to_owned(), body.to_owned());
    assert_eq!(shown("1001"), is("delayed", &later, "waits"));
    assert_eq!(shown("1002"), is("ready", &past, "ready ✓"));
    assert_eq!(shown("1003"), is("delayed", &later, "handed out"));
    assert_eq!(shown("1004"), is("delayed", &latest, "put off since"));
    let waits = job(&lines, "1001");
    assert_eq!((&waits["topic"], &waits["ttr"]), (&"order".into(), &"45s".into()));
    assert_eq!(waits["retry"]["attempts"], 0);
}
