//! The API: the same routes on the unix socket, where callers are known by their credentials, and on loopback, where they need a token.

use crate::api;
use crate::board::Board;
use crate::platform::{Caller, Message, Refusal, RefusalKind, Reply, Verb};
use crate::store::{Archive, Past, StoreError};
use crate::tokens::{Scope, Tokens};
use crate::users;
use axum::body::Body;
use axum::extract::connect_info::Connected;
use axum::extract::{ConnectInfo, DefaultBodyLimit, FromRequestParts, Path, Query, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::sse::{Event as SseEvent, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::serve::IncomingStream;
use axum::{Json, Router};
use serde::Deserialize;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, UnixListener};
use tokio_stream::StreamExt;
use tokio_stream::wrappers::BroadcastStream;
use utoipa::{IntoParams, OpenApi};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// The largest request: a thousand-line command with its environment is far below.
const BODY_BYTES_MAX: usize = 16 << 20;
/// The most of a log that is sent at once.
const LOG_CHUNK: u64 = 256 << 10;
/// The longest a caller may be kept waiting for an answer.
const LONG_POLL_MAX: Duration = Duration::from_mins(1);

/// What the handlers share.
pub struct Site {
    pub(crate) board: Arc<Board>,
    pub(crate) inbox: Sender<Message>,
    pub(crate) archive: Mutex<Archive>,
    pub(crate) state_dir: PathBuf,
    pub(crate) admins: Vec<u32>,
    pub(crate) daemon_uid: u32,
    pub(crate) tokens: Tokens,
    pub(crate) status: StatusBase,
    pub(crate) model: crate::model::Model,
}

/// What does not change while the daemon runs.
#[derive(Clone, Debug)]
pub struct StatusBase {
    pub(crate) socket: String,
    pub(crate) http: Option<String>,
    pub(crate) started_at: String,
    pub(crate) driver: String,
}

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

/// A refusal as HTTP says it.
pub struct Problem(StatusCode, api::Problem);

impl Problem {
    fn new(status: StatusCode, kind: &str, title: impl Into<String>) -> Self {
        Self(status, api::Problem { kind: kind.to_owned(), status: status.as_u16(), title: title.into() })
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let (status, kind) = match refusal.kind {
            RefusalKind::BadInput => (StatusCode::BAD_REQUEST, "bad-input"),
            RefusalKind::NotFound => (StatusCode::NOT_FOUND, "not-found"),
            RefusalKind::Forbidden => (StatusCode::FORBIDDEN, "forbidden"),
            RefusalKind::Conflict => (StatusCode::CONFLICT, "conflict"),
            RefusalKind::TooMany => (StatusCode::TOO_MANY_REQUESTS, "too-many"),
            RefusalKind::Unavailable => (StatusCode::INSUFFICIENT_STORAGE, "unavailable"),
        };
        Self::new(status, kind, refusal.message)
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "store", error.to_string())
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = (self.0, Json(self.1)).into_response();
        response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/problem+json"));
        response
    }
}

type Answer<T> = Result<Json<T>, Problem>;

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

    /// Asks the queue, and waits for its answer.
    async fn ask<T>(&self, message: impl FnOnce(Reply<T>) -> Message) -> Result<T, Problem> {
        let gone =
            || Problem::new(StatusCode::SERVICE_UNAVAILABLE, "stopping", "the daemon is stopping; try again when it is back");
        let (reply, answer) = tokio::sync::oneshot::channel();
        self.inbox.send(message(reply)).map_err(|_| gone())?;
        Ok(answer.await.map_err(|_| gone())??)
    }

    fn past<T>(&self, query: impl FnOnce(&Archive) -> Result<T, StoreError>) -> Result<T, StoreError> {
        query(&self.archive.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn history(&self, since_ns: Option<i64>) -> Result<api::History, StoreError> {
        let past = Past { since_ns, limit: u32::MAX, ..Past::default() };
        let archive = self.archive.lock().unwrap_or_else(PoisonError::into_inner);
        let mut records = archive.past(&past)?;
        records.reverse();
        let (first, last) = (records.first().map_or(0, |record| record.id), records.last().map_or(0, |record| record.id));
        let mut runs = archive.runs_of(first, last)?;
        let from_s = records.iter().map(|record| record.submitted_ns).min().unwrap_or(0) / 1_000_000_000;
        let samples = archive.samples(from_s, crate::clock::wall_ns() / 1_000_000_000)?;
        drop(archive);
        let jobs = records.into_iter().map(|record| {
            let (believed_seconds, share_milli, memory_mib) = self.model.of(&record);
            api::PastJob {
                job: record.view(&self.state_dir, None, None),
                ask: record.spec.ask.clone(),
                arrived_at_ns: record.arrived_at,
                believed_seconds,
                share_milli,
                memory_mib,
                runs: runs.remove(&record.id).unwrap_or_default(),
            }
        });
        let jobs = jobs.collect();
        let view = self.board.read();
        Ok(api::History { host: self.model.host.clone(), gpus: view.gpus.clone(), jobs, samples })
    }

    fn job(&self, id: u64) -> Result<api::Job, Problem> {
        {
            let view = self.board.read();
            if let Some(record) = view.jobs.get(&id) {
                return Ok(view.job(record, &self.state_dir));
            }
        }
        let record = self.past(|archive| archive.job(id))?;
        let record = record.ok_or_else(|| Problem::from(crate::world::no_such_job(id)))?;
        Ok(record.view(&self.state_dir, None, None))
    }
}

/// New jobs.
#[utoipa::path(post, path = "/api/v1/jobs", request_body = api::Submit, responses((status = 201, body = api::Submitted), (status = "4XX", body = api::Problem)))]
async fn submit(
    State(site): State<Arc<Site>>,
    caller: Caller,
    Json(ask): Json<api::Submit>,
) -> Result<(StatusCode, Json<api::Submitted>), Problem> {
    may_submit(&site, &caller)?;
    let submitted = site.ask(|reply| Message::Submit(Box::new(ask), caller, reply)).await?;
    Ok((StatusCode::CREATED, Json(submitted)))
}

/// Many submits at once: they reach the queue in their order and are written with few flushes. One that is refused does not keep the
/// others out.
#[utoipa::path(post, path = "/api/v1/jobs/many", request_body = api::SubmitMany, responses((status = 200, body = Vec<api::OneOfMany>), (status = "4XX", body = api::Problem)))]
async fn submit_many(
    State(site): State<Arc<Site>>,
    caller: Caller,
    Json(many): Json<api::SubmitMany>,
) -> Answer<Vec<api::OneOfMany>> {
    may_submit(&site, &caller)?;
    let one = |mut ask: api::Submit| {
        if ask.env.is_empty() {
            ask.env.clone_from(&many.env);
        }
        site.ask(|reply| Message::Submit(Box::new(ask), caller.clone(), reply))
    };
    let answers = futures_util::future::join_all(many.submits.iter().cloned().map(one)).await;
    let told = |answer: Result<api::Submitted, Problem>| match answer {
        Ok(submitted) => Ok(api::OneOfMany { ids: submitted.ids, refusal: None }),
        // A store that takes nothing is not about one of them.
        Err(Problem(status, problem)) if status.is_server_error() => Err(Problem(status, problem)),
        Err(Problem(_, problem)) => Ok(api::OneOfMany { ids: Vec::new(), refusal: Some(problem.title) }),
    };
    Ok(Json(answers.into_iter().map(told).collect::<Result<_, _>>()?))
}

/// A daemon that is not root's runs jobs of its own user only.
fn may_submit(site: &Site, caller: &Caller) -> Result<(), Problem> {
    if site.daemon_uid != 0 && caller.uid != site.daemon_uid {
        let title = "this daemon runs jobs as its own user only; a root daemon runs them as whoever submits them";
        return Err(Problem::new(StatusCode::FORBIDDEN, "forbidden", title));
    }
    Ok(())
}

/// Which jobs to list.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
struct ListQuery {
    /// Jobs that are over, too.
    #[serde(default)]
    all: bool,
    /// Only in this state.
    state: Option<api::State>,
    /// Only of this user.
    user: Option<String>,
    /// Only those that ended since this moment, RFC 3339.
    since: Option<String>,
    /// No more than this.
    limit: Option<u32>,
    /// Go on after the job with this number, which was the last of the page before.
    cursor: Option<u64>,
}

/// Jobs that wait or run, in order of arrival; with `all`, those that are over first.
#[utoipa::path(get, path = "/api/v1/jobs", params(ListQuery), responses((status = 200, body = Vec<api::Job>)))]
async fn list(State(site): State<Arc<Site>>, _: Caller, Query(query): Query<ListQuery>) -> Answer<Vec<api::Job>> {
    let limit = query.limit.unwrap_or(u32::MAX) as usize;
    let since = query.since.as_deref().map(parse_time).transpose()?;
    let mut jobs = Vec::new();
    let wants_past = query.all || since.is_some() || query.state.is_some_and(api::State::is_over);
    if wants_past {
        let uid = query.user.as_deref().and_then(users::find);
        let past = Past { before: query.cursor, state: query.state, uid, since_ns: since, limit: query.limit.unwrap_or(100_000) };
        let mut records = site.past(|archive| archive.past(&past))?;
        records.reverse();
        jobs.extend(records.iter().map(|record| record.view(&site.state_dir, None, None)));
    }
    if since.is_none() {
        let view = site.board.read();
        let chosen = view.jobs.values().filter(|record| query.state.is_none_or(|state| record.state == state));
        // The first page of the past ends with what is not over; the others go back from there.
        let chosen = chosen.filter(|record| query.cursor.is_none_or(|cursor| !wants_past && record.id > cursor));
        let chosen = chosen.filter(|record| query.user.as_ref().is_none_or(|user| record.user == *user));
        jobs.extend(chosen.take(limit).map(|record| view.job(record, &site.state_dir)));
    }
    if let Some(user) = &query.user {
        jobs.retain(|job| job.user == *user);
    }
    if wants_past {
        // Those that are over longest come first, and are left out first.
        jobs.drain(..jobs.len().saturating_sub(limit));
    }
    Ok(Json(jobs))
}

fn parse_time(text: &str) -> Result<i64, Problem> {
    let time: Result<jiff::Timestamp, _> = text.parse();
    time.map(|time| time.as_nanosecond() as i64)
        .map_err(|error| Problem::new(StatusCode::BAD_REQUEST, "bad-input", format!("since: `{text}`: {error}")))
}

/// One job.
#[utoipa::path(get, path = "/api/v1/jobs/{id}", responses((status = 200, body = api::Job), (status = 404, body = api::Problem)))]
async fn show(State(site): State<Arc<Site>>, _: Caller, Path(id): Path<u64>) -> Answer<api::Job> {
    Ok(Json(site.job(id)?))
}

/// Why it waits.
#[utoipa::path(get, path = "/api/v1/jobs/{id}/explain", responses((status = 200, body = api::Explanation), (status = 404, body = api::Problem)))]
async fn explain(State(site): State<Arc<Site>>, caller: Caller, Path(id): Path<u64>) -> Answer<api::Explanation> {
    Ok(Json(site.ask(|reply| Message::Explain(id, caller, reply)).await?))
}

/// How long to wait.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
struct WaitQuery {
    /// Seconds at most; the job as it is then is the answer.
    timeout: Option<f64>,
    /// Wait only until it has started.
    #[serde(default)]
    started: bool,
}

/// The job once it is over, or as it is when the time is up.
#[utoipa::path(get, path = "/api/v1/jobs/{id}/wait", params(WaitQuery), responses((status = 200, body = api::Job), (status = 404, body = api::Problem)))]
async fn wait(State(site): State<Arc<Site>>, _: Caller, Path(id): Path<u64>, Query(query): Query<WaitQuery>) -> Answer<api::Job> {
    let patience = query.timeout.map_or(LONG_POLL_MAX, |seconds| Duration::from_secs_f64(seconds.clamp(0.0, 60.0)));
    let deadline = Instant::now() + patience;
    let mut events = site.board.listen();
    loop {
        let job = site.job(id)?;
        if job.state.is_over() || (query.started && job.state.has_gpus()) {
            return Ok(Json(job));
        }
        let left = deadline.saturating_duration_since(Instant::now());
        let relevant = async {
            loop {
                match events.recv().await {
                    Ok(event) if event.job != Some(id) => {}
                    // The one waited for, or too many to follow: look again.
                    _ => break,
                }
            }
        };
        if left.is_zero() || tokio::time::timeout(left, relevant).await.is_err() {
            return Ok(Json(site.job(id)?));
        }
    }
}

/// What to do to a job.
#[utoipa::path(post, path = "/api/v1/jobs/{id}/{verb}", params(("verb" = String, description = "cancel, hold, release or retry")), responses((status = 200, body = Vec<u64>), (status = "4XX", body = api::Problem)))]
async fn act(State(site): State<Arc<Site>>, caller: Caller, Path((id, verb)): Path<(u64, String)>) -> Answer<Vec<u64>> {
    let verb = match verb.as_str() {
        "cancel" => Verb::Cancel,
        "hold" => Verb::Hold,
        "release" => Verb::Release,
        "retry" => Verb::Retry,
        other => {
            let title = format!("`{other}` is not one of cancel, hold, release, retry");
            return Err(Problem::new(StatusCode::NOT_FOUND, "not-found", title));
        }
    };
    Ok(Json(site.ask(|reply| Message::Act(verb, vec![id], caller, reply)).await?))
}

/// Which part of a log.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
struct LogQuery {
    /// Only so many of the last lines.
    tail: Option<usize>,
    /// Go on until the job is over.
    #[serde(default)]
    follow: bool,
    /// Of this attempt; the last if not given.
    attempt: Option<u32>,
}

/// What a job wrote.
#[utoipa::path(get, path = "/api/v1/jobs/{id}/logs", params(LogQuery), responses((status = 200, content_type = "application/octet-stream", body = Vec<u8>), (status = "4XX", body = api::Problem)))]
async fn logs(
    State(site): State<Arc<Site>>,
    caller: Caller,
    Path(id): Path<u64>,
    Query(query): Query<LogQuery>,
) -> Result<Response, Problem> {
    let record = {
        let known = site.board.read().jobs.get(&id).cloned();
        match known {
            Some(record) => record,
            None => Arc::new(site.past(|archive| archive.job(id))?.ok_or_else(|| Problem::from(crate::world::no_such_job(id)))?),
        }
    };
    if !caller.is_admin && caller.uid != record.uid {
        let title = format!("job {id} belongs to {}; only its owner or an administrator may read its log", record.user);
        return Err(Problem::new(StatusCode::FORBIDDEN, "forbidden", title));
    }
    let path_now = move |site: &Site| {
        let live = site.board.read().jobs.get(&id).cloned();
        let job = live.or_else(|| site.past(|archive| archive.job(id)).ok().flatten().map(Arc::new))?;
        let attempt = query.attempt.unwrap_or(job.attempts);
        (attempt > 0).then(|| crate::record::Record { attempts: attempt, ..(*job).clone() }.log_path(&site.state_dir)).flatten()
    };
    let (sender, receiver) = tokio::sync::mpsc::channel::<Result<Vec<u8>, std::io::Error>>(4);
    let mut events = site.board.listen();
    tokio::spawn(async move {
        let mut place = LogPlace::default();
        let mut first = true;
        loop {
            // Asked before reading: what was written before the end is read after it.
            let over = site.job(id).is_ok_and(|job| job.state.is_over());
            if let Some(path) = path_now(&site) {
                if std::mem::take(&mut first)
                    && let Some(lines) = query.tail
                {
                    place.seek_tail(&path, lines);
                }
                loop {
                    let chunk = place.read(&path);
                    if chunk.is_empty() {
                        break;
                    }
                    if sender.send(Ok(chunk)).await.is_err() {
                        return;
                    }
                }
            }
            if !query.follow || over {
                return;
            }
            // The log grows without an event; a look every so often shows it.
            _ = tokio::time::timeout(Duration::from_millis(150), events.recv()).await;
            if sender.is_closed() {
                return;
            }
        }
    });
    let body = Body::from_stream(tokio_stream::wrappers::ReceiverStream::new(receiver));
    Ok(([(header::CONTENT_TYPE, "application/octet-stream")], body).into_response())
}

/// How far a log was read, across the turns it takes.
#[derive(Default)]
struct LogPlace {
    offset: u64,
    inode: u64,
    path: PathBuf,
}

impl LogPlace {
    fn seek_tail(&mut self, path: &std::path::Path, lines: usize) {
        let Ok(mut file) = std::fs::File::open(path) else { return };
        let length = file.metadata().map_or(0, |meta| meta.len());
        let mut from = length;
        let mut seen = 0;
        while from > 0 {
            let step = from.min(64 << 10);
            let mut chunk = vec![0; step as usize];
            if file.seek(SeekFrom::Start(from - step)).is_err() || file.read_exact(&mut chunk).is_err() {
                break;
            }
            for (position, byte) in chunk.iter().enumerate().rev() {
                // The newline that ends the last line begins no other.
                let at = from - step + position as u64;
                if *byte == b'\n' && at + 1 < length {
                    seen += 1;
                    if seen == lines {
                        self.offset = at + 1;
                        path.clone_into(&mut self.path);
                        self.inode = inode(&file);
                        return;
                    }
                }
            }
            from -= step;
        }
        if lines == 0 {
            self.offset = length;
            path.clone_into(&mut self.path);
            self.inode = inode(&file);
        }
    }

    fn read(&mut self, path: &std::path::Path) -> Vec<u8> {
        let Ok(mut file) = std::fs::File::open(path) else { return Vec::new() };
        let now = inode(&file);
        if self.path != path || (self.inode != now && self.inode != 0) {
            self.offset = 0;
            path.clone_into(&mut self.path);
        }
        self.inode = now;
        let mut chunk = Vec::new();
        if file.seek(SeekFrom::Start(self.offset)).is_ok() && file.take(LOG_CHUNK).read_to_end(&mut chunk).is_ok() {
            self.offset += chunk.len() as u64;
        }
        chunk
    }
}

fn inode(file: &std::fs::File) -> u64 {
    use std::os::unix::fs::MetadataExt;
    file.metadata().map_or(0, |meta| meta.ino())
}

/// The GPUs.
#[utoipa::path(get, path = "/api/v1/gpus", responses((status = 200, body = Vec<api::Gpu>)))]
async fn gpus(State(site): State<Arc<Site>>, _: Caller) -> Json<Vec<api::Gpu>> {
    Json(site.board.read().gpus.clone())
}

/// The whole state at a glance.
#[utoipa::path(get, path = "/api/v1/status", responses((status = 200, body = api::Status)))]
async fn status(State(site): State<Arc<Site>>, _: Caller) -> Json<api::Status> {
    let view = site.board.read();
    let count = |wanted: fn(api::State) -> bool| view.jobs.values().filter(|record| wanted(record.state)).count() as u64;
    Json(api::Status {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: std::process::id(),
        state_dir: site.state_dir.to_string_lossy().into_owned(),
        socket: site.status.socket.clone(),
        http: site.status.http.clone(),
        started_at: site.status.started_at.clone(),
        driver: site.status.driver.clone(),
        policy: view.policy.clone(),
        draining: view.draining,
        waiting: count(|state| state == api::State::Waiting),
        held: count(|state| state == api::State::Held),
        running: count(api::State::has_gpus),
        gpus: view.gpus.clone(),
        decisions: view.decisions,
        decision_seconds_max: view.decision_seconds_max,
        warnings: view.warnings.values().cloned().collect(),
    })
}

/// Which part of the past.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
struct HistoryQuery {
    /// Jobs that ended since this moment, RFC 3339; all if not given.
    since: Option<String>,
}

/// What really happened.
#[utoipa::path(get, path = "/api/v1/history", params(HistoryQuery), responses((status = 200, body = api::History), (status = "4XX", body = api::Problem)))]
async fn history(State(site): State<Arc<Site>>, _: Caller, Query(query): Query<HistoryQuery>) -> Answer<api::History> {
    let since_ns = query.since.as_deref().map(parse_time).transpose()?;
    site.ask(Message::Flush).await?;
    let answer = tokio::task::spawn_blocking(move || site.history(since_ns)).await;
    let answer = answer.map_err(|error| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", error.to_string()))?;
    Ok(Json(answer?))
}

/// Start nothing more.
#[utoipa::path(post, path = "/api/v1/drain", request_body = api::Drain, responses((status = 200), (status = "4XX", body = api::Problem)))]
async fn drain(State(site): State<Arc<Site>>, caller: Caller, Json(drain): Json<api::Drain>) -> Answer<()> {
    Ok(Json(site.ask(|reply| Message::Drain(drain, caller, reply)).await?))
}

/// Start jobs again.
#[utoipa::path(post, path = "/api/v1/resume", request_body = api::Drain, responses((status = 200), (status = "4XX", body = api::Problem)))]
async fn resume(State(site): State<Arc<Site>>, caller: Caller, Json(drain): Json<api::Drain>) -> Answer<()> {
    Ok(Json(site.ask(|reply| Message::Resume(drain.gpus, caller, reply)).await?))
}

/// What is known of the memory that programs need: the caller's, or everybody's for an administrator.
#[utoipa::path(get, path = "/api/v1/profiles", responses((status = 200, body = Vec<api::Profile>)))]
async fn profiles(State(site): State<Arc<Site>>, caller: Caller) -> Answer<Vec<api::Profile>> {
    Ok(Json(site.ask(|reply| Message::Profiles(caller, reply)).await?))
}

/// Forgets one of the caller's classes: the next run is measured anew.
#[utoipa::path(delete, path = "/api/v1/profiles", params(ProfileQuery), responses((status = 200), (status = "4XX", body = api::Problem)))]
async fn forget(State(site): State<Arc<Site>>, caller: Caller, Query(query): Query<ProfileQuery>) -> Answer<()> {
    Ok(Json(site.ask(|reply| Message::Forget(query.class, caller, reply)).await?))
}

#[derive(Deserialize, IntoParams)]
struct ProfileQuery {
    /// The class.
    class: String,
}

/// Another policy, at once.
#[utoipa::path(put, path = "/api/v1/policy", request_body = api::PolicyChange, responses((status = 200), (status = "4XX", body = api::Problem)))]
async fn policy(State(site): State<Arc<Site>>, caller: Caller, Json(change): Json<api::PolicyChange>) -> Answer<()> {
    Ok(Json(site.ask(|reply| Message::Policy(change.policy, caller, reply)).await?))
}

/// A process asks for GPUs for itself. Local callers only: over the network nobody can be tied to a process.
#[utoipa::path(post, path = "/api/v1/claims", request_body = api::Claim, responses((status = 201, body = api::Submitted), (status = "4XX", body = api::Problem)))]
async fn claim(
    State(site): State<Arc<Site>>,
    caller: Caller,
    Json(claim): Json<api::Claim>,
) -> Result<(StatusCode, Json<api::Submitted>), Problem> {
    let owner = users::owner_of_process(claim.pid);
    if !caller.is_admin && owner != Some(caller.uid) {
        let title = format!("--pid: process {} is not yours", claim.pid);
        return Err(Problem::new(StatusCode::FORBIDDEN, "forbidden", title));
    }
    let id = site.ask(|reply| Message::Claim(claim, caller, reply)).await?;
    Ok((StatusCode::CREATED, Json(api::Submitted { ids: vec![id], existing: false })))
}

/// Ends the daemon; jobs run on.
#[utoipa::path(post, path = "/api/v1/shutdown", responses((status = 200), (status = "4XX", body = api::Problem)))]
async fn shutdown(State(site): State<Arc<Site>>, caller: Caller) -> Answer<()> {
    crate::world::needs_admin(&caller)?;
    _ = site.inbox.send(Message::Shutdown);
    Ok(Json(()))
}

/// Alive.
#[utoipa::path(get, path = "/healthz", responses((status = 200)))]
async fn healthz() -> &'static str {
    "ok\n"
}

/// Events as they happen, from the one after `Last-Event-ID` if that is sent.
#[utoipa::path(get, path = "/events", responses((status = 200, content_type = "text/event-stream", body = api::LiveEvent)))]
async fn events(State(site): State<Arc<Site>>, _: Caller, headers: HeaderMap) -> Result<Response, Problem> {
    let last = headers.get("last-event-id").and_then(|value| value.to_str().ok()).and_then(|value| value.parse::<u64>().ok());
    let live = BroadcastStream::new(site.board.listen());
    let missed = match last {
        Some(last) => site.past(|archive| archive.events_after(last, 100_000))?,
        None => Vec::new(),
    };
    let newest = missed.last().map(|event| event.seq).or(last).unwrap_or(0);
    let to_sse =
        |event: &api::LiveEvent| SseEvent::default().id(event.seq.to_string()).event(event.kind.clone()).json_data(event);
    let before = missed.into_iter().map(|event| api::LiveEvent {
        seq: event.seq,
        at: crate::clock::rfc3339(event.wall_ns),
        kind: event.kind,
        job: event.job,
        detail: event.detail,
    });
    let before = tokio_stream::iter(before.map(move |event| to_sse(&event)).collect::<Vec<_>>());
    // A reader too slow for the events is let go: it comes back with the last number it saw.
    let live = live
        .take_while(Result::is_ok)
        .filter_map(Result::ok)
        .filter(move |event| event.seq > newest)
        .map(move |event| to_sse(&event));
    Ok(Sse::new(before.chain(live)).keep_alive(KeepAlive::default()).into_response())
}

#[derive(OpenApi)]
#[openapi(info(title = "Rota", description = "The queue on one machine: jobs, GPUs, events.", version = "1"))]
struct Description;

fn described() -> OpenApiRouter<Arc<Site>> {
    OpenApiRouter::with_openapi(Description::openapi())
        .routes(routes!(submit, list))
        .routes(routes!(submit_many))
        .routes(routes!(show))
        .routes(routes!(explain))
        .routes(routes!(wait))
        .routes(routes!(logs))
        .routes(routes!(act))
        .routes(routes!(gpus))
        .routes(routes!(status))
        .routes(routes!(history))
        .routes(routes!(drain))
        .routes(routes!(resume))
        .routes(routes!(profiles, forget))
        .routes(routes!(policy))
        .routes(routes!(claim))
        .routes(routes!(shutdown))
        .routes(routes!(healthz))
        .routes(routes!(events))
        .routes(routes!(description))
}

/// All routes.
pub fn router(site: Arc<Site>) -> Router {
    let (router, _) = described().split_for_parts();
    router.layer(DefaultBodyLimit::max(BODY_BYTES_MAX)).with_state(site)
}

/// The description of the API.
#[utoipa::path(get, path = "/api/v1/openapi.json", responses((status = 200)))]
async fn description() -> ([(header::HeaderName, &'static str); 1], String) {
    ([(header::CONTENT_TYPE, "application/json")], openapi())
}

/// The description of the API, as it is checked in.
pub fn openapi() -> String {
    let (_, description) = described().split_for_parts();
    description.to_pretty_json().unwrap_or_default() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_description_that_is_checked_in_is_true() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/openapi.json");
        if std::env::var_os("ROTA_GOLDEN").is_some_and(|word| word == "write") {
            std::fs::write(path, openapi()).unwrap();
        }
        let checked_in = std::fs::read_to_string(path).unwrap_or_default();
        assert!(checked_in == openapi(), "openapi.json has drifted from the code: ROTA_GOLDEN=write writes it anew");
    }

    #[test]
    fn a_tail_is_the_last_lines_whatever_ends_them() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        for (text, lines, expected) in
            [("a\nb\nc\n", 2, "b\nc\n"), ("a\nb\nc", 2, "b\nc"), ("a\nb\n", 5, "a\nb\n"), ("a\nb\n", 0, ""), ("", 3, "")]
        {
            std::fs::write(&path, text).unwrap();
            let mut place = LogPlace::default();
            place.seek_tail(&path, lines);
            assert_eq!(String::from_utf8(place.read(&path)).unwrap(), expected, "{text:?} {lines}");
        }
    }
}
