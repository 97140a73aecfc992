//! What a key may do.

use std::str::FromStr;

use linger::error::{Error, Result};

/// One thing that a key may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Add jobs, and change, run, hold and cancel them: what a producer does.
    Add,
    /// Pop jobs, say what became of them, and register workers.
    Consume,
    /// Look at jobs, topics, workers and the server.
    Read,
    /// Read the figures for Prometheus.
    Metrics,
    /// Everything: also settings of topics, secrets and keys.
    Admin,
}

impl Scope {
    /// All there are.
    pub(crate) const ALL: [Scope; 5] =
        [Scope::Add, Scope::Consume, Scope::Read, Scope::Metrics, Scope::Admin];

    /// Its name.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Scope::Add => "add",
            Scope::Consume => "consume",
            Scope::Read => "read",
            Scope::Metrics => "metrics",
            Scope::Admin => "admin",
        }
    }

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

impl FromStr for Scope {
    type Err = Error;

    fn from_str(text: &str) -> Result<Scope> {
        let known = Scope::ALL.into_iter().find(|scope| scope.as_str() == text);
        known.ok_or_else(|| {
            let text = crate::front::short(text);
            let message =
                format!("`{text}` is no scope; give some of add, consume, read, metrics, admin");
            Error::invalid("scopes", message)
        })
    }
}

/// All that a key may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Scopes(u8);

impl Scopes {
    /// Whether this may be done. Who may administer may do anything.
    pub(crate) const fn has(self, scope: Scope) -> bool {
        self.0 & (scope.bit() | Scope::Admin.bit()) != 0
    }

    /// Whether there are none.
    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Those that were given.
    pub(crate) fn iter(self) -> impl Iterator<Item = Scope> {
        Scope::ALL.into_iter().filter(move |scope| self.0 & scope.bit() != 0)
    }
}

impl FromIterator<Scope> for Scopes {
    fn from_iter<T: IntoIterator<Item = Scope>>(scopes: T) -> Scopes {
        Scopes(scopes.into_iter().fold(0, |bits, scope| bits | scope.bit()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn admin_is_everything_and_the_others_are_themselves() {
        for scope in Scope::ALL {
            let only: Scopes = [scope].into_iter().collect();
            for other in Scope::ALL {
                let may = scope == other || scope == Scope::Admin;
                assert_eq!(only.has(other), may, "{scope:?} {other:?}");
            }
            assert_eq!(scope.as_str().parse::<Scope>().unwrap(), scope);
            assert_eq!(only.iter().collect::<Vec<_>>(), [scope]);
        }
        assert!(Scopes::default().is_empty() && !Scopes::default().has(Scope::Read));
        assert_eq!("root".parse::<Scope>().unwrap_err().at_field(), Some("scopes"));
    }
}
