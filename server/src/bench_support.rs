//! The fronts by themselves, for `examples/hot.rs`: without a port of their own and without
//! threads. No part of the interface.

use std::net::Ipv4Addr;
use std::sync::Arc;

use axum::http::Request;
use axum::response::Response;
use bytes::Bytes;
use http_body_util::Full;
use linger::store::embedded::Embedded;
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::front::app::App;
use crate::front::{beanstalk, http};
use crate::listen::Front;
use crate::store::Store;
use crate::stream::Stream;

/// The fronts of a store, at the settings that hold where there are none.
pub struct Fronts {
    app: Arc<App>,
    beanstalk: Arc<beanstalk::Server>,
    stopping: CancellationToken,
}

impl Fronts {
    /// Begins to serve this store, which has to answer meanwhile.
    pub async fn new(store: Embedded) -> linger::Result<Fronts> {
        let (config, stopping) = (Config::defaults(), CancellationToken::new());
        let app = Arc::new(App::new(config.clone(), config.listen, stopping.clone()));
        let store = Arc::new(Store::from(store));
        app.auth().load(&*store).await?;
        app.set_store(store.clone());
        let controls = Arc::new(beanstalk::Controls::new(config, app.gates().clone()));
        Ok(Fronts { beanstalk: Arc::new(beanstalk::Server::new(store, controls)), app, stopping })
    }

    /// Answers a request that is one of the hot ones.
    pub async fn http(&self, request: Request<Full<Bytes>>) -> Response {
        http::answer_hot(&self.app, request, Ipv4Addr::LOCALHOST.into())
            .await
            .unwrap_or_else(|request| panic!("`{}` is left to the router", request.uri()))
    }

    /// Serves a connection of beanstalkd to its end.
    pub async fn beanstalk(&self, stream: TcpStream) {
        self.beanstalk.clone().serve(Stream::Plain(stream), self.stopping.clone()).await;
    }
}
