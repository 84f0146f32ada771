//! The jobs on each GPU over time: as bars, and as buckets of time.

use super::lookback::{StretchQuery, stretch};
use crate::api;
use crate::clock::{rfc3339, wall_ns};
use crate::http::{Answer, Problem, Site};
use crate::machine::platform::{Caller, Message};
use crate::past::heatmap::{Buckets, heatmap};
use crate::past::runs::RecordedRun;
use crate::store::{Archive, StoreError};
use axum::Json;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use serde::Deserialize;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// Bars of one timeline; of more the latest.
const BARS_MAX: usize = 50_000;
/// Buckets of one heat map.
const BUCKETS_MAX: u32 = 2000;
/// The number of buckets if none is given: a day in quarters of an hour.
const BUCKETS: u32 = 96;

pub(crate) fn routes() -> OpenApiRouter<Arc<Site>> {
    OpenApiRouter::new().routes(routes!(timeline)).routes(routes!(heat))
}

/// Runs on GPUs between two moments, one bar each.
#[utoipa::path(get, path = "/api/v1/timeline", params(StretchQuery), responses((status = 200, body = api::Timeline), (status = "4XX", body = api::Problem)))]
async fn timeline(State(site): State<Arc<Site>>, caller: Caller, Query(query): Query<StretchQuery>) -> Answer<api::Timeline> {
    let (from_ns, to_ns) = stretch(query.from.as_deref(), query.to.as_deref())?;
    let viewer = site.viewer(&caller);
    let mut timeline = site.look_back(move |site, archive| site.timeline(archive, from_ns, to_ns)).await?;
    for bar in timeline.bars.iter_mut().filter(|bar| !viewer.sees_user(Some(&bar.user))) {
        bar.name = None;
    }
    Ok(Json(timeline))
}

impl Site {
    fn timeline(&self, archive: &Archive, from_ns: i64, to_ns: i64) -> Result<api::Timeline, StoreError> {
        let (stays, truncated) = archive.stays(from_ns, to_ns, BARS_MAX)?;
        let mut states: HashMap<u64, api::JobState> = HashMap::new();
        for stay in &stays {
            if !states.contains_key(&stay.job) {
                let live = self.board.read().jobs.get(&stay.job).map(|record| record.state);
                let state = live.map_or_else(|| archive.state_of(stay.job), |state| Ok(Some(state)))?;
                states.extend(state.map(|state| (stay.job, state)));
            }
        }
        let seen = stays.iter().flat_map(|stay| stay.gpus.iter().cloned()).collect::<HashSet<_>>();
        let gpus = archive.gpus()?.into_iter().filter(|gpu| seen.contains(&gpu.uuid) || self.is_here(&gpu.uuid)).collect();
        let bar = |stay: RecordedRun| {
            Some(api::TimelineBar {
                state: *states.get(&stay.job)?,
                job: stay.job,
                name: stay.name,
                user: stay.user,
                end: stay.end,
                gpus: stay.gpus,
                share_milli: stay.share_milli,
                start: rfc3339(stay.start_ns),
                finish: stay.end_ns.map(rfc3339),
            })
        };
        let bars = stays.into_iter().filter_map(bar).collect();
        Ok(api::Timeline { from: rfc3339(from_ns), to: rfc3339(to_ns), gpus, bars, truncated })
    }
}

/// Which part of the past, and how finely.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct HeatmapQuery {
    /// From, RFC 3339; a day before the end if not given.
    from: Option<String>,
    /// The end of the time, RFC 3339; now if not given.
    to: Option<String>,
    /// Into how many buckets the time is cut, 1 to 2000; 96 if not given.
    buckets: Option<u32>,
}

/// How much of each GPU was given out, and how much of it was used.
#[utoipa::path(get, path = "/api/v1/heatmap", params(HeatmapQuery), responses((status = 200, body = api::Heatmap), (status = "4XX", body = api::Problem)))]
async fn heat(State(site): State<Arc<Site>>, _: Caller, Query(query): Query<HeatmapQuery>) -> Answer<api::Heatmap> {
    let (from_ns, to_ns) = stretch(query.from.as_deref(), query.to.as_deref())?;
    let count = query.buckets.unwrap_or(BUCKETS);
    if !(1..=BUCKETS_MAX).contains(&count) {
        let title = format!("buckets: {count} is not between 1 and {BUCKETS_MAX}");
        return Err(Problem::new(StatusCode::BAD_REQUEST, "bad-input", title));
    }
    site.ask(Message::Flush).await?;
    let buckets = Buckets::new(from_ns, to_ns, count as usize);
    let map = site.look_back(move |site, archive| heatmap(archive, buckets, wall_ns(), |uuid| site.is_here(uuid))).await?;
    Ok(Json(map))
}
