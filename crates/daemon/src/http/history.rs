//! What really happened: the past as one document, and events as they happen.

use super::{Answer, Problem, Site, parse_time};
use crate::api;
use crate::platform::{Caller, Message};
use crate::store::{Past, StoreError};
use axum::Json;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{Event as SseEvent, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use std::sync::{Arc, PoisonError};
use tokio_stream::StreamExt;
use tokio_stream::wrappers::BroadcastStream;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) fn routes() -> OpenApiRouter<Arc<Site>> {
    OpenApiRouter::new().routes(routes!(history)).routes(routes!(events))
}

impl Site {
    fn history(&self, since_ns: Option<i64>) -> Result<api::History, StoreError> {
        let past = Past { since_ns, limit: u32::MAX, ..Past::default() };
        let archive = self.archive.lock().unwrap_or_else(PoisonError::into_inner);
        let mut records = archive.past(&past)?;
        records.reverse();
        let (first, last) = (records.first().map_or(0, |record| record.id), records.last().map_or(0, |record| record.id));
        let mut runs = archive.runs_of(first, last)?;
        let from_s = records.iter().map(|record| record.submitted_ns).min().unwrap_or(0) / 1_000_000_000;
        let samples = archive.samples(from_s, crate::clock::wall_ns() / 1_000_000_000)?;
        drop(archive);
        let jobs = records.into_iter().map(|record| {
            let (believed_seconds, share_milli, memory_mib) = self.model.of(&record);
            api::PastJob {
                job: record.view(&self.state_dir, None, None),
                ask: record.spec.ask.clone(),
                arrived_at_ns: record.arrived_at,
                believed_seconds,
                share_milli,
                memory_mib,
                runs: runs.remove(&record.id).unwrap_or_default(),
            }
        });
        let jobs = jobs.collect();
        let view = self.board.read();
        Ok(api::History { host: self.model.host.clone(), gpus: view.gpus.clone(), jobs, samples })
    }
}

/// Which part of the past.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
struct HistoryQuery {
    /// Jobs that ended since this moment, RFC 3339; all if not given.
    since: Option<String>,
}

/// What really happened.
#[utoipa::path(get, path = "/api/v1/history", params(HistoryQuery), responses((status = 200, body = api::History), (status = "4XX", body = api::Problem)))]
async fn history(State(site): State<Arc<Site>>, _: Caller, Query(query): Query<HistoryQuery>) -> Answer<api::History> {
    let since_ns = query.since.as_deref().map(parse_time).transpose()?;
    site.ask(Message::Flush).await?;
    let answer = tokio::task::spawn_blocking(move || site.history(since_ns)).await;
    let answer = answer.map_err(|error| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", error.to_string()))?;
    Ok(Json(answer?))
}

/// Events as they happen, from the one after `Last-Event-ID` if that is sent.
#[utoipa::path(get, path = "/events", responses((status = 200, content_type = "text/event-stream", body = api::LiveEvent)))]
async fn events(State(site): State<Arc<Site>>, _: Caller, headers: HeaderMap) -> Result<Response, Problem> {
    let last = headers.get("last-event-id").and_then(|value| value.to_str().ok()).and_then(|value| value.parse::<u64>().ok());
    let live = BroadcastStream::new(site.board.listen());
    let missed = match last {
        Some(last) => site.past(|archive| archive.events_after(last, 100_000))?,
        None => Vec::new(),
    };
    let newest = missed.last().map(|event| event.seq).or(last).unwrap_or(0);
    let to_sse =
        |event: &api::LiveEvent| SseEvent::default().id(event.seq.to_string()).event(event.kind.clone()).json_data(event);
    let before = missed.into_iter().map(|event| api::LiveEvent {
        seq: event.seq,
        at: crate::clock::rfc3339(event.wall_ns),
        kind: event.kind,
        job: event.job,
        detail: event.detail,
    });
    let before = tokio_stream::iter(before.map(move |event| to_sse(&event)).collect::<Vec<_>>());
    // A reader too slow for the events is let go: it comes back with the last number it saw.
    let live = live
        .take_while(Result::is_ok)
        .filter_map(Result::ok)
        .filter(move |event| event.seq > newest)
        .map(move |event| to_sse(&event));
    Ok(Sse::new(before.chain(live)).keep_alive(KeepAlive::default()).into_response())
}
