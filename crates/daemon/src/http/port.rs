//! Connections on the port: how many there may be at once, TLS, and limits of time. A client that sends a byte a minute, or
//! never takes its answer, must not keep others out or hold memory for long.

use super::auth::{Peer, Remote};
use crate::watchmen::connection::Link;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::ConnectInfo;
use axum::http::Request;
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::future::Future;
use std::io::{self, IoSlice};
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{Sleep, sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tower_service::Service as _;

/// A request with a large body may take this many times longer than one without.
const BODY_FACTOR: u32 = 4;
/// The answer to a connection that is one too many, on a port without TLS.
const NO_ROOM: &str = "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\nretry-after: 1\r\nconnection: close\r\n\r\n\
{\"type\":\"busy\",\"status\":503,\"title\":\"too many connections; [http] connections_max of the daemon's settings says how many\"}";

/// Accepts connections on the port, within limits.
#[derive(Clone)]
pub struct PortListener {
    /// One permit for each connection that may be open.
    pub seats: Arc<Semaphore>,
    /// How long to wait for a client.
    pub patience: Duration,
    /// TLS with the site's certificate; without it the port speaks plain HTTP.
    pub tls: Option<TlsAcceptor>,
}

impl PortListener {
    /// Accepts clients until the daemon ends.
    pub async fn open(self, listener: TcpListener, router: Router) {
        loop {
            let Ok((stream, client)) = listener.accept().await else {
                // Out of files, most likely: some will be given back.
                sleep(Duration::from_millis(100)).await;
                continue;
            };
            let Ok(seat) = Arc::clone(&self.seats).try_acquire_owned() else {
                if self.tls.is_none() {
                    // A client that does not take this at once gets nothing.
                    _ = stream.try_write(NO_ROOM.as_bytes());
                }
                continue;
            };
            // The client has gone away again.
            let Ok(server) = stream.local_addr() else { continue };
            let (door, router, link) = (self.clone(), router.clone(), Link { client, server });
            tokio::spawn(async move {
                door.welcome(stream, link, router).await;
                drop(seat);
            });
        }
    }

    async fn welcome(self, stream: TcpStream, link: Link, router: Router) {
        // Events are small, and must not wait for more data.
        _ = stream.set_nodelay(true);
        match &self.tls {
            None => self.converse(stream, link, router).await,
            Some(acceptor) => {
                if let Ok(Ok(stream)) = timeout(self.patience, acceptor.accept(stream)).await {
                    self.converse(stream, link, router).await;
                }
            }
        }
    }

    async fn converse(&self, stream: impl AsyncRead + AsyncWrite + Unpin, link: Link, router: Router) {
        let patience = self.patience;
        let answer = service_fn(move |request: Request<Incoming>| {
            let mut request = request.map(|body| Body::new(TimedBody { body, late: Box::pin(sleep(patience * BODY_FACTOR)) }));
            request.extensions_mut().insert(ConnectInfo(Peer::Network(Some(link))));
            request.extensions_mut().insert(Remote(link.client));
            router.clone().call(request)
        });
        let stream = TokioIo::new(StallTimeout { stream, patience, stalled: None });
        let mut builder = http1::Builder::new();
        // The head of the next request has this long, too: idle connections end.
        builder.timer(TokioTimer::new()).header_read_timeout(patience);
        // A client that went away, or took too long, gets no answer.
        _ = builder.serve_connection(stream, answer).await;
    }
}

/// The certificate and the key of two files; what is wrong with them otherwise.
pub fn tls(cert: &Path, key: &Path) -> Result<TlsAcceptor, String> {
    let in_file = |path: &Path, problem: String| format!("{}: {problem}", path.display());
    let chain = CertificateDer::pem_file_iter(cert)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| in_file(cert, error.to_string()))?;
    if chain.is_empty() {
        return Err(in_file(cert, "there is no certificate in it; PEM begins with `-----BEGIN CERTIFICATE-----`".to_owned()));
    }
    let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| in_file(key, error.to_string()))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_no_client_auth()
        .with_single_cert(chain, secret)
        .map_err(|error| format!("{} and {}: {error}", cert.display(), key.display()))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// A request's body, which must have arrived by a moment.
struct TimedBody {
    body: Incoming,
    late: Pin<Box<Sleep>>,
}

impl http_body::Body for TimedBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            return Poll::Ready(frame.map(|frame| frame.map_err(io::Error::other)));
        }
        ready!(self.late.as_mut().poll(context));
        Poll::Ready(Some(Err(io::Error::new(io::ErrorKind::TimedOut, "the request took too long to arrive"))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A connection whose other end must take what it is sent.
struct StallTimeout<S> {
    stream: S,
    patience: Duration,
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<S> StallTimeout<S> {
    /// Passes on how a write went, and ends the connection where nothing has moved for too long.
    fn watch<T>(&mut self, context: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let patience = self.patience;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(patience)));
        ready!(stalled.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not take its answer")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for StallTimeout<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for StallTimeout<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watch(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.watch(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.watch(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(context);
        self.watch(context, shut)
    }
}
