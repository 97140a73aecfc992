//! The moves: functions of one library, which a server is given when it does not know it.

use std::sync::{Arc, LazyLock};

use super::conn::{Library, Script};

/// Those that do what callers are promised to last; the others are done again by whoever misses it.
const LASTING: &[&str] = &["add", "commit", "configure", "finish", "kv", "restore"];

macro_rules! scripts {
    ($($name:ident = $function:literal),+ $(,)?) => {
        /// The text that all have in common, and each of them.
        static LIBRARY: LazyLock<Arc<Library>> = LazyLock::new(|| {
            let parts = [
                include_str!("lua/body.lua"),
                include_str!("lua/common.lua"),
                $(include_str!(concat!("lua/", $function, ".lua"))),+
            ];
            Arc::new(Library::new(&parts.concat()))
        });

        $(pub(super) static $name: LazyLock<Script> =
            LazyLock::new(|| Script::of(&LIBRARY, $function, LASTING.contains(&$function)));)+
    };
}

scripts! {
    ADD = "add",
    POP = "pop",
    HELD = "held",
    FINISH = "finish",
    READ = "read",
    COMMIT = "commit",
    EXPIRED = "expired",
    TICK = "tick",
    CONFIGURE = "configure",
    DROP = "drop",
    BROWSE = "browse",
    FORECAST = "forecast",
    TOPICS = "topics",
    ERRORS = "errors",
    FIND = "find",
    KV = "kv",
    NODES = "nodes",
    RESTORE = "restore",
    CHECK = "check",
    SCAN = "scan",
    EVENTS = "events",
}
