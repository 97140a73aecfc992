//! Connections with TLS or without, of HTTP/1.1 or HTTP/2.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::BoxError;
use axum::http::Uri;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::rt::TokioIo;
use linger::time::format_duration;
use rustls::ClientConfig;
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
