//! The past of jobs and GPUs, as one document.

use crate::api;
use crate::http::privacy::Viewer;
use crate::http::{Answer, Problem, Site, parse_time};
use crate::machine::platform::{Caller, Message};
use crate::past::replay::RUNNING;
use crate::store::record::JobRecord;
use crate::store::{Archive, Past, StoreError};
use axum::Json;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use serde::Deserialize;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(crate) fn routes() -> OpenApiRouter<Arc<Site>> {
    OpenApiRouter::new().routes(routes!(history))
}

/// The most jobs of one history.
pub(crate) const JOBS_MAX: usize = 100_000;

/// The part of the past that is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    /// Only jobs that ended since this moment, in nanoseconds since 1970.
    pub since_ns: Option<i64>,
    /// Only jobs with smaller numbers.
    pub before: Option<u64>,
    /// The most jobs.
    pub limit: usize,
}

impl Site {
    pub(crate) fn history(&self, wanted: Wanted, viewer: &Viewer) -> Result<api::History, StoreError> {
        let Wanted { since_ns, before, limit } = wanted;
        // One more than is told, to know whether there are more.
        let past = Past { since_ns, before, limit: limit + 1, ..Past::default() };
        // A long look, on a connection of its own.
        let archive = self.archives.another()?;
        let mut records = archive.past(&past)?;
        let truncated = records.len() > limit;
        records.truncate(limit);
        records.reverse();
        let (first, last) = (records.first().map_or(0, |record| record.id), records.last().map_or(0, |record| record.id));
        let mut runs = archive.runs_of(first, last)?;
        let releases = archive.releases_of(first, last)?;
        let awaited = records.iter().flat_map(|record| &record.spec.ask.after).map(|after| after.id).collect::<BTreeSet<_>>();
        let ends = archive.ends_of(awaited)?;
        let from_s = records.iter().map(|record| record.submitted_ns).min().unwrap_or(0) / 1_000_000_000;
        let samples = archive.samples(from_s, crate::clock::wall_ns() / 1_000_000_000)?;
        let jobs = records.into_iter().map(|record| {
            let runs = runs.remove(&record.id).unwrap_or_default();
            self.past_job(&record, viewer, runs, releases.get(&record.id).copied(), &ends)
        });
        let jobs = jobs.collect();
        let running = if before.is_none() { self.running(&archive, viewer)? } else { Vec::new() };
        let view = self.board.read();
        let scheduler = api::SchedulerSettings { policy: view.policy.clone(), ..self.settings.scheduler.clone() };
        Ok(api::History {
            host: self.estimates.host.clone(),
            gpus: viewer.gpus(view.gpus.clone()),
            jobs,
            running,
            samples,
            scheduler: Some(scheduler),
            truncated,
        })
    }

    fn past_job(
        &self,
        record: &JobRecord,
        viewer: &Viewer,
        runs: Vec<api::PastRun>,
        released_at: Option<u64>,
        ends: &HashMap<u64, u64>,
    ) -> api::PastJob {
        let (believed_seconds, share_milli, memory_mib) = self.estimates.of(record);
        let ask = api::Submit { command: Arc::new(record.command_in_short()), ..(*record.spec.ask).clone() };
        let first_start = runs.first().map(|run| run.start_ns);
        let awaited = record.spec.ask.after.iter().filter_map(|after| Some((after.id, *ends.get(&after.id)?)));
        api::PastJob {
            job: viewer.job(record, record.view(&self.settings.state_dir, None, None)),
            ask: viewer.ask(record, ask),
            arrived_at_ns: record.arrived_at,
            believed_seconds,
            share_milli,
            memory_mib,
            steps: record.progress.steps_told.max(record.progress.step),
            released_at_ns: released_at.filter(|at| first_start.is_none_or(|start| *at <= start)),
            awaited_ends_ns: awaited.collect(),
            runs,
        }
    }

    /// The jobs that run now, each with a last run that ends now.
    fn running(&self, archive: &Archive, viewer: &Viewer) -> Result<Vec<api::PastJob>, StoreError> {
        let running = self.board.read().jobs.values().filter(|record| record.state.has_gpus()).cloned().collect::<Vec<_>>();
        let mut jobs = Vec::new();
        for record in running {
            let (Some(start_ns), Some(started_wall_ns)) = (record.started_at, record.started_ns) else { continue };
            let ran_ns = u64::try_from(crate::clock::wall_ns() - started_wall_ns).unwrap_or(0).max(1);
            let mut runs = archive.runs_of(record.id, record.id)?.remove(&record.id).unwrap_or_default();
            runs.push(api::PastRun {
                gpu_uuids: record.gpu_uuids.clone(),
                start_ns,
                end_ns: start_ns + ran_ns,
                work_seconds: ran_ns as f64 / 1e9,
                kept_part: Some(1.0),
                end: RUNNING.to_owned(),
            });
            let released = archive.releases_of(record.id, record.id)?.get(&record.id).copied();
            let ends = archive.ends_of(record.spec.ask.after.iter().map(|after| after.id))?;
            jobs.push(self.past_job(&record, viewer, runs, released, &ends));
        }
        Ok(jobs)
    }
}

/// The part of the past that a caller asks for.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct HistoryQuery {
    /// Jobs that ended since this moment, RFC 3339; all if not given.
    since: Option<String>,
    /// Jobs with smaller numbers than this: the first number of an answer that says `truncated` gives the jobs before it.
    before: Option<u64>,
    /// The most jobs, the latest of them: 1 to 100,000, which is also what comes if nothing is said.
    limit: Option<usize>,
}

/// The jobs, runs and GPU samples of the past.
#[utoipa::path(get, path = "/api/v1/history", params(HistoryQuery), responses((status = 200, body = api::History), (status = "4XX", body = api::Problem)))]
async fn history(State(site): State<Arc<Site>>, caller: Caller, Query(query): Query<HistoryQuery>) -> Answer<api::History> {
    let since_ns = query.since.as_deref().map(|text| parse_time("since", text)).transpose()?;
    let limit = query.limit.unwrap_or(JOBS_MAX);
    if !(1..=JOBS_MAX).contains(&limit) {
        let title = format!("limit: write 1 to {JOBS_MAX}, and `before` for the jobs before those");
        return Err(Problem::new(StatusCode::BAD_REQUEST, "bad-input", title));
    }
    site.ask(Message::Flush).await?;
    let viewer = site.viewer(&caller);
    let wanted = Wanted { since_ns, before: query.before, limit };
    Ok(Json(site.aside(move |site| Ok(site.history(wanted, &viewer)?)).await?))
}
