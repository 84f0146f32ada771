//! Who asks: known by the socket's credentials, by a token, or by the cookie of a session.
//!
//! Everybody is looked at once, before any route: [`admit`] says who it is, counts the request against its caller's rate, and turns away
//! what a browser may have been tricked into. Routes that need to know take [`Visit`] or [`Caller`], and refuse whoever is not known.

use super::rates::Key;
use super::sessions::{self, Session};
use super::{Problem, Site};
use crate::clock::wall_ns;
use crate::connection::Link;
use crate::platform::{Caller, Message};
use crate::tokens::{Scope, Token, TokenChange};
use axum::extract::connect_info::Connected;
use axum::extract::{ConnectInfo, FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::serve::IncomingStream;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use tokio::net::UnixListener;

/// What a browser's page must send along with a change, to show that it is ours.
pub const CSRF: HeaderName = HeaderName::from_static("x-rota-csrf");

/// Who is at the other end.
#[derive(Clone, Debug)]
pub enum Peer {
    /// A local process, by its socket's credentials.
    Local { uid: u32, gid: u32 },
    /// Somebody on a port, and both ends of the connection.
    Network(Option<Link>),
    /// Somebody on the port for clients of watchmen, and the connection.
    Client(Option<Link>, Option<Arc<OwnedFd>>),
}

impl Connected<IncomingStream<'_, UnixListener>> for Peer {
    fn connect_info(stream: IncomingStream<'_, UnixListener>) -> Self {
        stream.io().peer_cred().map_or(Self::Network(None), |cred| Self::Local { uid: cred.uid(), gid: cred.gid() })
    }
}

/// From where somebody on the port asks.
#[derive(Clone, Copy, Debug)]
pub struct Remote(pub SocketAddr);

/// What somebody is known by.
#[derive(Clone)]
pub enum Pass {
    /// The socket's credentials.
    Socket,
    /// A token.
    Token(Arc<Token>),
    /// A cookie.
    Session(Arc<Session>),
}

/// Somebody who is known.
#[derive(Clone)]
pub struct Visit {
    /// Who.
    pub caller: Caller,
    /// What they may do.
    pub scope: Scope,
    /// How they are known.
    pub pass: Pass,
}

/// What the routes are told of a caller.
#[derive(Clone)]
struct Seen(Option<Visit>);

/// Looks at whoever asks, before any route.
pub async fn admit(State(site): State<Arc<Site>>, mut request: Request, next: Next) -> Response {
    let is_local = matches!(request.extensions().get(), Some(ConnectInfo(Peer::Local { .. })));
    let visit = site.recognise(request.extensions().get(), request.headers());
    if !is_local {
        let remote = request.extensions().get().map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), |Remote(address)| address.ip());
        let key = match visit.as_ref().map(|visit| &visit.pass) {
            Some(Pass::Token(token)) => Key::Token(token.id),
            Some(Pass::Session(session)) => Key::Token(session.token.id),
            Some(Pass::Socket) | None => Key::of(remote),
        };
        if let Err(wait) = site.rates.take(key, std::time::Instant::now()) {
            return too_fast(wait.as_secs_f64().ceil() as u64);
        }
    }
    if let Some(Visit { pass: Pass::Session(session), .. }) = &visit
        && !matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS)
        && request.uri().path() != sessions::PATH
        && !session.is_ours(request.headers().get(CSRF))
    {
        return forged().into_response();
    }
    request.extensions_mut().insert(Seen(visit));
    next.run(request).await
}

/// What is said to a change that comes with a cookie and nothing that shows it to be meant.
pub fn forged() -> Problem {
    let title =
        "a change asked for by cookie needs the header `X-Rota-CSRF` with the word that GET /api/v1/session gives as `csrf`";
    Problem::new(StatusCode::FORBIDDEN, "csrf", title)
}

fn too_fast(seconds: u64) -> Response {
    let title =
        format!("too many requests: wait {seconds} seconds; [http] requests_per_second of the daemon's settings says how many");
    let mut response = Problem::new(StatusCode::TOO_MANY_REQUESTS, "too-fast", title).into_response();
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds.max(1)));
    response
}

impl FromRequestParts<Arc<Site>> for Visit {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<Site>) -> Result<Self, Problem> {
        let seen = parts.extensions.get::<Seen>().and_then(|seen| seen.0.clone());
        seen.ok_or_else(|| {
            let title = "this needs a token that is good: send `Authorization: Bearer TOKEN`; `rota token create` makes one, and the daemon's own is in the file `token` of its state directory";
            Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", title)
        })
    }
}

impl FromRequestParts<Arc<Site>> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, site: &Arc<Site>) -> Result<Self, Problem> {
        Ok(Visit::from_request_parts(parts, site).await?.caller)
    }
}

impl Site {
    /// Whether somebody who was let in would be let in now.
    pub fn is_good(&self, pass: &Pass) -> bool {
        match pass {
            Pass::Socket => true,
            Pass::Token(token) => self.board.tokens.is_good(token, wall_ns()),
            Pass::Session(session) => self.sessions.is_good(session, &self.board.tokens),
        }
    }

    fn recognise(&self, peer: Option<&ConnectInfo<Peer>>, headers: &HeaderMap) -> Option<Visit> {
        if let Some(ConnectInfo(Peer::Local { uid, gid })) = peer {
            let caller = Caller { gid: *gid, ..self.caller(*uid) };
            let scope = if caller.is_admin { Scope::Admin } else { Scope::Submit };
            return Some(Visit { caller, scope, pass: Pass::Socket });
        }
        // Whoever sends a token means it, whatever cookies there are.
        let (token, pass) = if let Some(value) = headers.get(header::AUTHORIZATION) {
            let token = self.board.tokens.find(value.to_str().ok()?.strip_prefix("Bearer ")?.trim(), wall_ns())?;
            (Arc::clone(&token), Pass::Token(token))
        } else {
            let session = self.sessions.find(headers, &self.board.tokens)?;
            (Arc::clone(&session.token), Pass::Session(session))
        };
        if token.note_use(wall_ns()) {
            // Nobody waits for it to be written down.
            _ = self.inbox.send(Message::Tokens(TokenChange::Used(token.id, wall_ns()), tokio::sync::oneshot::channel().0));
        }
        Some(self.by_token(&token, pass))
    }

    /// Whom a token speaks for. Who is no administrator any more has none of an administrator's rights by an old token.
    pub fn by_token(&self, token: &Token, pass: Pass) -> Visit {
        let owner = self.caller(token.uid);
        let is_admin = token.scope == Scope::Admin && owner.is_admin;
        let scope = if is_admin { Scope::Admin } else { token.scope.min(Scope::Submit) };
        let may_write = scope != Scope::Read;
        Visit { caller: Caller { is_admin, may_write, ..owner }, scope, pass }
    }

    /// Whoever a token was made for, with what it allows.
    pub(super) fn holder_of(&self, token: &str) -> Option<Caller> {
        let token = self.board.tokens.find(token, wall_ns())?;
        Some(self.by_token(&token, Pass::Token(Arc::clone(&token))).caller)
    }

    /// A user with all their rights.
    pub(super) fn caller(&self, uid: u32) -> Caller {
        let is_admin = uid == 0 || uid == self.daemon_uid || self.admins.contains(&uid);
        let (user, gid) = self.users.find(uid);
        Caller { uid, gid, user, is_admin, may_write: true }
    }
}
