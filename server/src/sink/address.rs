//! Which addresses may be called: strangers may name URLs, and must not reach what only this
//! machine can.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use url::{Host, Url};

use crate::config::{Network, Networks};

/// Says which addresses may be dialled.
#[derive(Clone, Debug)]
pub(crate) struct Guard {
    networks: Networks,
    allow: Vec<Network>,
}

/// Why a call is not even tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused(String);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refused {}

impl Guard {
    pub(crate) fn new(networks: Networks, allow: Vec<Network>) -> Guard {
        Guard { networks, allow }
    }

    /// The URL that a target is, if it may be called by its looks: names are looked up when they
    /// are dialled.
    pub(crate) fn url(&self, text: &str, schemes: &[&str]) -> Result<Url, Refused> {
        let mut url =
            Url::parse(text).map_err(|why| Refused(format!("the target is no URL: {why}")))?;
        if !schemes.contains(&url.scheme()) {
            return Err(Refused(format!("the target is no {} URL", schemes.join(" or "))));
        }
        // They would stand in every list of jobs, and in the log of whoever is called.
        if !url.username().is_empty() || url.password().is_some() {
            let why = "the target has a user name or password; leave it out, and sign instead";
            return Err(Refused(why.into()));
        }
        match url.host() {
            Some(Host::Ipv4(address)) => self.check(address.into())?,
            Some(Host::Ipv6(address)) => self.check(address.into())?,
            // Of schemes that it does not know the parser takes any host as a name.
            Some(Host::Domain(name)) => {
                if let Ok(address) = name.parse() {
                    self.check(IpAddr::V4(address))?;
                }
            }
            None => return Err(Refused("the target names no host".into())),
        }
        url.set_fragment(None);
        Ok(url)
    }

    /// Refuses an address that may not be dialled.
    pub(crate) fn check(&self, address: IpAddr) -> Result<(), Refused> {
        // An address that only wraps one of version 4 is that one.
        let judged = inside(address).map_or(address, IpAddr::V4);
        if let Some(what) = found(&NEVER, judged).or_else(|| found(&NEVER, address)) {
            return Err(Refused(format!("{address} is {what}, which is never called")));
        }
        if self.networks == Networks::Any || self.allows(address) || self.allows(judged) {
            return Ok(());
        }
        match local(judged) {
            Some(what) => Err(Refused(format!(
                "{address} is {what}, and webhooks.networks is \"public\"; \
                 webhooks.allow can let it in"
            ))),
            None => Ok(()),
        }
    }

    fn allows(&self, address: IpAddr) -> bool {
        self.allow.iter().any(|network| network.contains(address))
    }
}

/// Networks, and what an address in one of them is.
type Table = LazyLock<Vec<(Network, &'static str)>>;

fn table(rows: &[(&'static str, &'static str)]) -> Vec<(Network, &'static str)> {
    let rows = rows.iter();
    rows.map(|(text, what)| (text.parse().expect("a table holds networks"), *what)).collect()
}

fn found(table: &Table, address: IpAddr) -> Option<&'static str> {
    table.iter().find(|(network, _)| network.contains(address)).map(|(_, what)| *what)
}

/// What nobody has a reason to call.
static NEVER: Table = LazyLock::new(|| {
    table(&[
        ("0.0.0.0/8", "an unspecified address"),
        ("169.254.0.0/16", "a link-local address"),
        ("224.0.0.0/4", "a multicast address"),
        ("255.255.255.255", "the broadcast address"),
        // Where clouds tell a machine its secrets, besides 169.254.169.254.
        ("100.100.100.200", "a metadata address"),
        ("168.63.129.16", "a metadata address"),
        ("192.0.0.192", "a metadata address"),
        ("fd00:ec2::/32", "a metadata address"),
        ("fd20:ce::254", "a metadata address"),
        // Where these lead is known to their network alone.
        ("64:ff9b:1::/48", "an address of a local translator"),
        ("2001::/32", "a Teredo address"),
        ("::", "the unspecified address"),
        ("fe80::/10", "a link-local address"),
        ("ff00::/8", "a multicast address"),
    ])
});

/// What is not on the public internet.
static LOCAL: Table = LazyLock::new(|| {
    table(&[
        ("127.0.0.0/8", "a loopback address"),
        ("10.0.0.0/8", "a private address"),
        ("172.16.0.0/12", "a private address"),
        ("192.168.0.0/16", "a private address"),
        ("100.64.0.0/10", "an address behind a carrier's NAT"),
        ("192.0.0.0/24", "an address for protocols"),
        ("192.0.2.0/24", "an address for documentation"),
        ("198.51.100.0/24", "an address for documentation"),
        ("203.0.113.0/24", "an address for documentation"),
        ("192.88.99.0/24", "an address of a relay"),
        ("198.18.0.0/15", "an address for benchmarks"),
        ("240.0.0.0/4", "a reserved address"),
        ("::1", "a loopback address"),
        ("fc00::/7", "a private address"),
        ("fec0::/10", "a site-local address"),
        ("2001::/23", "an address for protocols"),
        ("2001:db8::/32", "an address for documentation"),
        ("3fff::/20", "an address for documentation"),
    ])
});

/// What is known of an address that is not public. Of version 6 only what was given out is.
fn local(address: IpAddr) -> Option<&'static str> {
    static GIVEN_OUT: LazyLock<Network> = LazyLock::new(|| "2000::/3".parse().expect("a network"));
    found(&LOCAL, address).or_else(|| {
        (address.is_ipv6() && !GIVEN_OUT.contains(address)).then_some("a reserved address")
    })
}

/// The address of version 4 that one of version 6 leads to, if it is of that kind.
fn inside(address: IpAddr) -> Option<Ipv4Addr> {
    let IpAddr::V6(address) = address else { return None };
    if address == Ipv6Addr::LOCALHOST || address == Ipv6Addr::UNSPECIFIED {
        return None;
    }
    let at = |end: u32| Some(Ipv4Addr::from_bits((address.to_bits() >> end) as u32));
    match address.segments() {
        // Mapped, compatible, translated, NAT64.
        [0, 0, 0, 0, 0, 0 | 0xffff, ..]
        | [0, 0, 0, 0, 0xffff, 0, ..]
        | [0x64, 0xff9b, 0, 0, 0, 0, ..] => at(0),
        // 6to4.
        [0x2002, ..] => at(80),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WEB: &[&str] = &["http", "https"];

    fn guard(networks: Networks, allow: &[&str]) -> Guard {
        Guard::new(networks, allow.iter().map(|network| network.parse().unwrap()).collect())
    }

    /// Never called, however it is written.
    const NEVER_URLS: &[&str] = &[
        "http://0.0.0.0/",
        "http://0/",
        "http://0.1.2.3/",
        "http://169.254.169.254/latest/meta-data/",
        "http://169.254.1.1/",
        "http://0xA9FEA9FE/",
        "http://2852039166/",
        "http://0251.0376.0251.0376/",
        "http://169.254.43518/",
        "http://169.254.169.254./",
        "http://１６９.254.169.254/",
        "http://169。254。169。254/",
        "http://%31%36%39.254.169.254/",
        "http://224.0.0.1/",
        "http://239.255.255.250/",
        "http://255.255.255.255/",
        "http://100.100.100.200/",
        "http://168.63.129.16/",
        "http://192.0.0.192/",
        "http://[::]/",
        "http://[::2]/",
        "http://[fe80::1]/",
        "http://[febf::1]/",
        "http://[ff02::1]/",
        "http://[fd00:ec2::254]/",
        "http://[fd20:ce::254]/",
        "http://[::ffff:169.254.169.254]/",
        "http://[::ffff:a9fe:a9fe]/",
        "http://[::169.254.169.254]/",
        "http://[::ffff:0:169.254.169.254]/",
        "http://[64:ff9b::169.254.169.254]/",
        "http://[64:ff9b:1::169.254.169.254]/",
        "http://[64:ff9b:1:a9fe:a9:fe00::]/",
        "http://[2002:a9fe:a9fe::1]/",
        "http://[2001:0:a9fe:a9fe::1]/",
        "http://[2001::1]/",
    ];

    /// Called unless only public addresses may be.
    const LOCAL_URLS: &[&str] = &[
        "http://127.0.0.1/",
        "http://127.1/",
        "http://2130706433/",
        "http://0x7f.1/",
        "http://0177.0.0.1/",
        "http://127.255.255.254/",
        "http://10.0.0.1/",
        "http://172.31.255.255/",
        "http://192.168.1.1/",
        "http://100.64.0.1/",
        "http://100.127.255.255/",
        "http://198.18.0.1/",
        "http://198.19.255.255/",
        "http://192.0.0.8/",
        "http://192.0.2.1/",
        "http://198.51.100.1/",
        "http://203.0.113.1/",
        "http://240.0.0.1/",
        "http://255.255.255.254/",
        "http://[::1]/",
        "http://[fc00::1]/",
        "http://[fdff::1]/",
        "http://[fec0::1]/",
        "http://[2001:db8::1]/",
        "http://[3fff::1]/",
        "http://[2001:20::1]/",
        "http://[100::1]/",
        "http://[5f00::1]/",
        "http://[4000::1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://[::ffff:10.0.0.1]/",
        "http://[::127.0.0.1]/",
        "http://[64:ff9b::10.0.0.1]/",
        "http://[2002:a00:1::1]/",
        "http://[2002:7f00:1::]/",
    ];

    /// On the internet.
    const PUBLIC_URLS: &[&str] = &[
        "http://8.8.8.8/",
        "http://172.15.255.255/",
        "http://172.32.0.1/",
        "http://100.63.255.255/",
        "http://100.128.0.1/",
        "http://198.17.255.255/",
        "http://223.255.255.255/",
        "https://[2606:4700::1111]/",
        "https://[64:ff9b::8.8.8.8]/",
        "https://[::ffff:8.8.8.8]/",
        "https://[2002:808:808::1]/",
        "https://shop.example/hooks?a=b",
        "https://localhost/",
    ];

    #[test]
    fn what_is_never_called_is_not_called_even_if_it_is_allowed() {
        for guard in [
            guard(Networks::Any, &[]),
            guard(Networks::Public, &[]),
            guard(Networks::Public, &["0.0.0.0/0", "::/0"]),
        ] {
            for url in NEVER_URLS {
                let refused = guard.url(url, WEB).expect_err(url);
                assert!(refused.0.contains("never called"), "{url}: {refused}");
            }
        }
    }

    #[test]
    fn what_is_not_public_is_called_unless_only_that_may_be() {
        for url in LOCAL_URLS {
            assert!(guard(Networks::Any, &[]).url(url, WEB).is_ok(), "{url}");
            let refused = guard(Networks::Public, &[]).url(url, WEB).expect_err(url);
            assert!(refused.0.contains("webhooks.allow can let it in"), "{url}: {refused}");
            let all = guard(Networks::Public, &["0.0.0.0/0", "::/0"]);
            assert!(all.url(url, WEB).is_ok(), "{url}");
        }
        for url in PUBLIC_URLS {
            for networks in [Networks::Any, Networks::Public] {
                assert!(guard(networks, &[]).url(url, WEB).is_ok(), "{url}");
            }
        }
    }

    #[test]
    fn an_allowed_network_lets_in_what_is_in_it_and_what_leads_there() {
        let guard = guard(Networks::Public, &["10.0.0.0/8", "::1"]);
        for url in ["http://10.9.9.9/", "http://[::ffff:10.0.0.1]/", "http://[::1]/"] {
            assert!(guard.url(url, WEB).is_ok(), "{url}");
        }
        for url in ["http://11.0.0.1/", "http://127.0.0.1/", "http://[::ffff:127.0.0.1]/"] {
            let public = url.contains("11.0");
            assert_eq!(guard.url(url, WEB).is_ok(), public, "{url}");
        }
    }

    #[test]
    fn a_url_that_cannot_be_called_says_why() {
        let guard = guard(Networks::Any, &[]);
        for (url, why) in [
            ("http://user@a/", "user name or password"),
            ("http://user:secret@a/", "user name or password"),
            ("http://:secret@a/", "user name or password"),
            ("http://a:99999/", "no URL: invalid port"),
            ("http://[::1/", "no URL"),
            ("http://1.2.3.4.5/", "no URL: invalid IPv4"),
            ("http://256.0.0.1/", "no URL: invalid IPv4"),
            ("http://[fe80::1%25eth0]/", "no URL: invalid IPv6"),
            ("http://a b/", "no URL"),
            ("file:///etc/passwd", "no http or https URL"),
            ("gopher://a/", "no http or https URL"),
            ("", "no URL"),
        ] {
            let refused = guard.url(url, WEB).expect_err(url);
            assert!(refused.0.contains(why), "{url}: {refused}");
            assert!(!refused.0.contains("secret@") && !refused.0.contains(":secret"), "{refused}");
        }
        assert_eq!(guard.url("http://a/b#c", WEB).unwrap().as_str(), "http://a/b");
    }
}
