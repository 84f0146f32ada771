//! Accepts connections on one listener and answers their requests, within limits. A client that sends a byte a minute, or never takes
//! its answer, must not keep others out or hold memory for long.

use super::seats::{Guest, NoSeat, Seat, Seats};
use super::timeouts::{StallTimeout, TimedBody};
use crate::http::auth::{Peer, Remote};
use crate::machine::socket_owner;
use crate::watchmen::connection::Link;
use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tower_service::Service as _;

/// A request with a large body may take this many times longer than one without.
const BODY_FACTOR: u32 = 4;
/// The most of an answer that is kept for a client that takes it slowly. It is also the longest head of a request.
const BUFFER_BYTES: usize = 64 << 10;
/// Refused clients that are listened to for a moment, so that they can read why: one that is cut off while it still sends may not.
const REFUSALS_MAX: usize = 32;
/// The time and the bytes that a refused client is given for that.
const REFUSAL_PATIENCE: Duration = Duration::from_millis(500);
const REFUSAL_BYTES: u64 = 64 << 10;
/// The pause after a connection could not be accepted.
const PAUSE: Duration = Duration::from_millis(100);

/// Where connections come from.
pub enum Source {
    /// The socket, whose callers are known by their credentials.
    Socket(UnixListener),
    /// The port of the API and the page, whose callers have tokens.
    Port(TcpListener),
    /// The port for clients of watchmen.
    Watchmen(TcpListener),
}

/// Accepts connections, within limits.
#[derive(Clone)]
pub struct Listener {
    /// The room that all listeners share.
    pub seats: Arc<Seats>,
    /// One permit for each connection that this listener may have, where it has a limit of its own.
    pub own_seats: Option<Arc<Semaphore>>,
    /// How long to wait for a client.
    pub patience: Duration,
    /// TLS with the site's certificate; without it connections speak plain HTTP.
    pub tls: Option<TlsAcceptor>,
}

/// A stream of bytes, of whatever kind.
trait Duplex: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Duplex for S {}

/// A connection that was just made.
struct Arrival {
    stream: Box<dyn Duplex>,
    peer: Peer,
    remote: Option<Remote>,
    guest: Guest,
}

impl Listener {
    /// Accepts clients until the daemon ends.
    pub async fn open(self, source: Source, router: Router) {
        let refusals = Arc::new(Semaphore::new(REFUSALS_MAX));
        loop {
            let arrival = match source.accept().await {
                Ok(Some(arrival)) => arrival,
                // The client has gone away again.
                Ok(None) => continue,
                Err(_) => {
                    // Out of files, most likely: some will be given back.
                    sleep(PAUSE).await;
                    continue;
                }
            };
            let seat = self.seats.take(arrival.guest).and_then(|seat| match &self.own_seats {
                None => Ok((seat, None)),
                Some(own) => match Arc::clone(own).try_acquire_owned() {
                    Ok(permit) => Ok((seat, Some(permit))),
                    Err(_) => Err(NoSeat::Full(self.seats.taken())),
                },
            });
            match seat {
                Ok((seat, permit)) => {
                    let (listener, router) = (self.clone(), router.clone());
                    tokio::spawn(async move {
                        listener.welcome(arrival, seat, router).await;
                        drop(permit);
                    });
                }
                // A client that expects TLS could not read the reason.
                Err(why) if self.tls.is_none() => {
                    if let Ok(permit) = Arc::clone(&refusals).try_acquire_owned() {
                        tokio::spawn(async move {
                            _ = timeout(REFUSAL_PATIENCE, refuse(arrival.stream, why)).await;
                            drop(permit);
                        });
                    }
                }
                Err(_) => {}
            }
        }
    }

    async fn welcome(&self, arrival: Arrival, seat: Seat, router: Router) {
        let Arrival { stream, peer, remote, .. } = arrival;
        match &self.tls {
            None => self.converse(stream, peer, remote, router).await,
            Some(acceptor) => {
                if let Ok(Ok(stream)) = timeout(self.patience, acceptor.accept(stream)).await {
                    self.converse(stream, peer, remote, router).await;
                }
            }
        }
        drop(seat);
    }

    async fn converse(&self, stream: impl Duplex, peer: Peer, remote: Option<Remote>, router: Router) {
        let patience = self.patience;
        let answer = service_fn(move |request: Request<Incoming>| {
            let mut request = request.map(|body| Body::new(TimedBody::new(body, patience * BODY_FACTOR)));
            request.extensions_mut().insert(ConnectInfo(peer.clone()));
            if let Some(remote) = remote {
                request.extensions_mut().insert(remote);
            }
            router.clone().call(request)
        });
        let stream = TokioIo::new(StallTimeout::new(stream, patience));
        let mut builder = http1::Builder::new();
        // The head of the next request has this long, too: idle connections end.
        builder.timer(TokioTimer::new()).header_read_timeout(patience).max_buf_size(BUFFER_BYTES);
        // A client that went away, or took too long, gets no answer.
        _ = builder.serve_connection(stream, answer).await;
    }
}

/// Tells a client why it is refused, and reads what it still sends.
async fn refuse(mut stream: Box<dyn Duplex>, why: NoSeat) -> io::Result<()> {
    // An answer that comes before its question is an error to many clients.
    _ = timeout(REFUSAL_PATIENCE / 2, read_head(&mut stream)).await;
    stream.write_all(why.answer().as_bytes()).await?;
    stream.shutdown().await?;
    tokio::io::copy(&mut stream.take(REFUSAL_BYTES), &mut tokio::io::sink()).await?;
    Ok(())
}

/// Reads the head of a request and forgets it.
async fn read_head(stream: &mut Box<dyn Duplex>) -> io::Result<()> {
    const END: &[u8] = b"\r\n\r\n";
    let mut head = Vec::new();
    while !head.windows(END.len()).any(|bytes| bytes == END) && head.len() < BUFFER_BYTES {
        if stream.read_buf(&mut head).await? == 0 {
            break;
        }
    }
    Ok(())
}

impl Source {
    /// The next connection; nothing if its client has gone away already.
    async fn accept(&self) -> io::Result<Option<Arrival>> {
        match self {
            Self::Socket(listener) => {
                let (stream, _) = listener.accept().await?;
                let Ok(cred) = stream.peer_cred() else { return Ok(None) };
                let (uid, gid) = (cred.uid(), cred.gid());
                let (peer, guest) = (Peer::Local { uid, gid }, Guest::User(uid));
                Ok(Some(Arrival { stream: Box::new(stream), peer, remote: None, guest }))
            }
            Self::Port(listener) => {
                let (stream, client) = listener.accept().await?;
                Ok(arrival(stream, client, |link, _| Peer::Network(Some(link))))
            }
            Self::Watchmen(listener) => {
                let (stream, client) = listener.accept().await?;
                Ok(arrival(stream, client, |link, stream| {
                    Peer::Client(Some(link), stream.as_fd().try_clone_to_owned().ok().map(Arc::new))
                }))
            }
        }
    }
}

fn arrival(stream: TcpStream, client: SocketAddr, peer: impl FnOnce(Link, &TcpStream) -> Peer) -> Option<Arrival> {
    let link = Link { client, server: stream.local_addr().ok()? };
    // Events are small, and must not wait for more data.
    _ = stream.set_nodelay(true);
    let peer = peer(link, &stream);
    // On loopback all users of this machine have one address.
    let owner = socket_owner::of(&link).map(|socket| Guest::User(socket.uid));
    let guest = owner.unwrap_or_else(|| Guest::at(client.ip()));
    Some(Arrival { stream: Box::new(stream), peer, remote: Some(Remote(client)), guest })
}
