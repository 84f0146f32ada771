//! The API: the same routes on the unix socket, where callers are known by their credentials, and on the port, where they need a token.
//! One file for each kind of thing. A request goes through `door.rs` (TLS, limits of the connection), `manners.rs` (what every answer has)
//! and `auth.rs` (who asks) to its route, or to the page where there is none.

mod auth;
mod curves;
mod describe;
mod door;
mod events;
mod history;
mod jobs;
mod lists;
mod logs;
mod lookback;
mod machine;
mod manners;
mod metrics;
mod notify;
mod page;
mod rates;
mod sessions;
mod simulations;
mod timeline;
mod tokens;
mod usage;
mod watchmen;

use crate::api;
use crate::archives::Archives;
use crate::board::Board;
use crate::platform::{Message, Refusal, RefusalKind, Reply};
use crate::simulations::Simulations;
use crate::store::{Archive, StoreError};
use axum::extract::DefaultBodyLimit;
use axum::http::{StatusCode, header};
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub use auth::Peer;
pub use door::{Door, tls};
pub use lists::{Lists, says};
pub use rates::Rates;
pub use sessions::Sessions;
pub use watchmen::{ClientListener, Desk};

/// The largest request: a thousand-line command with its environment is far below.
const BODY_BYTES_MAX: usize = 16 << 20;

/// What the handlers share.
pub struct Site {
    pub(crate) board: Arc<Board>,
    pub(crate) inbox: Sender<Message>,
    pub(crate) archives: Archives,
    pub(crate) state_dir: PathBuf,
    pub(crate) admins: Vec<u32>,
    pub(crate) daemon_uid: u32,
    pub(crate) users: crate::users::Directory,
    pub(crate) sessions: Sessions,
    pub(crate) rates: Rates,
    pub(crate) lists: Lists,
    pub(crate) relay: crate::relay::Relay,
    pub(crate) has_tls: bool,
    pub(crate) status: StatusBase,
    pub(crate) model: crate::model::Model,
    pub(crate) simulations: Simulations,
    pub(crate) watchmen: Desk,
    pub(crate) notify: Sender<crate::notify::Post>,
    /// Whether `/metrics` needs no token.
    pub(crate) metrics_open: bool,
}

/// What does not change while the daemon runs.
#[derive(Clone, Debug)]
pub struct StatusBase {
    pub(crate) socket: String,
    pub(crate) http: Option<String>,
    pub(crate) started_at: String,
    pub(crate) driver: String,
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
        if response.status() == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, header::HeaderValue::from_static("Bearer"));
        }
        response
    }
}

type Answer<T> = Result<Json<T>, Problem>;

impl Site {
    /// Asks the queue, and waits for its answer.
    async fn ask<T>(&self, message: impl FnOnce(Reply<T>) -> Message) -> Result<T, Problem> {
        let gone =
            || Problem::new(StatusCode::SERVICE_UNAVAILABLE, "stopping", "the daemon is stopping; try again when it is back");
        let (reply, answer) = tokio::sync::oneshot::channel();
        self.inbox.send(message(reply)).map_err(|_| gone())?;
        Ok(answer.await.map_err(|_| gone())??)
    }

    /// Does work that may wait for the disk where it keeps nobody else waiting.
    async fn aside<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let site = Arc::clone(self);
        let done = tokio::task::spawn_blocking(move || work(&site)).await;
        done.map_err(|error| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", error.to_string()))?
    }

    /// Reads the store; to be called inside of [`Self::aside`].
    fn past<T>(&self, query: impl FnOnce(&Archive) -> Result<T, StoreError>) -> Result<T, StoreError> {
        self.archives.read(query)
    }

    /// A job as its users see it.
    async fn find(self: &Arc<Self>, id: u64) -> Result<api::Job, Problem> {
        let present = {
            let view = self.board.read();
            view.jobs.get(&id).map(|record| view.job(record, &self.state_dir))
        };
        match present {
            Some(job) => Ok(job),
            None => self.aside(move |site| site.job(id)).await,
        }
    }

    /// The same, to be called inside of [`Self::aside`].
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

fn parse_time(name: &str, text: &str) -> Result<i64, Problem> {
    let time: Result<jiff::Timestamp, _> = text.parse();
    // What is centuries away is as far as our numbers go.
    time.map(|time| time.as_nanosecond().clamp(i64::MIN.into(), i64::MAX.into()) as i64)
        .map_err(|error| Problem::new(StatusCode::BAD_REQUEST, "bad-input", format!("{name}: `{text}`: {error}")))
}

#[derive(OpenApi)]
#[openapi(info(title = "Rota", description = "The queue on one machine: jobs, GPUs, events.", version = "1"))]
struct Description;

fn described() -> OpenApiRouter<Arc<Site>> {
    OpenApiRouter::with_openapi(Description::openapi())
        .merge(jobs::routes())
        .merge(logs::routes())
        .merge(machine::routes())
        .merge(history::routes())
        .merge(events::routes())
        .merge(tokens::routes())
        .merge(sessions::routes())
        .merge(curves::routes())
        .merge(timeline::routes())
        .merge(usage::routes())
        .merge(simulations::routes())
        .merge(notify::routes())
        .merge(metrics::routes())
        .routes(routes!(description))
}

/// All routes, and the page.
pub fn router(site: Arc<Site>) -> Router {
    let (router, _) = described().split_for_parts();
    router
        .merge(watchmen::routes())
        .fallback(page::page)
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(from_fn_with_state(Arc::clone(&site), auth::admit))
        .layer(from_fn(manners::refusals_in_one_form))
        .layer(from_fn(manners::guarded))
        .with_state(site)
}

/// The description of the API.
#[utoipa::path(get, path = "/api/v1/openapi.json", responses((status = 200)))]
async fn description() -> ([(header::HeaderName, &'static str); 1], String) {
    ([(header::CONTENT_TYPE, "application/json")], openapi())
}

/// The description of the API, as it is checked in.
pub fn openapi() -> String {
    let (_, mut description) = described().split_for_parts();
    describe::complete(&mut description);
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
}
