//! When waiting jobs are expected to start.

use crate::api;
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
    Ok(Json(site.board.read().predictions.clone()))
}
