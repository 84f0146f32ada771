//! Simulations: what would have happened under other policies, or on other GPUs.

use super::history::{JOBS_MAX, Wanted};
use super::lookback::moment;
use crate::api::{self, SimulationSource};
use crate::http::privacy::Viewer;
use crate::http::{Answer, Problem, Site};
use crate::machine::platform::{Caller, Message, Refusal, RefusalKind};
use crate::past::replay::{Replay, cluster_of, cluster_toml};
use crate::simulate::simulations::{CLUSTER, HAPPENED_CLUSTER, HAPPENED_EVENTS, Prepare, SimulationPlan, TRACE};
use axum::Json;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use rota_core::Cluster;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::sync::Arc;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// The most policies in one comparison.
const POLICIES_MAX: usize = 8;
/// The most GPUs of a simulated cluster.
const GPUS_MAX: usize = 100_000;
/// GPUs on each node of a cluster that is given by types and counts.
const GPUS_PER_NODE: u32 = 8;

pub(crate) fn routes() -> OpenApiRouter<Arc<Site>> {
    OpenApiRouter::new().routes(routes!(begin)).routes(routes!(show, stop)).routes(routes!(chart)).routes(routes!(bars))
}

fn bad(title: impl Into<String>) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, "bad-input", title)
}

/// Begins a simulation.
#[utoipa::path(post, path = "/api/v1/simulations", request_body = api::SimulationAsk, responses((status = 202, body = api::SimulationStarted), (status = "4XX", body = api::Problem)))]
async fn begin(
    State(site): State<Arc<Site>>,
    caller: Caller,
    Json(ask): Json<api::SimulationAsk>,
) -> Result<(StatusCode, Json<api::SimulationStarted>), Problem> {
    if !caller.may_write {
        return Err(Refusal::new(RefusalKind::Forbidden, "this token may only read").into());
    }
    let plan = site.plan(ask, site.viewer(&caller))?;
    if plan.is_of_history {
        site.ask(Message::Flush).await?;
    }
    let started = site.simulations.begin(plan.plan, &caller)?;
    Ok((StatusCode::ACCEPTED, Json(started)))
}

/// How a simulation goes, with its results once it is done.
#[utoipa::path(get, path = "/api/v1/simulations/{id}", params(("id" = u64, Path)), responses((status = 200, body = api::Simulation), (status = "4XX", body = api::Problem)))]
async fn show(State(site): State<Arc<Site>>, caller: Caller, Path(id): Path<u64>) -> Answer<api::Simulation> {
    Ok(Json(site.simulations.show(id, &caller)?))
}

/// Stops a simulation that goes on, and forgets one that is over.
#[utoipa::path(delete, path = "/api/v1/simulations/{id}", params(("id" = u64, Path)), responses((status = 200), (status = "4XX", body = api::Problem)))]
async fn stop(State(site): State<Arc<Site>>, caller: Caller, Path(id): Path<u64>) -> Answer<()> {
    if !caller.may_write {
        return Err(Refusal::new(RefusalKind::Forbidden, "this token may only read").into());
    }
    Ok(Json(site.simulations.stop(id, &caller)?))
}

/// The Gantt chart of one of the simulated policies, by its place in the list.
#[utoipa::path(get, path = "/api/v1/simulations/{id}/gantt/{index}", params(("id" = u64, Path), ("index" = usize, Path)), responses((status = 200, content_type = "image/svg+xml", body = String), (status = "4XX", body = api::Problem)))]
async fn chart(
    State(site): State<Arc<Site>>,
    caller: Caller,
    Path((id, index)): Path<(u64, usize)>,
) -> Result<([(header::HeaderName, &'static str); 2], Vec<u8>), Problem> {
    // The chart has names that users chose. A browser that opens it must run nothing.
    let policy = "default-src 'none'; style-src 'unsafe-inline'; sandbox";
    let chart = site.simulations.chart(id, index, "svg", &caller)?;
    Ok(([(header::CONTENT_TYPE, "image/svg+xml"), (header::CONTENT_SECURITY_POLICY, policy)], chart))
}

/// The schedule of one of the simulated policies as bars, by its place in the list; after the policies comes what really happened.
#[utoipa::path(get, path = "/api/v1/simulations/{id}/bars/{index}", params(("id" = u64, Path), ("index" = usize, Path)), responses((status = 200, body = api::ScheduleBars), (status = "4XX", body = api::Problem)))]
async fn bars(
    State(site): State<Arc<Site>>,
    caller: Caller,
    Path((id, index)): Path<(u64, usize)>,
) -> Result<([(header::HeaderName, &'static str); 1], Vec<u8>), Problem> {
    let bars = site.simulations.chart(id, index, "json", &caller)?;
    Ok(([(header::CONTENT_TYPE, "application/json")], bars))
}

/// A plan, and where its jobs come from.
struct Planned {
    plan: SimulationPlan,
    is_of_history: bool,
}

impl Site {
    /// Makes sure that what is asked can be meant.
    fn plan(self: &Arc<Self>, ask: api::SimulationAsk, viewer: Viewer) -> Result<Planned, Problem> {
        if ask.policies.is_empty() || ask.policies.len() > POLICIES_MAX {
            return Err(bad(format!("policies: name 1 to {POLICIES_MAX}, not {}", ask.policies.len())));
        }
        for policy in &ask.policies {
            rota_policy::build(policy).map_err(|error| bad(format!("policies: {error}")))?;
        }
        if let Some(format) = &ask.format {
            format.parse::<rota_trace::Format>().map_err(|error| bad(format!("format: {error}")))?;
        }
        let cluster = match &ask.cluster {
            Some(spec) => Cluster::from_spec(spec, GPUS_PER_NODE).map_err(|error| bad(error.to_string()))?,
            None => cluster_of(&self.estimates.host, &self.board.read().gpus),
        };
        if cluster.gpus.is_empty() {
            return Err(bad("cluster: this machine has no GPU; name some, as in `a100:4`"));
        }
        if cluster.gpus.len() > GPUS_MAX {
            return Err(bad(format!(
                "cluster: {} GPUs are more than the {GPUS_MAX} that may be simulated here",
                cluster.gpus.len()
            )));
        }
        let cluster = cluster_toml(&cluster).map_err(|error| bad(format!("cluster: {error}")))?;
        let since_ns = ask.since.as_deref().map(|text| moment("since", text)).transpose()?;
        let is_of_history = ask.source == SimulationSource::History;
        let write_trace: Prepare = match (ask.source, ask.text) {
            (SimulationSource::History, None) if ask.format.is_none() => {
                let site = Arc::clone(self);
                Box::new(move |folder| site.write_history(since_ns, &viewer, folder))
            }
            (SimulationSource::Trace, Some(text)) if since_ns.is_none() => {
                Box::new(move |folder| std::fs::write(folder.join(TRACE), text).map_err(|error| error.to_string()))
            }
            (SimulationSource::History, _) => return Err(bad("source: a history needs no text and no format")),
            (SimulationSource::Trace, None) => return Err(bad("text: the trace is missing")),
            (SimulationSource::Trace, _) => return Err(bad("since: it goes with the history, not with a trace")),
        };
        let prepare = move |folder: &std::path::Path| {
            std::fs::write(folder.join(CLUSTER), cluster).map_err(|error| error.to_string())?;
            write_trace(folder)
        };
        let plan = SimulationPlan {
            policies: ask.policies,
            format: ask.format,
            // What the site measured is true of its own jobs.
            throughputs: self.simulations.throughputs.clone().filter(|_| is_of_history),
            seed: ask.seed.unwrap_or(0),
            prepare: Box::new(prepare),
        };
        Ok(Planned { plan, is_of_history })
    }

    /// The past as a trace, and what really happened as events.
    fn write_history(&self, since_ns: Option<i64>, viewer: &Viewer, folder: &std::path::Path) -> Result<(), String> {
        let wanted = Wanted { since_ns, before: None, limit: JOBS_MAX };
        let history = self.history(wanted, viewer).map_err(|error| error.to_string())?;
        let story = Replay::of(history).map_err(|error| error.to_string())?;
        let cluster = cluster_toml(&story.cluster).map_err(|error| error.to_string())?;
        std::fs::write(folder.join(HAPPENED_CLUSTER), cluster).map_err(|error| error.to_string())?;
        let create = |name: &str| File::create(folder.join(name)).map(BufWriter::new).map_err(|error| error.to_string());
        let mut file = create(HAPPENED_EVENTS)?;
        for event in story.events() {
            serde_json::to_writer(&mut file, &event).map_err(|error| error.to_string())?;
            file.write_all(b"\n").map_err(|error| error.to_string())?;
        }
        file.flush().map_err(|error| error.to_string())?;
        let mut file = create(TRACE)?;
        rota_trace::write_csv(&story.workload, &mut file).map_err(|error| error.to_string())?;
        file.flush().map_err(|error| error.to_string())
    }
}
