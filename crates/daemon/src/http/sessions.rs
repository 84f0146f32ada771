//! Sessions: a browser shows a token once, and from then on a cookie that scripts cannot read. Hashes of the cookies are kept, in memory
//! and in a file, so that users stay signed in when the daemon restarts; the end of a token ends its sessions.

use super::auth::{Pass, Visit, forged};
use super::sign_in_links::SignInLinks;
use super::{Answer, Problem, Site};
use crate::access::tokens::{Token, Tokens, hash, secret};
use crate::api;
use crate::clock::wall_ns;
use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// Where sessions begin and end.
pub const PATH: &str = "/api/v1/session";
const COOKIE: &str = "rota_session";
/// The most there may be; the oldest is signed out for one more.
const SESSIONS_MAX: usize = 10_000;

pub(crate) fn routes() -> OpenApiRouter<Arc<Site>> {
    OpenApiRouter::new().routes(routes!(sign_in, whoami, sign_out)).routes(routes!(make_link)).routes(routes!(follow_link))
}

/// A browser that showed a token.
pub struct Session {
    /// The token it showed.
    pub token: Arc<Token>,
    key: [u8; 32],
    csrf: String,
    began_ns: i64,
    ends_ns: i64,
}

impl Session {
    /// Whether a change was asked for by a page of ours, which alone can know the word.
    pub fn is_ours(&self, word: Option<&HeaderValue>) -> bool {
        // Hashes of equal length are compared, and tell nothing of how near the word was.
        word.and_then(|word| word.to_str().ok()).is_some_and(|word| hash(word) == hash(&self.csrf))
    }

    fn is_over(&self, now_ns: i64) -> bool {
        self.ends_ns <= now_ns
    }
}

/// A session as it is written down.
#[derive(Serialize, Deserialize)]
struct Kept {
    key: [u8; 32],
    /// The hash of its token.
    token: [u8; 32],
    csrf: String,
    began_ns: i64,
    ends_ns: i64,
}

/// All sessions, by the hashes of their cookies.
pub struct Sessions {
    open: Mutex<HashMap<[u8; 32], Arc<Session>>>,
    length_ns: i64,
    file: PathBuf,
    /// Held while the file is written.
    writes: Mutex<()>,
    links: SignInLinks,
}

impl Sessions {
    /// Those of a file, for tokens that are still known; new ones last so long. Whoever is not in the file, or if it cannot be read, signs in.
    pub fn open(file: PathBuf, hours: f64, tokens: &Tokens) -> Self {
        let kept = std::fs::read(&file).ok().and_then(|text| serde_json::from_slice::<Vec<Kept>>(&text).ok());
        let session = |kept: Kept| {
            let Kept { key, token, csrf, began_ns, ends_ns } = kept;
            Some((key, Arc::new(Session { token: tokens.by_hash(&token)?, key, csrf, began_ns, ends_ns })))
        };
        let open = kept.unwrap_or_default().into_iter().filter_map(session).collect();
        Self {
            open: Mutex::new(open),
            length_ns: (hours * 3.6e12) as i64,
            file,
            writes: Mutex::default(),
            links: SignInLinks::default(),
        }
    }

    /// Writes the sessions to the file. The disk may be slow, so that async code must not call this.
    fn keep(&self) -> io::Result<()> {
        let _alone = self.writes.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = |session: &Arc<Session>| Kept {
            key: session.key,
            token: session.token.hash,
            csrf: session.csrf.clone(),
            began_ns: session.began_ns,
            ends_ns: session.ends_ns,
        };
        let all = self.open.lock().unwrap_or_else(PoisonError::into_inner).values().map(kept).collect::<Vec<_>>();
        let next = self.file.with_extension("next");
        let mut file = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&next)?;
        file.write_all(&serde_json::to_vec(&all)?)?;
        std::fs::rename(next, &self.file)
    }

    /// The session of a request.
    pub fn find(&self, headers: &HeaderMap, tokens: &Tokens) -> Option<Arc<Session>> {
        let cookie = cookie_in(headers)?;
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let session = open.get(&hash(cookie)).cloned()?;
        drop(open);
        self.is_good(&session, tokens).then_some(session)
    }

    /// Whether a session is still good.
    pub fn is_good(&self, session: &Session, tokens: &Tokens) -> bool {
        let now_ns = wall_ns();
        let is_open = self.open.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&session.key);
        is_open && !session.is_over(now_ns) && tokens.is_good(&session.token, now_ns)
    }

    /// Begins one; gives it with its cookie.
    fn begin(&self, token: Arc<Token>) -> io::Result<(Arc<Session>, String)> {
        let (cookie, csrf, now_ns) = (secret("")?, secret("")?, wall_ns());
        let ends_ns = now_ns.saturating_add(self.length_ns);
        let session = Arc::new(Session { token, key: hash(&cookie), csrf, began_ns: now_ns, ends_ns });
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|_, session| !session.is_over(now_ns));
        if open.len() >= SESSIONS_MAX
            && let Some(oldest) = open.values().min_by_key(|session| session.began_ns).map(|session| session.key)
        {
            open.remove(&oldest);
        }
        open.insert(session.key, Arc::clone(&session));
        Ok((session, cookie))
    }

    fn end(&self, session: &Session) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(&session.key);
    }
}

fn cookie_in(headers: &HeaderMap) -> Option<&str> {
    let all = headers.get_all(header::COOKIE).into_iter().filter_map(|value| value.to_str().ok());
    all.flat_map(|value| value.split(';')).find_map(|pair| pair.trim().strip_prefix(COOKIE)?.strip_prefix('='))
}

fn told(visit: &Visit) -> api::Session {
    let csrf = match &visit.pass {
        Pass::Session(session) => Some(session.csrf.clone()),
        Pass::Socket | Pass::Token(_) => None,
    };
    api::Session { user: visit.caller.user.clone(), scope: visit.scope, csrf }
}

/// Signs in a browser with a token: the answer sets the cookie `rota_session`.
#[utoipa::path(post, path = "/api/v1/session", request_body = api::SignIn, responses((status = 200, body = api::Session)))]
async fn sign_in(State(site): State<Arc<Site>>, Json(ask): Json<api::SignIn>) -> Result<Response, Problem> {
    let token = site.known_token(&ask)?;
    let failed = |error: io::Error| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", error.to_string());
    let (session, cookie) = site.sessions.begin(Arc::clone(&token)).map_err(failed)?;
    site.keep_sessions().await?;
    let answer = told(&site.by_token(&token, Pass::Session(session)));
    let cookie = site.cookie(&cookie, site.sessions.length_ns / 1_000_000_000);
    Ok(([(header::SET_COOKIE, cookie)], Json(answer)).into_response())
}

/// Makes a link that signs a browser in once, with a token. It lasts ten minutes.
#[utoipa::path(post, path = "/api/v1/sign-in-links", request_body = api::SignIn, responses((status = 201, body = api::SignInLink), (status = "4XX", body = api::Problem)))]
async fn make_link(
    State(site): State<Arc<Site>>,
    visit: Visit,
    Json(ask): Json<api::SignIn>,
) -> Result<(StatusCode, Json<api::SignInLink>), Problem> {
    if !visit.caller.may_write {
        return Err(Problem::new(StatusCode::FORBIDDEN, "forbidden", "this token may only read"));
    }
    let token = site.known_token(&ask)?;
    let failed = |error: io::Error| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", error.to_string());
    let (code, ends_ns) = site.sessions.links.make(token, wall_ns()).map_err(failed)?;
    let link = api::SignInLink { path: format!("/sign-in/{code}"), expires_at: crate::clock::rfc3339(ends_ns) };
    Ok((StatusCode::CREATED, Json(link)))
}

/// Signs a browser in by a link, once, and sends it to the page.
#[utoipa::path(get, path = "/sign-in/{code}", params(("code" = String, Path, description = "The code of the link.")), responses((status = 303), (status = "4XX", body = api::Problem)))]
async fn follow_link(State(site): State<Arc<Site>>, Path(code): Path<String>) -> Result<Response, Problem> {
    let now_ns = wall_ns();
    let token = site.sessions.links.take(&code, now_ns).filter(|token| site.board.tokens.is_good(token, now_ns));
    let Some(token) = token else {
        let title = "this link was used already, or is too old: it signs in once, within ten minutes";
        return Err(Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", title));
    };
    let failed = |error: io::Error| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", error.to_string());
    let (_, cookie) = site.sessions.begin(token).map_err(failed)?;
    site.keep_sessions().await?;
    let cookie = site.cookie(&cookie, site.sessions.length_ns / 1_000_000_000);
    Ok((StatusCode::SEE_OTHER, [(header::SET_COOKIE, cookie), (header::LOCATION, "/".to_owned())]).into_response())
}

/// The caller's name and rights, whether known by socket, token or cookie.
#[utoipa::path(get, path = "/api/v1/session", responses((status = 200, body = api::Session)))]
async fn whoami(visit: Visit) -> Json<api::Session> {
    Json(told(&visit))
}

/// Signs a browser out.
#[utoipa::path(delete, path = "/api/v1/session", responses((status = 200)))]
async fn sign_out(State(site): State<Arc<Site>>, visit: Visit, headers: HeaderMap) -> Result<Response, Problem> {
    if let Pass::Session(session) = &visit.pass {
        if !session.is_ours(headers.get(super::auth::CSRF)) {
            return Err(forged());
        }
        site.sessions.end(session);
        site.keep_sessions().await?;
        site.board.tokens.announce();
    }
    let answer: Answer<()> = Ok(Json(()));
    Ok(([(header::SET_COOKIE, site.cookie("", 0))], answer).into_response())
}

impl Site {
    /// Writes sessions down. Without room on the disk they go on all the same, until the daemon ends.
    async fn keep_sessions(self: &Arc<Self>) -> Result<(), Problem> {
        self.aside(|site| {
            _ = site.sessions.keep();
            Ok(())
        })
        .await
    }

    /// The token that a browser shows.
    fn known_token(&self, ask: &api::SignIn) -> Result<Arc<Token>, Problem> {
        self.board.tokens.find(ask.token.trim(), wall_ns()).ok_or_else(|| {
            let title = "this token is not known, or not good any more; `rota token create` makes another";
            Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", title)
        })
    }

    fn cookie(&self, value: &str, seconds: i64) -> String {
        let secure = if self.settings.has_tls { "; Secure" } else { "" };
        format!("{COOKIE}={value}; HttpOnly; SameSite=Strict; Path=/; Max-Age={seconds}{secure}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::tokens::{OWN, Scope};
    use std::os::unix::fs::MetadataExt as _;

    fn headers(cookie: &str) -> HeaderMap {
        HeaderMap::from_iter([(header::COOKIE, HeaderValue::from_str(cookie).unwrap())])
    }

    #[test]
    fn a_session_lasts_until_its_time_its_token_or_its_owner_ends_it() {
        let tokens = Tokens::default();
        let (token, text) = Token::mint(1, "ada".to_owned(), "mine".to_owned(), Scope::Read, (0, None)).unwrap();
        assert_eq!(token.id, OWN);
        tokens.insert(token);
        let token = tokens.find(&text, 0).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("sessions");
        let sessions = Sessions::open(file.clone(), 1.0, &tokens);
        let (session, cookie) = sessions.begin(Arc::clone(&token)).unwrap();
        let cookie = format!("a=b; {COOKIE}={cookie}; c=d");
        assert!(sessions.find(&headers(&cookie), &tokens).is_some());
        for other in ["", "rota_session", "rota_session=", "rota_session=1", "xrota_session=1"] {
            assert!(sessions.find(&headers(other), &tokens).is_none(), "{other}");
        }
        assert!(session.is_ours(Some(&HeaderValue::from_str(&session.csrf).unwrap())));
        assert!(!session.is_ours(None) && !session.is_ours(Some(&HeaderValue::from_static(""))));
        sessions.keep().unwrap();
        let after_a_restart = Sessions::open(file.clone(), 1.0, &tokens);
        let again = after_a_restart.find(&headers(&cookie), &tokens).unwrap();
        assert_eq!((&again.csrf, again.ends_ns), (&session.csrf, session.ends_ns));
        let without_the_token = Sessions::open(file.clone(), 1.0, &Tokens::default());
        assert!(without_the_token.find(&headers(&cookie), &tokens).is_none());
        assert_eq!(std::fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
        sessions.end(&session);
        assert!(sessions.find(&headers(&cookie), &tokens).is_none());
        sessions.keep().unwrap();
        assert!(Sessions::open(file.clone(), 1.0, &tokens).find(&headers(&cookie), &tokens).is_none());
        std::fs::write(&file, "no sessions").unwrap();
        assert!(Sessions::open(file.clone(), 1.0, &tokens).find(&headers(&cookie), &tokens).is_none());
        let (session, _) = sessions.begin(Arc::clone(&token)).unwrap();
        assert!(sessions.is_good(&session, &tokens) && !sessions.is_good(&session, &Tokens::default()));
        let short = Sessions::open(file, 0.0, &tokens);
        let (session, _) = short.begin(token).unwrap();
        assert!(!short.is_good(&session, &tokens));
    }

    #[test]
    fn the_oldest_makes_room() {
        let tokens = Tokens::default();
        let (token, text) = Token::mint(1, "ada".to_owned(), "mine".to_owned(), Scope::Read, (0, None)).unwrap();
        tokens.insert(token);
        let token = tokens.find(&text, 0).unwrap();
        let sessions = Sessions::open(PathBuf::from("/nowhere/sessions"), 1.0, &tokens);
        let all = (0..=SESSIONS_MAX).map(|_| sessions.begin(Arc::clone(&token)).unwrap().0).collect::<Vec<_>>();
        assert_eq!(sessions.open.lock().unwrap().len(), SESSIONS_MAX);
        assert!(!sessions.is_good(&all[0], &tokens) && sessions.is_good(&all[SESSIONS_MAX], &tokens));
    }
}
