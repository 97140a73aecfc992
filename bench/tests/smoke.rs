//! The benchmarks run, at sizes that prove nothing else.

use std::process::Command;

use serde_json::Value;

/// What `linger-bench` measured.
struct Figures(Value);

impl Figures {
    fn of(what: &str) -> Figures {
        Figures::of_these(what, &[])
    }

    /// Less of it, as these arguments say.
    fn of_these(what: &str, less: &[&str]) -> Figures {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let json = folder.path().join("figures.json");
        let output = Command::new(env!("CARGO_BIN_EXE_linger-bench"))
            .args([what, "--smoke", "--sizes", "300", "--folder"])
            .arg(folder.path())
            .arg("--json")
            .arg(&json)
            .args(less)
            .output()
            .expect("it starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        let text = std::fs::read_to_string(&json).expect("it writes JSON");
        Figures(serde_json::from_str(&text).expect("it is JSON"))
    }

    fn have(&self, what: &str) {
        self.row(what);
    }

    fn row(&self, what: &str) -> &Value {
        let mut rows = self.0["rows"].as_array().expect("there are rows").iter();
        let has = |row: &&Value| row["what"].as_str().unwrap().starts_with(what);
        rows.find(has).unwrap_or_else(|| panic!("no row `{what}`"))
    }

    /// Whether a program was there to stand beside Linger; in CI it must be.
    fn found(&self, program: &str) -> bool {
        let version = self.0["machine"][program].as_str().expect("it is said");
        let found = !version.starts_with("not found");
        assert!(found || std::env::var_os("CI").is_none(), "{program}: {version}");
        if !found {
            eprintln!("skipped: {program} is not installed (./test fetches it)");
        }
        found
    }
}

#[test]
fn every_part_of_the_engine_is_measured() {
    let figures = Figures::of("engine");
    for what in ["add, synced", "pop and finish", "delete by id", "lateness", "synced add under"] {
        figures.have(what);
    }
    for what in ["memory a job", "disk a job", "idle CPU", "open after kill -9", "disk after that"]
    {
        figures.have(what);
    }
}

#[test]
fn every_part_of_the_server_is_measured() {
    let figures = Figures::of("http");
    for what in [
        "add, synced, 256 connections",
        "add, relaxed, 64 connections in 100s",
        "in 100s against one by one",
        "pop and finish",
        "delete by id",
        "from add to the one who waits",
        "lateness",
        "500 due at once",
    ] {
        figures.have(what);
    }
}

#[test]
fn the_server_is_measured_over_grpc() {
    let figures = Figures::of("grpc");
    for how in ["synced", "relaxed"] {
        figures.have(&format!("add, {how}, 256 connections"));
        figures.have(&format!("500 due at once, {how}"));
        let by_stream = figures.row(&format!("pop and finish by stream, {how}"));
        for peer in ["echo", "HTTP"] {
            assert!(by_stream[peer].is_array(), "{by_stream}");
        }
    }
}

#[test]
fn pushing_is_measured_beside_a_bare_loop() {
    let figures = Figures::of_these("push", &["--rates", "webhooks"]);
    for how in ["synced", "relaxed"] {
        let webhooks = figures.row(&format!("webhooks, {how}, 64 connections"));
        for column in ["linger", "bare loop"] {
            let rate = webhooks[column][0].as_f64().expect("it is a rate");
            assert!(rate > 0.0 && rate.is_finite(), "{webhooks}");
        }
        assert!(webhooks["budget_met"].is_boolean(), "{webhooks}");
        figures.have(&format!("webhooks, {how}, 64 connections: CPU time for each"));
        figures.have(&format!("lateness at 2000 due/s, {how}, p50"));
        let p99 = figures.row(&format!("lateness at 2000 due/s, {how}, p99"));
        assert!(p99["budget_met"].is_boolean(), "{p99}");
    }
}

/// Apart from the webhooks, so that others run while a broker starts, which takes seconds; for the
/// same reason each has one row of its four.
#[test]
fn every_broker_is_measured_beside_a_bare_client() {
    let how = "synced, 64 at once";
    let figures = Figures::of_these("push", &["--only", "rates", "--rates", how]);
    for (program, name) in
        [("rabbitmq", "RabbitMQ"), ("kafka", "Kafka"), ("nats", "NATS"), ("redis", "Redis")]
    {
        if !figures.found(program) {
            continue;
        }
        let sink = figures.row(&format!("sink {name}, {how}"));
        for column in ["linger", "bare loop"] {
            assert!(sink[column][0].as_f64().is_some_and(|rate| rate > 0.0), "{sink}");
        }
        assert!(sink["budget_met"].is_boolean(), "{sink}");
        figures.have(&format!("sink {name}, {how}: CPU time for each"));
        figures.have(&format!("sink {name}, {how}: the broker's CPU time for each"));
    }
}

#[test]
fn the_beanstalkd_port_is_measured_beside_its_peers() {
    let figures = Figures::of("beanstalk");
    for how in ["synced", "relaxed"] {
        for connections in ["1 connection", "16 connections", "64 connections"] {
            figures.have(&format!("put, {how}, {connections}"));
            figures.have(&format!("put, {how}, {connections}, 100 at once"));
            figures.have(&format!("reserve and delete, {how}, {connections}"));
        }
        figures.have(&format!("from put to the one who waits, 2000/s, {how}"));
        figures.have(&format!("500 due at once, {how}"));
    }
    figures.have("lateness at 2000 due/s");
    figures.have("lateness at 20000 due/s");
    let (put, burst) = ("put, relaxed, 64 connections", "500 due at once, relaxed");
    let beside = |what: &str, peer: &str| assert!(figures.row(what)[peer].is_array(), "{what}");
    if figures.found("beanstalkd") {
        for peer in ["beanstalkd", "beanstalkd -f50"] {
            beside(put, peer);
            beside(burst, peer);
        }
    }
    if figures.found("redis") {
        beside(put, "Redis");
        beside(burst, "Redis");
    }
}

#[test]
fn a_store_on_redis_is_measured_beside_its_peers() {
    let figures = Figures::of("redis");
    if !figures.found("redis") {
        return;
    }
    for callers in ["64 callers", "256 callers"] {
        for work in ["add", "pop and finish"] {
            let rate = figures.row(&format!("{work}, in memory, {callers}"));
            for column in ["linger", "raw Lua", "PING"] {
                assert!(rate[column][0].as_f64().is_some_and(|rate| rate > 0.0), "{rate}");
            }
            assert!(rate["budget_met"].is_boolean(), "{rate}");
            figures.have(&format!("{work}, in memory, {callers}: Redis's CPU time for each"));
            figures.have(&format!("{work}, in memory, {callers}: the callers' CPU time for each"));
            assert!(figures.row(&format!("{work}, synced, {callers}"))["budget_met"].is_null());
        }
    }
    figures.have("add, in memory, 64 callers in 100s");
    assert!(figures.row("memory a job, in Redis")["raw Lua"][0].as_f64() > Some(200.0));
    for held_to in
        ["lateness at 2000 due/s, two instances, 16 consumers, p99", "takeover after SIGKILL"]
    {
        assert!(figures.row(held_to)["budget_met"].is_boolean(), "{held_to}");
    }
    for connections in ["64 connections", "256 connections"] {
        for work in ["add over HTTP", "pop and finish over HTTP"] {
            figures.have(&format!("{work}, in memory, {connections}"));
        }
    }
    if figures.found("bullmq") {
        let add = figures.row("add over HTTP, in memory, 64 connections");
        for column in ["BullMQ", "BullMQ, HTTP"] {
            assert!(add[column][0].as_f64().is_some_and(|rate| rate > 0.0), "{add}");
        }
    }
}

/// What `compare` says of somebody in a row.
fn compared(figures: &Figures, what: &str, class: &str, who: &str) -> Value {
    let mut rows = figures.0["rows"].as_array().expect("there are rows").iter();
    let is = |row: &&Value| row["class"] == class && row["what"].as_str() == Some(what);
    let row = rows.find(is).unwrap_or_else(|| panic!("no row `{what}`, {class}"));
    let mut all = row["figures"].as_array().expect("it has figures").iter();
    let figure = all.find(|figure| figure["who"] == who);
    figure.unwrap_or_else(|| panic!("nothing of {who} in {row}")).clone()
}

/// A figure; or, on a machine that is slow, that jobs were too late for one.
fn is_figure(figure: &Value) -> bool {
    let is_slow = |why: &str| ["only ", "does not take "].iter().any(|one| why.starts_with(one));
    figure["rounds"][0].as_f64().is_some_and(f64::is_finite)
        || figure["not"].as_str().is_some_and(is_slow)
}

#[test]
fn everybody_is_given_the_same_work() {
    let less = ["--peers", "beanstalkd,redis,postgres", "--rates", "pop and finish, 64"];
    let figures = Figures::of_these("compare", &less);
    let peers = [
        ("beanstalkd", ["beanstalkd -f0", "beanstalkd -f50"]),
        ("redis", ["Redis + Lua"; 2]),
        ("postgres", ["PostgreSQL"; 2]),
    ];
    // `./test` fetches all but PostgreSQL.
    let there = |program| match program {
        "postgres" => !figures.0["machine"][program].as_str().unwrap().starts_with("not found"),
        _ => figures.found(program),
    };
    let found = peers.map(|(program, names)| there(program).then_some(names));
    for (at, class) in ["synced", "relaxed"].into_iter().enumerate() {
        let mut all = vec!["Linger, HTTP", "Linger, beanstalkd port"];
        all.extend(found.iter().flatten().map(|names| names[at]));
        for what in [
            "pop and finish, 64 connections",
            "add, pop and finish, 64 connections each",
            "lateness at 2000 due/s, 16 consumers, p99",
            "500 due at once, the last finished",
            "memory a job",
            "disk a job",
            "restart after kill -9",
        ] {
            for who in &all {
                let figure = compared(&figures, what, class, who);
                assert!(is_figure(&figure), "{what}, {class}: {figure}");
            }
        }
    }
}

/// Apart from the others, since it takes seconds to start; for the same reason it has few rows.
#[test]
fn rabbitmq_is_given_the_same_work() {
    let less = ["--peers", "rabbitmq", "--only", "rates,lateness", "--rates", "pop and finish, 64"];
    let figures = Figures::of_these("compare", &less);
    if !figures.found("rabbitmq") {
        return;
    }
    for class in ["synced", "relaxed"] {
        for what in ["pop and finish, 64 connections", "500 due at once, the last finished"] {
            let figure = compared(&figures, what, class, "RabbitMQ");
            assert!(is_figure(&figure), "{what}, {class}: {figure}");
        }
    }
}
