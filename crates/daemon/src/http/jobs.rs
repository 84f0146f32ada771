//! Jobs: submitted, listed, looked at, waited for, acted upon.

use super::{Answer, Problem, Site, parse_time};
use crate::api;
use crate::platform::{Caller, Message, Verb};
use crate::store::Past;
use crate::users;
use axum::Json;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use serde::Deserialize;
use std::sync::Arc;
use std::time::{Duration, Instant};
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// The longest a caller may be kept waiting for an answer.
const LONG_POLL_MAX: Duration = Duration::from_mins(1);

pub(super) fn routes() -> OpenApiRouter<Arc<Site>> {
    OpenApiRouter::new()
        .routes(routes!(submit, list))
        .routes(routes!(submit_many))
        .routes(routes!(show))
        .routes(routes!(explain))
        .routes(routes!(wait))
        .routes(routes!(act))
}

/// New jobs.
#[utoipa::path(post, path = "/api/v1/jobs", request_body = api::Submit, responses((status = 201, body = api::Submitted), (status = "4XX", body = api::Problem)))]
async fn submit(
    State(site): State<Arc<Site>>,
    caller: Caller,
    Json(ask): Json<api::Submit>,
) -> Result<(StatusCode, Json<api::Submitted>), Problem> {
    may_submit(&site, &caller)?;
    let submitted = site.ask(|reply| Message::Submit(Box::new(ask), caller, reply)).await?;
    Ok((StatusCode::CREATED, Json(submitted)))
}

/// Many submits at once: they reach the queue in their order and are written with few flushes. One that is refused does not keep the
/// others out.
#[utoipa::path(post, path = "/api/v1/jobs/many", request_body = api::SubmitMany, responses((status = 200, body = Vec<api::OneOfMany>), (status = "4XX", body = api::Problem)))]
async fn submit_many(
    State(site): State<Arc<Site>>,
    caller: Caller,
    Json(many): Json<api::SubmitMany>,
) -> Answer<Vec<api::OneOfMany>> {
    may_submit(&site, &caller)?;
    let one = |mut ask: api::Submit| {
        if ask.env.is_empty() {
            ask.env.clone_from(&many.env);
        }
        site.ask(|reply| Message::Submit(Box::new(ask), caller.clone(), reply))
    };
    let answers = futures_util::future::join_all(many.submits.iter().cloned().map(one)).await;
    let told = |answer: Result<api::Submitted, Problem>| match answer {
        Ok(submitted) => Ok(api::OneOfMany { ids: submitted.ids, refusal: None }),
        // A store that takes nothing is not about one of them.
        Err(Problem(status, problem)) if status.is_server_error() => Err(Problem(status, problem)),
        Err(Problem(_, problem)) => Ok(api::OneOfMany { ids: Vec::new(), refusal: Some(problem.title) }),
    };
    Ok(Json(answers.into_iter().map(told).collect::<Result<_, _>>()?))
}

/// A daemon that is not root's runs jobs of its own user only.
fn may_submit(site: &Site, caller: &Caller) -> Result<(), Problem> {
    if site.daemon_uid != 0 && caller.uid != site.daemon_uid {
        let title = "this daemon runs jobs as its own user only; a root daemon runs them as whoever submits them";
        return Err(Problem::new(StatusCode::FORBIDDEN, "forbidden", title));
    }
    Ok(())
}

/// Which jobs to list.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
struct ListQuery {
    /// Jobs that are over, too.
    #[serde(default)]
    all: bool,
    /// Only in this state.
    state: Option<api::State>,
    /// Only of this user.
    user: Option<String>,
    /// Only those that ended since this moment, RFC 3339.
    since: Option<String>,
    /// No more than this.
    limit: Option<u32>,
    /// Go on after the job with this number, which was the last of the page before.
    cursor: Option<u64>,
}

/// Jobs that wait or run, in order of arrival; with `all`, those that are over first.
#[utoipa::path(get, path = "/api/v1/jobs", params(ListQuery), responses((status = 200, body = Vec<api::Job>)))]
async fn list(State(site): State<Arc<Site>>, _: Caller, Query(query): Query<ListQuery>) -> Answer<Vec<api::Job>> {
    let limit = query.limit.unwrap_or(u32::MAX) as usize;
    let since = query.since.as_deref().map(parse_time).transpose()?;
    let mut jobs = Vec::new();
    let wants_past = query.all || since.is_some() || query.state.is_some_and(api::State::is_over);
    if wants_past {
        let uid = query.user.as_deref().and_then(users::find);
        let past = Past { before: query.cursor, state: query.state, uid, since_ns: since, limit: query.limit.unwrap_or(100_000) };
        let mut records = site.past(|archive| archive.past(&past))?;
        records.reverse();
        jobs.extend(records.iter().map(|record| record.view(&site.state_dir, None, None)));
    }
    if since.is_none() {
        let view = site.board.read();
        let chosen = view.jobs.values().filter(|record| query.state.is_none_or(|state| record.state == state));
        // The first page of the past ends with what is not over; the others go back from there.
        let chosen = chosen.filter(|record| query.cursor.is_none_or(|cursor| !wants_past && record.id > cursor));
        let chosen = chosen.filter(|record| query.user.as_ref().is_none_or(|user| record.user == *user));
        jobs.extend(chosen.take(limit).map(|record| view.job(record, &site.state_dir)));
    }
    if let Some(user) = &query.user {
        jobs.retain(|job| job.user == *user);
    }
    if wants_past {
        // Those that are over longest come first, and are left out first.
        jobs.drain(..jobs.len().saturating_sub(limit));
    }
    Ok(Json(jobs))
}

/// One job.
#[utoipa::path(get, path = "/api/v1/jobs/{id}", responses((status = 200, body = api::Job), (status = 404, body = api::Problem)))]
async fn show(State(site): State<Arc<Site>>, _: Caller, Path(id): Path<u64>) -> Answer<api::Job> {
    Ok(Json(site.job(id)?))
}

/// Why it waits.
#[utoipa::path(get, path = "/api/v1/jobs/{id}/explain", responses((status = 200, body = api::Explanation), (status = 404, body = api::Problem)))]
async fn explain(State(site): State<Arc<Site>>, caller: Caller, Path(id): Path<u64>) -> Answer<api::Explanation> {
    Ok(Json(site.ask(|reply| Message::Explain(id, caller, reply)).await?))
}

/// How long to wait.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
struct WaitQuery {
    /// Seconds at most; the job as it is then is the answer.
    timeout: Option<f64>,
    /// Wait only until it has started.
    #[serde(default)]
    started: bool,
}

/// The job once it is over, or as it is when the time is up.
#[utoipa::path(get, path = "/api/v1/jobs/{id}/wait", params(WaitQuery), responses((status = 200, body = api::Job), (status = 404, body = api::Problem)))]
async fn wait(State(site): State<Arc<Site>>, _: Caller, Path(id): Path<u64>, Query(query): Query<WaitQuery>) -> Answer<api::Job> {
    let patience = query.timeout.map_or(LONG_POLL_MAX, |seconds| Duration::from_secs_f64(seconds.clamp(0.0, 60.0)));
    let deadline = Instant::now() + patience;
    let mut events = site.board.listen();
    loop {
        let job = site.job(id)?;
        if job.state.is_over() || (query.started && job.state.has_gpus()) {
            return Ok(Json(job));
        }
        let left = deadline.saturating_duration_since(Instant::now());
        let relevant = async {
            loop {
                match events.recv().await {
                    Ok(event) if event.job != Some(id) => {}
                    // The one waited for, or too many to follow: look again.
                    _ => break,
                }
            }
        };
        if left.is_zero() || tokio::time::timeout(left, relevant).await.is_err() {
            return Ok(Json(site.job(id)?));
        }
    }
}

/// What to do to a job.
#[utoipa::path(post, path = "/api/v1/jobs/{id}/{verb}", params(("verb" = String, description = "cancel, hold, release or retry")), responses((status = 200, body = Vec<u64>), (status = "4XX", body = api::Problem)))]
async fn act(State(site): State<Arc<Site>>, caller: Caller, Path((id, verb)): Path<(u64, String)>) -> Answer<Vec<u64>> {
    let verb = match verb.as_str() {
        "cancel" => Verb::Cancel,
        "hold" => Verb::Hold,
        "release" => Verb::Release,
        "retry" => Verb::Retry,
        other => {
            let title = format!("`{other}` is not one of cancel, hold, release, retry");
            return Err(Problem::new(StatusCode::NOT_FOUND, "not-found", title));
        }
    };
    Ok(Json(site.ask(|reply| Message::Act(verb, vec![id], caller, reply)).await?))
}
