//! Calls to a server: where it is, by which key, and how its answers are shown.

use std::fmt;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, StatusCode, Uri};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{self, Client as Http};
use hyper_util::rt::TokioExecutor;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use tokio::runtime::Runtime;

use super::json::{Object, indented};
use super::text::plain;
use super::{Reader, output};
use crate::tls;

const SERVER_DEFAULT: &str = "http://127.0.0.1:7300";
/// How long a connection may take to come about.
const CONNECT_TIME: Duration = Duration::from_secs(10);
/// How long an answer may take where nobody asked the server to wait.
const ANSWER_TIME: Duration = Duration::from_secs(60);
/// How long where somebody looks whether anyone is there.
const PROBE_ANSWER_TIME: Duration = Duration::from_secs(5);
/// How often a connection that is silent for long is probed, so that a dead server is noticed.
const PROBE_TIME: Duration = Duration::from_secs(30);
/// The most that is read of an answer: twice what a server can be set to give.
const ANSWER_BYTES_MAX: usize = 2 << 30;

/// The most that is read of a refusal.
const REFUSAL_BYTES_MAX: usize = 1 << 20;

/// What every verb that calls a server takes.
#[derive(clap::Args, Default)]
pub(super) struct Remote {
    /// Where the server is [env: LINGER_SERVER] [default: http://127.0.0.1:7300]
    // By argument: a heading for all would reach the arguments of the verb behind these.
    #[arg(long, value_name = "URL", help_heading = "Server")]
    server: Option<String>,
    /// The API key [env: LINGER_KEY]
    #[arg(long, value_name = "KEY", help_heading = "Server")]
    key: Option<String>,
    /// Trust the authorities in this file of PEM, too [env: LINGER_CA]
    #[arg(long, value_name = "FILE", help_heading = "Server")]
    ca: Option<PathBuf>,
    /// A certificate to show if the server asks for one, in PEM [env: LINGER_CLIENT_CERT]
    #[arg(long, value_name = "FILE", help_heading = "Server")]
    client_cert: Option<PathBuf>,
    /// The key of that certificate [env: LINGER_CLIENT_KEY]
    #[arg(long, value_name = "FILE", help_heading = "Server")]
    client_key: Option<PathBuf>,
    /// Print the server's JSON as it is
    #[arg(long)]
    pub(super) json: bool,
}

impl Remote {
    /// A client for the server at a URL, without a key but for LINGER_KEY.
    pub(super) fn to(url: &str) -> Result<Client> {
        Remote { server: Some(url.to_owned()), ..Remote::default() }.client()
    }

    /// A client for this server. Nothing is sent yet.
    pub(super) fn client(&self) -> Result<Client> {
        let server = given(&self.server, "LINGER_SERVER")?;
        let base = base(server.as_deref().unwrap_or(SERVER_DEFAULT))?;
        let key = given(&self.key, "LINGER_KEY")?.map(|key| bearer(&key)).transpose()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(CONNECT_TIME));
        connector.set_keepalive(Some(PROBE_TIME));
        connector.set_nodelay(true);
        connector.enforce_http(false);
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(self.tls(&base)?)
            .https_or_http()
            .enable_http1()
            .wrap_connector(connector);
        let http = Http::builder(TokioExecutor::new()).build(connector);
        let form = match (self.json, std::io::stdout().is_terminal()) {
            (false, _) => Form::Text,
            (true, false) => Form::Json,
            (true, true) => Form::IndentedJson,
        };
        Ok(Client { base, key, form, runtime, http })
    }
}

impl Remote {
    /// Whom to trust, and who one is.
    fn tls(&self, base: &str) -> Result<rustls::ClientConfig> {
        let ca = given_file(&self.ca, "LINGER_CA");
        let cert = given_file(&self.client_cert, "LINGER_CLIENT_CERT");
        let key = given_file(&self.client_key, "LINGER_CLIENT_KEY");
        let own = match (&cert, &key) {
            (Some(cert), Some(key)) => Some(tls::Own { cert, key }),
            (None, None) => None,
            (Some(_), None) => bail!("give the key of the certificate too, with --client-key"),
            (None, Some(_)) => bail!("give the certificate of the key too, with --client-cert"),
        };
        if !base.starts_with("https:") {
            // Nobody will ask; reading what the system trusts takes its time.
            return tls::trusting_nobody();
        }
        tls::client(ca.as_deref(), own)
    }
}

/// A flag, or else the variable; an empty variable is not set.
fn given_file(flag: &Option<PathBuf>, variable: &str) -> Option<PathBuf> {
    let of_env = || std::env::var_os(variable).filter(|value| !value.is_empty());
    flag.clone().or_else(|| of_env().map(PathBuf::from))
}

/// A flag, or else the variable; an empty variable is not set.
fn given(flag: &Option<String>, variable: &str) -> Result<Option<String>> {
    if flag.is_some() {
        return Ok(flag.clone());
    }
    let Some(value) = std::env::var_os(variable).filter(|value| !value.is_empty()) else {
        return Ok(None);
    };
    let value = value.into_string().ok().with_context(|| format!("{variable} is not UTF-8"))?;
    Ok(Some(value))
}

/// The server's URL without anything behind its port.
fn base(url: &str) -> Result<String> {
    let lower = url.to_ascii_lowercase();
    let schemes = ["http://", "https://"];
    let split = schemes.iter().find_map(|scheme| Some((*scheme, lower.strip_prefix(scheme)?)));
    let Some((scheme, rest)) = split else {
        let like = if authority(&lower).is_some() { &lower } else { "127.0.0.1:7300" };
        bail!("the server `{url}` is not a URL; give one such as http://{like}");
    };
    let name = rest.strip_suffix('/').unwrap_or(rest);
    match authority(name) {
        Some(name) => Ok(format!("{scheme}{name}")),
        None => bail!(
            "the server `{url}` is not {scheme}, a host and maybe a port; give a URL such as {SERVER_DEFAULT}"
        ),
    }
}

/// A host and maybe a port, if that is what it is.
fn authority(text: &str) -> Option<&str> {
    // A key or a path in the URL would be dropped without a word.
    if text.contains(['@', '/', '?', '#', '\\']) {
        return None;
    }
    let authority: hyper::http::uri::Authority = text.parse().ok()?;
    let port = text.strip_prefix(authority.host())?;
    let is_right = !authority.host().is_empty() && (port.is_empty() || authority.port().is_some());
    is_right.then_some(text)
}

fn bearer(key: &str) -> Result<HeaderValue> {
    let is_right = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_graphic());
    if !is_right {
        bail!("the key is empty or has characters other than ASCII letters, digits and signs");
    }
    let mut value = HeaderValue::from_str(&format!("Bearer {key}"))?;
    value.set_sensitive(true);
    Ok(value)
}

/// Someone who calls a server.
pub(super) struct Client {
    base: String,
    key: Option<HeaderValue>,
    form: Form,
    runtime: Runtime,
    http: Http<HttpsConnector<HttpConnector>, Full<Bytes>>,
}

/// How answers are printed.
#[derive(Clone, Copy)]
enum Form {
    Text,
    Json,
    IndentedJson,
}

/// How long an answer is waited for.
#[derive(Clone, Copy)]
pub(super) enum Patience {
    /// As long as an answer may take.
    Usual,
    /// Shorter: whoever is well answers at once.
    Probe,
    /// Until the server answers: it was asked to wait, and knows how long.
    Server,
}

impl Client {
    /// The server's URL.
    pub(super) fn base(&self) -> &str {
        &self.base
    }

    /// Whether what is printed is to be JSON.
    pub(super) fn prints_json(&self) -> bool {
        !matches!(self.form, Form::Text)
    }

    /// Asks for what is at a path.
    pub(super) fn get(&self, path: &str) -> Result<Answer> {
        self.call(Method::GET, path, None, Patience::Usual)
    }

    /// Has something done.
    pub(super) fn post(&self, path: &str, fields: &Object) -> Result<Answer> {
        self.call(Method::POST, path, Some(fields), Patience::Usual)
    }

    /// Calls, and answers what is no refusal.
    pub(super) fn call(
        &self,
        method: Method,
        path: &str,
        fields: Option<&Object>,
        patience: Patience,
    ) -> Result<Answer> {
        self.runtime.block_on(self.ask(method, path, fields, patience))
    }

    /// The same, on the runtime of the caller.
    pub(super) async fn ask(
        &self,
        method: Method,
        path: &str,
        fields: Option<&Object>,
        patience: Patience,
    ) -> Result<Answer> {
        let exchange = self.exchange(self.request(method, path, fields)?);
        let time = match patience {
            Patience::Server => None,
            Patience::Usual => Some(ANSWER_TIME),
            Patience::Probe => Some(PROBE_ANSWER_TIME),
        };
        let (status, bytes) = match time {
            None => exchange.await?,
            Some(time) => match tokio::time::timeout(time, exchange).await {
                Ok(answered) => answered?,
                Err(_) => bail!(
                    "{} did not answer within {}; whether it did what was asked is unknown",
                    self.base,
                    linger::time::format_duration(time)
                ),
            },
        };
        let is_json = serde_json::from_slice::<IgnoredAny>(&bytes).is_ok();
        match String::from_utf8(bytes.into()) {
            Ok(text) if is_json && status.is_success() => Ok(Answer { text, form: self.form }),
            Ok(text) => Err(match serde_json::from_str::<Failed>(&text) {
                Ok(failed) => failed.error.into(),
                Err(_) => self.stranger(status),
            }),
            Err(_) => Err(self.stranger(status)),
        }
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        fields: Option<&Object>,
    ) -> Result<Request<Full<Bytes>>> {
        let uri: Uri = format!("{}{path}", self.base).parse().context("cannot ask for this")?;
        let body = fields.map(serde_json::to_vec).transpose()?.unwrap_or_default();
        let mut request = Request::new(Full::from(body));
        *request.method_mut() = method;
        *request.uri_mut() = uri;
        if fields.is_some() {
            let json = HeaderValue::from_static("application/json");
            request.headers_mut().insert(CONTENT_TYPE, json);
        }
        if let Some(key) = &self.key {
            request.headers_mut().insert(AUTHORIZATION, key.clone());
        }
        Ok(request)
    }

    /// Gives what is at a path to `take`, piece by piece.
    pub(super) fn download(
        &self,
        path: &str,
        mut take: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let request = self.request(Method::GET, path, None)?;
        self.runtime.block_on(async {
            let answer = match self.http.request(request).await {
                Ok(answer) => answer,
                Err(cause) if cause.is_connect() => return Err(self.nobody(&cause)),
                Err(cause) => return Err(cause).with_context(|| self.broke_off()),
            };
            let (head, mut body) = answer.into_parts();
            if !head.status.is_success() {
                let text = Limited::new(body, REFUSAL_BYTES_MAX).collect().await;
                let text = text.map(|text| text.to_bytes()).unwrap_or_default();
                return Err(match serde_json::from_slice::<Failed>(&text) {
                    Ok(failed) => failed.error.into(),
                    Err(_) => self.stranger(head.status),
                });
            }
            while let Some(frame) = body.frame().await {
                let frame = frame.with_context(|| self.broke_off())?;
                if let Some(data) = frame.data_ref() {
                    take(data)?;
                }
            }
            Ok(())
        })
    }

    fn broke_off(&self) -> String {
        format!("{} broke off in the midst of its answer", self.base)
    }

    async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<(StatusCode, Bytes)> {
        let broken =
            || format!("{} broke off; whether it did what was asked is unknown", self.base);
        let answer = match self.http.request(request).await {
            Ok(answer) => answer,
            Err(cause) => match untrusted(&cause) {
                Some(why) => return Err(self.stranger_by_tls(why)),
                None if cause.is_connect() => return Err(self.nobody(&cause)),
                None => return Err(cause).with_context(broken),
            },
        };
        let (head, body) = answer.into_parts();
        let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|cause| anyhow!(cause)).with_context(broken)?;
        Ok((head.status, body.to_bytes()))
    }

    fn nobody(&self, cause: &legacy::Error) -> anyhow::Error {
        let mut cause: &dyn std::error::Error = cause;
        while let Some(deeper) = cause.source() {
            cause = deeper;
        }
        anyhow!(
            "no server answers at {} ({cause}); start one with `linger serve`, or name another \
             with --server or LINGER_SERVER",
            self.base
        )
    }

    fn stranger_by_tls(&self, why: &rustls::Error) -> anyhow::Error {
        let remedy = match why {
            rustls::Error::InvalidCertificate(_) => {
                "; name a file with the authority that signed its certificate with --ca or LINGER_CA"
            }
            rustls::Error::AlertReceived(_) => {
                "; if it wants to see a certificate, name yours with --client-cert and --client-key"
            }
            _ => "",
        };
        anyhow!("could not make a secure connection to {}: {why}{remedy}", self.base)
    }

    fn stranger(&self, status: StatusCode) -> anyhow::Error {
        anyhow!(
            "{} answered {status}, and not as Linger does; give the URL of a Linger server",
            self.base
        )
    }
}

/// What TLS has against it, if that is what is wrong.
fn untrusted<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a rustls::Error> {
    let mut cause = error;
    loop {
        if let Some(why) = cause.downcast_ref::<rustls::Error>() {
            return Some(why);
        }
        // An error of I/O does not name what it wraps as its source.
        let wrapped = cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        cause = match wrapped {
            Some(wrapped) => wrapped,
            None => cause.source()?,
        };
    }
}

/// What a server answered.
pub(super) struct Answer {
    text: String,
    form: Form,
}

impl Answer {
    /// The answer, in the shape that it should have.
    pub(super) fn read<T: DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_str(&self.text).context("the server's answer is not as expected")
    }

    /// Prints the answer as it was asked for: as JSON, or in the words of `human`.
    pub(super) fn print(&self, human: impl FnOnce() -> String) -> Result<Reader> {
        match self.form {
            Form::Text => output(human()),
            Form::Json => output(format!("{}\n", self.text)),
            Form::IndentedJson => output(format!("{}\n", indented(&self.text))),
        }
    }
}

/// An answer that is a refusal.
#[derive(Deserialize)]
struct Failed {
    error: Refused,
}

/// Why a server refused.
#[derive(Debug, Deserialize)]
pub(super) struct Refused {
    code: String,
    message: String,
}

impl Refused {
    /// Whether what was asked for is not there.
    pub(super) fn is_not_found(&self) -> bool {
        self.code == "not_found"
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", plain(&self.message), plain(&self.code))
    }
}

impl std::error::Error for Refused {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_a_host_and_maybe_a_port() {
        for (url, right) in [
            ("http://127.0.0.1:7300", "http://127.0.0.1:7300"),
            ("http://Queue.example/", "http://queue.example"),
            ("HTTP://[::1]:7300", "http://[::1]:7300"),
            ("https://Queue.example:1/", "https://queue.example:1"),
        ] {
            assert_eq!(base(url).unwrap(), right);
        }
    }

    #[test]
    fn a_wrong_url_is_told_with_what_would_be_right() {
        for (url, told) in [
            ("localhost:7300", "give one such as http://localhost:7300"),
            ("", "give one such as http://127.0.0.1:7300"),
            ("ftp://x", "give one such as http://127.0.0.1:7300"),
            ("https://", "is not https://, a host and maybe a port"),
            ("https://x/v1", "is not https://, a host and maybe a port"),
            ("http://", "give a URL such as http://127.0.0.1:7300"),
            ("http://:7300", "give a URL such as"),
            ("http://x:99999", "give a URL such as"),
            ("http://x:", "give a URL such as"),
            ("http://key@x", "give a URL such as"),
            ("http://x/v1", "give a URL such as"),
            ("http://x?a", "give a URL such as"),
            ("http://x y", "give a URL such as"),
        ] {
            let refusal = base(url).expect_err(url).to_string();
            assert!(refusal.contains(told), "{url}: {refusal}");
        }
    }

    #[test]
    fn a_key_must_fit_into_a_header() {
        assert_eq!(bearer("lk_a.b-1=").unwrap(), "Bearer lk_a.b-1=");
        for bad in ["", "a b", "a\nb", "é"] {
            assert!(bearer(bad).is_err(), "{bad}");
        }
    }
}
