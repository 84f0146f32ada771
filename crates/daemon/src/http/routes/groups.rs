//! Groups of jobs: listed, looked at with a row for each member, and acted upon; and one thing that is done to many jobs.

use crate::api;
use crate::http::{Answer, Problem, Site};
use crate::machine::platform::{Caller, Message};
use crate::store::groups::GroupTally;
use crate::store::record::JobRecord;
use axum::Json;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::io::{Read, Seek, SeekFrom};
use std::sync::Arc;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// Jobs that are acted upon with one write. Other callers wait for no more than these.
const AT_ONCE: usize = 500;
/// Jobs that one request may name.
const NAMED_MAX: usize = 100_000;
/// Groups in a list, if nothing else is asked for.
const LIST_DEFAULT: usize = 100;
/// Groups in a list at most.
const LIST_MAX: usize = 1000;
/// The part of a log that is looked at for its last line.
const LINE_BYTES: u64 = 4096;
/// The most letters of a last line.
const LINE_LETTERS: usize = 200;

pub(crate) fn routes() -> OpenApiRouter<Arc<Site>> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(show)).routes(routes!(act)).routes(routes!(act_on_many))
}

/// Which groups to list.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
struct GroupsQuery {
    /// Only these groups, by number, with commas between.
    ids: Option<String>,
    /// Only of this user.
    user: Option<String>,
    /// Only groups with a job that is not over.
    #[serde(default)]
    open: bool,
    /// Only groups with a lower number: the last of the page before.
    cursor: Option<u64>,
    /// The most groups that are looked at; 100 if not given.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// Groups, the newest first, with the number of their jobs in each state.
#[utoipa::path(get, path = "/api/v1/groups", params(GroupsQuery), responses((status = 200, body = Vec<api::Group>), (status = "4XX", body = api::Problem)))]
async fn list(State(site): State<Arc<Site>>, caller: Caller, Query(query): Query<GroupsQuery>) -> Answer<Vec<api::Group>> {
    let bad = |title: String| Problem::new(StatusCode::BAD_REQUEST, "bad-input", title);
    let limit = query.limit.unwrap_or(LIST_DEFAULT);
    if !(1..=LIST_MAX).contains(&limit) {
        return Err(bad(format!("limit: write 1 to {LIST_MAX}")));
    }
    let ids = query.ids.as_deref().unwrap_or_default().split(',').filter(|word| !word.is_empty());
    let ids = ids.map(|word| word.parse::<u64>().map_err(|_| bad(format!("ids: `{word}` is not a number"))));
    let ids = ids.collect::<Result<Vec<_>, _>>()?;
    if query.ids.is_some() && ids.is_empty() {
        return Ok(Json(Vec::new()));
    }
    let tallies = site.aside(move |site| Ok(site.past(|archive| archive.groups(&ids, query.cursor, limit))?)).await?;
    let viewer = site.viewer(&caller);
    let groups = tallies.iter().map(|tally| viewer.group(tally.first.uid, group(tally)));
    let groups = groups.filter(|group| query.user.as_ref().is_none_or(|user| group.user == *user));
    Ok(Json(groups.filter(|group| !query.open || group.counts.open() > 0).collect()))
}

/// A group as users see it.
fn group(tally: &GroupTally) -> api::Group {
    let GroupTally { first, counts, finished_ns } = tally;
    api::Group {
        id: first.id,
        name: first.spec.group_name(),
        user: first.user.clone(),
        project: first.spec.ask.project.clone(),
        gpus_requested: first.spec.ask.gpus,
        params: first.spec.values.iter().map(|(name, _)| name.clone()).collect(),
        counts: *counts,
        submitted_at: crate::clock::rfc3339(first.submitted_ns),
        finished_at: finished_ns.filter(|_| counts.open() == 0).map(crate::clock::rfc3339),
    }
}

/// A group with a row for each of its members: parameters against what came of them.
#[utoipa::path(get, path = "/api/v1/groups/{id}", params(("id" = u64, Path, description = "The group's number.")), responses((status = 200, body = api::GroupDetail), (status = 404, body = api::Problem)))]
async fn show(State(site): State<Arc<Site>>, caller: Caller, Path(id): Path<u64>) -> Answer<api::GroupDetail> {
    Ok(Json(site.aside(move |site| site.group(id, &caller)).await?))
}

/// Cancels, holds, releases or retries the jobs of a group that it can be done to: cancel those that are not over, hold those that
/// wait, release those that are held, retry those that failed, were cancelled or are lost.
#[utoipa::path(post, path = "/api/v1/groups/{id}/{verb}", params(("id" = u64, Path, description = "The group's number."), ("verb" = String, Path, description = "cancel, hold, release or retry")), responses((status = 200, body = api::JobsActed), (status = "4XX", body = api::Problem)))]
async fn act(State(site): State<Arc<Site>>, caller: Caller, Path((id, verb)): Path<(u64, String)>) -> Answer<api::JobsActed> {
    let Ok(verb) = serde_json::from_value::<api::JobVerb>(serde_json::Value::String(verb.clone())) else {
        let title = format!("`{verb}` is not one of cancel, hold, release, retry");
        return Err(Problem::new(StatusCode::NOT_FOUND, "not-found", title));
    };
    may_change(&caller)?;
    let states = applicable(verb);
    let members = site.aside(move |site| site.members(id)).await?;
    let ids = members.iter().map(|(record, _)| &**record).filter(|record| states.contains(&record.state)).map(|record| record.id);
    let action = api::JobsAction { verb, ids: ids.collect(), states: states.to_vec() };
    Ok(Json(in_parts(&site, &caller, action).await?))
}

/// The states in which something can be done to a job of a group.
fn applicable(verb: api::JobVerb) -> &'static [api::JobState] {
    use api::JobState::{Cancelled, Failed, Held, Lost, Running, Starting, Stopping, Waiting};
    match verb {
        api::JobVerb::Cancel => &[Waiting, Held, Starting, Running, Stopping],
        api::JobVerb::Hold => &[Waiting],
        api::JobVerb::Release => &[Held],
        api::JobVerb::Retry => &[Failed, Cancelled, Lost],
    }
}

/// Does one thing to many jobs. Each is tried, and what was refused is told.
#[utoipa::path(post, path = "/api/v1/jobs/act", request_body = api::JobsAction, responses((status = 200, body = api::JobsActed), (status = "4XX", body = api::Problem)))]
async fn act_on_many(
    State(site): State<Arc<Site>>,
    caller: Caller,
    Json(action): Json<api::JobsAction>,
) -> Answer<api::JobsActed> {
    may_change(&caller)?;
    if action.ids.len() > NAMED_MAX {
        let title = format!("ids: {} jobs are more than the {NAMED_MAX} that one request may name", action.ids.len());
        return Err(Problem::new(StatusCode::BAD_REQUEST, "bad-input", title));
    }
    Ok(Json(in_parts(&site, &caller, action).await?))
}

/// A token that only reads changes nothing, not even jobs that are not there.
fn may_change(caller: &Caller) -> Result<(), Problem> {
    if caller.may_write {
        return Ok(());
    }
    Err(Problem::new(StatusCode::FORBIDDEN, "forbidden", "this token may only read"))
}

/// Asks the queue a part at a time, with the messages of others in between.
async fn in_parts(site: &Site, caller: &Caller, action: api::JobsAction) -> Result<api::JobsActed, Problem> {
    let mut all = api::JobsActed::default();
    for ids in action.ids.chunks(AT_ONCE) {
        let part = api::JobsAction { ids: ids.to_vec(), ..action.clone() };
        let acted = site.ask(|reply| Message::ActOnMany(part, caller.clone(), reply)).await?;
        all.ids.extend(acted.ids);
        all.skipped.extend(acted.skipped);
        all.refused.extend(acted.refused);
    }
    Ok(all)
}

impl Site {
    /// The newest job of each member of a group, and how many jobs the member had; to be called inside of [`Self::aside`].
    fn members(&self, id: u64) -> Result<Vec<(Arc<JobRecord>, u32)>, Problem> {
        let records = self.past(|archive| archive.jobs_of_group(id))?;
        let mut places: BTreeMap<u64, (Arc<JobRecord>, u32)> = BTreeMap::new();
        let view = self.board.read();
        for record in records {
            let place = record.spec.membership.map_or(record.id, |membership| membership.place);
            // The board knows more of a job that is not over than the store does.
            let newest = view.jobs.get(&record.id).cloned().unwrap_or_else(|| Arc::new(record));
            let before = places.get(&place).map_or(0, |(_, jobs)| *jobs);
            places.insert(place, (newest, before + 1));
        }
        if places.is_empty() {
            let title = format!("there is no group {id}; `rota queue --all` lists jobs and groups");
            return Err(Problem::new(StatusCode::NOT_FOUND, "not-found", title));
        }
        Ok(places.into_values().collect())
    }

    fn group(&self, id: u64, caller: &Caller) -> Result<api::GroupDetail, Problem> {
        let members = self.members(id)?;
        let first = self.past(|archive| archive.job(id))?.ok_or_else(|| crate::queue::world::no_such_job(id))?;
        let mut tally = GroupTally { first, counts: api::GroupCounts::default(), finished_ns: None };
        let now_ns = jiff::Timestamp::now().as_nanosecond() as i64;
        let viewer = self.viewer(caller);
        let mut rows = Vec::with_capacity(members.len());
        for (record, jobs) in &members {
            tally.counts.add(record.state, 1);
            tally.finished_ns = tally.finished_ns.max(record.finished_ns);
            rows.push(viewer.member(record.uid, self.member(record, *jobs, caller, now_ns)));
        }
        Ok(api::GroupDetail { group: viewer.group(tally.first.uid, group(&tally)), members: rows })
    }

    fn member(&self, record: &JobRecord, jobs: u32, caller: &Caller, now_ns: i64) -> api::GroupMember {
        let may_read = caller.is_admin || caller.uid == record.uid;
        let end_ns = record.finished_ns.or_else(|| record.state.has_gpus().then_some(now_ns));
        let span = record.started_ns.zip(end_ns).map(|(start, end)| (end - start).max(0) as f64 / 1e9);
        api::GroupMember {
            id: record.id,
            name: record.spec.label(),
            array_index: record.spec.array_index,
            params: record.spec.values.iter().cloned().collect(),
            state: record.state,
            exit_code: record.exit_code,
            signal: record.signal,
            duration_seconds: span,
            result: record.log_path(&self.settings.state_dir).filter(|_| may_read).and_then(|path| last_line(&path)),
            jobs,
        }
    }
}

/// The last line of a log that has letters in it.
fn last_line(path: &std::path::Path) -> Option<String> {
    let mut file = std::fs::File::open(path).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(LINE_BYTES))).ok()?;
    let mut end = Vec::new();
    file.take(LINE_BYTES).read_to_end(&mut end).ok()?;
    let text = String::from_utf8_lossy(&end).into_owned();
    // A progress bar writes over its own line again and again.
    let line = text.split(['\n', '\r']).rev().map(str::trim).find(|line| !line.is_empty())?;
    Some(line.chars().filter(|letter| !letter.is_control()).take(LINE_LETTERS).collect())
}
