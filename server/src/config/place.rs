//! Where the jobs are kept.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use linger::store::redis::{Address, Settings};

use super::value::{Raw, Value, quoted};

/// Where the jobs are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In a folder of this machine.
    Folder(PathBuf),
    /// On Redis.
    Redis(Url),
}

/// Where a store on Redis is. It is shown without its passwords.
#[derive(Clone, PartialEq, Eq)]
pub struct Url {
    /// What it says.
    pub address: Address,
    /// As it was written, passwords and all: settings are read again from what they were.
    text: String,
}

/// How a store on Redis is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shared {
    /// What every key begins with.
    pub prefix: Prefix,
    /// How often everything is looked at anew, in case a message was lost.
    pub poll: Duration,
    /// How many replicas must have what was done before it is answered.
    pub wait: usize,
    /// How long an instance holds its buckets without a word from it.
    pub lease: Duration,
}

/// What every key of a store on Redis begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prefix(String);

/// The longest beginning of keys: there are many keys.
const PREFIX_BYTES_MAX: usize = 64;

impl Value for Place {
    fn read(raw: &Raw) -> Result<Place, String> {
        let Some(text) = raw.as_str().filter(|text| text.contains("://")) else {
            return PathBuf::read(raw).map(Place::Folder);
        };
        // Not quoted by us: whatever it is, there may be a password in it.
        let address: linger::error::Result<Address> = text.parse();
        let address = address.map_err(|cause| {
            format!("{}; or give a folder, such as ./linger-data", cause.message())
        })?;
        Ok(Place::Redis(Url { address, text: text.to_owned() }))
    }

    fn show(&self) -> Raw {
        match self {
            Place::Folder(folder) => folder.show(),
            Place::Redis(url) => Raw::from(url.text.as_str()),
        }
    }

    fn show_to_people(&self) -> Raw {
        Raw::String(self.to_string())
    }
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Place, String> {
        Place::read(&Raw::from(text))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Folder(folder) => folder.display().fmt(f),
            Place::Redis(url) => url.address.fmt(f),
        }
    }
}

impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address.fmt(f)
    }
}

impl<P: Into<PathBuf>> From<P> for Place {
    fn from(folder: P) -> Place {
        Place::Folder(folder.into())
    }
}

impl Default for Prefix {
    fn default() -> Prefix {
        Prefix(Settings::default().prefix)
    }
}

impl Prefix {
    /// The beginning.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Value for Prefix {
    fn read(raw: &Raw) -> Result<Prefix, String> {
        // Braces would have Redis Cluster put keys together that belong apart.
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:/".contains(&byte);
        let fits = |text: &&str| (1..=PREFIX_BYTES_MAX).contains(&text.len());
        match raw.as_str().filter(fits).filter(|text| text.bytes().all(plain)) {
            Some(text) => Ok(Prefix(text.to_owned())),
            None => Err(format!(
                "{} cannot begin keys; give 1 to {PREFIX_BYTES_MAX} letters, digits, `.`, `-`, \
                 `_`, `:` or `/`",
                quoted(raw)
            )),
        }
    }

    fn show(&self) -> Raw {
        Raw::from(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_folder_or_a_url() {
        let read = |text: &str| Place::read(&Raw::from(text)).unwrap();
        assert_eq!(read("./a"), Place::Folder("./a".into()));
        assert!(matches!(read("redis+cluster://a,b"), Place::Redis(_)));
    }

    #[test]
    fn a_password_is_kept_and_never_shown() {
        let text = "rediss+sentinel://app:geheim@s1/orders?sentinel_password=geheim2";
        let place = Place::read(&Raw::from(text)).unwrap();
        assert_eq!(Place::read(&place.show()).unwrap(), place);
        assert_eq!(place.show().as_str(), Some(text));
        for shown in [place.to_string(), format!("{place:?}"), place.show_to_people().to_string()] {
            assert!(shown.contains("s1:26379/orders") && !shown.contains("geheim"), "{shown}");
        }
        for wrong in ["Redis://u:geheim@h", "redis://u:geheim@h:x", "http://u:geheim@h"] {
            let why = Place::read(&Raw::from(wrong)).unwrap_err();
            assert!(why.contains("or give a folder") && !why.contains("geheim"), "{why}");
        }
    }

    #[test]
    fn a_prefix_is_plain() {
        for good in ["linger", "a", "shop:eu-1/queue_2.x", &"p".repeat(64)] {
            assert_eq!(Prefix::read(&Raw::from(good)).unwrap().as_str(), good);
        }
        for bad in ["", "a b", "{a}", "é", &"p".repeat(65)] {
            assert!(Prefix::read(&Raw::from(bad)).unwrap_err().contains("cannot begin"), "{bad}");
        }
    }
}
