//! A copy of the whole store, as it is used: the lines of `linger import`.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::State;
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::Response;
use hyper::body::Frame;
use linger::error::{Code, Error};
use tokio::sync::mpsc;

use super::App;
use super::error::Result;
use super::lines::{self, Sum};
use super::request::Asked;
use crate::auth::audit;
use crate::common;
use crate::front::limit::Calling;
use crate::registry;
use crate::secrets;
use crate::store::Backup;

/// Lines are sent in pieces of about this size, of which this many are made ahead of a slow reader.
const PIECE_BYTES: usize = 64 << 10;
const PIECES_AHEAD: usize = 4;

/// `GET /v1/backup`.
pub(crate) async fn stream(State(app): State<Arc<App>>, mut asked: Asked) -> Result<Response> {
    let with_secrets = asked.flag("secrets")?;
    asked.end()?;
    let calling = Calling::enter(&app)?;
    let backup = app.store()?.backup().await?;
    let (pieces, receiver) = mpsc::channel(PIECES_AHEAD);
    let stopping = app.stopping.clone();
    app.see_to(async move {
        let _calling = calling;
        let mut writer = Writer { pieces, piece: Vec::new(), sum: Sum::default() };
        let written = tokio::select! {
            written = writer.write(backup, with_secrets) => written,
            () = stopping.cancelled() => Err(stopped()),
        };
        // Whoever reads sees the lines break off, without their end.
        match written {
            Err(Broken::Store(why)) => {
                tracing::warn!("a backup broke off: {why}");
                let _ = writer.pieces.send(Err(why)).await;
            }
            Err(Broken::Reader) => tracing::info!("a backup was not read to its end"),
            Ok(()) => {}
        }
    });
    let mut answer = Response::new(Body::new(Pieces { receiver }));
    let kind = HeaderValue::from_static("application/x-ndjson");
    answer.headers_mut().insert(CONTENT_TYPE, kind);
    Ok(answer)
}

/// Why a backup ends early.
enum Broken {
    /// The store cannot be read.
    Store(Error),
    /// Nobody reads any more.
    Reader,
}

impl From<Error> for Broken {
    fn from(why: Error) -> Broken {
        Broken::Store(why)
    }
}

fn stopped() -> Broken {
    Broken::Store(Error::new(Code::Unavailable, "the server is stopping"))
}

/// Writes lines to whoever reads.
struct Writer {
    pieces: mpsc::Sender<Result<Bytes, Error>>,
    piece: Vec<u8>,
    sum: Sum,
}

impl Writer {
    async fn write(&mut self, mut backup: Backup, with_secrets: bool) -> Result<(), Broken> {
        let at = backup.at();
        self.line(&lines::backup_head(at, backup.jobs(), backup.is_of_one_moment())).await?;
        for info in backup.topics() {
            self.line(&lines::topic(info, at)).await?;
        }
        for entry in backup.keys().iter().filter(|entry| goes_along(&entry.key, with_secrets)) {
            self.line(&lines::key(entry)).await?;
        }
        while let Some(job) = backup.next().await? {
            self.line(&lines::job(&job)).await?;
        }
        let end = lines::end(&std::mem::take(&mut self.sum).end());
        self.piece.extend(end);
        self.flush().await
    }

    async fn line(&mut self, line: &[u8]) -> Result<(), Broken> {
        self.sum.count(line);
        self.piece.extend_from_slice(line);
        if self.piece.len() < PIECE_BYTES {
            return Ok(());
        }
        self.flush().await
    }

    async fn flush(&mut self) -> Result<(), Broken> {
        let piece = std::mem::take(&mut self.piece).into();
        self.pieces.send(Ok(piece)).await.map_err(|_| Broken::Reader)
    }
}

/// What is kept only for a while does not, workers and the audit log: restored, it would be there for ever.
/// Secrets are for those who ask for them.
fn goes_along(key: &str, with_secrets: bool) -> bool {
    let passing = [registry::PREFIX, audit::PREFIX, common::NODES];
    let is_passing = passing.iter().any(|prefix| key.starts_with(prefix));
    !is_passing && (with_secrets || !key.starts_with(secrets::PREFIX))
}

/// The pieces as the body of an answer.
struct Pieces {
    receiver: mpsc::Receiver<Result<Bytes, Error>>,
}

impl HttpBody for Pieces {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        self.receiver.poll_recv(context).map(|piece| piece.map(|piece| piece.map(Frame::data)))
    }
}
