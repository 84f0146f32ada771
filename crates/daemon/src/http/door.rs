//! The door to the port: how many come in at once, TLS, and what happens to those who dawdle. A client that sends a byte a minute, or
//! never takes its answer, must not keep others out or hold memory for long.

use super::auth::{Peer, Remote};
use crate::connection::Link;
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

/// A request with a large body may take so much longer than one without.
const BODY_FACTOR: u32 = 4;
/// What is said to those for whom there is no room, where there is no TLS in the way.
const NO_ROOM: &str = "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\nretry-after: 1\r\nconnection: close\r\n\r\n\
{\"type\":\"busy\",\"status\":503,\"title\":\"too many connections; [http] connections_max of the daemon's settings says how many\"}";

/// How those who come are treated.
#[derive(Clone)]
pub struct Door {
    /// Places for connections.
    pub seats: Arc<Semaphore>,
    /// How long to wait for a client.
    pub patience: Duration,
    /// The certificate.
    pub tls: Option<TlsAcceptor>,
}

impl Door {
    /// Lets clients in until the daemon ends.
    pub async fn open(self, listener: TcpListener, router: Router) {
        loop {
            let Ok((stream, client)) = listener.accept().await else {
                // Out of files, most likely: some will be given back.
                sleep(Duration::from_millis(100)).await;
                continue;
            };
            let Ok(seat) = Arc::clone(&self.seats).try_acquire_owned() else {
                if self.tls.is_none() {
                    // Who does not take it now gets nothing.
                    _ = stream.try_write(NO_ROOM.as_bytes());
                }
                continue;
            };
            // Who has gone again is not spoken with.
            let Ok(server) = stream.local_addr() else { continue };
            let (door, router, link) = (self.clone(), router.clone(), Link { client, server });
            tokio::spawn(async move {
                door.welcome(stream, link, router).await;
                drop(seat);
            });
        }
    }

    async fn welcome(self, stream: TcpStream, link: Link, router: Router) {
        // Events are small, and wanted now.
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
            let mut request = request.map(|body| Body::new(Punctual { body, late: Box::pin(sleep(patience * BODY_FACTOR)) }));
            request.extensions_mut().insert(ConnectInfo(Peer::Network(Some(link))));
            request.extensions_mut().insert(Remote(link.client));
            router.clone().call(request)
        });
        let stream = TokioIo::new(Prompt { stream, patience, stalled: None });
        let mut builder = http1::Builder::new();
        // The head of the next request has this long, too: idle connections end.
        builder.timer(TokioTimer::new()).header_read_timeout(patience);
        // Who goes away, or is sent away, is told nothing more.
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
struct Punctual {
    body: Incoming,
    late: Pin<Box<Sleep>>,
}

impl http_body::Body for Punctual {
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
struct Prompt<S> {
    stream: S,
    patience: Duration,
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<S> Prompt<S> {
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

impl<S: AsyncRead + Unpin> AsyncRead for Prompt<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Prompt<S> {
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
