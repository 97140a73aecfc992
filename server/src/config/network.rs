//! Networks, by address and length.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

use super::value::{Raw, Value, list, quoted};

/// A network such as `10.0.0.0/8` or `fd12::/16`, or one address.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Network {
    /// Its first address; one of version 4 as `::ffff:a.b.c.d`, so that both are one space.
    first: u128,
    /// How many bits its addresses share.
    bits: u32,
}

const BITS: u32 = 128;
/// The bits before an address of version 4.
const BITS_BEFORE_V4: u32 = 96;

impl Network {
    /// Whether an address is in it.
    pub fn contains(self, address: IpAddr) -> bool {
        mapped(address) & mask(self.bits) == self.first
    }
}

fn mapped(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

fn mask(bits: u32) -> u128 {
    u128::MAX.checked_shl(BITS - bits).unwrap_or(0)
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Network, String> {
        let wrong = || {
            let text = quoted(&Raw::from(text));
            format!("{text} is not a network; write it as 10.0.0.0/8, fd12::/16 or 10.1.2.3")
        };
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let before = if address.is_ipv4() { BITS_BEFORE_V4 } else { 0 };
        let plain = |bits: &str| bits.bytes().all(|byte| byte.is_ascii_digit());
        let bits = match bits {
            Some(bits) if plain(bits) => before + bits.parse::<u8>().map_or(BITS, u32::from),
            Some(_) => return Err(wrong()),
            None => BITS,
        };
        if bits > BITS || text.ends_with('/') {
            return Err(wrong());
        }
        let network = Network { first: mapped(address) & mask(bits), bits };
        if network.first != mapped(address) {
            // Whoever writes 10.0.0.1/8 may mean that host or all of them.
            return Err(format!("`{text}` is within `{network}`; give that, or one address"));
        }
        Ok(network)
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let first = Ipv6Addr::from_bits(self.first);
        match first.to_ipv4_mapped() {
            Some(first) if self.bits >= BITS_BEFORE_V4 => {
                write!(f, "{first}/{}", self.bits - BITS_BEFORE_V4)
            }
            _ => write!(f, "{first}/{}", self.bits),
        }
    }
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Value for Vec<Network> {
    fn read(raw: &Raw) -> Result<Vec<Network>, String> {
        let networks = list(raw).ok_or_else(|| {
            format!("{} is no list of networks, such as [\"10.0.0.0/8\"]", quoted(raw))
        })?;
        networks.iter().map(|network| network.parse()).collect()
    }

    fn show(&self) -> Raw {
        Raw::Array(self.iter().map(|network| Raw::from(network.to_string())).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_has_what_is_in_it_and_nothing_else() {
        for (network, inside, outside) in [
            ("10.0.0.0/8", "10.255.255.255", "11.0.0.0"),
            ("10.0.0.0/8", "::ffff:10.1.2.3", "::10.1.2.3"),
            ("10.1.2.3", "10.1.2.3", "10.1.2.4"),
            ("0.0.0.0/0", "255.255.255.255", "::1"),
            ("::/0", "1.2.3.4", "none"),
            ("fc00::/7", "fdff::1", "fe00::"),
            ("::1", "::1", "::2"),
            ("192.168.4.0/22", "192.168.7.255", "192.168.8.0"),
        ] {
            let parsed: Network = network.parse().unwrap();
            assert!(parsed.contains(inside.parse().unwrap()), "{network} {inside}");
            let is_in = |address: &str| address.parse().is_ok_and(|a: IpAddr| parsed.contains(a));
            assert!(!is_in(outside), "{network} {outside}");
            assert_eq!(parsed.to_string().parse(), Ok(parsed), "{network}");
        }
    }

    #[test]
    fn what_is_no_network_says_so() {
        for wrong in ["", "/8", "10.0.0.0/", "10.0.0.0/33", "::/129", "10/8", "10.0.0.0/+8", "a/8"]
        {
            let why = wrong.parse::<Network>().unwrap_err();
            assert!(why.contains("is not a network; write it as"), "{wrong}: {why}");
        }
        let why = "10.0.0.1/8".parse::<Network>().unwrap_err();
        assert_eq!(why, "`10.0.0.1/8` is within `10.0.0.0/8`; give that, or one address");
    }
}
