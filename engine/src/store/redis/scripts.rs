//! The scripts: one a move, each with what they share in front.
//!
//! Each says on its first line whether it may run when the server's memory is used up. That is asked
//! before it begins: without the line it would break off at its first write, in the midst of a move.

use std::sync::LazyLock;

use super::conn::Script;

macro_rules! scripts {
    ($first_line:literal: $($name:ident = $file:literal),+ $(,)?) => {
        $(pub(super) static $name: LazyLock<Script> = LazyLock::new(|| {
            let parts = [$first_line, include_str!("lua/common.lua"), include_str!($file)];
            Script::new(parts.concat())
        });)+
    };
}

scripts! {
    "#!lua\n":
    ADD = "lua/add.lua",
    KV = "lua/kv.lua",
}

// They make room, or are what people look with when there is none.
scripts! {
    "#!lua flags=allow-oom\n":
    POP = "lua/pop.lua",
    FINISH = "lua/finish.lua",
    READ = "lua/read.lua",
    COMMIT = "lua/commit.lua",
    EXPIRED = "lua/expired.lua",
    TICK = "lua/tick.lua",
    CONFIGURE = "lua/configure.lua",
    DROP = "lua/drop.lua",
    BROWSE = "lua/browse.lua",
    FORECAST = "lua/forecast.lua",
    TOPICS = "lua/topics.lua",
    ERRORS = "lua/errors.lua",
    FIND = "lua/find.lua",
}
