//! Those who come with wrong keys, by where they come from.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Mutex;

use linger::time::Tick;

/// So long attempts are counted together.
const WINDOW_US: u64 = 60_000_000;
/// The most addresses that are told apart; all others count as one.
const ADDRESSES_MAX: usize = 10_000;

/// How often each address has failed of late.
#[derive(Default)]
pub(super) struct Failures(Mutex<HashMap<IpAddr, Seen>>);

#[derive(Clone, Copy)]
struct Seen {
    since: Tick,
    count: usize,
}

/// What becomes of a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failed {
    /// It is one of the first.
    Again,
    /// It is the last that is told of.
    Last,
    /// There were too many.
    TooMany,
}

impl Failures {
    /// Counts one more, of which there may be so many.
    pub(super) fn count(&self, address: IpAddr, most: usize, now: Tick) -> Failed {
        let mut table = self.0.lock().expect("nobody panics holding it");
        let mut address = network(address);
        if table.len() >= ADDRESSES_MAX && !table.contains_key(&address) {
            table.retain(|_, seen| !seen.is_over(now));
            if table.len() >= ADDRESSES_MAX {
                address = OTHERS;
            }
        }
        let seen = table.entry(address).or_insert(Seen { since: now, count: 0 });
        if seen.is_over(now) {
            *seen = Seen { since: now, count: 0 };
        }
        seen.count = seen.count.saturating_add(1);
        match seen.count.cmp(&most) {
            std::cmp::Ordering::Less => Failed::Again,
            std::cmp::Ordering::Equal => Failed::Last,
            std::cmp::Ordering::Greater => Failed::TooMany,
        }
    }

    /// Whether an address has failed too often.
    pub(super) fn are_too_many(&self, address: IpAddr, most: usize, now: Tick) -> bool {
        let table = self.0.lock().expect("nobody panics holding it");
        let too_many = |seen: &Seen| seen.count >= most && !seen.is_over(now);
        table.get(&network(address)).is_some_and(too_many)
    }
}

impl Seen {
    fn is_over(&self, now: Tick) -> bool {
        now.as_us().saturating_sub(self.since.as_us()) >= WINDOW_US
    }
}

/// Who does not fit into the table any more.
const OTHERS: IpAddr = IpAddr::V6(Ipv6Addr::UNSPECIFIED);

/// Of version 6 the network, since whoever has one address there has the others too.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !(u128::MAX >> 64)).into(),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Tick {
        Tick::from_us(seconds * 1_000_000)
    }

    #[test]
    fn too_many_are_too_many_for_a_minute_and_for_nobody_else() {
        let (failures, one): (_, IpAddr) = (Failures::default(), "10.0.0.1".parse().unwrap());
        assert_eq!(failures.count(one, 2, at(0)), Failed::Again);
        assert!(!failures.are_too_many(one, 2, at(0)));
        assert_eq!(failures.count(one, 2, at(1)), Failed::Last);
        assert_eq!(failures.count(one, 2, at(59)), Failed::TooMany);
        assert!(failures.are_too_many("::ffff:10.0.0.1".parse().unwrap(), 2, at(59)));
        assert!(!failures.are_too_many("10.0.0.2".parse().unwrap(), 2, at(59)));
        assert!(!failures.are_too_many(one, 2, at(60)));
        assert_eq!(failures.count(one, 2, at(60)), Failed::Again);
    }

    #[test]
    fn a_network_of_version_6_counts_as_one() {
        let failures = Failures::default();
        for n in 0..3 {
            failures.count(format!("2001:db8::{n}").parse().unwrap(), 3, at(0));
        }
        assert!(failures.are_too_many("2001:db8::ffff".parse().unwrap(), 3, at(0)));
        assert!(!failures.are_too_many("2001:db8:0:1::1".parse().unwrap(), 3, at(0)));
    }

    #[test]
    fn the_table_is_bounded() {
        let failures = Failures::default();
        let address = |n: u32| IpAddr::from((n + 1).to_be_bytes());
        for n in 0..ADDRESSES_MAX as u32 + 5 {
            failures.count(address(n), 3, at(0));
        }
        assert!(failures.0.lock().unwrap().len() <= ADDRESSES_MAX + 1);
        // Those who did not fit in count together; a minute later there is room again.
        assert_eq!(failures.count(address(1_000_000), 3, at(1)), Failed::TooMany);
        assert_eq!(failures.count(address(1_000_000), 3, at(60)), Failed::Again);
        assert!(failures.0.lock().unwrap().len() < 10);
    }
}
