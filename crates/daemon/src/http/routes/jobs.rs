//! Jobs: submitted, listed, looked at, waited for, acted upon.

use super::lists::Wanted;
use crate::api;
use crate::forecast::changes::{of_candidate, of_job};
use crate::forecast::forecaster::JOBS_MAX;
use crate::http::page::has;
use crate::http::{Answer, Problem, Site, parse_time};
use crate::machine::platform::{Caller, Message, Refusal, RefusalKind, Verb};
use axum::Json;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use rota_exec::ResourceLimits;
use serde::Deserialize;
use std::sync::Arc;
use std::time::{Duration, Instant};
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// The longest a caller may be kept waiting for an answer.
const LONG_POLL_MAX: Duration = Duration::from_mins(1);
/// Jobs on one page of a list, if nothing else is asked for.
const LIST_DEFAULT: usize = 1000;
/// Jobs on one page of a list at most.
const LIST_MAX: usize = 10_000;

pub(crate) fn routes() -> OpenApiRouter<Arc<Site>> {
    OpenApiRouter::new()
        .routes(routes!(submit, list))
        .routes(routes!(submit_many))
        .routes(routes!(show, change))
        .routes(routes!(explain))
        .routes(routes!(dry_run))
        .routes(routes!(wait))
        .routes(routes!(act))
}

/// Gives jobs to the queue.
#[utoipa::path(post, path = "/api/v1/jobs", params(("Idempotency-Key" = Option<String>, Header, description = "The same as `key` of the body.")), request_body = api::Submit, responses((status = 201, body = api::Submitted), (status = "4XX", body = api::Problem)))]
async fn submit(
    State(site): State<Arc<Site>>,
    caller: Caller,
    headers: HeaderMap,
    Json(mut ask): Json<api::Submit>,
) -> Result<(StatusCode, Json<api::Submitted>), Problem> {
    may_submit(&site, &caller)?;
    take_key(&mut ask, &headers)?;
    take_rlimits(&mut ask, &site)?;
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
    let one = async |mut ask: api::Submit| {
        if ask.env.is_empty() {
            ask.env = Arc::clone(&many.env);
        }
        take_rlimits(&mut ask, &site)?;
        site.ask(|reply| Message::Submit(Box::new(ask), caller.clone(), reply)).await
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

/// A key may be in a header, where programs that repeat requests by themselves put it.
fn take_key(ask: &mut api::Submit, headers: &HeaderMap) -> Result<(), Problem> {
    let Some(value) = headers.get("idempotency-key") else { return Ok(()) };
    let refused = |title: &str| Err(Problem::new(StatusCode::BAD_REQUEST, "bad-input", title));
    let Ok(key) = std::str::from_utf8(value.as_bytes()) else { return refused("Idempotency-Key: this is not text") };
    if ask.key.as_ref().is_some_and(|known| known != key) {
        return refused("`key` and the header Idempotency-Key differ: send one of them");
    }
    ask.key = Some(key.to_owned());
    Ok(())
}

/// Checks the limits of a job's resources, and keeps those that the job would not have anyway: they are written down with each job.
fn take_rlimits(ask: &mut api::Submit, site: &Site) -> Result<(), Problem> {
    let Some(text) = ask.rlimits.take() else { return Ok(()) };
    let limits = text.parse::<ResourceLimits>();
    let limits = limits.map_err(|error| Problem::new(StatusCode::BAD_REQUEST, "bad-input", format!("rlimits: {error}")))?;
    let limits = limits.without(&site.settings.job_limits);
    ask.rlimits = (!limits.is_empty()).then(|| limits.to_string().into());
    Ok(())
}

/// A daemon that is not root's runs jobs of its own user only.
fn may_submit(site: &Site, caller: &Caller) -> Result<(), Problem> {
    if !caller.may_write {
        return Err(Problem::new(StatusCode::FORBIDDEN, "forbidden", "this token may only read"));
    }
    if site.settings.daemon_uid != 0 && caller.uid != site.settings.daemon_uid {
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
    #[param(inline)]
    state: Option<api::JobState>,
    /// Only of this user.
    user: Option<String>,
    /// Only of the caller.
    #[serde(default)]
    mine: bool,
    /// Only of this project.
    project: Option<String>,
    /// Only those that ended since this moment, RFC 3339.
    since: Option<String>,
    /// Only those that ended before this moment, RFC 3339.
    until: Option<String>,
    /// Only those with this in their name or their command, whatever its case.
    q: Option<String>,
    /// Only of this group.
    group: Option<u64>,
    /// Only those that are called so, or whose group is; `*` stands for any letters.
    name: Option<String>,
    /// The most jobs on a page; 1000 if not given.
    #[param(minimum = 1, maximum = 10_000)]
    limit: Option<usize>,
    /// Go on from here: the header `Link` of the page before says where.
    cursor: Option<u64>,
}

/// Jobs that wait or run, in order of arrival; with `all`, those that are over, too. A list of what is over begins with the newest page,
/// and goes back from there.
#[utoipa::path(get, path = "/api/v1/jobs", params(ListQuery), responses((status = 200, body = Vec<api::Job>, headers(("Link" = String, description = "The next page, if there is one."))))
)]
async fn list(
    State(site): State<Arc<Site>>,
    caller: Caller,
    Query(query): Query<ListQuery>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let limit = query.limit.unwrap_or(LIST_DEFAULT);
    if !(1..=LIST_MAX).contains(&limit) {
        let title = format!("limit: write 1 to {LIST_MAX}, and follow the header `Link` for more");
        return Err(Problem::new(StatusCode::BAD_REQUEST, "bad-input", title));
    }
    let time = |name: &str, text: &Option<String>| text.as_deref().map(|text| parse_time(name, text)).transpose();
    let wanted = Wanted {
        all: query.all,
        state: query.state,
        user: query.user.clone().or_else(|| query.mine.then(|| caller.user.clone())),
        project: query.project.clone(),
        since_ns: time("since", &query.since)?,
        until_ns: time("until", &query.until)?,
        text: query.q.as_deref().filter(|text| !text.is_empty()).map(str::to_lowercase),
        group: query.group,
        name: query.name.clone().filter(|name| !name.is_empty()),
        limit,
        cursor: query.cursor,
        viewer: site.viewer(&caller),
    };
    let page = site.page(wanted).await?;
    let link = page.next.map(|cursor| [(header::LINK, query.next(cursor))]);
    let kind = [(header::CONTENT_TYPE, "application/json"), (header::VARY, "accept-encoding")];
    if has(&headers, &header::ACCEPT_ENCODING, "gzip") {
        let packed = site.aside({
            let page = Arc::clone(&page);
            move |_| Ok(page.packed())
        });
        return Ok((link, kind, [(header::CONTENT_ENCODING, "gzip")], packed.await?).into_response());
    }
    Ok((link, kind, page.json.clone()).into_response())
}

impl ListQuery {
    /// The next page, as the header `Link` has it.
    fn next(&self, cursor: u64) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        let words = [
            ("user", &self.user),
            ("project", &self.project),
            ("since", &self.since),
            ("until", &self.until),
            ("q", &self.q),
            ("name", &self.name),
        ];
        for (name, value) in words {
            if let Some(value) = value {
                query.append_pair(name, value);
            }
        }
        if let Some(group) = self.group {
            query.append_pair("group", &group.to_string());
        }
        if self.mine {
            query.append_pair("mine", "true");
        }
        if self.all {
            query.append_pair("all", "true");
        }
        if let Some(state) = self.state {
            query.append_pair("state", state.word());
        }
        if let Some(limit) = self.limit {
            query.append_pair("limit", &limit.to_string());
        }
        query.append_pair("cursor", &cursor.to_string());
        format!("</api/v1/jobs?{}>; rel=\"next\"", query.finish())
    }
}

/// One job, in full.
#[utoipa::path(get, path = "/api/v1/jobs/{id}", params(("id" = u64, Path, description = "Its number.")), responses((status = 200, body = api::Job), (status = 404, body = api::Problem)))]
async fn show(State(site): State<Arc<Site>>, caller: Caller, Path(id): Path<u64>) -> Answer<api::Job> {
    Ok(Json(site.find(id, &site.viewer(&caller)).await?))
}

/// Another priority for a job that waits or is held.
#[utoipa::path(patch, path = "/api/v1/jobs/{id}", params(("id" = u64, Path)), request_body = api::JobChange, responses((status = 200, body = api::Job), (status = "4XX", body = api::Problem)))]
async fn change(
    State(site): State<Arc<Site>>,
    caller: Caller,
    Path(id): Path<u64>,
    Json(change): Json<api::JobChange>,
) -> Answer<api::Job> {
    let viewer = site.viewer(&caller);
    site.ask(|reply| Message::Prioritise(id, change.priority, caller, reply)).await?;
    Ok(Json(site.job(id, &viewer)?))
}

/// Why a job waits.
#[utoipa::path(get, path = "/api/v1/jobs/{id}/explain", params(("id" = u64, Path, description = "Its number.")), responses((status = 200, body = api::Explanation), (status = 404, body = api::Problem)))]
async fn explain(State(site): State<Arc<Site>>, caller: Caller, Path(id): Path<u64>) -> Answer<api::Explanation> {
    let mut why = site.ask(|reply| Message::Explain(id, caller, reply)).await?;
    let is_long = site.board.read().jobs.len() > JOBS_MAX;
    if why.state == api::JobState::Waiting && !is_long {
        why.counterfactuals = site
            .aside(move |site| {
                let fork = site.fork();
                Ok(fork.map(|fork| of_job(fork, &site.learned, site.estimates.jobs_per_gpu, id)).unwrap_or_default())
            })
            .await?;
        // A change is worth a word if it starts the job sooner than it is expected to start as it is.
        let expected = why.start_p50.as_deref().and_then(|start| start.parse::<jiff::Timestamp>().ok());
        let is_sooner = |change: &api::Counterfactual| {
            let start = change.start.parse::<jiff::Timestamp>().ok();
            change.is_now || start.zip(expected).is_none_or(|(start, expected)| start < expected)
        };
        why.counterfactuals.retain(is_sooner);
    }
    Ok(Json(why))
}

/// When a job would start if it were submitted now, on which GPU type it would be done first, and what would start it sooner. Nothing is
/// submitted.
#[utoipa::path(post, path = "/api/v1/jobs/dry-run", request_body = api::Submit, responses((status = 200, body = api::DryRun), (status = "4XX", body = api::Problem)))]
async fn dry_run(State(site): State<Arc<Site>>, caller: Caller, Json(ask): Json<api::Submit>) -> Answer<api::DryRun> {
    may_submit(&site, &caller)?;
    let jobs = site.board.read().jobs.len();
    if jobs > JOBS_MAX {
        let message = format!("{jobs} jobs wait or run: starts are predicted for queues of up to {JOBS_MAX}");
        return Err(Refusal::new(RefusalKind::TooMany, message).into());
    }
    let candidate = site.ask(|reply| Message::DryRun(Box::new(ask), caller, reply)).await?;
    let busy = || Problem::from(Refusal::new(RefusalKind::Unavailable, "the queue is busy; try again"));
    let told = site.aside(move |site| {
        let fork = site.fork().ok_or_else(busy)?;
        Ok(of_candidate(fork, &site.learned, site.estimates.jobs_per_gpu, *candidate))
    });
    Ok(Json(told.await?))
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
#[utoipa::path(get, path = "/api/v1/jobs/{id}/wait", params(("id" = u64, Path, description = "Its number."), WaitQuery), responses((status = 200, body = api::Job), (status = 404, body = api::Problem)))]
async fn wait(
    State(site): State<Arc<Site>>,
    caller: Caller,
    Path(id): Path<u64>,
    Query(query): Query<WaitQuery>,
) -> Answer<api::Job> {
    let viewer = site.viewer(&caller);
    let timeout = query.timeout.filter(|seconds| !seconds.is_nan());
    let patience = timeout.map_or(LONG_POLL_MAX, |seconds| Duration::from_secs_f64(seconds.clamp(0.0, 60.0)));
    let deadline = Instant::now() + patience;
    let mut events = site.board.listen();
    loop {
        let job = site.find(id, &viewer).await?;
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
            return Ok(Json(site.find(id, &viewer).await?));
        }
    }
}

/// Cancels, holds, releases or retries a job.
#[utoipa::path(post, path = "/api/v1/jobs/{id}/{verb}", params(("id" = u64, Path, description = "Its number."), ("verb" = String, Path, description = "cancel, hold, release or retry")), responses((status = 200, body = Vec<u64>), (status = "4XX", body = api::Problem)))]
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
