//! The caller of a request: known by the socket's credentials, by a token, or by the cookie of a session.
//!
//! Every request is checked once, before any route: [`admit`] finds its caller, counts it against the caller's rate, and refuses
//! what a browser may have been tricked into. Routes that need a caller take [`Visit`] or [`Caller`], and refuse unknown callers.

use super::connections::Guest;
use super::rates::Key;
use super::sessions::{self, Session};
use super::{Problem, Site};
use crate::access::tokens::{Scope, Token, TokenChange};
use crate::clock::wall_ns;
use crate::machine::platform::{Caller, Message};
use crate::watchmen::connection::Link;
use axum::extract::{ConnectInfo, FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

/// What a browser's page must send along with a change, to show that it is ours.
pub const CSRF: HeaderName = HeaderName::from_static("x-rota-csrf");

/// The other end of a connection.
#[derive(Clone, Debug)]
pub enum Peer {
    /// A local process, by its socket's credentials.
    Local { uid: u32, gid: u32 },
    /// A client on the port, with both addresses of the connection.
    Network(Option<Link>),
    /// A client on the port for watchmen, with the connection.
    Client(Option<Link>, Option<Arc<OwnedFd>>),
}

/// The address that a client on the port asks from.
#[derive(Clone, Copy, Debug)]
pub struct Remote(pub SocketAddr);

/// What the caller is known by.
#[derive(Clone)]
pub enum Pass {
    /// The socket's credentials.
    Socket,
    /// The caller sent a token.
    Token(Arc<Token>),
    /// The caller's browser sent the cookie of a session.
    Session(Arc<Session>),
}

/// A caller that is known.
#[derive(Clone)]
pub struct Visit {
    /// The user who asks.
    pub caller: Caller,
    /// What the caller may do.
    pub scope: Scope,
    /// What the caller is known by.
    pub pass: Pass,
}

/// The caller of a request, as routes find it; `None` if unknown.
#[derive(Clone)]
struct Seen(Option<Visit>);

/// Checks a request's caller, before any route.
pub async fn admit(State(site): State<Arc<Site>>, mut request: Request, next: Next) -> Response {
    let visit = site.recognise(request.extensions().get(), request.headers());
    if let Some(Visit { pass: Pass::Socket, caller, .. }) = &visit {
        site.slow_down(caller).await;
    } else {
        let remote = request.extensions().get().map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), |Remote(address)| address.ip());
        let key = match visit.as_ref().map(|visit| &visit.pass) {
            Some(Pass::Token(token)) => Key::Token(token.id),
            Some(Pass::Session(session)) => Key::Token(session.token.id),
            Some(Pass::Socket) | None => Key::Guest(Guest::at(remote)),
        };
        if let Err(wait) = site.rates.take(key, Instant::now()) {
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
    /// Keeps a local user who asks too fast waiting, so that others have their turn. A script is slowed down and not refused.
    async fn slow_down(&self, caller: &Caller) {
        if caller.is_admin {
            return;
        }
        while let Err(wait) = self.rates.take(Key::Guest(Guest::User(caller.uid)), Instant::now()) {
            tokio::time::sleep(wait).await;
        }
    }

    /// Whether a caller that was let in before would be let in now.
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
            // The request does not wait until this is written down.
            _ = self.inbox.send(Message::Tokens(TokenChange::Used(token.id, wall_ns()), tokio::sync::oneshot::channel().0));
        }
        Some(self.by_token(&token, pass))
    }

    /// The user a token speaks for. A user who is no longer an administrator has no administrator's rights by an old token.
    pub fn by_token(&self, token: &Token, pass: Pass) -> Visit {
        let owner = self.caller(token.uid);
        let is_admin = token.scope == Scope::Admin && owner.is_admin;
        let scope = if is_admin { Scope::Admin } else { token.scope.min(Scope::Submit) };
        let may_write = scope != Scope::Read;
        Visit { caller: Caller { is_admin, may_write, ..owner }, scope, pass }
    }

    /// Whoever a token was made for, with what it allows.
    pub(crate) fn holder_of(&self, token: &str) -> Option<Caller> {
        let token = self.board.tokens.find(token, wall_ns())?;
        Some(self.by_token(&token, Pass::Token(Arc::clone(&token))).caller)
    }

    /// A user with all their rights.
    pub(crate) fn caller(&self, uid: u32) -> Caller {
        let is_admin = uid == 0 || uid == self.settings.daemon_uid || self.settings.admins.contains(&uid);
        let (user, gid) = self.users.find(uid);
        Caller { uid, gid, user, is_admin, may_write: true }
    }
}
