//! The use of the GPUs by user, project and GPU.

use super::lookback::{StretchQuery, stretch};
use crate::api;
use crate::clock::wall_ns;
use crate::http::{Answer, Site};
use crate::machine::platform::{Caller, Message};
use axum::Json;
use axum::extract::{Query, State};
use std::sync::Arc;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(crate) fn routes() -> OpenApiRouter<Arc<Site>> {
    OpenApiRouter::new().routes(routes!(usage))
}

/// GPU hours, energy, cost and idle time between two moments, by user, project and GPU.
#[utoipa::path(get, path = "/api/v1/usage", params(StretchQuery), responses((status = 200, body = api::Usage), (status = "4XX", body = api::Problem)))]
async fn usage(State(site): State<Arc<Site>>, _: Caller, Query(query): Query<StretchQuery>) -> Answer<api::Usage> {
    let stretch = stretch(query.from.as_deref(), query.to.as_deref())?;
    site.ask(Message::Flush).await?;
    let usage = move |site: &Site, archive: &_| crate::past::usage::usage(archive, stretch, wall_ns(), |uuid| site.is_here(uuid));
    Ok(Json(site.look_back(usage).await?))
}
