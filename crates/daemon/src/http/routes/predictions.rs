//! When waiting jobs are expected to start.

use crate::api::{self, JobState};
use crate::clock::{rfc3339, wall_ns};
use crate::http::{Answer, Site};
use crate::machine::platform::Caller;
use axum::Json;
use axum::extract::State;
use std::sync::Arc;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(crate) fn routes() -> OpenApiRouter<Arc<Site>> {
    OpenApiRouter::new().routes(routes!(predictions))
}

/// When each waiting job is expected to start: the scheduler is run forward from its present state, again and again, with lengths that
/// earlier jobs taught.
#[utoipa::path(get, path = "/api/v1/predictions", responses((status = 200, body = api::Predictions), (status = "4XX", body = api::Problem)))]
async fn predictions(State(site): State<Arc<Site>>, _: Caller) -> Answer<api::Predictions> {
    let view = site.board.read();
    let mut predictions = view.predictions.clone();
    // A job that has started since needs no prediction.
    let waits = |id: u64| view.jobs.get(&id).is_some_and(|job| matches!(job.state, JobState::Waiting | JobState::Held));
    predictions.jobs.retain(|job| waits(job.id));
    let now = rfc3339(wall_ns());
    predictions.jobs.iter_mut().for_each(|job| *job = job.at(&now));
    Ok(Json(predictions))
}
