//! Whether a request may come from where it says.

use std::borrow::Cow;

use axum::http::header::{HOST, ORIGIN};
use axum::http::{HeaderValue, Request};
use linger::error::{Code, Error, Result};

use super::app::App;
use super::short;
use crate::config::Host;

/// Refuses requests that a web page may have sent by a visitor's browser. Where keys are asked for
/// there is no need: no browser sends one by itself.
pub(super) fn check<B>(app: &App, request: &Request<B>) -> Result<()> {
    if app.auth().asks() {
        return Ok(());
    }
    let headers = request.headers();
    let is_ours = |name: &str| is_loopback(name) || is_allowed(name, &app.config().allowed_hosts);
    let host = match request.uri().host() {
        Some(host) => Some(Cow::Borrowed(host)),
        None => headers.get(HOST).map(host_of),
    };
    if let Some(host) = host.filter(|host| !is_ours(host)) {
        let message = format!(
            "this server is not called `{}`; add the name to allowed_hosts if it is",
            short(&host)
        );
        return Err(Error::new(Code::Forbidden, message));
    }
    let Some(origin) = headers.get(ORIGIN) else { return Ok(()) };
    let name = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
    match name {
        Some((_, authority)) if is_ours(without_port(authority)) => Ok(()),
        _ => {
            let origin = short(&String::from_utf8_lossy(origin.as_bytes()));
            let message = format!(
                "pages of `{origin}` may not call this server; add the name to allowed_hosts if they may"
            );
            Err(Error::new(Code::Forbidden, message))
        }
    }
}

fn host_of(value: &HeaderValue) -> Cow<'_, str> {
    match value.to_str() {
        Ok(text) => without_port(text).into(),
        Err(_) => String::from_utf8_lossy(value.as_bytes()),
    }
}

fn without_port(authority: &str) -> &str {
    if let Some(rest) = authority.strip_prefix('[') {
        return rest.split_once(']').map_or(rest, |(address, _)| address);
    }
    authority.rsplit_once(':').map_or(authority, |(host, _)| host)
}

fn is_loopback(name: &str) -> bool {
    let name = name.trim_end_matches('.');
    name.eq_ignore_ascii_case("localhost")
        || name.rsplit_once('.').is_some_and(|(_, last)| last.eq_ignore_ascii_case("localhost"))
        || name.parse().is_ok_and(|address: std::net::IpAddr| address.is_loopback())
}

fn is_allowed(name: &str, allowed: &[Host]) -> bool {
    allowed.iter().any(|one| one.as_str() == "*" || one.as_str().eq_ignore_ascii_case(name))
}
