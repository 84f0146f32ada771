//! The router: all routes put together, and the description of the API that is made from them.

use super::routes::{
    curves, events, groups, history, jobs, logs, machine, metrics, notify, predictions, simulations, timeline, tokens, usage,
    watchmen,
};
use super::site::Site;
use super::{auth, describe, page, responses, sessions};
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::header;
use axum::middleware::{from_fn, from_fn_with_state};
use std::sync::Arc;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

#[derive(OpenApi)]
#[openapi(info(title = "Rota", description = "The queue on one machine: jobs, GPUs, events.", version = "1"))]
struct Description;

fn described() -> OpenApiRouter<Arc<Site>> {
    OpenApiRouter::with_openapi(Description::openapi())
        .merge(jobs::routes())
        .merge(groups::routes())
        .merge(logs::routes())
        .merge(machine::routes())
        .merge(history::routes())
        .merge(events::routes())
        .merge(tokens::routes())
        .merge(sessions::routes())
        .merge(curves::routes())
        .merge(timeline::routes())
        .merge(predictions::routes())
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
        .layer(DefaultBodyLimit::max(site.settings.body_bytes_max))
        .layer(from_fn_with_state(Arc::clone(&site), auth::admit))
        .layer(from_fn(responses::refusals_in_one_form))
        .layer(from_fn(responses::guarded))
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
