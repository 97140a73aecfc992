//! Opens one connection to one server: socket, TLS, login.

use std::io;
use std::sync::Arc;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, ProtocolVersion, PushInfo, RedisConnectionInfo, Value};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto};

use super::super::address::{Address, Login, Node};
use super::fault::{Fault, Then};
use super::{CONNECT_TIMEOUT, IN_LINE_MAX, REPLICAS_WITHIN, RESPONSE_TIMEOUT};
use crate::error::{Error, Result};

/// How servers of one store are dialled.
#[derive(Clone)]
pub(super) struct Dialer {
    tls: Option<TlsConnector>,
    pub(super) login: Option<Login>,
    pub(super) db: u32,
}

/// An open connection. Dropped, it is closed.
pub(super) struct Line {
    pub(super) node: Node,
    pub(super) conn: MultiplexedConnection,
    /// Moves the bytes, and ends when the other side has gone.
    pub(super) driver: Task,
}

/// A task that ends with its owner.
pub(super) struct Task(pub(super) JoinHandle<()>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Dialer {
    pub(super) fn new(address: &Address) -> Result<Dialer> {
        let tls = address.tls.then(|| trust(address)).transpose()?;
        Ok(Dialer { tls, login: address.login.clone(), db: address.db })
    }

    /// The same way to the sentinels, which have logins of their own and no databases.
    pub(super) fn to_sentinels(&self, login: Option<Login>) -> Dialer {
        Dialer { tls: self.tls.clone(), login, db: 0 }
    }

    /// A connection for calls, logged in and answering.
    pub(super) async fn dial(&self, node: &Node) -> Result<Line, Fault> {
        in_time(node, async {
            let line = self.connect(node, RedisConnectionInfo::default(), None).await?;
            // By ourselves, since the crate does not say why a login was refused.
            if let Some(login) = &self.login {
                let mut auth = redis::cmd("AUTH");
                auth.arg(login.user.as_deref()).arg(&login.password);
                line.call(&auth).await.map_err(|fault| refused(fault, node))?;
            }
            if self.db > 0 {
                let select = redis::cmd("SELECT").arg(self.db).to_owned();
                line.call(&select).await.map_err(|fault| refused(fault, node))?;
            }
            line.call(&redis::cmd("PING")).await?;
            line.name_itself().await;
            Ok(line)
        })
        .await
    }

    /// A connection for subscribing, whose messages go to `heard`.
    pub(super) async fn dial_to_listen(
        &self,
        node: &Node,
        heard: impl Fn(PushInfo) + Send + Sync + 'static,
    ) -> Result<Line, Fault> {
        let mut info = RedisConnectionInfo::default().set_protocol(ProtocolVersion::RESP3);
        if let Some(login) = &self.login {
            info = info.set_password(&login.password);
            info = info.set_username(login.user.as_deref().unwrap_or("default"));
        }
        let heard = Box::new(move |push| {
            heard(push);
            Ok::<(), ()>(())
        });
        in_time(node, async {
            let line = self.connect(node, info, Some(heard)).await?;
            line.name_itself().await;
            Ok(line)
        })
        .await
    }

    async fn connect(
        &self,
        node: &Node,
        info: RedisConnectionInfo,
        heard: Option<PushTo>,
    ) -> Result<Line, Fault> {
        let unreachable = |cause| Fault::unreachable(&cause, node);
        let stream = TcpStream::connect((&*node.host, node.port)).await.map_err(unreachable)?;
        stream.set_nodelay(true).map_err(unreachable)?;
        match &self.tls {
            None => greet(node, stream, info, heard).await,
            Some(tls) => {
                let name = ServerName::try_from(node.host.clone()).map_err(io::Error::other);
                let name = name.map_err(unreachable)?;
                let stream = tls.connect(name, stream).await.map_err(unreachable)?;
                greet(node, stream, info, heard).await
            }
        }
    }
}

type PushTo = Box<dyn Fn(PushInfo) -> Result<(), ()> + Send + Sync>;

/// The crate's part: it speaks the protocol over the stream and pairs answers with calls.
async fn greet(
    node: &Node,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    info: RedisConnectionInfo,
    heard: Option<PushTo>,
) -> Result<Line, Fault> {
    let mut config = AsyncConnectionConfig::new()
        .set_response_timeout(Some(RESPONSE_TIMEOUT))
        .set_pipeline_buffer_size(IN_LINE_MAX);
    if let Some(heard) = heard {
        config = config.set_push_sender(heard);
    }
    let info = info.set_skip_set_lib_name();
    let (conn, driver) = MultiplexedConnection::new_with_config(&info, stream, config)
        .await
        .map_err(|error| Fault::read(&error, node))?;
    Ok(Line { node: node.clone(), conn, driver: Task(tokio::spawn(driver)) })
}

impl Line {
    pub(super) async fn call(&self, command: &redis::Cmd) -> Result<Value, Fault> {
        call(&self.conn, command, &self.node).await
    }

    /// For those who look at a server's list of clients. A user who may not do it goes without.
    async fn name_itself(&self) {
        let _ = self.call(redis::cmd("CLIENT").arg("SETNAME").arg("linger")).await;
    }
}

/// A command, and how many replicas have to have it by the time it is answered.
#[derive(Clone, Copy)]
pub(super) struct Request<'a> {
    pub(super) command: &'a redis::Cmd,
    pub(super) replicas: u32,
}

impl<'a> From<&'a redis::Cmd> for Request<'a> {
    fn from(command: &'a redis::Cmd) -> Request<'a> {
        Request { command, replicas: 0 }
    }
}

impl Request<'_> {
    /// Sends it over a connection. `asking` lets a key be used that this server is being given.
    pub(super) async fn send(
        self,
        conn: &MultiplexedConnection,
        node: &Node,
        asking: bool,
    ) -> Result<Value, Fault> {
        if self.replicas == 0 && !asking {
            return call(conn, self.command, node).await;
        }
        // All over one connection: what it waits for is what it has written itself.
        let mut all = redis::pipe();
        if asking {
            all.cmd("ASKING");
        }
        all.add_command(self.command.clone());
        if self.replicas > 0 {
            all.cmd("WAIT").arg(self.replicas).arg(REPLICAS_WITHIN.as_millis() as u64);
        }
        let count = all.len();
        let answers = conn.clone().send_packed_commands(&all, 0, count).await;
        let answers = answers.map_err(|error| Fault::read(&error, node))?;
        let mut answers = answers.into_iter().skip(usize::from(asking));
        let mut next = || {
            let answer = answers.next().unwrap_or(Value::Nil).extract_error();
            answer.map_err(|error| Fault::read(&error, node))
        };
        let answer = next()?;
        if self.replicas > 0 {
            match next()? {
                Value::Int(there) if there >= i64::from(self.replicas) => {}
                _ => return Err(Fault::too_few_replicas(self.replicas, node)),
            }
        }
        Ok(answer)
    }
}

/// One command over a connection; an error that Redis answers is an error here too.
pub(super) async fn call(
    conn: &MultiplexedConnection,
    command: &redis::Cmd,
    node: &Node,
) -> Result<Value, Fault> {
    let answer = conn.clone().send_packed_command(command).await;
    answer.and_then(Value::extract_error).map_err(|error| Fault::read(&error, node))
}

async fn in_time<T>(
    node: &Node,
    dialling: impl Future<Output = Result<T, Fault>>,
) -> Result<T, Fault> {
    tokio::time::timeout(CONNECT_TIMEOUT, dialling).await.unwrap_or_else(|_| {
        let late = format!("no answer within {} s", CONNECT_TIMEOUT.as_secs());
        Err(Fault::unreachable(&io::Error::other(late), node))
    })
}

/// What is refused while opening lies in the address, unless the server only needs time.
fn refused(fault: Fault, node: &Node) -> Fault {
    use crate::error::Code;
    if fault.error.code() != Code::StorageFailed {
        return fault;
    }
    let message =
        format!("Redis at `{node}` refuses what the store's address asks for: {}", fault.error);
    Fault { then: Then::Reconnect, error: Error::invalid("store", message), lost: false }
}

/// Trusts the address's own CA, or else whom this machine trusts.
fn trust(address: &Address) -> Result<TlsConnector> {
    let mut roots = RootCertStore::empty();
    match &address.ca {
        Some(file) => {
            let wrong = |cause: &dyn std::fmt::Display| {
                let file = file.display();
                Error::invalid(
                    "store",
                    format!(
                        "CA file `{file}` cannot be used: {cause}; it must hold PEM certificates"
                    ),
                )
            };
            let certificates =
                CertificateDer::pem_file_iter(file).map_err(|cause| wrong(&cause))?;
            for certificate in certificates {
                let certificate = certificate.map_err(|cause| wrong(&cause))?;
                roots.add(certificate).map_err(|cause| wrong(&cause))?;
            }
            if roots.is_empty() {
                return Err(wrong(&"there is no certificate in it"));
            }
        }
        None => {
            let (_, _) =
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    let config =
        ClientConfig::builder_with_provider(Arc::new(crypto::aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("the provider knows the versions it was built with")
            .with_root_certificates(roots)
            .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}
