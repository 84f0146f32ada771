//! `rota queue`: lists jobs. The jobs of a group are one row, which unfolds when the group is named.

use super::select::{Purpose, escaped, select};
use crate::live::args::QueueArgs;
use crate::live::client::Client;
use crate::live::text::{ago, columns, command_line, state_word, with_local_times};
use crate::output;
use anyhow::bail;
use rota_daemon::api::{Group, GroupCounts, Job, JobState};
use std::collections::{BTreeMap, BTreeSet};

/// Jobs that are listed with one request.
const PAGE_MAX: usize = 10_000;
/// Groups that are asked for with one request.
const GROUPS_MAX: usize = 500;

/// Prints a list of jobs.
pub fn queue(args: &QueueArgs) -> anyhow::Result<()> {
    let client = Client::new(&args.select.daemon());
    let jobs = wanted(&client, args)?;
    if args.json {
        return output::print_json(&jobs);
    }
    if jobs.is_empty() {
        return output::print("nothing waits or runs");
    }
    let unfolds = args.unfold || !args.select.what.is_empty();
    let groups = if unfolds { BTreeMap::new() } else { groups_of(&client, &jobs)? };
    output::print(&columns(&table(&jobs, &groups), output::table_width()))
}

/// The jobs that are asked for.
fn wanted(client: &Client, args: &QueueArgs) -> anyhow::Result<Vec<Job>> {
    let mut states = args.select.states();
    if let Some(word) = &args.wanted {
        let Some(state) = JobState::from_word(word) else {
            let known = JobState::ALL.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", ");
            bail!("--in: `{word}` is not one of {known}");
        };
        states.push(state);
    }
    if !args.select.what.is_empty() {
        return Ok(select(client, &args.select, Purpose::Look)?.jobs);
    }
    let mut query = vec![format!("all={}", args.all || states.iter().any(|state| state.is_over()))];
    if let [state] = states.as_slice() {
        query.push(format!("state={}", state.word()));
    }
    let user = args.select.user.clone().filter(|user| user != "all");
    for (name, value) in [("user", &user), ("project", &args.project), ("name", &args.select.name)] {
        query.extend(value.as_ref().map(|value| format!("{name}={}", escaped(value))));
    }
    let limit = args.limit.map_or(usize::MAX, |limit| limit as usize);
    query.push(format!("limit={}", limit.clamp(1, PAGE_MAX)));
    let enough = |pages: &[Vec<Job>]| pages.iter().map(Vec::len).sum::<usize>() >= limit;
    let mut pages = client.pages(&format!("/api/v1/jobs?{}", query.join("&")), enough)?;
    // What is over comes with the newest page first.
    let is_past = if states.is_empty() { args.all } else { states.iter().any(|state| state.is_over()) };
    if is_past {
        pages.reverse();
    }
    let mut jobs: Vec<Job> = pages.into_iter().flatten().collect();
    jobs.retain(|job| states.is_empty() || states.contains(&job.state));
    if is_past {
        jobs.drain(..jobs.len().saturating_sub(limit));
    } else {
        jobs.truncate(limit);
    }
    Ok(jobs)
}

/// The groups of which more than one job is listed.
pub fn groups_of(client: &Client, jobs: &[Job]) -> anyhow::Result<BTreeMap<u64, Group>> {
    let (mut once, mut often) = (BTreeSet::new(), BTreeSet::new());
    for group in jobs.iter().filter_map(|job| job.group) {
        if !once.insert(group) {
            often.insert(group);
        }
    }
    let mut groups = BTreeMap::new();
    for part in often.into_iter().collect::<Vec<_>>().chunks(GROUPS_MAX) {
        let ids = part.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let found: Vec<Group> = client.get(&format!("/api/v1/groups?limit={GROUPS_MAX}&ids={ids}"))?;
        groups.extend(found.into_iter().map(|group| (group.id, group)));
    }
    Ok(groups)
}

/// The rows of a list: one for each job, and one for each group that is folded.
pub fn table(jobs: &[Job], groups: &BTreeMap<u64, Group>) -> Vec<Vec<String>> {
    let mut rows = vec![["ID", "STATE", "USER", "GPUS", "SINCE", "NAME", "WHY"].map(str::to_owned).to_vec()];
    let mut shown = BTreeSet::new();
    for job in jobs {
        match job.group.and_then(|group| groups.get(&group)) {
            Some(group) if shown.insert(group.id) => rows.push(group_row(group, jobs)),
            Some(_) => {}
            None => rows.push(job_row(job)),
        }
    }
    rows
}

fn job_row(job: &Job) -> Vec<String> {
    let since = job.finished_at.as_ref().or(job.started_at.as_ref()).unwrap_or(&job.submitted_at);
    let gpus = match &job.gpu_indices {
        Some(indices) if !indices.is_empty() => indices.iter().map(ToString::to_string).collect::<Vec<_>>().join(","),
        _ => format!("({})", job.gpus_requested),
    };
    let name = job.name.clone().unwrap_or_else(|| command_line(&job.command));
    let why = job.reason.as_deref().map(with_local_times).unwrap_or_default();
    vec![job.id.to_string(), state_word(job.state), job.user.clone(), gpus, ago(since), name, why]
}

/// A group in one row: the GPUs that its jobs have, and how many are in which state.
fn group_row(group: &Group, jobs: &[Job]) -> Vec<String> {
    let members = jobs.iter().filter(|job| job.group == Some(group.id) && job.state.has_gpus());
    let indices = members.filter_map(|job| job.gpu_indices.as_ref()).flatten().collect::<BTreeSet<_>>();
    let gpus = if indices.is_empty() {
        format!("({})", group.gpus_requested)
    } else {
        indices.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
    };
    let since = group.finished_at.as_ref().unwrap_or(&group.submitted_at);
    vec![
        format!("group:{}", group.id),
        state_word(state_of(&group.counts)),
        group.user.clone(),
        gpus,
        ago(since),
        format!("{} ({} jobs)", group.name, group.counts.all()),
        group.counts.words(),
    ]
}

/// The state of a group in one word: what its jobs do, or the worst that became of them.
pub fn state_of(counts: &GroupCounts) -> JobState {
    let states = [
        (counts.running, JobState::Running),
        (counts.waiting, JobState::Waiting),
        (counts.held, JobState::Held),
        (counts.failed, JobState::Failed),
        (counts.lost, JobState::Lost),
        (counts.cancelled, JobState::Cancelled),
    ];
    states.into_iter().find(|(count, _)| *count > 0).map_or(JobState::Done, |(_, state)| state)
}
