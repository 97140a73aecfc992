//! The scripts: one a move, each with what they share in front.

use std::sync::LazyLock;

use super::conn::Script;

macro_rules! scripts {
    ($($name:ident = $file:literal),+ $(,)?) => {
        $(pub(super) static $name: LazyLock<Script> = LazyLock::new(|| {
            Script::new([include_str!("lua/common.lua"), include_str!($file)].concat())
        });)+
    };
}

scripts! {
    ADD = "lua/add.lua",
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
    KV = "lua/kv.lua",
}
