//! Settings together with where they came from, and how they change under a running server.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use super::Config;
use super::source::{self, Found, Origin, ServeFlags, Values};
use super::value::{Raw, Value};

/// The settings in force and where each came from.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The settings.
    pub config: Config,
    /// Each setting as text and its origin, in the order of the built-in file.
    pub origins: Vec<Setting>,
    sources: Sources,
}

/// One setting as it is shown.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// Its name, such as `limits.body`.
    pub key: &'static str,
    /// Its value, as `linger.toml` would have it; [`ToString`] gives the text. Of a secret only
    /// whether it is set.
    pub value: toml::Value,
    /// Where the value came from.
    pub origin: Origin,
    whole: Whole,
}

/// A value, be it a secret.
#[derive(Clone, PartialEq)]
struct Whole(Raw);

impl fmt::Debug for Whole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

/// How one set of settings differs from another.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes {
    /// What can change while the server runs.
    pub live: Vec<Change>,
    /// What needs a restart.
    pub restart: Vec<Change>,
}

/// A setting with two values.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Its name.
    pub key: &'static str,
    /// What it was.
    pub old: toml::Value,
    /// What it is to be.
    pub new: toml::Value,
    /// Where that came from.
    pub origin: Origin,
}

/// Settings that all who share a store have, over those of their files.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Common {
    /// Which write of them it is; 0 if there was none.
    pub version: u64,
    /// By their names, as a file would have them.
    pub settings: BTreeMap<String, toml::Value>,
    /// Why what is stored cannot be read.
    pub broken: Option<String>,
}

impl Common {
    /// As they are stored.
    pub(crate) fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(&self.settings).expect("settings are plain")
    }

    /// As they were stored.
    pub(crate) fn decode(version: u64, bytes: &[u8]) -> Common {
        match serde_json::from_slice(bytes) {
            Ok(settings) => Common { version, settings, broken: None },
            Err(why) => {
                let broken = Some(format!("what is stored cannot be read: {why}"));
                Common { version, settings: BTreeMap::new(), broken }
            }
        }
    }

    fn found(&self) -> Result<Vec<Found>> {
        if let Some(broken) = &self.broken {
            bail!("{broken}");
        }
        for key in self.settings.keys() {
            if key == "webhooks.secret" {
                bail!(
                    "`{key}` is a secret, which is not shared; give each instance its own, or POST /v1/secrets"
                );
            }
            if source::is_known(key) && !is_live(key) {
                bail!(
                    "setting `{key}` needs a restart, so it is not shared; set it in the file of each instance"
                );
            }
        }
        let origin = Origin::Common(self.version);
        let found = self.settings.iter().map(|(key, raw)| Found {
            key: key.clone(),
            raw: raw.clone(),
            origin: origin.clone(),
        });
        Ok(found.collect())
    }
}

/// What settings were read from, to be read again.
#[derive(Clone)]
struct Sources {
    flags: ServeFlags,
    env: Vec<(String, String)>,
    folder: PathBuf,
    /// The file, as it is shown. Once there was one, it is missed if it is gone.
    file: Option<PathBuf>,
    /// What all who share the store have.
    common: Common,
}

/// Without flags and environment, which may hold secrets.
impl fmt::Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Sources { folder, file, .. } = self;
        f.debug_struct("Sources").field("folder", folder).field("file", file).finish()
    }
}

impl Loaded {
    pub(super) fn load(
        flags: ServeFlags,
        env: Vec<(String, String)>,
        folder: PathBuf,
    ) -> Result<Loaded> {
        let common = Common::default();
        Loaded::read(Sources { flags, env, folder, file: None, common })
    }

    /// Reads the sources again, and answers what is to be in force then: all that can change while
    /// the server runs, and the rest as it was. On an error nothing is to change.
    pub fn reload(&self) -> Result<(Loaded, Changes)> {
        self.renewed(self.sources.clone())
    }

    /// The same with these settings that all who share the store have.
    pub fn with_common(&self, common: Common) -> Result<(Loaded, Changes)> {
        self.renewed(Sources { common, ..self.sources.clone() })
    }

    /// Refuses what no instance could run by.
    pub(crate) fn check_common(common: &Common) -> Result<()> {
        let mut values = Values::defaults();
        values.put(common.found()?)?;
        Config::read(&mut values).map(drop)
    }

    fn renewed(&self, sources: Sources) -> Result<(Loaded, Changes)> {
        let new = Loaded::read(sources)?;
        let changes = self.changes_to(&new);
        let mut values = Values::defaults();
        values.put(self.origins.iter().map(Setting::found).collect())?;
        let live = new.origins.iter().filter(|setting| is_live(setting.key));
        values.put(live.map(Setting::found).collect())?;
        Ok((Loaded::of(values, new.sources)?, changes))
    }

    /// What would change if `new` were in force instead.
    pub fn changes_to(&self, new: &Loaded) -> Changes {
        let mut changes = Changes::default();
        // Both have every setting, in the same order.
        for (old, new) in self.origins.iter().zip(&new.origins) {
            if old.whole == new.whole {
                continue;
            }
            let side = if is_live(old.key) { &mut changes.live } else { &mut changes.restart };
            side.push(Change {
                key: old.key,
                old: old.value.clone(),
                new: new.value.clone(),
                origin: new.origin.clone(),
            });
        }
        changes
    }

    fn read(mut sources: Sources) -> Result<Loaded> {
        let mut values = Values::defaults();
        sources.file = sources.find_file();
        if let Some(file) = &sources.file {
            let text = fs::read_to_string(sources.folder.join(file))
                .with_context(|| format!("cannot read the settings in {}", file.display()))?;
            values.put(source::of_file(file, &text)?)?;
        }
        values.put(sources.common.found()?)?;
        values.put(source::of_env(&sources.env)?)?;
        values.put(source::of_flags(&sources.flags)?)?;
        Loaded::of(values, sources)
    }

    fn of(mut values: Values, sources: Sources) -> Result<Loaded> {
        let config = Config::read(&mut values)?;
        Ok(Loaded { config, origins: values.into_taken(), sources })
    }
}

impl Setting {
    pub(super) fn new(key: &'static str, value: &impl Value, origin: Origin) -> Setting {
        Setting { key, value: value.show_to_people(), origin, whole: Whole(value.show()) }
    }

    /// Whether it can change while the server runs.
    pub(crate) fn is_live(&self) -> bool {
        is_live(self.key)
    }

    fn found(&self) -> Found {
        let Setting { key, origin, whole: Whole(raw), .. } = self;
        Found { key: (*key).to_owned(), raw: raw.clone(), origin: origin.clone() }
    }
}

impl Changes {
    /// Whether nothing differs.
    pub fn is_empty(&self) -> bool {
        self.live.is_empty() && self.restart.is_empty()
    }
}

impl Sources {
    fn find_file(&self) -> Option<PathBuf> {
        let named = || {
            let mut env = self.env.iter();
            env.find(|(name, file)| name == source::CONFIG_VARIABLE && !file.is_empty())
        };
        let here = PathBuf::from("linger.toml");
        self.file
            .clone()
            .or_else(|| self.flags.config.clone())
            .or_else(|| named().map(|(_, file)| file.into()))
            .or_else(|| self.folder.join(&here).exists().then_some(here))
    }
}

/// Whether a setting can change while the server runs.
fn is_live(key: &str) -> bool {
    let section = key.split_once('.').map(|(section, _)| section);
    matches!(section, Some("defaults" | "limits" | "fronts" | "push" | "alarms"))
        || matches!(
            key,
            "beanstalkd_allow"
                | "allowed_hosts"
                | "log.level"
                | "drain"
                | "workers.lease"
                | "workers.max"
        )
        || matches!(key, "webhooks.networks" | "webhooks.allow" | "webhooks.connect_time")
        || matches!(key, "webhooks.answer_bytes" | "webhooks.secret")
}

#[cfg(test)]
mod tests {
    use super::super::DEFAULTS;
    use super::*;

    #[test]
    fn the_built_in_file_marks_what_is_live() {
        let sources = Sources {
            flags: ServeFlags::default(),
            env: vec![],
            folder: PathBuf::from("/nowhere"),
            file: None,
            common: Common::default(),
        };
        let loaded = Loaded::read(sources).unwrap();
        let (mut marked, mut section, mut section_marked, mut comment) =
            (Vec::new(), String::new(), false, String::new());
        for line in DEFAULTS.lines() {
            if line.starts_with('#') {
                comment.push_str(line);
            } else if let Some(name) = line.strip_prefix('[') {
                section = name.replace(']', ".");
                section_marked = comment.contains("(live)");
                comment.clear();
            } else if let Some((key, _)) = line.split_once(" = ") {
                if section_marked || comment.contains("(live)") {
                    marked.push(format!("{section}{key}"));
                }
                comment.clear();
            } else {
                comment.clear();
            }
        }
        let live = loaded.origins.iter().map(|setting| setting.key).filter(|key| is_live(key));
        assert_eq!(marked, live.collect::<Vec<_>>());
    }
}
