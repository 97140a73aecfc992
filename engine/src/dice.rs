//! Chance, from a secret seed: lease tokens and jitter.

use std::fmt;
use std::hash::Hasher;
use std::str::FromStr;

use siphasher::sip::SipHasher24;

use crate::error::{Error, Result, excerpt};

/// Proof that a job was handed to you. Random, so an old holder can never finish a re-added id.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lease(u64);

/// A share of one: 0 is nothing, `u32::MAX` is almost all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chance(pub u32);

/// Answers every question of chance from a secret and what is asked about.
///
/// A keyed hash rather than a generator: the answer does not depend on what was asked before,
/// so two stores with one seed agree, and tests repeat.
#[derive(Clone)]
pub struct Dice {
    key: [u8; 16],
}

impl Chance {
    /// Half of one: no jitter either way.
    pub const MIDDLE: Chance = Chance(1 << 31);
}

impl Dice {
    /// Dice nobody can foresee.
    pub fn secret() -> Dice {
        Dice { key: uuid::Uuid::new_v4().into_bytes() }
    }

    /// Dice that fall the same way for the same seed, for tests.
    pub fn seeded(seed: u64) -> Dice {
        Dice { key: u128::from(seed).to_le_bytes() }
    }

    /// The token for a hand-out of job `number` at version `version`.
    pub fn lease(&self, number: u64, version: u64) -> Lease {
        Lease(self.throw(b"lease", number, version))
    }

    /// The jitter after attempt `attempt` of job `number`.
    pub fn jitter(&self, number: u64, attempt: u32) -> Chance {
        Chance((self.throw(b"retry", number, u64::from(attempt)) >> 32) as u32)
    }

    /// What sets apart the name that is made up as number `count`.
    pub(crate) fn name(&self, count: u64) -> [u8; 10] {
        let [low, high] = [0, 1].map(|half| self.throw(b"names", count, half).to_le_bytes());
        std::array::from_fn(|at| if at < 8 { low[at] } else { high[at - 8] })
    }

    fn throw(&self, about: &[u8; 5], number: u64, count: u64) -> u64 {
        let mut hasher = SipHasher24::new_with_key(&self.key);
        hasher.write(about);
        hasher.write(&number.to_le_bytes());
        hasher.write(&count.to_le_bytes());
        hasher.finish()
    }
}

impl fmt::Debug for Dice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Dice(secret)")
    }
}

impl Lease {
    /// The token as a number, for a store to keep.
    pub fn as_u64(self) -> u64 {
        self.0
    }

    /// The token a store has kept.
    pub fn from_u64(token: u64) -> Lease {
        Lease(token)
    }
}

/// Sixteen hex digits: what travels to the holder and back.
impl fmt::Display for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lease({self})")
    }
}

impl FromStr for Lease {
    type Err = Error;

    fn from_str(text: &str) -> Result<Lease> {
        let hex = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let token = hex.then(|| u64::from_str_radix(text, 16).ok()).flatten();
        token.map(Lease).ok_or_else(|| {
            let text = excerpt(text);
            Error::invalid(
                "lease",
                format!("`{text}` is not a lease; give the one that came with the job"),
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_read_as_it_is_written() {
        let lease = Dice::secret().lease(7, 1);
        assert_eq!(lease.to_string().parse(), Ok(lease));
        for text in ["", "xyz", "0123456789abcde", "0123456789abcdefg", "+123456789abcdef"] {
            assert!(text.parse::<Lease>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn no_two_hand_outs_share_a_lease() {
        let dice = Dice::seeded(1);
        let leases: std::collections::HashSet<_> = (0..100)
            .flat_map(|n| (0..100).map(move |r| (n, r)))
            .map(|(n, r)| dice.lease(n, r))
            .collect();
        assert_eq!(leases.len(), 10_000);
        assert_ne!(dice.lease(1, 1), Dice::seeded(2).lease(1, 1));
    }
}
