//! Watchmen's routes, for the clients people already have: its paths, its fields and its words for what a client is doing.
//!
//! Every answer is `{"status": "ok" or "err", "msg": …}`; what a client did wrong is told with HTTP 200, as its library expects.

use crate::access::users;
use crate::api::{Gpu, GpuState};
use crate::clock::{rfc3339, wall_ns};
use crate::config::Watchmen;
use crate::http::privacy::Viewer;
use crate::http::{Peer, Problem, Site};
use crate::machine::platform::{Caller, Message, Verb};
use crate::watchmen::clients::{Asker, Client, ClientStatus, Clients, Registration, Wish};
use crate::watchmen::connection::{Link, Neighbour, holder};
use crate::watchmen::keeper::{Keeper, Kept};
use axum::body::{Body, Bytes};
use axum::extract::{ConnectInfo, FromRequestParts, Path, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, Version, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::convert::Infallible;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{broadcast, watch};

/// How long a browser is known after it has shown a token.
const SESSION: Duration = Duration::from_hours(12);
/// A held answer sends a blank so often, for clients that give up on silence.
const BLANK_EVERY: Duration = Duration::from_secs(1);
/// The longest time an answer is held back, for a client that has already waited as long.
const HELD_MAX: Duration = Duration::from_mins(10);
/// The name of the cookie.
const COOKIE: &str = "rota_watchmen";
/// The user id of a caller on this machine whose user cannot be found: `nobody`.
const NOBODY: u32 = 65534;

/// The state of these routes, beside the site's.
pub struct WatchmenRoutes {
    config: Watchmen,
    /// The GPUs of the machine, known before they were first looked at.
    gpus: Vec<u32>,
    sessions: Mutex<HashMap<String, (String, Instant)>>,
    /// Finishes held answers if the daemon dies.
    keeper: Option<Arc<Keeper>>,
    /// Tells held answers that the daemon stops. The daemon waits until all of them have been sent.
    stopping: watch::Sender<bool>,
}

impl WatchmenRoutes {
    /// The state for a daemon with these GPUs.
    pub fn new(config: Watchmen, gpus: Vec<u32>, keeper: Option<Keeper>) -> Self {
        Self { config, gpus, sessions: Mutex::default(), keeper: keeper.map(Arc::new), stopping: watch::Sender::new(false) }
    }

    /// Sends all answers that are still held back. A client that asks again later does not notice that the daemon was away.
    pub async fn close(&self) {
        self.stopping.send_replace(true);
        self.stopping.closed().await;
    }

    fn open_session(&self, token: &str) -> Option<String> {
        let name = crate::access::tokens::secret("").ok()?;
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.retain(|_, (_, since)| since.elapsed() < SESSION);
        sessions.insert(name.clone(), (token.to_owned(), Instant::now()));
        Some(name)
    }

    fn token_of_session(&self, headers: &HeaderMap) -> Option<String> {
        let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut cookies = cookies.flat_map(|line| line.split(';')).filter_map(|cookie| cookie.trim().split_once('='));
        let (_, name) = cookies.find(|(name, _)| *name == COOKIE)?;
        let sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.get(name).filter(|(_, since)| since.elapsed() < SESSION).map(|(token, _)| token.clone())
    }
}

pub(crate) fn routes() -> Router<Arc<Site>> {
    let shown = Router::new().route("/api", get(everything)).layer(middleware::from_fn(for_other_pages));
    Router::new()
        .route("/auth", post(authenticate))
        .route("/gpu/{gpu}", get(gpu))
        .route("/gpus/{gpus}", get(gpus))
        .route("/client/register", post(register))
        .route("/client/ping", post(ping))
        .route("/client/cancel", post(cancel))
        .route("/client/release", post(release))
        .route("/show/work", get(show_work))
        .route("/show/finished", get(show_finished))
        .route("/show/gpus", get(show_gpus))
        .route("/old", get(async || Redirect::permanent("/")))
        .merge(shown)
}

/// An answer that says why not.
struct Refused(StatusCode, String);

impl Refused {
    /// What a client did wrong.
    fn told(why: impl Into<String>) -> Self {
        Self(StatusCode::OK, why.into())
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        (self.0, Json(json!({ "status": "err", "msg": self.1 }))).into_response()
    }
}

impl From<Problem> for Refused {
    fn from(Problem(status, problem): Problem) -> Self {
        // Whoever may not, or comes when nothing can be written, is not a client that asked for the wrong thing.
        let is_answer = matches!(status, StatusCode::BAD_REQUEST | StatusCode::CONFLICT | StatusCode::NOT_FOUND);
        Self(if is_answer { StatusCode::OK } else { status }, problem.title)
    }
}

type Answer = Result<Json<Value>, Refused>;

fn ok(msg: impl Into<Value>) -> Json<Value> {
    Json(json!({ "status": "ok", "msg": msg.into() }))
}

/// A caller that may use these routes.
struct Visitor {
    /// Known by a token or a socket; without either, where none is needed, by the connection.
    caller: Option<Caller>,
    link: Option<Link>,
    connection: Option<Arc<OwnedFd>>,
}

impl FromRequestParts<Arc<Site>> for Visitor {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, site: &Arc<Site>) -> Result<Self, Refused> {
        let (link, connection) = match parts.extensions.get::<ConnectInfo<Peer>>() {
            Some(ConnectInfo(Peer::Local { uid, gid })) => {
                let caller = Caller { gid: *gid, ..site.caller(*uid) };
                return Ok(Self { caller: Some(caller), link: None, connection: None });
            }
            Some(ConnectInfo(Peer::Network(link))) => (*link, None),
            Some(ConnectInfo(Peer::Client(link, connection))) => (*link, connection.clone()),
            None => (None, None),
        };
        // Only with this version do answers come in parts that can be gone on with.
        let connection = connection.filter(|_| parts.version == Version::HTTP_11);
        // A request that a proxy passed on says nothing about the process that sent it.
        let is_passed_on = ["forwarded", "x-forwarded-for", "via"].iter().any(|name| parts.headers.contains_key(*name));
        let link = link.filter(|_| !is_passed_on);
        let given = token_in(parts).or_else(|| site.watchmen.token_of_session(&parts.headers));
        if let Some(caller) = given.and_then(|token| site.holder_of(&token)) {
            return Ok(Self { caller: Some(caller), link, connection });
        }
        if !site.watchmen.config.auth && link.is_some_and(|link| link.client.ip().is_loopback()) && is_for_here(parts) {
            return Ok(Self { caller: None, link, connection });
        }
        Err(Refused(StatusCode::UNAUTHORIZED, "Authentication required".to_owned()))
    }
}

fn token_in(parts: &Parts) -> Option<String> {
    let text = |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok());
    let header = text("x-auth-token").or_else(|| text("authorization").and_then(|value| value.strip_prefix("Bearer ")));
    header.map(str::to_owned).or_else(|| {
        let query = axum::extract::Query::<HashMap<String, String>>::try_from_uri(&parts.uri).ok()?;
        query.0.get("token").cloned()
    })
}

/// Whether a request without a token names this machine, and is not a web page's that made its own name lead here.
fn is_for_here(parts: &Parts) -> bool {
    let host = parts.headers.get(header::HOST).and_then(|host| host.to_str().ok()).map(str::to_owned);
    let host = host.or_else(|| parts.uri.host().map(str::to_owned)).unwrap_or_default();
    let host: Option<Uri> = format!("http://{host}/").parse().ok();
    let name = host.as_ref().and_then(Uri::host).unwrap_or_default();
    let address = name.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>();
    name == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

impl Visitor {
    /// The caller's user and process. Several people share the daemon's own token: its caller is the user who owns
    /// the connection, where that can be known.
    async fn known(&self, site: &Site) -> (Caller, Option<Neighbour>) {
        let link = self.link;
        let neighbour = match link {
            Some(link) => tokio::task::spawn_blocking(move || link.neighbour()).await.ok().flatten(),
            None => None,
        };
        let local = |uid: u32| site.caller(uid);
        let caller = match (&self.caller, &neighbour) {
            (Some(caller), Some(neighbour)) if caller.uid == site.settings.daemon_uid => {
                Caller { may_write: caller.may_write, ..local(neighbour.uid) }
            }
            (Some(caller), _) => caller.clone(),
            (None, Some(neighbour)) => local(neighbour.uid),
            (None, None) => Caller { is_admin: false, ..local(NOBODY) },
        };
        (caller, neighbour)
    }
}

/// A body of JSON. A page of another site cannot send one without asking first, which it is not allowed to.
struct Said<T>(T);

impl<T: DeserializeOwned> axum::extract::FromRequest<Arc<Site>> for Said<T> {
    type Rejection = Refused;

    async fn from_request(request: Request, site: &Arc<Site>) -> Result<Self, Refused> {
        let kind = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        if kind.split(';').next().map(str::trim) != Some("application/json") {
            return Err(Refused(StatusCode::UNSUPPORTED_MEDIA_TYPE, "send JSON, as `Content-Type: application/json`".to_owned()));
        }
        let bytes = Bytes::from_request(request, site).await.map_err(|error| Refused(error.status(), error.body_text()))?;
        let value = serde_json::from_slice(&bytes);
        value.map(Self).map_err(|error| Refused(StatusCode::BAD_REQUEST, format!("this is not what is expected here: {error}")))
    }
}

#[derive(Deserialize)]
struct Token {
    token: Option<String>,
}

async fn authenticate(State(site): State<Arc<Site>>, Said(body): Said<Token>) -> Result<Response, Refused> {
    if !site.watchmen.config.auth {
        return Ok(ok("no token is needed here").into_response());
    }
    let Some(token) = body.token else {
        return Err(Refused(StatusCode::BAD_REQUEST, "there is no token in this".to_owned()));
    };
    let session = site.holder_of(&token).and_then(|_| site.watchmen.open_session(&token));
    let Some(session) = session else {
        return Err(Refused(StatusCode::UNAUTHORIZED, "this token is not valid".to_owned()));
    };
    let cookie = format!("{COOKIE}={session}; HttpOnly; SameSite=Strict; Path=/; Max-Age={}", SESSION.as_secs());
    Ok(([(header::SET_COOKIE, cookie)], ok("signed in")).into_response())
}

/// Whether a GPU could be given out now.
fn is_free(site: &Site, index: &str) -> Result<(u32, bool), Refused> {
    let view = site.board.read();
    let found = index.trim().parse::<u32>().ok().and_then(|index| view.gpus.iter().find(|gpu| gpu.index == index));
    let found = found.map(|gpu| (gpu.index, gpu.state == GpuState::Free));
    found.ok_or_else(|| Refused::told(format!("there is no GPU `{index}`")))
}

async fn gpu(State(site): State<Arc<Site>>, _: Visitor, Path(gpu): Path<String>) -> Answer {
    Ok(ok(is_free(&site, &gpu)?.1))
}

async fn gpus(State(site): State<Arc<Site>>, _: Visitor, Path(gpus): Path<String>) -> Response {
    let found = gpus.split(',').map(|gpu| is_free(&site, gpu)).collect::<Result<Vec<_>, _>>();
    match found {
        Ok(mut found) => {
            found.sort_unstable();
            let all = found.iter().all(|(_, free)| *free);
            let detail = found.iter().map(|(gpu, free)| json!({ "gpu": gpu, "status": free })).collect::<Vec<_>>();
            Json(json!({ "status": "ok", "msg": all, "detail": detail })).into_response()
        }
        Err(Refused(status, why)) => (status, Json(json!({ "status": "err", "msg": why, "detail": [] }))).into_response(),
    }
}

#[derive(Deserialize)]
struct Register {
    id: String,
    gpus: Option<Vec<i64>>,
    mode: Option<String>,
    req_gpu_num: Option<i64>,
    /// Not watchmen's: the process whose life it is tied to, for clients that tell.
    pid: Option<u32>,
}

async fn register(State(site): State<Arc<Site>>, visitor: Visitor, Said(ask): Said<Register>) -> Answer {
    let gpus = ask.gpus.unwrap_or_default();
    let wish = Wish::understand(ask.id, ask.mode.as_deref(), &gpus, ask.req_gpu_num.unwrap_or(0), &site.watchmen.gpus);
    let wish = wish.map_err(Refused::told)?;
    let (caller, neighbour) = visitor.known(&site).await;
    // A process id means something only on the machine that gave it.
    let is_local = neighbour.is_some() || visitor.link.is_none();
    let holder = match ask.pid.filter(|_| is_local) {
        None => None,
        Some(pid) if !caller.is_admin && users::owner_of_process(pid) != Some(caller.uid) => {
            return Err(Refused::told(format!("process {pid} is not yours")));
        }
        Some(pid) => Some(holder(pid).ok_or_else(|| Refused::told(format!("there is no process {pid}")))?),
    };
    let process = neighbour.and_then(|neighbour| neighbour.process_of(caller.uid));
    let job = site.ask(|reply| Message::Register(Box::new(Registration { wish, holder }), caller, reply)).await?;
    _ = site.inbox.send(Message::Pinged(job, process));
    Ok(ok(""))
}

#[derive(Deserialize)]
struct Named {
    id: String,
}

/// The last client of an id that a caller may ask about.
struct Found {
    job: u64,
    status: ClientStatus,
    /// The client's owner.
    uid: u32,
    /// Whether the process that the client is must still be found out.
    is_untied: bool,
}

impl Found {
    fn of(client: &Client) -> Self {
        let (job, uid) = (client.record.id, client.record.uid);
        Self { job, status: client.status(), uid, is_untied: client.tie.is_none() }
    }
}

/// A caller's own client. Administrators find those of others, too.
fn find(site: &Site, id: &str, caller: &Caller) -> Result<Found, Refused> {
    let view = site.board.read();
    let (own, anybodys) = (view.clients.get(caller.uid, id), view.clients.of_anybody(id));
    let found = own.or_else(|| anybodys.filter(|_| caller.is_admin));
    found.map(Found::of).ok_or_else(|| {
        Refused::told(match anybodys {
            Some(client) => {
                format!("client `{id}` belongs to {}; only its owner or an administrator may touch it", client.record.user)
            }
            None => "no client of this id is registered".to_owned(),
        })
    })
}

/// The client that a ping is about, and whether the ping counts. A caller whose user cannot be found out now may see how the client is, and
/// changes nothing: a client that is refused once would give up.
async fn pinged(site: &Arc<Site>, visitor: &Visitor, id: &str) -> Result<(Found, bool, Option<Asker>), Refused> {
    let (caller, neighbour) = visitor.known(site).await;
    if visitor.caller.is_none() && neighbour.is_none() {
        let found = site.board.read().clients.of_anybody(id).map(Found::of);
        return found.map(|found| (found, false, None)).ok_or_else(|| Refused::told("no client of this id is registered"));
    }
    let found = find(site, id, &caller)?;
    // Only a process of the client's owner can be the client.
    let process = neighbour.filter(|_| found.is_untied && caller.may_write).and_then(|neighbour| neighbour.process_of(found.uid));
    Ok((found, caller.may_write, process))
}

/// The state of a client. While it waits the answer is held back for a while, and sent when there is a better one.
async fn ping(State(site): State<Arc<Site>>, visitor: Visitor, Said(ask): Said<Named>) -> Result<Response, Refused> {
    // Nothing that happens from here on is missed.
    let events = site.board.listen();
    let (Found { job, status, .. }, counts, process) = pinged(&site, &visitor, &ask.id).await?;
    let heard = |site: &Site, process| {
        if counts {
            _ = site.inbox.send(Message::Pinged(job, process));
        }
    };
    let patience = Duration::from_secs_f64(site.watchmen.config.ping_seconds);
    if status != ClientStatus::Waiting || patience.is_zero() {
        heard(&site, process);
        return Ok(Json(standing(&site, job)).into_response());
    }
    let stopping = site.watchmen.stopping.subscribe();
    let keeper = site.watchmen.keeper.as_ref();
    let kept = keeper.zip(visitor.connection).and_then(|(keeper, connection)| keeper.keep(connection.as_fd()));
    // Whoever has waited for long will wait on, and sleeps between two questions: better it hears of its GPUs within one.
    let patience = if kept.is_some() { patience.max((waited(&site, job) * 2).min(HELD_MAX)) } else { patience };
    heard(&site, process);
    let held = Held { job, counts, events, stopping, until: Instant::now() + patience, site, _kept: kept };
    let blanks = futures_util::stream::unfold(Some(held), |held| async move {
        let mut held = held?;
        let part = match tokio::time::timeout(BLANK_EVERY.min(held.left()), held.change()).await {
            Err(_) if !held.left().is_zero() => Bytes::from_static(b" "),
            _ => {
                let answer = standing(&held.site, held.job).to_string();
                if held.counts {
                    _ = held.site.inbox.send(Message::Pinged(held.job, None));
                }
                return Some((Ok::<_, Infallible>(Bytes::from(answer)), None));
            }
        };
        Some((Ok(part), Some(held)))
    });
    Ok(([(header::CONTENT_TYPE, "application/json")], Body::from_stream(blanks)).into_response())
}

fn waited(site: &Site, job: u64) -> Duration {
    let view = site.board.read();
    let since = view.clients.of_job(job).map_or_else(wall_ns, |client| client.record.submitted_ns);
    Duration::from_nanos(u64::try_from(wall_ns() - since).unwrap_or(0))
}

/// An answer that is held back.
struct Held {
    job: u64,
    /// Whether the client itself asked.
    counts: bool,
    events: broadcast::Receiver<Arc<crate::view::board::BroadcastEvent>>,
    stopping: watch::Receiver<bool>,
    until: Instant,
    site: Arc<Site>,
    _kept: Option<Kept>,
}

impl Held {
    fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }

    /// Waits until the client does not wait any more, or the daemon stops.
    async fn change(&mut self) {
        loop {
            let is_waiting =
                self.site.board.read().clients.of_job(self.job).is_some_and(|client| client.status() == ClientStatus::Waiting);
            if !is_waiting || *self.stopping.borrow() {
                return;
            }
            let (events, job) = (&mut self.events, self.job);
            let relevant = async {
                // The one waited for, or too many to follow: look again.
                while events.recv().await.is_ok_and(|event| event.job != Some(job)) {}
            };
            tokio::select! {
                () = relevant => {}
                _ = self.stopping.changed() => return,
            }
        }
    }
}

/// What a client is told of itself.
fn standing(site: &Site, job: u64) -> Value {
    let view = site.board.read();
    let Some(client) = view.clients.of_job(job) else {
        return json!({ "status": "err", "available_gpus": [], "msg": "no client of this id is registered" });
    };
    json!({ "status": "ok", "available_gpus": client.available(), "msg": client.status() })
}

async fn cancel(State(site): State<Arc<Site>>, visitor: Visitor, Said(ask): Said<Named>) -> Answer {
    let (caller, _) = visitor.known(&site).await;
    let Found { job, .. } = find(&site, &ask.id, &caller)?;
    site.ask(|reply| Message::Act(Verb::Cancel, vec![job], caller, reply)).await?;
    Ok(ok(format!("client `{}` is cancelled", ask.id)))
}

/// Not watchmen's: a client that has GPUs gives them back before its process ends.
async fn release(State(site): State<Arc<Site>>, visitor: Visitor, Said(ask): Said<Named>) -> Answer {
    let (caller, _) = visitor.known(&site).await;
    let Found { job, status, .. } = find(&site, &ask.id, &caller)?;
    if status == ClientStatus::Waiting {
        site.ask(|reply| Message::Act(Verb::Cancel, vec![job], caller, reply)).await?;
    } else {
        site.ask(|reply| Message::LetGo(job, caller, reply)).await?;
    }
    Ok(ok(format!("client `{}` has given back its GPUs", ask.id)))
}

/// A client as it is listed.
fn listed(client: &Client, place: i64, why: Option<String>, viewer: &Viewer) -> Value {
    let record = &client.record;
    let is_seen = viewer.sees(record.uid);
    json!({
        "id": client.wish().map(|wish| &wish.id).filter(|_| is_seen),
        "mode": client.wish().map(|wish| wish.mode),
        "register_time": rfc3339(record.submitted_ns),
        "last_request_time": rfc3339(client.requested_ns),
        "status": client.status(),
        "queue_num": place,
        "gpus": client.wish().map(|wish| &wish.gpus),
        "msg": why.or_else(|| record.reason.clone()).filter(|_| is_seen).unwrap_or_default(),
        "req_gpu_num": client.wish().map(|wish| wish.req_gpu_num),
        "available_gpus": client.available(),
        "user": record.user,
        "job": record.id,
        "pid": client.tie.as_ref().map(|tie| tie.holder.pid),
    })
}

fn work(site: &Site, viewer: &Viewer) -> Vec<Value> {
    let view = site.board.read();
    view.clients.working().zip(0..).map(|(client, place)| listed(client, place, view.reason(&client.record), viewer)).collect()
}

fn finished(clients: &Clients, viewer: &Viewer) -> Vec<Value> {
    let mut all = clients.finished().collect::<Vec<_>>();
    all.sort_by_key(|client| client.record.finished_ns);
    all.into_iter().map(|client| listed(client, -1, None, viewer)).collect()
}

/// The jobs whose details a visitor may see.
async fn viewer_of(site: &Site, visitor: &Visitor) -> Viewer {
    if site.settings.is_private { site.viewer(&visitor.known(site).await.0) } else { Viewer::All }
}

async fn show_work(State(site): State<Arc<Site>>, visitor: Visitor) -> Json<Value> {
    ok(work(&site, &viewer_of(&site, &visitor).await))
}

async fn show_finished(State(site): State<Arc<Site>>, visitor: Visitor) -> Json<Value> {
    let viewer = viewer_of(&site, &visitor).await;
    ok(finished(&site.board.read().clients, &viewer))
}

async fn show_gpus(State(site): State<Arc<Site>>, visitor: Visitor) -> Json<Value> {
    ok(stat(&site, &viewer_of(&site, &visitor).await))
}

/// The GPUs with the fields of gpustat, null where nothing is known.
fn stat(site: &Site, viewer: &Viewer) -> Value {
    let gpus = viewer.gpus(site.board.read().gpus.clone());
    let one = |gpu: &Gpu| {
        let processes = gpu.processes.iter().map(|process| {
            json!({
                "username": process.user, "command": process.name, "full_command": process.name.iter().collect::<Vec<_>>(),
                "gpu_memory_usage": process.memory_mib, "cpu_percent": null, "cpu_memory_usage": null, "pid": process.pid,
            })
        });
        json!({
            "index": gpu.index, "uuid": gpu.uuid, "name": gpu.name, "temperature.gpu": gpu.temperature_c, "fan.speed": null,
            "utilization.gpu": gpu.utilisation_percent, "utilization.enc": null, "utilization.dec": null,
            "power.draw": gpu.power_watts.map(|watts| watts as i64), "enforced.power.limit": null,
            "memory.used": gpu.memory_used_mib, "memory.total": gpu.memory_total_mib, "processes": processes.collect::<Vec<_>>(),
        })
    };
    json!({
        "hostname": rustix::system::uname().nodename().to_string_lossy(),
        "driver_version": site.settings.driver,
        "query_time": rfc3339(wall_ns()),
        "gpus": gpus.iter().map(one).collect::<Vec<_>>(),
    })
}

async fn everything(State(site): State<Arc<Site>>, visitor: Visitor) -> Json<Value> {
    let viewer = viewer_of(&site, &visitor).await;
    let done = finished(&site.board.read().clients, &viewer);
    Json(json!({ "gpu": stat(&site, &viewer), "work_queue": work(&site, &viewer), "finished_queue": done }))
}

/// Answers the browser's question, before its real request, that pages of other sites may read what a token shows.
async fn for_other_pages(request: Request, next: Next) -> Response {
    let is_question = request.method() == axum::http::Method::OPTIONS;
    let mut response = if is_question { StatusCode::NO_CONTENT.into_response() } else { next.run(request).await };
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    if is_question {
        headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, OPTIONS"));
        headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static("x-auth-token"));
    }
    response
}
