//! This machine: its clock, its limits, its ports, its certificates.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::time::{SystemTime, UNIX_EPOCH};

use hyper::Method;
use linger::time::Time;
use rustix::process::{Resource, getrlimit};

use super::Findings;
use crate::cli::client::{Patience, Refused, Remote};
use crate::cli::sentence;
use crate::config::Config;
use crate::tls::Tls;

/// A moment that has passed for sure: 1 November 2026.
const PAST_MS: u128 = 1_793_491_200_000;
/// A moment that no machine of today shows: 2100.
const FUTURE_MS: u128 = 4_102_444_800_000;
/// What a server has open besides connections: segments of the log, files of the archive, what it calls.
const OTHER_FILES: u64 = 1000;

/// Whether the wall clock can be right.
pub(super) fn clock(findings: &mut Findings) {
    let about = "clock";
    let ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
    let shown = u64::try_from(ms).ok().and_then(Time::from_ms).map(|time| time.to_string());
    let says = format!("it is {}", shown.unwrap_or_else(|| "no time at all".into()));
    if (PAST_MS..FUTURE_MS).contains(&ms) {
        findings.well(about, says);
    } else {
        let remedy =
            "set it, and have it kept right (chrony, systemd-timesyncd): jobs are due by it";
        findings.problem(about, says + ", which cannot be", remedy);
    }
}

/// Whether as many files may be open as there may be connections.
pub(super) fn files(config: &Config, findings: &mut Findings) {
    let about = "open files";
    let ports = 1 + u64::from(config.beanstalkd.is_some());
    let needed = config.limits.connections as u64 * ports + OTHER_FILES;
    let limit = getrlimit(Resource::Nofile);
    match limit.current {
        Some(most) if most < needed => {
            let says = format!(
                "at most {most}, and `limits.connections` = {} may need {needed}",
                config.limits.connections
            );
            let remedy = format!(
                "raise the limit (`ulimit -n {needed}`, LimitNOFILE={needed} in a systemd unit), or \
                 lower `limits.connections`"
            );
            findings.warning(about, says, remedy);
        }
        Some(most) => findings.well(about, format!("at most {most}")),
        None => findings.well(about, "without limit"),
    }
}

/// Whether it can listen where it is told to, or a server does.
pub(super) fn ports(config: &Config, findings: &mut Findings) {
    let remedy = "that is right if a Linger runs there; else give another port, or stop what has \
                  this one";
    if let Some(why) = cannot_listen(config.listen, findings, "port") {
        match config.tls.cert {
            None => running(config.listen, &why, findings),
            // By which name its certificate is, and who trusts that, is not known here.
            Some(_) => findings.warning("port", why, remedy),
        }
    }
    if let Some(address) = config.beanstalkd
        && let Some(why) = cannot_listen(address, findings, "beanstalkd port")
    {
        findings.warning("beanstalkd port", why, remedy);
    }
}

/// Whether ports can be served by TLS, if they are to be.
pub(super) fn certificates(config: &Config, findings: &mut Findings) {
    let (about, key) = ("TLS", config.tls.key.as_deref());
    let is_open = |key: &std::path::Path| {
        key.metadata().is_ok_and(|file| file.permissions().mode() & 0o004 != 0)
    };
    match (Tls::open(&config.tls), key) {
        (Err(why), _) => {
            let remedy = "put the files right; the user that the server runs as must be able to read \
                          them";
            findings.problem(about, sentence(&why), remedy);
        }
        (Ok(Some(_)), Some(key)) if is_open(key) => {
            let says = format!("everybody on this machine can read the key in `{}`", key.display());
            findings.warning(about, says, "take that from them: chmod o-r");
        }
        (Ok(Some(_)), _) => findings.well(about, "the certificate can be used, with its key"),
        (Ok(None), _) => {}
    }
}

/// Says why, if it is that somebody else listens there.
fn cannot_listen(
    address: SocketAddr,
    findings: &mut Findings,
    about: &'static str,
) -> Option<String> {
    match TcpListener::bind(address) {
        Ok(_) => findings.well(about, format!("{address} is free")),
        Err(cause) if cause.kind() == ErrorKind::AddrInUse => {
            return Some(format!("{address} is in use"));
        }
        Err(cause) => {
            let says = format!("cannot listen on {address}: {cause}");
            let remedy = match cause.kind() {
                ErrorKind::PermissionDenied => {
                    "give a port from 1024 on, or CAP_NET_BIND_SERVICE to the user"
                }
                _ => "give an address that this machine has",
            };
            findings.problem(about, says, remedy);
        }
    }
    None
}

/// How the server is that runs there, if it is one.
fn running(address: SocketAddr, why: &str, findings: &mut Findings) {
    let mut address = address;
    if address.ip().is_unspecified() {
        address.set_ip(std::net::Ipv4Addr::LOCALHOST.into());
    }
    let about = "server";
    let asked = Remote::to(&format!("http://{address}"))
        .and_then(|client| client.call(Method::GET, "/readyz", None, Patience::Probe));
    match asked {
        Ok(_) => findings.well(about, format!("one runs on {address} and is ready")),
        Err(refused) if refused.downcast_ref::<Refused>().is_some() => {
            let says = format!("one runs on {address} and is not ready: {}", sentence(&refused));
            findings.problem(about, says, "wait if it loads; else look at its log");
        }
        Err(_) => {
            let remedy = "stop what has this port, or set `listen` to another";
            findings.problem("port", format!("{why}, and by no Linger"), remedy);
        }
    }
}
