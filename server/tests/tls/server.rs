//! A server that is served by TLS, and someone who connects to it.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use linger_server::config::Config;
use linger_server::serve::{self, Running};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::authority::{Authority, Files, Identity};

/// Only to fail rather than hang.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A server, its folder, and who has signed its certificate.
pub(crate) struct Server {
    running: Running,
    pub(crate) authority: Authority,
    pub(crate) identity: Identity,
    pub(crate) files: Files,
    _folder: tempfile::TempDir,
}

impl Server {
    pub(crate) async fn start() -> Server {
        Server::with(|_, _| {}).await
    }

    /// A server with some settings of its own.
    pub(crate) async fn with(change: impl FnOnce(&mut Config, &Files)) -> Server {
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::new();
        let identity = authority.sign();
        let files = Files::new(folder.path(), &authority, &identity);
        let mut config = Config::defaults();
        config.listen = SocketAddr::from(([127, 0, 0, 1], 0));
        config.beanstalkd = Some(config.listen);
        config.store = folder.path().join("data").into();
        config.tls.cert = Some(files.cert.clone());
        config.tls.key = Some(files.key.clone());
        change(&mut config, &files);
        let mut running = serve::start(config).await.unwrap();
        running.ready().await.unwrap();
        Server { running, authority, identity, files, _folder: folder }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.running.address()
    }

    pub(crate) fn beanstalkd_address(&self) -> SocketAddr {
        self.running.beanstalkd_address().unwrap()
    }

    /// A connection that offers these protocols.
    pub(crate) async fn connect(&self, protocols: &[&str]) -> TlsStream<TcpStream> {
        let client = self.authority.client(protocols, None);
        connect(self.address(), client).await.expect("they agree")
    }

    pub(crate) async fn stop(self) {
        self.running.stop().await.unwrap();
    }
}

/// A connection to whoever is there.
pub(crate) async fn connect(
    address: impl tokio::net::ToSocketAddrs,
    client: Arc<ClientConfig>,
) -> io::Result<TlsStream<TcpStream>> {
    let stream = TcpStream::connect(address).await.expect("it listens");
    let name = ServerName::try_from("localhost").unwrap();
    let connecting = TlsConnector::from(client).connect(name, stream);
    tokio::time::timeout(PATIENCE, connecting).await.expect("they agree or not")
}
