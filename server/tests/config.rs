//! Settings from all sources, and the command line that shows them.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use linger::time::{MINUTE, SECOND};
use linger_server::config::{Config, DEFAULTS, Loaded, Origin, ServeFlags};
use tempfile::TempDir;

/// A folder with this `linger.toml`.
fn folder(toml: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("linger.toml"), toml).unwrap();
    folder
}

fn env(vars: &[(&str, &str)]) -> Vec<(String, String)> {
    vars.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn set(sets: &[&str]) -> ServeFlags {
    ServeFlags { set: sets.iter().map(|set| (*set).to_owned()).collect(), ..ServeFlags::default() }
}

fn load(toml: &str) -> anyhow::Result<Loaded> {
    Config::load(&ServeFlags::default(), [], folder(toml).path())
}

fn refusal(loaded: anyhow::Result<Loaded>) -> String {
    match loaded {
        Ok(loaded) => panic!("accepted: {:?}", loaded.config),
        Err(error) => format!("{error:#}"),
    }
}

fn origin(loaded: &Loaded, key: &str) -> String {
    loaded.origins.iter().find(|setting| setting.key == key).unwrap().origin.to_string()
}

#[test]
fn without_any_source_the_defaults_hold() {
    let folder = tempfile::tempdir().unwrap();
    let loaded = Config::load(&ServeFlags::default(), [], folder.path()).unwrap();
    assert_eq!(loaded.config, Config::defaults());
    assert!(loaded.origins.iter().all(|setting| setting.origin == Origin::Default));
}

#[test]
fn the_built_in_file_given_as_ones_own_changes_nothing() {
    let loaded = load(DEFAULTS).unwrap();
    assert_eq!(loaded.config, Config::defaults());
    assert!(loaded.origins.iter().all(|setting| setting.origin != Origin::Default));
}

#[test]
fn a_value_is_shown_as_it_can_be_read() {
    let odd = "listen = '[::1]:1'\nbeanstalkd_allow = ['10.0.0.0/8']\nstore = '/x'\n'store.prefix' = 'a:b'\n'store.poll' = 2\n'store.wait' = 1\n'store.lease' = '500ms'\ndurability = 'relaxed'\nrole = ['timer', 'api']\n\
               name = 'a b'\ngroup = 'g'\nweight = 7\nthreshold = 50\n\
               insecure = true\nallowed_hosts = ['A', '::1']\nunique_ids = 'global'\ndrain = 90\n\
               [defaults]\nttr = 0.5\nretry = '15s 3m'\nretain = '1d'\n\
               [limits]\nbody = 1025\nbatch_jobs = 7\nwait = '1h30m'\nkey_rate = '600/m'\n\
               [webhooks]\nnetworks = 'public'\nallow = ['10.0.0.0/8', '::1']\nca = 'ca.pem'\n\
               [[alarms.rules]]\nname = 'a b'\nkind = 'late'\nthreshold = '90s'\ntopic = 'o.*'\n\
               to = 'http://ops'\n\
               [sinks.events]\ntype = 'nats'\nurl = 'nats://h'\nsubject = 'jobs.{topic}'\n\
               [workers]\neureka = 'http://a/eureka,https://b:1/'\neureka_poll = '5s'\neureka_register = 'linger'\n\
               [log]\nformat = 'json'\nlevel = 'info,linger=debug'\n";
    let loaded = load(odd).unwrap();
    let shown = loaded.origins.iter().map(|setting| {
        // What stands below a value, and not in a section, is in quotes.
        let key = match setting.key.starts_with("store.") {
            true => format!("'{}'", setting.key),
            false => setting.key.to_owned(),
        };
        format!("{key} = {}\n", setting.value)
    });
    assert_eq!(load(&shown.collect::<String>()).unwrap().config, loaded.config);
}

#[test]
fn flags_go_over_the_environment_over_the_file_over_the_defaults() {
    let toml = "drain = '1s'\n[limits]\nbatch_jobs = 1\nwait = '1s'\nwaiting = 1\n";
    let env = env(&[("LINGER_LIMITS_WAIT", "2s"), ("LINGER_LIMITS_BATCH_JOBS", "2")]);
    let folder = folder(toml);
    let loaded = Config::load(&set(&["limits.wait=3s"]), env, folder.path()).unwrap();
    let limits = &loaded.config.limits;
    assert_eq!((limits.requests, limits.waiting), (10_000, 1));
    assert_eq!((limits.batch_jobs, limits.wait), (2, 3 * SECOND));
    assert_eq!(loaded.config.drain, SECOND);
    for (key, from) in [
        ("limits.requests", "default"),
        ("drain", "linger.toml:1"),
        ("limits.waiting", "linger.toml:5"),
        ("limits.batch_jobs", "LINGER_LIMITS_BATCH_JOBS"),
        ("limits.wait", "--set"),
    ] {
        assert_eq!(origin(&loaded, key), from, "{key}");
    }
}

#[test]
fn every_flag_reaches_its_setting() {
    let text = |text: &str| Some(text.to_owned());
    let flags = ServeFlags {
        config: None,
        listen: text("0.0.0.0:1"),
        beanstalkd: text(""),
        store: text("s"),
        durability: text("relaxed"),
        role: text("api"),
        name: text("n"),
        group: text("g"),
        weight: text("3"),
        insecure: true,
        set: vec!["listen=127.0.0.1:2".into(), "drain = 2m".into(), "drain=1m".into()],
    };
    let folder = tempfile::tempdir().unwrap();
    let loaded = Config::load(&flags, [], folder.path()).unwrap();
    assert_eq!(loaded.config.listen.to_string(), "0.0.0.0:1");
    assert_eq!(loaded.config.drain, MINUTE);
    for key in [
        "listen",
        "beanstalkd",
        "store",
        "durability",
        "role",
        "name",
        "group",
        "weight",
        "insecure",
    ] {
        assert_eq!(origin(&loaded, key), format!("--{key}"));
    }
}

#[test]
fn every_setting_can_stand_in_the_environment() {
    let defaults = load("").unwrap();
    let vars = defaults.origins.iter().map(|setting| {
        let name = format!("LINGER_{}", setting.key.replace('.', "_").to_uppercase());
        let value = setting.value.as_str().map_or(setting.value.to_string(), str::to_owned);
        // An empty list is written as an empty variable, and that one is not set.
        (name, if value == "[]" { String::new() } else { value })
    });
    let vars: Vec<(String, String)> = vars.collect();
    let folder = tempfile::tempdir().unwrap();
    let loaded = Config::load(&ServeFlags::default(), vars.clone(), folder.path()).unwrap();
    assert_eq!(loaded.config, defaults.config);
    for (setting, (name, value)) in loaded.origins.iter().zip(&vars) {
        let expected = if value.is_empty() { "default" } else { name };
        assert_eq!(setting.origin.to_string(), *expected);
    }
}

#[test]
fn variables_that_are_empty_or_not_ours_are_passed_over() {
    let env = env(&[
        ("LINGER_LISTEN", ""),
        ("LINGER_NONSENSE", ""),
        ("LINGER_CONFIG", ""),
        ("LINGER_SERVER", "http://elsewhere:7300"),
        ("LINGER_KEY", "k"),
        ("LINGER_TEST_LONG", "1"),
        ("LINGER_SERVICE_HOST", "10.0.0.1"),
        ("LINGER_SERVICE_PORT_HTTP", "7300"),
        ("LINGER_PORT", "tcp://10.0.0.1:7300"),
        ("LINGER_PORT_7300_TCP_ADDR", "10.0.0.1"),
        ("PATH", "/bin"),
    ]);
    let folder = tempfile::tempdir().unwrap();
    let loaded = Config::load(&ServeFlags::default(), env, folder.path()).unwrap();
    assert_eq!(loaded.config, Config::defaults());
}

#[test]
fn the_file_is_the_one_that_is_named() {
    let folder = folder("drain = '1s'");
    let other = folder.path().join("other.toml");
    fs::write(&other, "drain = '2s'").unwrap();
    fs::write(folder.path().join("third.toml"), "\ndrain = '3s'").unwrap();
    let drain = |flags: &ServeFlags, vars: &[(&str, &str)]| {
        Config::load(flags, env(vars), folder.path()).map(|loaded| loaded.config.drain)
    };
    let third = ("LINGER_CONFIG", "third.toml");
    let flags = ServeFlags { config: Some(other.clone()), ..ServeFlags::default() };
    assert_eq!(drain(&ServeFlags::default(), &[]).unwrap(), SECOND);
    assert_eq!(drain(&ServeFlags::default(), &[third]).unwrap(), 3 * SECOND);
    assert_eq!(drain(&flags, &[third]).unwrap(), 2 * SECOND);

    let loaded = Config::load(&flags, [], folder.path()).unwrap();
    assert_eq!(origin(&loaded, "drain"), format!("{}:1", other.display()));

    fs::remove_file(&other).unwrap();
    let refused = drain(&flags, &[]).unwrap_err();
    assert!(format!("{refused:#}").starts_with("cannot read the settings in /"), "{refused:#}");
}

#[test]
fn an_unknown_setting_is_refused_and_the_nearest_named() {
    for (toml, expected) in [
        (
            "\n\nlisen = 'x'",
            "unknown setting `lisen` in linger.toml line 3; did you mean `listen`?",
        ),
        (
            "[limit]\nbody = 1",
            "unknown setting `limit.body` in linger.toml line 2; did you mean `limits.body`?",
        ),
        (
            "[limits]\nbdy = 1",
            "unknown setting `limits.bdy` in linger.toml line 2; did you mean `limits.body`?",
        ),
        ("ttr = '5s'", "unknown setting `ttr` in linger.toml line 1; did you mean `defaults.ttr`?"),
        (
            "[zebra]",
            "unknown setting `zebra` in linger.toml line 1; `linger config` lists all there are",
        ),
        (
            "limits = 5",
            "`limits` in linger.toml line 1 is a section; write [limits] and its settings below",
        ),
    ] {
        assert_eq!(refusal(load(toml)), expected, "{toml}");
    }
    assert!(load("[limits]\n[log]").is_ok());

    let folder = tempfile::tempdir().unwrap();
    let vars = env(&[("LINGER_LISTN", "x")]);
    assert_eq!(
        refusal(Config::load(&ServeFlags::default(), vars, folder.path())),
        "unknown setting `LINGER_LISTN` in the environment; did you mean `LINGER_LISTEN`?"
    );
    let vars = env(&[("LINGER_PORT", "7300")]);
    let refused = refusal(Config::load(&ServeFlags::default(), vars, folder.path()));
    assert!(refused.starts_with("unknown setting `LINGER_PORT`"), "{refused}");
    assert_eq!(
        refusal(Config::load(&set(&["limts.body=1"]), [], folder.path())),
        "unknown setting `limts.body` in --set; did you mean `limits.body`?"
    );
    assert_eq!(
        refusal(Config::load(&set(&["limits.body"]), [], folder.path())),
        "`limits.body` in --set has no `=`; write --set limits.body=2MiB"
    );
}

#[test]
fn a_wrong_value_says_setting_value_remedy_and_place() {
    for (set_to, why) in [
        ("listen=7300", "`7300` is not an IP address and a port, such as 127.0.0.1:7300"),
        ("listen=localhost:7300", "`localhost:7300` is not an IP address and a port"),
        ("beanstalkd=11300", "`11300` is not an IP address and a port"),
        ("store=redis://h:x", "store address `redis://h:x` has a port that is no number"),
        ("store=redis+sentinel://h", "does not say which master the sentinels watch"),
        ("store=s3://b", "unknown scheme; known are `redis`"),
        ("store=s3://b", "; or give a folder, such as ./linger-data"),
        ("store=", "`` is not a folder, such as ./linger-data"),
        ("store.prefix={a}", "`{a}` cannot begin keys; give 1 to 64 letters, digits"),
        ("store.poll=1ms", "`1ms` is out of range; give `10ms` to `1h`"),
        ("store.wait=11", "`11` is out of range; give `0` to `10`"),
        ("archive.folder=s3://b", "`s3://b` is not a folder"),
        ("durability=never", "`never` is not known; give sync or relaxed"),
        ("role=", "`` is no role; give some of api, timer, worker"),
        ("role=api,tiemr", "`tiemr` is no role; give some of api, timer, worker"),
        (
            "group=",
            "`` is no name; give 1 to 200 bytes without control characters and blanks at the ends",
        ),
        ("weight=0", "`0` is out of range; give `1` to `10000`"),
        ("store.lease=1h", "`1h` is out of range; give `100ms` to `10m`"),
        ("insecure=yes", "`yes` is neither true nor false"),
        ("allowed_hosts=a,http://b", "`http://b` is not a host; give its name or address alone"),
        ("unique_ids=none", "`none` is not known; give topic or global"),
        ("drain=5x", "`5x` is not a duration; write it as 500ms"),
        ("drain=2d", "`2d` is out of range; give `0s` to `1d`"),
        ("defaults.ttr=8d", "ttr is 8d; give 1ms to 7d"),
        ("defaults.ttr=0", "ttr is 0s; give 1ms to 7d"),
        ("defaults.retry=15s 3x", "`3x` is not a duration"),
        ("defaults.retain=-1s", "`-1s` is not a duration"),
        ("limits.body=1MB", "`1MB` is not a size; write it as 512, 64KiB, 1MiB or 1GiB"),
        ("limits.body=0", "`0` is out of range; give `1` to `16MiB`"),
        ("limits.body=17MiB", "`17MiB` is out of range; give `1` to `16MiB`"),
        ("limits.batch_jobs=0", "`0` is out of range; give `1` to `100000`"),
        ("limits.batch_jobs=-1", "`-1` is not a whole number"),
        ("limits.batch_bytes=1", "`1` is out of range; give `1KiB` to `1GiB`"),
        ("limits.answer_bytes=2GiB", "`2GiB` is out of range"),
        ("limits.wait=25h", "`1d1h` is out of range"),
        ("limits.waiting=many", "`many` is not a whole number"),
        ("limits.connections=0", "`0` is out of range"),
        ("limits.requests=0", "`0` is out of range"),
        ("limits.header_time=0", "`0s` is out of range; give `1ms` to `1h`"),
        ("limits.body_time=2h", "`2h` is out of range"),
        ("fronts.command=on", "`on` is neither true nor false"),
        ("fronts.ouqiang=on", "`on` is neither true nor false"),
        ("fronts.tasks=on", "`on` is neither true nor false"),
        ("workers.lease=999ms", "`999ms` is out of range; give `1s` to `10m`"),
        ("workers.max=0", "`0` is out of range; give `1` to `100000`"),
        ("workers.eureka=host:8761", "server 1 is no http or https URL; write http://host:8761"),
        ("workers.eureka=http://a,b", "server 2 is no URL"),
        ("workers.eureka_poll=10ms", "`10ms` is out of range; give `100ms` to `5m`"),
        ("workers.eureka_register=a b", "`a b` is no name of an application; give 1 to 128"),
        ("workers.eureka_register=linger", "there is no Eureka to register in; set `workers."),
        ("alarms.every=1ms", "`1ms` is out of range; give `100ms` to `1h`"),
        ("alarms.rules=late", "it is no list of rules; write [[alarms.rules]]"),
        (
            "alarms.rules=[{name='a',kind='dead',to='http://o',quiet='1s'}]",
            "rule `a`: quiet is 1s; give at least 10s, twice `alarms.every`",
        ),
        ("log.format=xml", "`xml` is not known; give human or json"),
        ("log.level=inof", "`inof` is not a level; give error, warn, info"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let refused = refusal(Config::load(&set(&[set_to]), [], folder.path()));
        let key = set_to.split_once('=').unwrap().0;
        assert!(refused.starts_with(&format!("wrong setting `{key}` (--set): ")), "{refused}");
        assert!(refused.contains(why), "{set_to}: {refused}");
    }
}

#[test]
fn a_wrong_value_names_its_source() {
    let refused = refusal(load("\ndrain = []"));
    assert!(
        refused.starts_with("wrong setting `drain` (linger.toml line 2): `[]` is not"),
        "{refused}"
    );
    let refused = refusal(load("\n[[alarms.rules]]\nname = 'a'\nkind = 'slow'\n"));
    let place = "wrong setting `alarms.rules` (linger.toml line 2): rule `a`: kind `slow` is not";
    assert!(refused.starts_with(place), "{refused}");
    let refused = refusal(load("insecure = 1\nlisten = 5"));
    assert!(refused.starts_with("wrong setting `listen` (linger.toml line 2): `5`"), "{refused}");
    let refused = refusal(load("a = 'b'\ndrain = "));
    assert!(refused.starts_with("linger.toml line 2 is not TOML: "), "{refused}");
    let refused = refusal(load("drain = 1\ndrain = 2"));
    assert!(refused.starts_with("linger.toml line 2 is not TOML: duplicate key"), "{refused}");

    let folder = tempfile::tempdir().unwrap();
    let vars = env(&[("LINGER_DURABILITY", "x")]);
    assert_eq!(
        refusal(Config::load(&ServeFlags::default(), vars, folder.path())),
        "wrong setting `durability` (LINGER_DURABILITY): `x` is not known; give sync or relaxed"
    );
}

#[test]
fn listening_for_others_without_keys_must_be_agreed_to() {
    for open in ["0.0.0.0:7300", "[::]:7300", "192.168.1.1:7300", "[::ffff:10.0.0.1]:1"] {
        let refused = refusal(load(&format!("beanstalkd = '{open}'")));
        let begin =
            format!("setting `beanstalkd` (linger.toml line 1) is `{open}`, which others can");
        assert!(refused.starts_with(&begin) && refused.contains("--insecure"), "{refused}");
        for agreed in ["insecure = true", "beanstalkd_allow = ['10.0.0.0/8']"] {
            assert!(load(&format!("beanstalkd = '{open}'\n{agreed}")).is_ok(), "{open}");
        }
        // Whether there are keys is in the store.
        assert!(load(&format!("listen = '{open}'")).unwrap().config.is_exposed(), "{open}");
        let agreed = load(&format!("listen = '{open}'\ninsecure = true")).unwrap();
        assert!(!agreed.config.is_exposed(), "{open}");
    }
    for closed in ["127.0.0.1:0", "127.1.2.3:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
        assert!(load(&format!("beanstalkd = '{closed}'")).is_ok(), "{closed}");
        assert!(!load(&format!("listen = '{closed}'")).unwrap().config.is_exposed(), "{closed}");
    }
}

#[test]
fn a_bootstrap_key_is_given_once_and_never_shown() {
    let loaded = load("bootstrap_key = '0123456789abcdef'").unwrap();
    let shown = loaded.origins.iter().find(|setting| setting.key == "bootstrap_key").unwrap();
    assert_eq!(shown.value.as_str(), Some("(set)"));
    assert!(!format!("{loaded:?}").contains("0123456789abcdef"));
    let refused = refusal(load("bootstrap_key = 'short'"));
    assert!(refused.contains("no key of 16 to 200") && !refused.contains("short"), "{refused}");
    let refused = refusal(load("bootstrap_key = '0123456789abcdef'\nbootstrap_key_file = 'f'"));
    assert!(refused.contains("give one of them"), "{refused}");
}

#[test]
fn a_reload_changes_what_can_change_and_names_the_rest() {
    let folder = folder("drain = '60s'\nstore = 'a'");
    let before = Config::load(&set(&["limits.wait=1s"]), [], folder.path()).unwrap();
    let write = |toml: &str| fs::write(folder.path().join("linger.toml"), toml).unwrap();

    // The same in other words is no change.
    write("store = 'a'\ndrain = '1m'\n[limits]\nbody = 1048576");
    assert!(before.reload().unwrap().1.is_empty());

    write(
        "store = 'b'\ndrain = '2m'\nallowed_hosts = ['h']\ninsecure = true\nlisten = '0.0.0.0:1'\n\
         [defaults]\nttr = '1s'\nretry = '5s'\n[limits]\nwait = '5s'\nbody = 7\n\
         [fronts]\ntasks = false\n[log]\nlevel = 'warn'\nformat = 'json'",
    );
    let (after, changes) = before.reload().unwrap();
    let keys = |changes: &[linger_server::config::Change]| -> Vec<&str> {
        changes.iter().map(|change| change.key).collect()
    };
    assert_eq!(
        keys(&changes.live),
        [
            "allowed_hosts",
            "drain",
            "defaults.ttr",
            "defaults.retry",
            "limits.body",
            "fronts.tasks",
            "log.level"
        ]
    );
    assert_eq!(keys(&changes.restart), ["listen", "store", "insecure", "log.format"]);
    let change = &changes.live[1];
    assert_eq!((change.old.as_str(), change.new.as_str()), (Some("1m"), Some("2m")));
    assert_eq!(change.origin.to_string(), "linger.toml:2");

    // What needs a restart is as it was, and is named again the next time.
    let mut expected = before.config.clone();
    expected.allowed_hosts = after.config.allowed_hosts.clone();
    expected.drain = 2 * MINUTE;
    expected.defaults.ttr = linger::job::Ttr::new(SECOND).unwrap();
    expected.defaults.retry = "5s".parse().unwrap();
    expected.limits.body_bytes = 7;
    expected.fronts.tasks = false;
    expected.log.level = after.config.log.level.clone();
    assert_eq!(after.config, expected);
    assert_eq!((after.config.allowed_hosts.len(), after.config.log.level.as_str()), (1, "warn"));
    assert_eq!(origin(&after, "limits.body"), "linger.toml:11");
    assert_eq!(origin(&after, "store"), "linger.toml:2");
    assert_eq!(origin(&after, "limits.wait"), "--set");
    let (_, again) = after.reload().unwrap();
    assert_eq!((again.live.len(), again.restart), (0, changes.restart));
}

#[test]
fn a_reload_of_a_wrong_file_changes_nothing() {
    let folder = folder("drain = '1s'");
    let before = Config::load(&ServeFlags::default(), [], folder.path()).unwrap();
    let file = folder.path().join("linger.toml");
    for wrong in [
        "drain = '2s'\n[limits]\nbody = 'x'",
        "drain = '2s'\nbeanstalkd = '0.0.0.0:1'",
        "drain = '2s'\nunknown = 1",
        "drain = '2s'\n=",
    ] {
        fs::write(&file, wrong).unwrap();
        let refused = refusal(before.reload().map(|(loaded, _)| loaded));
        assert!(refused.contains("linger.toml line"), "{refused}");
        assert_eq!(before.config.drain, SECOND);
    }
    // A file that was there is missed, not taken for one with nothing in it.
    fs::remove_file(&file).unwrap();
    let refused = refusal(before.reload().map(|(loaded, _)| loaded));
    assert!(refused.starts_with("cannot read the settings in linger.toml: "), "{refused}");
}

#[test]
fn a_file_that_comes_later_is_found_by_a_reload() {
    let folder = tempfile::tempdir().unwrap();
    let before = Config::load(&ServeFlags::default(), [], folder.path()).unwrap();
    fs::write(folder.path().join("linger.toml"), "drain = '1s'").unwrap();
    assert_eq!(before.reload().unwrap().0.config.drain, SECOND);
}

const SECRET: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
const OTHER_SECRET: &str = "whsec_ZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXp7";

#[test]
fn a_secret_is_shown_as_set_and_nothing_more() {
    let file = folder(&format!("[webhooks]\nsecret = '{SECRET} {OTHER_SECRET}'"));
    let loaded = Config::load(&ServeFlags::default(), [], file.path()).unwrap();
    assert_eq!(loaded.config.webhooks.secret.len(), 2);
    let vars = [("LINGER_WEBHOOKS_SECRET", SECRET)];
    let from_env = Config::load(&set(&[]), env(&vars), file.path()).unwrap();
    assert_eq!(from_env.config.webhooks.secret.len(), 1);
    for args in [&["config"][..], &["config", "--json"]] {
        let (code, shown, stderr) = linger(file.path(), args, &vars);
        assert_eq!((code, stderr.as_str()), (0, ""));
        assert!(shown.contains("\"(set)\"") && !shown.contains(&SECRET[6..]), "{shown}");
    }
    for debug in [format!("{loaded:?}"), format!("{from_env:?}")] {
        assert!(!debug.contains(&SECRET[6..]), "{debug}");
    }
}

#[test]
fn a_secret_stays_through_a_reload_and_changes_by_one() {
    let file = folder(&format!("[webhooks]\nsecret = '{SECRET}'"));
    let before = Config::load(&ServeFlags::default(), [], file.path()).unwrap();
    let (same, changes) = before.reload().unwrap();
    assert!(changes.is_empty() && same.config == before.config, "{changes:?}");
    let other = format!("[webhooks]\nsecret = '{OTHER_SECRET}'");
    fs::write(file.path().join("linger.toml"), other).unwrap();
    let (after, changes) = before.reload().unwrap();
    assert_eq!(changes.live.len(), 1);
    assert_ne!(after.config.webhooks.secret, before.config.webhooks.secret);
    assert!(!format!("{changes:?}").contains(&OTHER_SECRET[6..]), "{changes:?}");
}

#[test]
fn a_wrong_secret_is_not_repeated() {
    for wrong in [&SECRET[1..], &SECRET[..20], &format!("{SECRET}!")] {
        let refused = refusal(load(&format!("[webhooks]\nsecret = '{wrong}'")));
        assert!(
            refused.contains("wrong setting `webhooks.secret` (linger.toml line 2)"),
            "{refused}"
        );
        assert!(!refused.contains(&wrong[6..]), "{refused}");
    }
}

#[test]
fn sinks_are_sections_of_their_own_or_a_table_in_the_environment() {
    let sections = "[sinks.events]\ntype = 'redis'\nurl = 'redis://h'\n[sinks.bills]\ntype = 'nats'\nurl = 'nats://h'";
    let loaded = load(sections).unwrap();
    let names: Vec<&str> = loaded.config.sinks.iter().map(|(name, _)| name).collect();
    assert_eq!(
        (names, origin(&loaded, "sinks")),
        (vec!["bills", "events"], "linger.toml:1".into())
    );
    let table = "{ events = { type = 'redis', url = 'redis://h' }, bills = { type = 'nats', url = 'nats://h' } }";
    let by_env = Config::load(&set(&[]), env(&[("LINGER_SINKS", table)]), folder("").path());
    assert_eq!(by_env.unwrap().config, loaded.config);
    let refused = refusal(load("drain = '1s'\n[sinks.events]\ntype = 'redis'\nurl = 'amqp://h'"));
    let expected = "wrong setting `sinks` (linger.toml line 2): sink `events`: url `amqp://h` is for another kind";
    assert!(refused.starts_with(expected), "{refused}");
}

#[test]
fn the_password_of_a_sink_is_never_shown_and_changes_by_a_restart() {
    let toml = |password: &str| {
        let shared = "[sinks.events]\ntype = 'rabbitmq'\nurl = 'amqp://";
        format!(
            "{shared}app:{password}@h'\n[sinks.bills]\ntype = 'nats'\nurl = 'nats://h'\npassword = '{password}'"
        )
    };
    let file = folder(&toml("geheim"));
    for args in [&["config"][..], &["config", "--json"]] {
        let (code, shown, stderr) = linger(file.path(), args, &[]);
        assert_eq!((code, stderr.as_str()), (0, ""));
        assert!(shown.contains("amqp://app:***@h") && !shown.contains("geheim"), "{shown}");
    }
    let before = Config::load(&set(&[]), [], file.path()).unwrap();
    fs::write(file.path().join("linger.toml"), toml("geheim2")).unwrap();
    let (after, changes) = before.reload().unwrap();
    assert_eq!((after.config, changes.restart.len()), (before.config, 1));
    assert!(!format!("{changes:?}").contains("geheim"), "{changes:?}");
}

/// Runs the binary in `folder`, with these variables alone.
fn linger(folder: &Path, args: &[&str], vars: &[(&str, &str)]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_linger"));
    command.args(args).current_dir(folder).env_clear().envs(vars.iter().copied());
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

#[test]
fn the_binary_shows_what_is_in_force() {
    let folder = folder("\nstore = 'here'");
    let vars = [("LINGER_DRAIN", "1m")];
    let (code, table, stderr) = linger(folder.path(), &["config", "--role", "api"], &vars);
    assert_eq!((code, stderr.as_str()), (0, ""));
    let rows: Vec<Vec<&str>> = table
        .lines()
        .map(|line| line.split("  ").filter(|cell| !cell.is_empty()).collect())
        .collect();
    let cells = |row: &[&str]| row.iter().map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
    let rows: Vec<Vec<String>> = rows.iter().map(|row| cells(row)).collect();
    assert_eq!(rows.len(), 1 + load("").unwrap().origins.len());
    for row in [
        ["SETTING", "VALUE", "FROM"],
        ["listen", "\"127.0.0.1:7300\"", "default"],
        ["store", "\"here\"", "linger.toml:2"],
        ["role", "\"api\"", "--role"],
        ["drain", "\"1m\"", "LINGER_DRAIN"],
        ["limits.batch_jobs", "1000", "default"],
        ["allowed_hosts", "[]", "default"],
    ] {
        assert!(rows.contains(&row.map(str::to_owned).to_vec()), "{row:?} in\n{table}");
    }

    let (code, json, _) = linger(folder.path(), &["config", "--json"], &vars);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(code, 0);
    assert_eq!(json["store"], serde_json::json!({ "value": "here", "from": "linger.toml:2" }));
    assert_eq!(json["limits.batch_jobs"]["value"], 1000);
    assert_eq!(json["defaults.retry"]["value"]["backoff"]["max"], "1h");
}

#[test]
fn the_password_of_a_store_is_never_shown() {
    let folder = folder("\"store.prefix\" = 'shop'\n\"store.poll\" = '5s'");
    let vars = [("LINGER_STORE", "redis+sentinel://app:geheim@s1,s2/orders")];
    for args in [&["config"][..], &["config", "--json"]] {
        let (code, shown, stderr) = linger(folder.path(), args, &vars);
        assert_eq!((code, stderr.as_str()), (0, ""));
        assert!(!shown.contains("geheim"), "{shown}");
        for part in ["redis+sentinel://app:***@s1:26379,s2:26379/orders", "LINGER_STORE", "shop"] {
            assert!(shown.contains(part), "{part} in {shown}");
        }
    }
    let bad = [("LINGER_STORE", "redis://app:geheim@h:x")];
    let (code, _, stderr) = linger(folder.path(), &["serve"], &bad);
    assert!(code == 2 && stderr.contains("***@h:x") && !stderr.contains("geheim"), "{stderr}");
}

#[test]
fn the_binary_fails_with_2_and_says_why_on_stderr() {
    let folder = tempfile::tempdir().unwrap();
    for (args, vars, why) in [
        (&["config", "--set", "lisen=1"][..], &[][..], "did you mean `listen`?"),
        (
            &["config"],
            &[("LINGER_LISTEN", "x")],
            "linger: wrong setting `listen` (LINGER_LISTEN): `x`",
        ),
        (&["config", "--beanstalkd", "0.0.0.0:1"], &[], "which others can reach"),
        (&["serve", "--listen", "0.0.0.0:1"], &[], "which others can reach"),
        (&["serve", "--durability", "never"], &[], "possible values: sync, relaxed"),
        (&["serve", "--config", "none.toml"], &[], "cannot read the settings in none.toml"),
        (&["fly"], &[], "unrecognized subcommand 'fly'"),
        (&[], &[], "Usage: linger"),
        (&["check"], &[], "linger-data"),
        (&["check", "."], &[], "there is no store in the folder"),
        (&["check", "redis://u:geheim@127.0.0.1:1"], &[], "127.0.0.1:1"),
        (&["check"], &[("LINGER_STORE", "redis://u:geheim@127.0.0.1:1")], "127.0.0.1:1"),
        (&["completions", "cobol"], &[], "invalid value 'cobol'"),
    ] {
        let (code, stdout, stderr) = linger(folder.path(), args, vars);
        assert_eq!((code, stdout.as_str()), (2, ""), "{args:?}: {stderr}");
        assert!(stderr.contains(why) && !stderr.contains("geheim"), "{args:?}: {stderr}");
    }
}

#[test]
fn the_binary_helps_and_completes() {
    let folder = tempfile::tempdir().unwrap();
    for verb in ["serve", "config", "export", "import", "check", "completions"] {
        let (code, help, _) = linger(folder.path(), &[verb, "--help"], &[]);
        assert!(code == 0 && help.contains(&format!("Examples:\n  linger {verb}")), "{help}");
    }
    for shell in ["bash", "zsh", "fish"] {
        let (code, script, _) = linger(folder.path(), &["completions", shell], &[]);
        assert!(code == 0 && script.contains("durability"), "{shell}");
    }
}

#[test]
fn the_binary_checks_a_store() {
    let folder = folder("store = 'jobs'");
    let path = folder.path().join("jobs");
    drop(linger::Linger::open(&path).unwrap());
    for args in [&["check"][..], &["check", "jobs"], &["check", "--config", "linger.toml"]] {
        let (code, text, stderr) = linger(folder.path(), args, &[]);
        assert_eq!((code, stderr.as_str()), (0, ""), "{text}");
        assert!(
            text.contains("jobs        0\n") && text.ends_with("jobs: in good order\n"),
            "{text}"
        );
    }

    fs::remove_file(path.join("FORMAT")).unwrap();
    let (code, text, _) = linger(folder.path(), &["check", "jobs"], &[]);
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("damage: FORMAT at byte 0: it is missing\n"), "{text}");
    assert!(text.ends_with("jobs: damaged, 1 finding\n"), "{text}");
}
