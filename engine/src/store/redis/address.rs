//! Where a shared store is, as users write it.

use std::fmt;
use std::net::Ipv6Addr;
use std::path::PathBuf;
use std::str::FromStr;

use crate::error::{Error, Result, excerpt};

/// Where a shared store is: one server, the servers that sentinels watch, or a cluster.
///
/// ```
/// use linger::store::redis::Address;
///
/// let address: Address = "redis+sentinel://app:pass@s1,s2,s3/orders/1".parse()?;
/// assert_eq!(address.to_string(), "redis+sentinel://app:***@s1:26379,s2:26379,s3:26379/orders/1");
/// # Ok::<(), linger::error::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    pub(super) kind: Kind,
    pub(super) tls: bool,
    /// The server; the sentinels; or some nodes of the cluster.
    pub(super) nodes: Vec<Node>,
    pub(super) login: Option<Login>,
    /// For the sentinels themselves, which keep passwords of their own.
    pub(super) sentinel_login: Option<Login>,
    pub(super) db: u32,
    /// Who signed the servers' certificates, if not someone this machine trusts anyway.
    pub(super) ca: Option<PathBuf>,
}

#[derive(Clone, PartialEq, Eq)]
pub(super) enum Kind {
    Standalone,
    Sentinel { master: String },
    Cluster,
}

#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Node {
    pub(super) host: String,
    pub(super) port: u16,
}

#[derive(Clone, PartialEq, Eq)]
pub(super) struct Login {
    /// None is Redis's own default user.
    pub(super) user: Option<String>,
    pub(super) password: String,
}

const PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;

/// What stands in for a password wherever an address is shown.
const MASK: &str = "***";

impl Address {
    /// Whether it is that of a cluster.
    pub fn is_cluster(&self) -> bool {
        self.kind == Kind::Cluster
    }
}

impl FromStr for Address {
    type Err = Error;

    fn from_str(text: &str) -> Result<Address> {
        read(text).map_err(|wrong| {
            let shown = excerpt(&masked(text));
            Error::invalid("store", format!("store address `{shown}` {wrong}"))
        })
    }
}

/// What is wrong with an address, to be read after it: "names no host; …". Never holds a password.
type Wrong = String;

fn read(text: &str) -> Result<Address, Wrong> {
    let (scheme, rest) = text.split_once("://").ok_or(
        "has no scheme; write `redis://host:port`, or `rediss`, `redis+sentinel` or \
         `redis+cluster` before the `://`",
    )?;
    let (kind, tls) = read_scheme(scheme)?;
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (login, rest) = match rest.rsplit_once('@') {
        Some((login, rest)) => (Some(read_login(login)?), rest),
        None => (None, rest),
    };
    if rest.contains('#') {
        return Err("has a `#`; in a user or password it is written `%23`".into());
    }
    let (hosts, path) = rest.split_once('/').unwrap_or((rest, ""));
    let port = if kind == Scheme::Sentinel { SENTINEL_PORT } else { PORT };
    let nodes =
        hosts.split(',').map(|host| read_node(host, port)).collect::<Result<Vec<_>, _>>()?;
    if kind == Scheme::Standalone && nodes.len() > 1 {
        return Err(format!(
            "names {} hosts, and `redis://` takes one; for several servers write \
             `redis+sentinel://` or `redis+cluster://`",
            nodes.len()
        ));
    }
    let (kind, db) = read_path(kind, path)?;
    let query = read_query(query)?;
    let sentinel_login = query.sentinel_login()?;
    if sentinel_login.is_some() && !matches!(kind, Kind::Sentinel { .. }) {
        return Err("has a login for sentinels and no sentinels; write `redis+sentinel://` or \
                    leave `sentinel_password` out"
            .into());
    }
    if query.ca.is_some() && !tls {
        return Err("has a `ca` and no TLS; write `rediss` for `redis`, or leave `ca` out".into());
    }
    Ok(Address { kind, tls, nodes, login, sentinel_login, db, ca: query.ca })
}

#[derive(Clone, Copy, PartialEq)]
enum Scheme {
    Standalone,
    Sentinel,
    Cluster,
}

fn read_scheme(scheme: &str) -> Result<(Scheme, bool), Wrong> {
    let (wire, kind) = scheme.split_once('+').unwrap_or((scheme, ""));
    let tls = match wire {
        "redis" => Some(false),
        "rediss" => Some(true),
        _ => None,
    };
    let kind = match (kind, scheme.contains('+')) {
        ("", false) => Some(Scheme::Standalone),
        ("sentinel", _) => Some(Scheme::Sentinel),
        ("cluster", _) => Some(Scheme::Cluster),
        _ => None,
    };
    kind.zip(tls).ok_or_else(|| {
        "has an unknown scheme; known are `redis`, `redis+sentinel`, `redis+cluster`, and with \
         TLS `rediss`, `rediss+sentinel`, `rediss+cluster`"
            .into()
    })
}

fn read_login(text: &str) -> Result<Login, Wrong> {
    let (user, password) = text.split_once(':').unwrap_or((text, ""));
    if user.is_empty() && password.is_empty() {
        return Err("has an `@` with no user or password before it; write `user:password@`, or \
                    leave the `@` out"
            .into());
    }
    let user = decoded(user, "user")?;
    let password = decoded(password, "password")?;
    Ok(Login { user: (!user.is_empty()).then_some(user), password })
}

pub(super) fn read_node(text: &str, default_port: u16) -> Result<Node, Wrong> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']').ok_or("has a `[` without its `]`")?;
            if host.parse::<Ipv6Addr>().is_err() {
                return Err("has something in `[…]` that is no IPv6 address".into());
            }
            let port = match port.strip_prefix(':') {
                None if !port.is_empty() => return Err("has more than `:port` after `]`".into()),
                port => port,
            };
            (host, port)
        }
        None => match text.split_once(':') {
            Some((_, port)) if port.contains(':') => {
                return Err(
                    "has a host with several `:`; an IPv6 address is written `[::1]`".into()
                );
            }
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    if host.is_empty() {
        return Err("names no host, or an empty one between its commas; write `host:port`".into());
    }
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"._-:".contains(&b);
    if !host.bytes().all(plain) {
        return Err(
            "has a host with other characters than letters, digits, `.`, `-` and `_`".into()
        );
    }
    let port = match port {
        Some(port) => read_port(port)?,
        None => default_port,
    };
    Ok(Node { host: host.to_owned(), port })
}

fn read_port(text: &str) -> Result<u16, Wrong> {
    // Not `parse` alone, which takes `+6379` too.
    let digits = text.bytes().all(|b| b.is_ascii_digit());
    match text.parse() {
        Ok(port) if digits && port > 0 => Ok(port),
        _ => Err("has a port that is no number from 1 to 65535".into()),
    }
}

fn read_path(scheme: Scheme, path: &str) -> Result<(Kind, u32), Wrong> {
    match scheme {
        Scheme::Standalone => Ok((Kind::Standalone, read_db(path)?)),
        Scheme::Sentinel => {
            let (master, db) = path.split_once('/').unwrap_or((path, ""));
            let master = decoded(master, "master's name")?;
            if master.is_empty() {
                return Err("does not say which master the sentinels watch; write its name after \
                            the hosts, as `/mymaster`"
                    .into());
            }
            if master.chars().any(|c| c.is_control() || c.is_whitespace()) {
                return Err("has blanks or control characters in the master's name".into());
            }
            Ok((Kind::Sentinel { master }, read_db(db)?))
        }
        Scheme::Cluster => match read_db(path)? {
            0 => Ok((Kind::Cluster, 0)),
            db => Err(format!("asks for database {db}, and a cluster has only 0; leave it out")),
        },
    }
}

fn read_db(text: &str) -> Result<u32, Wrong> {
    let digits = text.bytes().all(|b| b.is_ascii_digit());
    match text.parse() {
        _ if text.is_empty() => Ok(0),
        Ok(db) if digits => Ok(db),
        _ => Err("has a database that is no number; write it last, as `/0`".into()),
    }
}

#[derive(Default)]
struct Query {
    ca: Option<PathBuf>,
    sentinel_user: Option<String>,
    sentinel_password: Option<String>,
}

fn read_query(text: &str) -> Result<Query, Wrong> {
    let mut query = Query::default();
    for pair in text.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let value = decoded(value, "value of a parameter")?;
        let known = match name {
            "ca" => query.ca.replace(value.clone().into()).map(drop),
            "sentinel_user" => query.sentinel_user.replace(value.clone()).map(drop),
            "sentinel_password" => query.sentinel_password.replace(value.clone()).map(drop),
            _ => {
                return Err("has an unknown parameter; known are `ca`, `sentinel_user` and \
                            `sentinel_password`"
                    .into());
            }
        };
        if known.is_some() {
            return Err(format!("has `{name}` twice"));
        }
        // Someone's empty variable, most likely: better said than taken for no password.
        if value.is_empty() {
            return Err(format!("has an empty `{name}`; give it a value or leave it out"));
        }
    }
    Ok(query)
}

impl Query {
    fn sentinel_login(&self) -> Result<Option<Login>, Wrong> {
        match (&self.sentinel_user, &self.sentinel_password) {
            (Some(_), None) => Err("has a `sentinel_user` without a `sentinel_password`".into()),
            (user, Some(password)) => {
                Ok(Some(Login { user: user.clone(), password: password.clone() }))
            }
            (None, None) => Ok(None),
        }
    }
}

/// `%40` is `@`.
fn decoded(text: &str, what: &str) -> Result<String, Wrong> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        if first == b'%' {
            let hex = after.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
            let byte = hex
                .filter(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()))
                .and_then(|hex| u8::from_str_radix(hex, 16).ok())
                .ok_or(format!("has a `%` in its {what} without two hex digits; write `%25`"))?;
            bytes.push(byte);
            rest = &after[2..];
        } else {
            bytes.push(first);
            rest = after;
        }
    }
    String::from_utf8(bytes).map_err(|_| format!("has a {what} that is no UTF-8 when decoded"))
}

/// What may be shown of a text that someone meant as an address. It may be wrong in any way, so
/// whatever could belong to a password is left out.
fn masked(text: &str) -> String {
    let (scheme, rest) = match text.split_once("://") {
        Some((scheme, rest)) => (format!("{scheme}://"), rest),
        None => (String::new(), text),
    };
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    if scheme.contains('@') || query.contains('@') {
        return MASK.into();
    }
    let place = match place.rsplit_once('@') {
        Some((_, place)) => format!("{MASK}@{place}"),
        None => place.to_owned(),
    };
    let parameter = if query.is_empty() { String::new() } else { format!("?{MASK}") };
    format!("{scheme}{place}{parameter}")
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            Kind::Standalone => "",
            Kind::Sentinel { .. } => "+sentinel",
            Kind::Cluster => "+cluster",
        };
        write!(f, "redis{}{kind}://", if self.tls { "s" } else { "" })?;
        if let Some(login) = &self.login {
            write!(f, "{}:{MASK}@", login.user.as_deref().unwrap_or(""))?;
        }
        for (at, node) in self.nodes.iter().enumerate() {
            write!(f, "{}{node}", if at > 0 { "," } else { "" })?;
        }
        if let Kind::Sentinel { master } = &self.kind {
            write!(f, "/{master}")?;
        }
        if self.db > 0 {
            write!(f, "/{}", self.db)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({self})")
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests;
