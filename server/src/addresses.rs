//! How many connections come from one address.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard};

/// Counts connections by where they come from.
#[derive(Debug, Default)]
pub(crate) struct Addresses(Mutex<HashMap<IpAddr, usize>>);

/// The place of one connection among those from its address, for as long as it is held.
pub(crate) struct Place {
    addresses: Arc<Addresses>,
    from: IpAddr,
}

impl Addresses {
    /// Counts one more from an address, unless there are so many already.
    pub(crate) fn enter(self: &Arc<Self>, from: IpAddr, most: usize) -> Option<Place> {
        let from = one_party(from);
        let mut counts = self.counts();
        let count = counts.entry(from).or_default();
        if *count >= most {
            return None;
        }
        *count += 1;
        Some(Place { addresses: self.clone(), from })
    }

    fn counts(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.0.lock().expect("nobody panics holding it")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = self.addresses.counts();
        if let Some(count) = counts.get_mut(&self.from) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.from);
            }
        }
    }
}

/// What stands for all addresses of one party: of IPv6 the first half, as the other is theirs to
/// choose.
fn one_party(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_party_has_its_own_count_and_gives_it_back() {
        let addresses = Arc::new(Addresses::default());
        let enter = |from: &str| addresses.enter(from.parse().unwrap(), 2);
        let first = enter("10.0.0.1").unwrap();
        let _mapped = enter("::ffff:10.0.0.1").unwrap();
        assert!(enter("10.0.0.1").is_none());
        let _other = enter("10.0.0.2").unwrap();
        drop(first);
        let again = enter("10.0.0.1").unwrap();
        let _near = (enter("2001:db8:0:1::1").unwrap(), enter("2001:db8:0:1:ffff::2").unwrap());
        assert!(enter("2001:db8:0:1::3").is_none());
        assert!(enter("2001:db8:0:2::1").is_some());
        drop((again, _mapped, _other, _near));
        assert!(addresses.counts().is_empty());
    }
}
