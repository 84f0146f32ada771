//! The machine: its GPUs, its policy, what is learned of memory, claims, and its end.

use crate::access::users;
use crate::api;
use crate::http::auth::Remote;
use crate::http::{Answer, Problem, Site};
use crate::machine::platform::{Caller, Message};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::{Extension, Json};
use serde::Deserialize;
use std::sync::Arc;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(crate) fn routes() -> OpenApiRouter<Arc<Site>> {
    OpenApiRouter::new()
        .routes(routes!(gpus))
        .routes(routes!(status))
        .routes(routes!(speeds))
        .routes(routes!(drain))
        .routes(routes!(nodes))
        .routes(routes!(forget_node))
        .routes(routes!(resume))
        .routes(routes!(profiles, forget))
        .routes(routes!(policy))
        .routes(routes!(policies))
        .routes(routes!(claim))
        .routes(routes!(shutdown))
        .routes(routes!(healthz))
}

/// The GPUs of this machine, with the jobs and processes on them.
#[utoipa::path(get, path = "/api/v1/gpus", responses((status = 200, body = Vec<api::Gpu>)))]
async fn gpus(State(site): State<Arc<Site>>, caller: Caller) -> Json<Vec<api::Gpu>> {
    Json(site.viewer(&caller).gpus(site.board.read().gpus.clone()))
}

/// The whole state at a glance.
#[utoipa::path(get, path = "/api/v1/status", responses((status = 200, body = api::Status)))]
async fn status(State(site): State<Arc<Site>>, caller: Caller) -> Json<api::Status> {
    let view = site.board.read();
    let count = |wanted: fn(api::JobState) -> bool| view.jobs.values().filter(|record| wanted(record.state)).count() as u64;
    Json(api::Status {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: std::process::id(),
        state_dir: site.settings.state_dir.to_string_lossy().into_owned(),
        socket: site.settings.socket.clone(),
        http: site.settings.http.clone(),
        started_at: site.settings.started_at.clone(),
        driver: site.settings.driver.clone(),
        policy: view.policy.clone(),
        draining: view.draining,
        waiting: count(|state| state == api::JobState::Waiting),
        held: count(|state| state == api::JobState::Held),
        running: count(api::JobState::has_gpus),
        gpus: site.viewer(&caller).gpus(view.gpus.clone()),
        decisions: view.decisions,
        decision_seconds_max: view.decision_seconds_max,
        warnings: view.warnings.values().cloned().collect(),
    })
}

/// How fast job types are on the GPU types of this machine, by the steps that jobs told while they ran alone.
#[utoipa::path(get, path = "/api/v1/speeds", responses((status = 200, body = Vec<api::Speed>)))]
async fn speeds(State(site): State<Arc<Site>>, _: Caller) -> Json<Vec<api::Speed>> {
    Json(site.board.read().speeds.clone())
}

/// Start nothing more.
#[utoipa::path(post, path = "/api/v1/drain", request_body = api::Drain, responses((status = 200), (status = "4XX", body = api::Problem)))]
async fn drain(State(site): State<Arc<Site>>, caller: Caller, Json(drain): Json<api::Drain>) -> Answer<()> {
    Ok(Json(site.ask(|reply| Message::Drain(drain, caller, reply)).await?))
}

/// The machines whose GPUs are used.
#[utoipa::path(get, path = "/api/v1/nodes", responses((status = 200, body = Vec<api::NodeView>)))]
async fn nodes(State(site): State<Arc<Site>>, _: Caller) -> Json<Vec<api::NodeView>> {
    Json(site.board.read().nodes.clone())
}

/// A machine is gone for good: its jobs are lost, or wait again if they have saved their work through their leases.
#[utoipa::path(post, path = "/api/v1/nodes/{name}/forget", params(("name" = String, Path)), responses((status = 200), (status = "4XX", body = api::Problem)))]
async fn forget_node(State(site): State<Arc<Site>>, caller: Caller, Path(name): Path<String>) -> Answer<()> {
    Ok(Json(site.ask(|reply| Message::ForgetNode(name, caller, reply)).await?))
}

/// Start jobs again.
#[utoipa::path(post, path = "/api/v1/resume", request_body = api::Drain, responses((status = 200), (status = "4XX", body = api::Problem)))]
async fn resume(State(site): State<Arc<Site>>, caller: Caller, Json(drain): Json<api::Drain>) -> Answer<()> {
    Ok(Json(site.ask(|reply| Message::Resume(drain.gpus, caller, reply)).await?))
}

/// What is known of the memory that programs need: the caller's programs, or all users' for an administrator.
#[utoipa::path(get, path = "/api/v1/profiles", responses((status = 200, body = Vec<api::Profile>)))]
async fn profiles(State(site): State<Arc<Site>>, caller: Caller) -> Answer<Vec<api::Profile>> {
    Ok(Json(site.ask(|reply| Message::Profiles(caller, reply)).await?))
}

/// Forgets one of the caller's classes: the next run is measured anew.
#[utoipa::path(delete, path = "/api/v1/profiles", params(ProfileQuery), responses((status = 200), (status = "4XX", body = api::Problem)))]
async fn forget(State(site): State<Arc<Site>>, caller: Caller, Query(query): Query<ProfileQuery>) -> Answer<()> {
    Ok(Json(site.ask(|reply| Message::Forget(query.class, caller, reply)).await?))
}

#[derive(Deserialize, IntoParams)]
struct ProfileQuery {
    /// The class of programs to forget.
    class: String,
}

/// Another policy, at once.
#[utoipa::path(put, path = "/api/v1/policy", request_body = api::PolicyChange, responses((status = 200), (status = "4XX", body = api::Problem)))]
async fn policy(State(site): State<Arc<Site>>, caller: Caller, Json(change): Json<api::PolicyChange>) -> Answer<()> {
    Ok(Json(site.ask(|reply| Message::Policy(change.policy, caller, reply)).await?))
}

/// The policies there are to choose from.
#[utoipa::path(get, path = "/api/v1/policies", responses((status = 200, body = Vec<api::PolicyChoice>)))]
async fn policies(_: Caller) -> Json<Vec<api::PolicyChoice>> {
    Json(api::PolicyChoice::all())
}

/// A process claims GPUs for itself. Only processes of this machine can: the daemon cannot see whether another one still lives.
#[utoipa::path(post, path = "/api/v1/claims", request_body = api::GpuClaim, responses((status = 201, body = api::Submitted), (status = "4XX", body = api::Problem)))]
async fn claim(
    State(site): State<Arc<Site>>,
    caller: Caller,
    remote: Option<Extension<Remote>>,
    Json(claim): Json<api::GpuClaim>,
) -> Result<(StatusCode, Json<api::Submitted>), Problem> {
    if remote.is_some_and(|Extension(Remote(address))| !address.ip().to_canonical().is_loopback()) {
        let title = "GPUs are claimed by processes of this machine only; submit a job instead";
        return Err(Problem::new(StatusCode::FORBIDDEN, "forbidden", title));
    }
    let owner = users::owner_of_process(claim.pid);
    if !caller.is_admin && owner != Some(caller.uid) {
        let title = format!("--pid: process {} is not yours", claim.pid);
        return Err(Problem::new(StatusCode::FORBIDDEN, "forbidden", title));
    }
    let id = site.ask(|reply| Message::Claim(claim, caller, reply)).await?;
    Ok((StatusCode::CREATED, Json(api::Submitted { ids: vec![id], existing: false, group: None })))
}

/// Ends the daemon; running jobs go on.
#[utoipa::path(post, path = "/api/v1/shutdown", responses((status = 200), (status = "4XX", body = api::Problem)))]
async fn shutdown(State(site): State<Arc<Site>>, caller: Caller) -> Answer<()> {
    crate::queue::world::needs_admin(&caller)?;
    site.board.write().is_down_asked = true;
    _ = site.inbox.send(Message::Shutdown);
    Ok(Json(()))
}

/// Whether the daemon answers at all.
#[utoipa::path(get, path = "/healthz", responses((status = 200)))]
async fn healthz() -> &'static str {
    "ok\n"
}
