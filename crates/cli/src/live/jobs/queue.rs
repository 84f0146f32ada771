//! `rota queue`: lists jobs.

use crate::live::args::QueueArgs;
use crate::live::client::Client;
use crate::live::text::{ago, columns, command_line, state_word};
use crate::output;
use anyhow::bail;
use rota_daemon::api::{Job, JobState};

/// Jobs that are listed with one request.
const PAGE_MAX: usize = 10_000;

fn escaped(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

/// Prints a list of jobs.
pub fn queue(args: &QueueArgs) -> anyhow::Result<()> {
    let mut query = vec![format!("all={}", args.all)];
    if let Some(word) = &args.wanted {
        if JobState::from_word(word).is_none() {
            let known = JobState::ALL.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", ");
            bail!("--in: `{word}` is not one of {known}");
        }
        query.push(format!("state={word}"));
    }
    for (name, value) in [("user", &args.user), ("project", &args.project)] {
        query.extend(value.as_ref().map(|value| format!("{name}={}", escaped(value))));
    }
    let limit = args.limit.map_or(usize::MAX, |limit| limit as usize);
    query.push(format!("limit={}", limit.clamp(1, PAGE_MAX)));
    let enough = |pages: &[Vec<Job>]| pages.iter().map(Vec::len).sum::<usize>() >= limit;
    let mut pages = Client::new(&args.state)?.pages(&format!("/api/v1/jobs?{}", query.join("&")), enough)?;
    // What is over comes with the newest page first.
    let is_past = args.wanted.as_deref().and_then(JobState::from_word).map_or(args.all, JobState::is_over);
    if is_past {
        pages.reverse();
    }
    let mut jobs: Vec<Job> = pages.into_iter().flatten().collect();
    if is_past {
        jobs.drain(..jobs.len().saturating_sub(limit));
    } else {
        jobs.truncate(limit);
    }
    if args.json {
        return output::print_json(&jobs);
    }
    if jobs.is_empty() {
        return output::print("nothing waits or runs");
    }
    let mut rows = vec![["ID", "STATE", "USER", "GPUS", "SINCE", "NAME", "WHY"].map(str::to_owned).to_vec()];
    for job in &jobs {
        let since = job.finished_at.as_ref().or(job.started_at.as_ref()).unwrap_or(&job.submitted_at);
        let gpus = match &job.gpu_indices {
            Some(indices) if !indices.is_empty() => indices.iter().map(ToString::to_string).collect::<Vec<_>>().join(","),
            _ => format!("({})", job.gpus_requested),
        };
        let name = job.name.clone().unwrap_or_else(|| command_line(&job.command));
        let why = job.reason.clone().unwrap_or_default();
        rows.push(vec![job.id.to_string(), state_word(job.state), job.user.clone(), gpus, ago(since), name, why]);
    }
    output::print(&columns(&rows, output::width()))
}
