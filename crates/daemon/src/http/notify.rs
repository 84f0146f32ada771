//! Who is told about jobs.

use super::{Answer, Problem, Site};
use crate::api;
use crate::notify::Post;
use crate::platform::{Caller, Reply};
use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use std::sync::Arc;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) fn routes() -> OpenApiRouter<Arc<Site>> {
    OpenApiRouter::new().routes(routes!(targets, add)).routes(routes!(remove)).routes(routes!(test))
}

impl Site {
    async fn herald<T>(&self, post: impl FnOnce(Reply<T>) -> Post) -> Result<T, Problem> {
        let gone = || Problem::new(StatusCode::SERVICE_UNAVAILABLE, "stopping", "nobody is told anything now; try again later");
        let (reply, answer) = tokio::sync::oneshot::channel();
        self.notify.send(post(reply)).map_err(|_| gone())?;
        Ok(answer.await.map_err(|_| gone())??)
    }
}

/// Who is told about the caller's jobs; for an administrator, about anybody's.
#[utoipa::path(get, path = "/api/v1/notify", responses((status = 200, body = Vec<api::NotifyTarget>), (status = "4XX", body = api::Problem)))]
async fn targets(State(site): State<Arc<Site>>, caller: Caller) -> Answer<Vec<api::NotifyTarget>> {
    Ok(Json(site.herald(|reply| Post::List(caller, reply)).await?))
}

/// Tell somebody about the caller's jobs from now on.
#[utoipa::path(post, path = "/api/v1/notify", request_body = api::NewNotifyTarget, responses((status = 201, body = api::NotifyTarget), (status = "4XX", body = api::Problem)))]
async fn add(
    State(site): State<Arc<Site>>,
    caller: Caller,
    Json(wanted): Json<api::NewNotifyTarget>,
) -> Result<(StatusCode, Json<api::NotifyTarget>), Problem> {
    let target = site.herald(|reply| Post::Add(wanted, caller, reply)).await?;
    Ok((StatusCode::CREATED, Json(target)))
}

/// Tell a target no more, not even what it was still to be told.
#[utoipa::path(delete, path = "/api/v1/notify/{id}", params(("id" = u64, Path)), responses((status = 200), (status = "4XX", body = api::Problem)))]
async fn remove(State(site): State<Arc<Site>>, caller: Caller, Path(id): Path<u64>) -> Answer<()> {
    Ok(Json(site.herald(|reply| Post::Remove(id, caller, reply)).await?))
}

/// Send a target a test, and say whether it arrived.
#[utoipa::path(post, path = "/api/v1/notify/{id}/test", params(("id" = u64, Path)), responses((status = 200), (status = "4XX", body = api::Problem)))]
async fn test(State(site): State<Arc<Site>>, caller: Caller, Path(id): Path<u64>) -> Answer<()> {
    Ok(Json(site.herald(|reply| Post::Test(id, caller, reply)).await?))
}
