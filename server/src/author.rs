//! Who did something, for those who write it down: known to whatever a call has done for it.

use std::sync::Arc;

tokio::task_local! {
    static AUTHOR: Author;
}

/// Who did something, and which way they came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Author {
    /// Which way they came; none if nobody did, and the server acts by itself.
    pub(crate) front: Option<Front>,
    /// Where from. As a text, which a connection has made once for all that comes over it.
    pub(crate) address: Option<Arc<str>>,
    /// By which key, by its name.
    pub(crate) key: Option<Arc<str>>,
}

/// The ways in and out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Front {
    Http,
    Grpc,
    Beanstalkd,
    Push,
    /// The server itself: alarms, archives, what was never taken.
    Server,
}

impl Front {
    pub(crate) const ALL: [Front; 5] =
        [Front::Http, Front::Grpc, Front::Beanstalkd, Front::Push, Front::Server];

    /// The name on the wire.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Front::Http => "http",
            Front::Grpc => "grpc",
            Front::Beanstalkd => "beanstalkd",
            Front::Push => "push",
            Front::Server => "server",
        }
    }
}

impl Author {
    /// Someone who came this way.
    pub(crate) fn by(front: Front, address: Option<Arc<str>>) -> Author {
        Author { front: Some(front), address, key: None }
    }

    /// Whoever the call under way is for.
    pub(crate) fn of_this_call() -> Author {
        AUTHOR.try_with(Author::clone).unwrap_or_default()
    }

    /// Does something by this author.
    ///
    /// No `async fn`: that would have room for what is done twice, for as long as a pop waits.
    pub(crate) fn scope<F: Future>(self, what: F) -> impl Future<Output = F::Output> {
        AUTHOR.scope(self, what)
    }
}
