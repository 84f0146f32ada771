//! Our own lease service: grant, renew, notice, progress, commit and complete, as JSON over HTTP.

use crate::lease::running_leases::{RunningLeases, Standing};
use crate::lease::token::LeaseHolder;
use crate::machine::platform::{LeaseRequest, Message, Refusal, RefusalKind};
use crate::view::board::Board;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, FromRequest, Query, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use futures_util::stream;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::path::{Component, Path};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;
use tokio::sync::watch;

/// The largest request: numbers and a path.
const BODY_BYTES_MAX: usize = 64 << 10;
/// How often a listener is shown that the daemon is there.
const SIGN_OF_LIFE: Duration = Duration::from_secs(15);

/// What the routes share.
pub struct LeaseService {
    /// The leases of running jobs.
    pub leases: Arc<RunningLeases>,
    /// Jobs, as everybody may see them.
    pub board: Arc<Board>,
    /// The queue's inbox.
    pub inbox: Sender<Message>,
}

/// A refusal, in the form that jobs are answered in.
pub struct LeaseError(StatusCode, String);

impl IntoResponse for LeaseError {
    fn into_response(self) -> Response {
        (self.0, Json(json!({ "error": self.1 }))).into_response()
    }
}

impl From<Refusal> for LeaseError {
    fn from(refusal: Refusal) -> Self {
        let status = match refusal.kind {
            RefusalKind::BadInput => StatusCode::BAD_REQUEST,
            RefusalKind::NotFound => StatusCode::NOT_FOUND,
            RefusalKind::Forbidden => StatusCode::UNAUTHORIZED,
            RefusalKind::Conflict => StatusCode::CONFLICT,
            RefusalKind::TooMany => StatusCode::TOO_MANY_REQUESTS,
            RefusalKind::Unavailable => StatusCode::INSUFFICIENT_STORAGE,
        };
        Self(status, refusal.message)
    }
}

pub(crate) type Answer = Result<Json<serde_json::Value>, LeaseError>;

impl LeaseService {
    /// The run that a request speaks for: its token must be good, and for the lease that it names.
    pub(crate) fn holder(&self, headers: &HeaderMap, lease: u32) -> Result<LeaseHolder, LeaseError> {
        let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let token = given.and_then(|text| text.strip_prefix("Bearer ")).map(str::trim);
        let holder = token.and_then(|token| self.leases.holder(token)).ok_or_else(|| {
            let message = "this is not the token of a run; send `Authorization: Bearer $ROTA_LEASE_TOKEN`";
            LeaseError(StatusCode::UNAUTHORIZED, message.to_owned())
        })?;
        if self.leases.number(holder.job).is_none() && !self.board.read().jobs.contains_key(&holder.job) {
            return Err(LeaseError(StatusCode::NOT_FOUND, format!("there is no job {} in the queue", holder.job)));
        }
        if holder.lease != lease {
            let message = format!("the token is that of lease {}, and the request speaks for lease {lease}", holder.lease);
            return Err(LeaseError(StatusCode::CONFLICT, message));
        }
        Ok(holder)
    }

    /// Asks the queue, and waits until it is written down.
    pub(crate) async fn write(&self, request: LeaseRequest) -> Result<(), Refusal> {
        let gone = || Refusal::new(RefusalKind::Unavailable, "the daemon is stopping; try again when it is back");
        let (reply, answer) = tokio::sync::oneshot::channel();
        self.inbox.send(Message::Lease(request, reply)).map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }
}

/// A body of JSON; what cannot be read is said in our own form.
pub(crate) struct Told<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Told<T> {
    type Rejection = LeaseError;

    async fn from_request(request: Request, state: &S) -> Result<Self, LeaseError> {
        let bytes =
            Bytes::from_request(request, state).await.map_err(|error| LeaseError(StatusCode::BAD_REQUEST, error.to_string()))?;
        serde_json::from_slice(&bytes).map(Self).map_err(|error| LeaseError(StatusCode::BAD_REQUEST, error.to_string()))
    }
}

/// The routes of the service.
pub fn routes(service: Arc<LeaseService>) -> Router {
    Router::new()
        .route("/lease/v1/grant", post(grant))
        .route("/lease/v1/renew", post(renew))
        .route("/lease/v1/notice", get(notice))
        .route("/lease/v1/progress", post(progress))
        .route("/lease/v1/commit", post(commit))
        .route("/lease/v1/complete", post(complete))
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .with_state(Arc::clone(&service))
        .merge(crate::lease::extras::routes(Arc::clone(&service)))
        .merge(crate::lease::gavel::routes(service))
}

fn one() -> u32 {
    1
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Grant {
    lease: u32,
    #[serde(default)]
    rank: u32,
    #[serde(default = "one")]
    world: u32,
}

async fn grant(State(service): State<Arc<LeaseService>>, headers: HeaderMap, Told(ask): Told<Grant>) -> Answer {
    let holder = service.holder(&headers, ask.lease)?;
    if service.leases.join(holder, ask.rank, ask.world)? {
        service.write(LeaseRequest::Take(holder)).await?;
    }
    let record = service.board.read().jobs.get(&holder.job).cloned();
    let progress = record.map(|record| record.progress.clone()).unwrap_or_default();
    let folder = service.leases.checkpoints().of(holder.job);
    let resume_from = progress.checkpoint.map(|name| folder.join(name).to_string_lossy().into_owned());
    Ok(Json(json!({
        "lease": holder.lease,
        "max_seconds": service.leases.max_seconds(holder, 0.0)?,
        "steps_done": progress.step.unwrap_or(0),
        "resume_from": resume_from,
    })))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Renew {
    lease: u32,
    #[serde(default)]
    rank: u32,
    steps: u64,
    seconds: f64,
}

async fn renew(State(service): State<Arc<LeaseService>>, headers: HeaderMap, Told(ask): Told<Renew>) -> Answer {
    let holder = service.holder(&headers, ask.lease)?;
    let renewal = service.leases.renew(holder, ask.rank, ask.steps, ask.seconds)?;
    Ok(Json(json!({
        "state": if renewal.stop.is_some() { "stop" } else { "go" },
        "max_seconds": renewal.max_seconds,
        "last_step": renewal.last_step,
        "grace_seconds": renewal.stop,
    })))
}

async fn progress(State(service): State<Arc<LeaseService>>, headers: HeaderMap, Told(ask): Told<Renew>) -> Answer {
    let holder = service.holder(&headers, ask.lease)?;
    service.leases.tell(holder, ask.rank, ask.steps, ask.seconds)?;
    Ok(Json(json!({})))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Commit {
    lease: u32,
    #[serde(default)]
    rank: u32,
    step: u64,
    path: String,
}

async fn commit(State(service): State<Arc<LeaseService>>, headers: HeaderMap, Told(ask): Told<Commit>) -> Answer {
    let holder = service.holder(&headers, ask.lease)?;
    if ask.rank != 0 {
        let message = format!("rank {} cannot commit: the first process of a gang commits for all", ask.rank);
        return Err(LeaseError(StatusCode::BAD_REQUEST, message));
    }
    let path = Path::new(&ask.path);
    let is_below = path.components().all(|part| matches!(part, Component::Normal(_))) && !ask.path.is_empty();
    let folder = service.leases.checkpoints().of(holder.job);
    if !is_below || tokio::fs::metadata(folder.join(path)).await.is_err() {
        let message = format!(
            "path: there is no `{}` in {}; save a file there first, and give its name below that folder",
            ask.path,
            folder.display()
        );
        return Err(LeaseError(StatusCode::BAD_REQUEST, message));
    }
    let checkpoint = ask.path.into_boxed_str();
    service.write(LeaseRequest::Commit { holder, step: ask.step, checkpoint: Some(checkpoint) }).await?;
    Ok(Json(json!({ "step": ask.step })))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Complete {
    lease: u32,
    #[serde(default)]
    rank: u32,
    steps: u64,
}

/// The job has done all its steps. Its end is still told by its exit code.
async fn complete(State(service): State<Arc<LeaseService>>, headers: HeaderMap, Told(ask): Told<Complete>) -> Answer {
    let holder = service.holder(&headers, ask.lease)?;
    service.leases.tell(holder, ask.rank, ask.steps, 0.0)?;
    Ok(Json(json!({})))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Listen {
    lease: u32,
}

/// A line of the notice stream.
#[derive(Serialize)]
#[serde(tag = "notice", rename_all = "snake_case")]
enum NoticeLine {
    Stop { grace_seconds: f64 },
    Extended { max_seconds: f64 },
    Extras { usable: usize },
}

/// One who listens to a lease, and what it was told last.
struct Listener {
    service: Arc<LeaseService>,
    standings: watch::Receiver<Standing>,
    told: Standing,
    holder: LeaseHolder,
}

impl Listener {
    /// The next line; none when the run is over.
    async fn next(mut self) -> Option<(Result<Bytes, std::convert::Infallible>, Self)> {
        loop {
            let standing = *self.standings.borrow_and_update();
            if standing.is_over {
                return None;
            }
            let before = std::mem::replace(&mut self.told, standing);
            if let Some(grace_seconds) = standing.stop.filter(|_| before.stop.is_none()) {
                return Some((Ok(line(&NoticeLine::Stop { grace_seconds })), self));
            }
            if standing.extras != before.extras {
                // The rest is told with the next line.
                self.told = Standing { extras: standing.extras, ..before };
                return Some((Ok(line(&NoticeLine::Extras { usable: standing.extras })), self));
            }
            if standing.until > before.until && standing.stop.is_none() {
                let max_seconds = self.service.leases.length(self.holder, standing);
                return Some((Ok(line(&NoticeLine::Extended { max_seconds })), self));
            }
            match tokio::time::timeout(SIGN_OF_LIFE, self.standings.changed()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return None,
                Err(_) => return Some((Ok(Bytes::from_static(b"\n")), self)),
            }
        }
    }
}

fn line(notice: &NoticeLine) -> Bytes {
    Bytes::from(serde_json::to_string(notice).unwrap_or_default() + "\n")
}

async fn notice(
    State(service): State<Arc<LeaseService>>,
    headers: HeaderMap,
    Query(ask): Query<Listen>,
) -> Result<Response, LeaseError> {
    let holder = service.holder(&headers, ask.lease)?;
    let standings = service.leases.listen(holder)?;
    let told = Standing { stop: None, ..*standings.borrow() };
    let listener = Listener { service, standings, told, holder };
    let lines = stream::unfold(listener, Listener::next);
    Ok(([(header::CONTENT_TYPE, "application/x-ndjson")], Body::from_stream(lines)).into_response())
}
