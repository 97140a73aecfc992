//! TLS: the certificates that ports are served by, read again when their files change, and whom
//! calls to others trust.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result, ensure};
use arc_swap::ArcSwap;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::config;

/// Chains and bundles of authorities are far smaller.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// What a port speaks within TLS.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Speaks {
    /// HTTP of either version, which the two sides agree on as they meet.
    Http,
    /// beanstalkd's protocol. A client need not name it, but one that means another is turned away:
    /// no browser can be made to talk here.
    Beanstalkd,
}

/// How ports are served by TLS.
pub(crate) struct Tls {
    settings: config::Tls,
    in_force: ArcSwap<InForce>,
    /// What was read last, be it wrong.
    seen: Mutex<Result<Contents, String>>,
}

/// What new connections get.
struct InForce {
    http: Arc<ServerConfig>,
    beanstalkd: Arc<ServerConfig>,
}

/// What is in the files.
#[derive(PartialEq)]
struct Contents {
    cert: Vec<u8>,
    key: Vec<u8>,
    client_ca: Option<Vec<u8>>,
}

impl Tls {
    /// By the settings, if they ask for it.
    pub(crate) fn open(settings: &config::Tls) -> Result<Option<Arc<Tls>>> {
        if settings.cert.is_none() {
            return Ok(None);
        }
        let opened = Contents::read(settings).and_then(|read| Ok((read.in_force(settings)?, read)));
        let (in_force, contents) = opened.context("cannot serve by TLS")?;
        Ok(Some(Arc::new(Tls {
            settings: settings.clone(),
            in_force: ArcSwap::from_pointee(in_force),
            seen: Mutex::new(Ok(contents)),
        })))
    }

    /// Meets a client.
    pub(crate) async fn accept(
        &self,
        stream: TcpStream,
        speaks: Speaks,
    ) -> io::Result<TlsStream<TcpStream>> {
        let config = {
            let in_force = self.in_force.load();
            match speaks {
                Speaks::Http => in_force.http.clone(),
                Speaks::Beanstalkd => in_force.beanstalkd.clone(),
            }
        };
        TlsAcceptor::from(config).accept(stream).await
    }

    /// Looks now and then whether the files have changed.
    ///
    /// They are compared by what is in them: a moment of change may be too coarse to tell, and
    /// links that are turned to another folder have none of their own.
    pub(crate) async fn watch(self: Arc<Tls>) {
        loop {
            tokio::time::sleep(self.settings.poll).await;
            let tls = self.clone();
            // A panic there has been printed.
            let _ = tokio::task::spawn_blocking(move || tls.look(Log::Changes)).await;
        }
    }

    /// Reads the files again, and says what came of it.
    pub(crate) fn reload(&self) {
        self.look(Log::Always);
    }

    fn look(&self, log: Log) {
        let read = Contents::read(&self.settings).map_err(|why| format!("{why:#}"));
        let mut seen = self.seen.lock().expect("nobody panics holding it");
        // Which is how something wrong is told of once, and not with every look.
        if matches!(log, Log::Changes) && *seen == read {
            return;
        }
        let made = match &read {
            Ok(contents) => contents.in_force(&self.settings).map_err(|why| format!("{why:#}")),
            Err(why) => Err(why.clone()),
        };
        match made {
            Ok(in_force) => {
                // Sessions of before cannot be taken up again: they are kept with what was in force.
                self.in_force.store(Arc::new(in_force));
                tracing::info!("the TLS certificates were read, and new connections get them");
            }
            Err(why) => tracing::error!("the TLS certificates stay as they were: {why}"),
        }
        *seen = read;
    }
}

/// What is worth a line in the log.
#[derive(Clone, Copy)]
enum Log {
    Always,
    Changes,
}

impl Contents {
    fn read(settings: &config::Tls) -> Result<Contents> {
        let read = |file: &Path| {
            read_bounded(file).with_context(|| format!("cannot read `{}`", file.display()))
        };
        let both = settings.cert.as_deref().zip(settings.key.as_deref());
        let (cert, key) = both.expect("the settings name both or none");
        Ok(Contents {
            cert: read(cert)?,
            key: read(key)?,
            client_ca: settings.client_ca.as_deref().map(read).transpose()?,
        })
    }

    fn in_force(&self, settings: &config::Tls) -> Result<InForce> {
        let shown = |file: &Option<PathBuf>| {
            file.as_ref().map(|file| file.display().to_string()).unwrap_or_default()
        };
        let config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()?;
        let config = match &self.client_ca {
            None => config.with_no_client_auth(),
            Some(pem) => {
                let file = shown(&settings.client_ca);
                let roots = authorities(pem)
                    .with_context(|| format!("cannot use the authorities in `{file}`"))?;
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider());
                config.with_client_cert_verifier(verifier.build()?)
            }
        };
        let (cert, key) = (shown(&settings.cert), shown(&settings.key));
        let chain = certificates(&self.cert)
            .with_context(|| format!("cannot use the certificate in `{cert}`"))?;
        let private = private_key(&self.key)
            .with_context(|| format!("cannot use the private key in `{key}`"))?;
        let bare = config.with_single_cert(chain, private).with_context(|| {
            format!("cannot use the certificate in `{cert}` with the private key in `{key}`")
        })?;
        let speaking = |protocols: &[&[u8]]| {
            let mut config = bare.clone();
            config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
            Arc::new(config)
        };
        Ok(InForce {
            http: speaking(&[b"h2", b"http/1.1"]),
            beanstalkd: speaking(&[b"beanstalkd"]),
        })
    }
}

/// The files by which a client says who it is.
pub(crate) struct Own<'a> {
    pub(crate) cert: &'a Path,
    pub(crate) key: &'a Path,
}

/// For calls to others: trusts the authorities that the system trusts and those in the file, and
/// says who it is if it is asked.
pub(crate) fn client(ca: Option<&Path>, own: Option<Own<'_>>) -> Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if let Some(file) = ca {
        let more = read_bounded(file).and_then(|pem| authorities(&pem));
        let more =
            more.with_context(|| format!("cannot read the certificates in `{}`", file.display()))?;
        roots.extend(more.roots);
    }
    if roots.is_empty() {
        tracing::warn!("no certificates of authorities were found: every https target will fail");
    }
    let config =
        ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
    let config = config.with_root_certificates(roots);
    let Some(Own { cert, key }) = own else { return Ok(config.with_no_client_auth()) };
    let chain = read_bounded(cert)
        .and_then(|pem| certificates(&pem))
        .with_context(|| format!("cannot use the certificate in `{}`", cert.display()))?;
    let private = read_bounded(key)
        .and_then(|pem| private_key(&pem))
        .with_context(|| format!("cannot use the private key in `{}`", key.display()))?;
    config.with_client_auth_cert(chain, private).with_context(|| {
        let (cert, key) = (cert.display(), key.display());
        format!("cannot use the certificate in `{cert}` with the private key in `{key}`")
    })
}

/// For calls that never need it.
pub(crate) fn trusting_nobody() -> Result<ClientConfig> {
    let config =
        ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
    Ok(config.with_root_certificates(RootCertStore::empty()).with_no_client_auth())
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

fn read_bounded(file: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(file)?.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    let is_small = bytes.len() as u64 <= FILE_BYTES_MAX;
    ensure!(is_small, "it is over the limit of {FILE_BYTES_MAX} bytes");
    Ok(bytes)
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>> {
    let found = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>()?;
    ensure!(!found.is_empty(), "there are none in it; give a file in PEM");
    Ok(found)
}

fn authorities(pem: &[u8]) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(pem)? {
        roots.add(certificate)?;
    }
    Ok(roots)
}

fn private_key(pem: &[u8]) -> Result<PrivateKeyDer<'static>> {
    PrivateKeyDer::from_pem_slice(pem)
        .context("there is none in it that could be read; give a file in PEM, without a passphrase")
}
