//! A connection that was taken, with TLS or without.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

/// How long a client is given to hear that the connection ends.
const GOODBYE_TIME: Duration = Duration::from_secs(1);

/// A connection.
pub(crate) enum Stream {
    Plain(TcpStream),
    /// Boxed, for what it knows of its session is a thousand bytes.
    Tls(Box<TlsStream<TcpStream>>),
}

impl Stream {
    /// Who is at the other end.
    pub(crate) fn peer_addr(&self) -> io::Result<SocketAddr> {
        match self {
            Stream::Plain(stream) => stream.peer_addr(),
            Stream::Tls(stream) => stream.get_ref().0.peer_addr(),
        }
    }

    /// Waits until there may be something to read. Nothing is lost if nobody waits any more.
    pub(crate) async fn readable(&mut self) -> io::Result<()> {
        match self {
            Stream::Plain(stream) => stream.readable().await,
            Stream::Tls(stream) => {
                let (stream, session) = stream.get_mut();
                // What has come out of TLS already would not make the socket readable once more.
                match session.process_new_packets() {
                    Ok(state) if state.plaintext_bytes_to_read() == 0 => stream.readable().await,
                    // What is wrong is told by reading.
                    _ => Ok(()),
                }
            }
        }
    }

    /// Whether the client says something, once it does or hangs up. It is not read by this.
    ///
    /// That a socket is readable would not do: it may be said of one with nothing to read.
    pub(crate) async fn is_spoken_on(&mut self) -> bool {
        let mut byte = [0];
        let stream = match self {
            Stream::Plain(stream) => &*stream,
            Stream::Tls(stream) => {
                let (stream, session) = stream.get_mut();
                match session.process_new_packets() {
                    Ok(state) if state.plaintext_bytes_to_read() == 0 => &*stream,
                    _ => return true,
                }
            }
        };
        matches!(stream.peek(&mut byte).await, Ok(1))
    }

    /// Reads what is there into the room that the buffer has.
    pub(crate) fn try_read_buf(&mut self, buffer: &mut BytesMut) -> io::Result<usize> {
        match self {
            Stream::Plain(stream) => stream.try_read_buf(buffer),
            Stream::Tls(stream) => {
                // Nobody is to be woken: whoever waits does so by `readable`.
                let mut context = Context::from_waker(Waker::noop());
                let read =
                    tokio_util::io::poll_read_buf(Pin::new(stream.as_mut()), &mut context, buffer);
                match read {
                    Poll::Ready(read) => read,
                    Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
                }
            }
        }
    }

    /// Says that the connection ends here, where that must be said for a client to know that it
    /// has heard everything.
    pub(crate) async fn say_goodbye(&mut self) {
        if let Stream::Tls(stream) = self {
            let _ = tokio::time::timeout(GOODBYE_TIME, stream.shutdown()).await;
        }
    }
}

/// Does the same with either.
macro_rules! either {
    ($self:ident, $stream:ident => $does:expr) => {
        match $self.get_mut() {
            Stream::Plain($stream) => {
                let $stream = Pin::new($stream);
                $does
            }
            Stream::Tls($stream) => {
                let $stream = Pin::new($stream.as_mut());
                $does
            }
        }
    };
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        either!(self, stream => stream.poll_read(context, buffer))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        either!(self, stream => stream.poll_write(context, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        either!(self, stream => stream.poll_write_vectored(context, pieces))
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Stream::Plain(stream) => stream.is_write_vectored(),
            Stream::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, stream => stream.poll_flush(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, stream => stream.poll_shutdown(context))
    }
}
