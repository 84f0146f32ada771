//! One job over time: what happened to it, and what it did.

use crate::api;
use crate::http::privacy::Viewer;
use crate::http::{Answer, Site};
use crate::machine::platform::{Caller, Message};
use axum::Json;
use axum::extract::{Path, State};
use std::sync::Arc;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(crate) fn routes() -> OpenApiRouter<Arc<Site>> {
    OpenApiRouter::new().routes(routes!(events)).routes(routes!(samples))
}

/// What happened to a job, in order.
#[utoipa::path(get, path = "/api/v1/jobs/{id}/events", params(("id" = u64, Path)), responses((status = 200, body = Vec<api::LiveEvent>), (status = 404, body = api::Problem)))]
async fn events(State(site): State<Arc<Site>>, caller: Caller, Path(id): Path<u64>) -> Answer<Vec<api::LiveEvent>> {
    let owner = site.job(id, &Viewer::All)?.user;
    let is_hidden = !site.viewer(&caller).sees_user(Some(&owner));
    let events = site.look_back(move |_, archive| archive.events_of(id)).await?;
    let events = events.into_iter().map(api::LiveEvent::from);
    Ok(Json(events.map(|event| if is_hidden { event.without_words() } else { event }).collect()))
}

/// Memory, use and power of a job over time.
#[utoipa::path(get, path = "/api/v1/jobs/{id}/samples", params(("id" = u64, Path)), responses((status = 200, body = api::JobSamples), (status = 404, body = api::Problem)))]
async fn samples(State(site): State<Arc<Site>>, _: Caller, Path(id): Path<u64>) -> Answer<api::JobSamples> {
    site.job(id, &Viewer::All)?;
    site.ask(Message::Flush).await?;
    Ok(Json(site.look_back(move |_, archive| archive.curve(id)).await?))
}
