//! Who asks: known by the socket's credentials, or by a token.

use super::{Problem, Site};
use crate::platform::Caller;
use crate::tokens::Scope;
use crate::users;
use axum::extract::connect_info::Connected;
use axum::extract::{ConnectInfo, FromRequestParts};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use axum::serve::IncomingStream;
use std::sync::Arc;
use tokio::net::{TcpListener, UnixListener};

/// Who is at the other end.
#[derive(Clone, Debug)]
pub enum Peer {
    /// A local process, by its socket's credentials.
    Local { uid: u32, gid: u32 },
    /// Somebody on the loopback port.
    Network,
}

impl Connected<IncomingStream<'_, UnixListener>> for Peer {
    fn connect_info(stream: IncomingStream<'_, UnixListener>) -> Self {
        stream.io().peer_cred().map_or(Self::Network, |cred| Self::Local { uid: cred.uid(), gid: cred.gid() })
    }
}

impl Connected<IncomingStream<'_, TcpListener>> for Peer {
    fn connect_info(_: IncomingStream<'_, TcpListener>) -> Self {
        Self::Network
    }
}

impl FromRequestParts<Arc<Site>> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, site: &Arc<Site>) -> Result<Self, Problem> {
        match parts.extensions.get::<ConnectInfo<Peer>>() {
            Some(ConnectInfo(Peer::Local { uid, gid })) => Ok(site.local(*uid, *gid)),
            _ => site.by_token(&parts.headers),
        }
    }
}

impl Site {
    fn local(&self, uid: u32, gid: u32) -> Caller {
        let is_admin = uid == 0 || uid == self.daemon_uid || self.admins.contains(&uid);
        Caller { uid, gid, user: users::name_of(uid), is_admin, may_write: true }
    }

    fn by_token(&self, headers: &HeaderMap) -> Result<Caller, Problem> {
        let given = headers
            .get(header::AUTHORIZATION)
            .and_then(|value| value.to_str().ok())
            .and_then(|value| value.strip_prefix("Bearer "));
        let known = given.and_then(|token| self.tokens.find(token));
        let Some(token) = known else {
            let title = "this needs a token: send `Authorization: Bearer TOKEN`; the daemon's own is in the file `token` of its state directory";
            return Err(Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", title));
        };
        let gid = nix::unistd::User::from_uid(nix::unistd::Uid::from_raw(token.uid))
            .ok()
            .flatten()
            .map_or(token.uid, |user| user.gid.as_raw());
        Ok(Caller { is_admin: token.scope == Scope::Admin, may_write: token.scope != Scope::Read, ..self.local(token.uid, gid) })
    }
}
