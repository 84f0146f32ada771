//! The targets of notifications.

use crate::api;
use crate::http::{Answer, Problem, Site};
use crate::machine::platform::{Caller, Reply};
use crate::notify::NotifierMessage;
use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use std::sync::Arc;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(crate) fn routes() -> OpenApiRouter<Arc<Site>> {
    OpenApiRouter::new().routes(routes!(targets, add)).routes(routes!(remove)).routes(routes!(test))
}

impl Site {
    async fn ask_notifier<T>(&self, message: impl FnOnce(Reply<T>) -> NotifierMessage) -> Result<T, Problem> {
        let gone = || Problem::new(StatusCode::SERVICE_UNAVAILABLE, "stopping", "nobody is told anything now; try again later");
        let (reply, answer) = tokio::sync::oneshot::channel();
        self.notify.send(message(reply)).map_err(|_| gone())?;
        Ok(answer.await.map_err(|_| gone())??)
    }
}

/// The targets that are told about the caller's jobs; for an administrator, all targets.
#[utoipa::path(get, path = "/api/v1/notify", responses((status = 200, body = Vec<api::NotifyTarget>), (status = "4XX", body = api::Problem)))]
async fn targets(State(site): State<Arc<Site>>, caller: Caller) -> Answer<Vec<api::NotifyTarget>> {
    Ok(Json(site.ask_notifier(|reply| NotifierMessage::List(caller, reply)).await?))
}

/// Adds a target that is told about the caller's jobs from now on.
#[utoipa::path(post, path = "/api/v1/notify", request_body = api::NewNotifyTarget, responses((status = 201, body = api::NotifyTarget), (status = "4XX", body = api::Problem)))]
async fn add(
    State(site): State<Arc<Site>>,
    caller: Caller,
    Json(wanted): Json<api::NewNotifyTarget>,
) -> Result<(StatusCode, Json<api::NotifyTarget>), Problem> {
    let target = site.ask_notifier(|reply| NotifierMessage::Add(wanted, caller, reply)).await?;
    Ok((StatusCode::CREATED, Json(target)))
}

/// Tell a target no more, not even what it was still to be told.
#[utoipa::path(delete, path = "/api/v1/notify/{id}", params(("id" = u64, Path)), responses((status = 200), (status = "4XX", body = api::Problem)))]
async fn remove(State(site): State<Arc<Site>>, caller: Caller, Path(id): Path<u64>) -> Answer<()> {
    Ok(Json(site.ask_notifier(|reply| NotifierMessage::Remove(id, caller, reply)).await?))
}

/// Send a target a test, and say whether it arrived.
#[utoipa::path(post, path = "/api/v1/notify/{id}/test", params(("id" = u64, Path)), responses((status = 200), (status = "4XX", body = api::Problem)))]
async fn test(State(site): State<Arc<Site>>, caller: Caller, Path(id): Path<u64>) -> Answer<()> {
    Ok(Json(site.ask_notifier(|reply| NotifierMessage::Test(id, caller, reply)).await?))
}
