//! The daemon's counters, as Prometheus reads them.

use crate::api;
use crate::http::{Problem, Site};
use crate::machine::platform::Caller;
use crate::view::metrics::Here;
use axum::extract::{FromRequestParts, Request, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use std::sync::Arc;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

pub(crate) fn routes() -> OpenApiRouter<Arc<Site>> {
    OpenApiRouter::new().routes(routes!(metrics))
}

/// Figures of the queue, the GPUs and the daemon, in the text format of `OpenMetrics`. Needs no token on loopback, unless the site wants one.
#[utoipa::path(get, path = "/metrics", responses((status = 200, content_type = "application/openmetrics-text", body = String), (status = "4XX", body = api::Problem)))]
async fn metrics(State(site): State<Arc<Site>>, request: Request) -> Result<Response, Problem> {
    if !site.settings.metrics_open {
        let (mut parts, _) = request.into_parts();
        Caller::from_request_parts(&mut parts, &site).await?;
    }
    let octets = |name: &str| std::fs::metadata(site.settings.state_dir.join(name)).map_or(0, |meta| meta.len());
    let here = Here { store_bytes: octets("rota.db") + octets("rota.db-wal"), streams: site.relay.listeners() };
    let text = site.board.metrics.text(&site.board.read(), &here);
    Ok(([(header::CONTENT_TYPE, OPEN_METRICS)], text).into_response())
}
