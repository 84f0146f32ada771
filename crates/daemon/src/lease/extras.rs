//! The part of the lease service that is about GPUs beyond those a job asked for, and about its budget.

use crate::clock::Clock;
use crate::lease::routes::{Answer, LeaseService, Told};
use crate::machine::platform::{ExtraRequest, Message, Refusal, RefusalKind};
use axum::extract::State;
use axum::http::HeaderMap;
use axum::routing::post;
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;

/// The routes by which a job asks for extra GPUs and gives them back.
pub fn routes(service: Arc<LeaseService>) -> Router {
    Router::new().route("/lease/v1/extras", post(extras)).route("/lease/v1/give-back", post(give_back)).with_state(service)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Ask {
    lease: u32,
    #[serde(default, rename = "rank")]
    _rank: u32,
}

/// Which extra GPUs the run may use now, and how much of its budget is left. From here on the run is offered more.
async fn extras(State(service): State<Arc<LeaseService>>, headers: HeaderMap, Told(ask): Told<Ask>) -> Answer {
    let holder = service.holder(&headers, ask.lease)?;
    write(&service, ExtraRequest::Listen(holder)).await?;
    let record = service.board.read().jobs.get(&holder.job).cloned();
    let record = record.ok_or_else(|| Refusal::new(RefusalKind::Conflict, "the run is over"))?;
    let uuids = record.usable_extras().map(|extra| extra.uuid.as_str()).collect::<Vec<_>>();
    Ok(Json(json!({
        "usable": uuids.len(),
        "uuids": uuids,
        "held": record.progress.extras.len(),
        "seconds_left": record.budget_left(service.leases.clock().now().0),
    })))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GiveBack {
    lease: u32,
    #[serde(default, rename = "rank")]
    _rank: u32,
    kept: u32,
}

/// The run uses so many extra GPUs and no more. It is on the disk before the answer.
async fn give_back(State(service): State<Arc<LeaseService>>, headers: HeaderMap, Told(ask): Told<GiveBack>) -> Answer {
    let holder = service.holder(&headers, ask.lease)?;
    write(&service, ExtraRequest::Keep { holder, kept: ask.kept }).await?;
    Ok(Json(json!({})))
}

async fn write(service: &LeaseService, request: ExtraRequest) -> Result<(), Refusal> {
    let gone = || Refusal::new(RefusalKind::Unavailable, "the daemon is stopping; try again when it is back");
    let (reply, answer) = tokio::sync::oneshot::channel();
    service.inbox.send(Message::Extra(request, reply)).map_err(|_| gone())?;
    answer.await.map_err(|_| gone())?
}
