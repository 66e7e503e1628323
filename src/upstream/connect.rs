//! Connections to the backend: resolved, connected and encrypted within one deadline, with errors that tell what they
//! are, and with a count of what was written.

use std::error::Error as StdError;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::Uri;
use hyper_rustls::{HttpsConnector, MaybeHttpsStream};
use hyper_util::client::legacy::connect::dns::{GaiResolver, Name};
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::TokioIo;
use rustls::{AlertDescription, ClientConfig};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};
use tower_service::Service;

/// Why there is no connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum ConnectError {
    #[error("the name does not resolve")]
    Dns,
    #[error("refused, reset, or no answer in time")]
    Connect,
    #[error("a certificate does not hold")]
    Certificate,
    #[error("the port does not speak TLS as it should")]
    Protocol,
    #[error("the TLS handshake broke off")]
    Handshake,
}

/// Makes [`Wire`]s. All addresses of a name are tried, IPv6 and IPv4 side by side.
#[derive(Clone)]
pub(super) struct Connector {
    inner: HttpsConnector<HttpConnector<Resolver>>,
    timeout: Duration,
    patience: Duration,
}

/// One connection.
///
/// A failed write is not reported: a backend that refuses an event early answers, and then closes with the rest of the
/// body unread, and hyper would see the failed write before it read that answer (facts: backends 2.4, last row). After a
/// failed write nothing is written any more, and the next read ends with the answer or with the connection's error.
///
/// A backend that takes nothing for too long breaks it too: hyper ends a connection only once all is written, long after the
/// exchange was given up, so that a backend that stands still would keep each body in memory.
pub(super) struct Wire {
    io: TokioIo<MaybeHttpsStream<TokioIo<TcpStream>>>,
    progress: Progress,
    answered: bool,
    patience: Duration,
    /// While the backend takes nothing.
    stall: Option<Pin<Box<Sleep>>>,
}

/// What is known of a connection's current exchange.
#[derive(Clone, Default)]
pub(super) struct Progress {
    written: Arc<AtomicU64>,
    broken: Arc<AtomicBool>,
}

/// The system's resolver, with an error that can be told from others.
#[derive(Clone)]
pub(super) enum Resolver {
    System(GaiResolver),
    #[cfg(test)]
    Fixed(Vec<std::net::SocketAddr>),
}

#[derive(Debug, thiserror::Error)]
#[error("cannot resolve")]
pub(super) struct ResolveError(#[source] io::Error);

impl Connector {
    /// `timeout` is for a connection to be made; a backend that takes nothing for `patience` breaks it.
    pub(super) fn new(tls: Arc<ClientConfig>, timeout: Duration, patience: Duration) -> Self {
        Self { patience, ..Self::with(Resolver::System(GaiResolver::new()), tls, timeout) }
    }

    /// hyper-util tries the addresses one after the other, each for its part of the time.
    fn with(resolver: Resolver, tls: Arc<ClientConfig>, timeout: Duration) -> Self {
        let mut tcp = HttpConnector::new_with_resolver(resolver);
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(timeout));
        Self { inner: HttpsConnector::from((tcp, tls)), timeout, patience: timeout }
    }
}

impl Service<Uri> for Connector {
    type Response = TokioIo<Wire>;
    type Error = ConnectError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, ConnectError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ConnectError>> {
        self.inner.poll_ready(cx).map_err(|error| ConnectError::of(&*error))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connecting = tokio::time::timeout(self.timeout, self.inner.call(uri));
        let patience = self.patience;
        Box::pin(async move {
            let io = connecting.await.map_err(|_| ConnectError::Connect)?.map_err(|error| ConnectError::of(&*error))?;
            Ok(TokioIo::new(Wire::new(TokioIo::new(io), patience)))
        })
    }
}

impl ConnectError {
    fn of(error: &(dyn StdError + 'static)) -> Self {
        if find::<ResolveError>(error).is_some() {
            return Self::Dns;
        }
        // hyper-rustls reports what happens in the handshake as an io::Error around the io::Error of tokio-rustls.
        match tls_error(error) {
            Some(error) if is_certificate(error) => Self::Certificate,
            Some(_) => Self::Protocol,
            None if error.is::<io::Error>() => Self::Handshake,
            None => Self::Connect,
        }
    }
}

/// Whether a TLS error is about a certificate, the backend's or the gate's own.
pub(super) fn is_certificate(error: &rustls::Error) -> bool {
    matches!(
        error,
        rustls::Error::InvalidCertificate(_)
            | rustls::Error::NoCertificatesPresented
            | rustls::Error::AlertReceived(
                AlertDescription::NoCertificate
                | AlertDescription::BadCertificate
                | AlertDescription::UnsupportedCertificate
                | AlertDescription::CertificateRevoked
                | AlertDescription::CertificateExpired
                | AlertDescription::CertificateUnknown
                | AlertDescription::UnknownCA
                | AlertDescription::AccessDenied
                | AlertDescription::CertificateRequired
                // A signature by another key under the same CA's name, and what TLS 1.2 says where a certificate is missing.
                | AlertDescription::DecryptError
                | AlertDescription::HandshakeFailure,
            )
    )
}

/// The TLS error behind an error, if there is one.
pub(super) fn tls_error<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a rustls::Error> {
    find::<rustls::Error>(error)
}

/// Looks for an error of one type in a chain of sources, also inside of `io::Error`s, whose `source` skips what they
/// hold.
fn find<'a, E: StdError + 'static>(error: &'a (dyn StdError + 'static)) -> Option<&'a E> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<E>() {
            return Some(found);
        }
        let held = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        next = match held {
            Some(held) => Some(held),
            None => error.source(),
        };
    }
    None
}

impl Service<Name> for Resolver {
    type Response = std::vec::IntoIter<std::net::SocketAddr>;
    type Error = ResolveError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, ResolveError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ResolveError>> {
        match self {
            Self::System(resolver) => resolver.poll_ready(cx).map_err(ResolveError),
            #[cfg(test)]
            Self::Fixed(_) => Poll::Ready(Ok(())),
        }
    }

    fn call(&mut self, name: Name) -> Self::Future {
        match self {
            Self::System(resolver) => {
                let resolving = resolver.call(name);
                Box::pin(async move { Ok(resolving.await.map_err(ResolveError)?.collect::<Vec<_>>().into_iter()) })
            }
            #[cfg(test)]
            Self::Fixed(addresses) => Box::pin(std::future::ready(Ok(addresses.clone().into_iter()))),
        }
    }
}

impl Progress {
    /// Whether so few bytes were written since the last answer that a body of this length cannot have arrived whole.
    pub(super) fn is_short_of(&self, body: u64) -> bool {
        self.written.load(Ordering::Acquire) < body
    }

    /// Whether a write failed.
    pub(super) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Acquire)
    }
}

impl Wire {
    fn new(io: TokioIo<MaybeHttpsStream<TokioIo<TcpStream>>>, patience: Duration) -> Self {
        Self { io, progress: Progress::default(), answered: false, patience, stall: None }
    }

    /// The backend takes nothing now: an error if that lasts too long.
    fn wait<T>(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        let patience = self.patience;
        let stall = self.stall.get_or_insert_with(|| Box::pin(sleep(patience)));
        ready!(stall.as_mut().poll(cx));
        self.progress.broken.store(true, Ordering::Release);
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }

    /// Counts what was written, and turns a failed write into one that seems to have worked.
    fn note(&mut self, written: io::Result<usize>, offered: usize) -> io::Result<usize> {
        let Ok(count) = written else {
            self.progress.broken.store(true, Ordering::Release);
            return Ok(offered);
        };
        if std::mem::take(&mut self.answered) {
            self.progress.written.store(0, Ordering::Release);
        }
        self.progress.written.fetch_add(count as u64, Ordering::AcqRel);
        Ok(count)
    }
}

impl AsyncRead for Wire {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.io).poll_read(cx, buf))?;
        self.answered |= buf.filled().len() > before;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Wire {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if self.progress.is_broken() {
            return Poll::Ready(Ok(buf.len()));
        }
        let Poll::Ready(written) = Pin::new(&mut self.io).poll_write(cx, buf) else { return self.wait(cx) };
        self.stall = None;
        Poll::Ready(self.note(written, buf.len()))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let offered = bufs.iter().map(|buf| buf.len()).sum();
        if self.progress.is_broken() {
            return Poll::Ready(Ok(offered));
        }
        let Poll::Ready(written) = Pin::new(&mut self.io).poll_write_vectored(cx, bufs) else { return self.wait(cx) };
        self.stall = None;
        Poll::Ready(self.note(written, offered))
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.progress.is_broken() {
            return Poll::Ready(Ok(()));
        }
        let Poll::Ready(flushed) = Pin::new(&mut self.io).poll_flush(cx) else { return self.wait(cx) };
        self.stall = None;
        if flushed.is_err() {
            self.progress.broken.store(true, Ordering::Release);
        }
        Poll::Ready(Ok(()))
    }

    /// Nothing can be said any more over a broken connection: it is closed when it is dropped.
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.progress.is_broken() {
            return Poll::Ready(Ok(()));
        }
        match Pin::new(&mut self.io).poll_shutdown(cx) {
            Poll::Ready(end) => Poll::Ready(end),
            Poll::Pending => self.wait(cx),
        }
    }
}

impl Connection for Wire {
    fn connected(&self) -> Connected {
        self.io.inner().connected().extra(self.progress.clone())
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::upstream::fake;

    #[tokio::test]
    async fn the_next_address_of_a_name_is_tried_where_one_does_not_connect() {
        let (listener, port) = fake::listen().await;
        let (_held, closed) = fake::closed_port();
        let connect = async |ips: &[[u8; 4]], port| {
            let addresses = ips.iter().map(|ip| std::net::SocketAddr::from((*ip, port))).collect();
            let tls = Arc::new(crate::upstream::tls::unused().unwrap());
            let mut connector = Connector::with(Resolver::Fixed(addresses), tls, Duration::from_secs(5));
            connector.call(format!("http://two.example.com:{port}/").parse().unwrap()).await
        };
        assert!(connect(&[[127, 0, 0, 2], [127, 0, 0, 3], [127, 0, 0, 1]], port).await.is_ok());
        listener.accept().await.unwrap();
        assert_eq!(connect(&[[127, 0, 0, 1]], closed).await.err(), Some(ConnectError::Connect));
    }

    #[tokio::test(start_paused = true)]
    async fn a_backend_that_takes_nothing_is_given_up() {
        let (listener, port) = fake::listen().await;
        let ours = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        let _theirs = listener.accept().await.unwrap();
        let io = TokioIo::new(MaybeHttpsStream::Http(TokioIo::new(ours)));
        let mut wire = Wire::new(io, Duration::from_secs(4));
        let error = wire.write_all(&vec![0; 64 << 20]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        wire.flush().await.unwrap();
        wire.shutdown().await.unwrap();
    }

    #[tokio::test]
    async fn an_answer_can_be_read_after_a_write_failed() {
        let (listener, port) = fake::listen().await;
        let ours = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        let (mut theirs, _) = listener.accept().await.unwrap();
        theirs.write_all(b"too large").await.unwrap();
        fake::reset(theirs);

        let io = TokioIo::new(MaybeHttpsStream::Http(TokioIo::new(ours)));
        let mut wire = Wire::new(io, Duration::from_secs(4));
        let progress = wire.progress.clone();
        wire.write_all(b"the rest of the event").await.unwrap();
        wire.flush().await.unwrap();
        assert!(progress.is_broken() && progress.is_short_of(1));
        let mut answer = [0; 9];
        wire.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"too large");
        wire.read_u8().await.unwrap_err();
    }
}
