//! Verbs that open a store themselves, without a server.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use linger::store::Options;
use linger::store::embedded::{self, Embedded};
use linger::store::redis::{self, Redis};

use super::load;
use crate::config::{Config, Place, ServeFlags};
use crate::store::Store;

/// Which store is meant.
#[derive(clap::Args)]
pub(super) struct StoreFlags {
    /// The store: a folder, or redis://HOST:PORT [env: LINGER_STORE] [default: the setting `store`]
    #[arg(long, value_name = "FOLDER|URL")]
    store: Option<String>,
    /// Take settings from this file [env: LINGER_CONFIG] [default: ./linger.toml if it is there]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Set any other setting, such as store.prefix=shop (repeatable)
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
}

/// What to do if there is no store yet.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum IfMissing {
    Refuse,
    Make,
}

impl StoreFlags {
    /// The settings that say which store is meant, and how it is used.
    pub(super) fn load(self) -> Result<Config> {
        let StoreFlags { store, config, set } = self;
        Ok(load(&ServeFlags { store, config, set, ..ServeFlags::default() })?.config)
    }
}

/// Opens the store, has something done with it, and closes it in good order.
pub(super) fn with_store<T>(
    config: &Config,
    if_missing: IfMissing,
    act: impl AsyncFnOnce(&Store) -> Result<T>,
) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let opened = open(config, if_missing, &runtime);
    let store = opened.with_context(|| format!("cannot open the store in `{}`", config.store))?;
    let done = runtime.block_on(act(&store));
    // One on this machine waits for its threads.
    drop(store);
    runtime.shutdown_background();
    done
}

fn open(
    config: &Config,
    if_missing: IfMissing,
    runtime: &tokio::runtime::Runtime,
) -> Result<Store> {
    let options = Options {
        defaults: config.defaults.clone(),
        unique_ids: config.unique_ids,
        ..Options::default()
    };
    match &config.store {
        Place::Folder(folder) => {
            if if_missing == IfMissing::Refuse && !folder.join("FORMAT").is_file() {
                bail!("there is no store in this folder");
            }
            let settings =
                embedded::Settings { durability: config.durability, ..Default::default() };
            Ok(Embedded::open(folder, options, settings)?.into())
        }
        Place::Redis(url) => runtime.block_on(async {
            let prefix = config.shared.prefix.as_str();
            if if_missing == IfMissing::Refuse && !redis::is_there(&url.address, prefix).await? {
                bail!("there is no store whose keys begin with `{prefix}`");
            }
            let settings = redis::Settings {
                prefix: prefix.to_owned(),
                poll: config.shared.poll,
                wait: config.shared.wait as u32,
                // It is gone before it could be of use to others.
                timer: false,
                ..Default::default()
            };
            Ok(Redis::open(&url.address, options, settings).await?.into())
        }),
    }
}
