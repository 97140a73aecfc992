//! The port that HTTP and gRPC share: every request is named, its origin checked, and it goes to
//! the front that speaks its language.

use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;

use axum::Router;
use axum::http::Request;
use axum::response::Response;
use hyper::body::Incoming;

use super::app::App;
use super::grpc::{self, Grpc};
use super::{http, origin};
use crate::author::{Author, Front};
use crate::silence::Busy;

/// An answer under way.
type Answering = Pin<Box<dyn Future<Output = Response> + Send>>;

/// Whoever answers the requests of this port.
pub(crate) struct Port {
    app: Arc<App>,
    router: Router,
    grpc: Grpc,
}

/// Who is at the other end of a connection: looked up once for all requests that come over it.
pub(crate) struct Peer {
    address: IpAddr,
    name: Arc<str>,
}

impl From<SocketAddr> for Peer {
    fn from(address: SocketAddr) -> Peer {
        Peer { address: address.ip().to_canonical(), name: address.to_string().into() }
    }
}

impl Port {
    pub(crate) fn new(app: Arc<App>) -> Port {
        Port { router: http::router(app.clone()), grpc: Grpc::new(app.clone()), app }
    }

    /// What the fronts share.
    pub(crate) fn app(&self) -> &App {
        &self.app
    }

    /// Answers a request, which is `busy` until then, or until its answer ends if that is a stream.
    ///
    /// Boxed, since hyper moves it about: what HTTP needs is thousands of bytes.
    pub(crate) fn answer(
        self: &Arc<Self>,
        request: Request<Incoming>,
        busy: Busy,
        peer: &Peer,
    ) -> Answering {
        let (port, address, name) = (self.clone(), peer.address, Some(peer.name.clone()));
        match grpc::speaks(request.headers()) {
            true => {
                let author = Author::by(Front::Grpc, name);
                Box::pin(author.scope(port.answer_call(request, busy, address)))
            }
            false => {
                let author = Author::by(Front::Http, name);
                Box::pin(author.scope(port.answer_http(request, busy, address)))
            }
        }
    }

    async fn answer_call(
        self: Arc<Self>,
        request: Request<Incoming>,
        busy: Busy,
        peer: IpAddr,
    ) -> Response {
        let asked = self.app.names.asked(&request);
        let checked = origin::check(&self.app, &request)
            .and_then(|()| grpc::check_role(&self.app, request.uri().path()))
            .and_then(|()| grpc::admit(&self.app, &request, peer));
        let mut answer = match checked {
            Ok(caller) => caller.doing(self.grpc.answer(request, busy, caller.clone())).await,
            Err(why) => grpc::refusal(why),
        };
        asked.answered(&mut answer);
        answer
    }

    async fn answer_http(
        self: Arc<Self>,
        request: Request<Incoming>,
        _busy: Busy,
        peer: IpAddr,
    ) -> Response {
        let asked = self.app.names.asked(&request);
        let mut answer = match origin::check(&self.app, &request) {
            Ok(()) => http::answer(&self.app, &self.router, request, peer).await,
            Err(why) => http::refusal(why),
        };
        asked.answered(&mut answer);
        answer
    }
}
