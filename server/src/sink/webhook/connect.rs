//! Connections with TLS or without, of HTTP/1.1 or HTTP/2.

use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use anyhow::Context as _;
use axum::BoxError;
use axum::http::Uri;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::rt::TokioIo;
use linger::time::format_duration;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tower::Service;

use super::super::dial::{Dial, NotDialled};

/// Makes connections, each within its time.
#[derive(Clone)]
pub(crate) struct Connector {
    https: HttpsConnector<Dial>,
    dial: Dial,
}

impl Connector {
    pub(super) fn new(dial: Dial, tls: &ClientConfig) -> Connector {
        let https = HttpsConnectorBuilder::new()
            .with_tls_config(tls.clone())
            .https_or_http()
            .enable_all_versions()
            .wrap_connector(dial.clone());
        Connector { https, dial }
    }
}

type Stream = MaybeHttpsStream<TokioIo<TcpStream>>;

impl Service<Uri> for Connector {
    type Response = Stream;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Stream, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.https.poll_ready(cx)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let (connecting, time) = (self.https.call(uri.clone()), self.dial.time());
        Box::pin(async move {
            match tokio::time::timeout(time, connecting).await {
                Ok(connected) => connected,
                Err(_) => {
                    let (host, time) = (uri.host().unwrap_or_default(), format_duration(time));
                    let why = format!("could not connect to {host} within {time}");
                    Err(NotDialled::Unreachable(why).into())
                }
            }
        })
    }
}

/// TLS by the authorities that the system trusts, and those in this file.
pub(in crate::sink) fn tls(ca: Option<&Path>) -> anyhow::Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if let Some(file) = ca {
        add_from(&mut roots, file)
            .with_context(|| format!("cannot read the certificates in `{}`", file.display()))?;
    }
    if roots.is_empty() {
        tracing::warn!("no certificates of authorities were found: every https target will fail");
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

fn add_from(roots: &mut RootCertStore, file: &Path) -> anyhow::Result<()> {
    let before = roots.len();
    for certificate in CertificateDer::pem_file_iter(file)? {
        roots.add(certificate?)?;
    }
    anyhow::ensure!(roots.len() > before, "there are none in it; give a file in PEM");
    Ok(())
}
