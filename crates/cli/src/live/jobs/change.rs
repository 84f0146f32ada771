//! `rota cancel`, `hold`, `release`, `retry`, `priority`: changes of jobs in the queue.

use super::select::{Purpose, confirm, select};
use crate::live::args::{JobWord, JobsArgs, PriorityArgs};
use crate::live::client::{Client, Failure};
use crate::output;
use rota_daemon::api::{Job, JobChange, JobVerb, JobsActed, JobsAction};

/// Refusals that are told one by one.
const TOLD_MAX: usize = 10;

/// The word of something that is done to jobs, and of jobs that it was done to.
fn words(verb: JobVerb) -> (&'static str, &'static str) {
    match verb {
        JobVerb::Cancel => ("cancel", "cancelled"),
        JobVerb::Hold => ("hold", "held"),
        JobVerb::Release => ("release", "released"),
        JobVerb::Retry => ("retry", "run again"),
    }
}

/// Does something to jobs: each is tried, and every refusal is told.
pub fn act(args: &JobsArgs, verb: JobVerb) -> anyhow::Result<()> {
    let client = Client::new(&args.select.daemon());
    let ids = args.select.what.iter().map(|word| match word {
        JobWord::Job(id) => Some(*id),
        JobWord::Range(..) | JobWord::Group(_) => None,
    });
    match ids.collect::<Option<Vec<_>>>().filter(|ids| !ids.is_empty() && !args.select.is_filter()) {
        Some(ids) => act_on_each(&client, &ids, args, verb),
        None => act_on_chosen(&client, args, verb),
    }
}

/// Jobs that were named by their numbers.
fn act_on_each(client: &Client, ids: &[u64], args: &JobsArgs, verb: JobVerb) -> anyhow::Result<()> {
    let mut done: Vec<u64> = Vec::new();
    let mut refused = Vec::new();
    for id in ids {
        match client.post::<Vec<u64>>(&format!("/api/v1/jobs/{id}/{}", words(verb).0)) {
            Ok(ids) => done.extend(ids),
            Err(error) => refused.push(error),
        }
    }
    if args.json {
        output::print_json(&serde_json::json!({ "ids": done }))?;
    } else if verb == JobVerb::Retry && !done.is_empty() {
        output::print(&done.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))?;
    }
    let Some(last) = refused.pop() else { return Ok(()) };
    for error in &refused {
        output::remark(&format!("rota: {error:#}"));
    }
    Err(last)
}

/// Jobs of ranges and groups, or with something in common. Those in another state by the time they are touched are left alone.
fn act_on_chosen(client: &Client, args: &JobsArgs, verb: JobVerb) -> anyhow::Result<()> {
    let (word, done_word) = words(verb);
    let selection = select(client, &args.select, Purpose::Change(verb))?;
    if !confirm(&selection, word, args.yes, args.select.is_filter())? {
        output::remark("nothing was done");
        return Ok(());
    }
    let ids = selection.jobs.iter().map(|job| job.id).collect();
    let action = JobsAction { verb, ids, states: args.select.states() };
    let acted: JobsActed = client.send(&hyper::Method::POST, "/api/v1/jobs/act", &action)?;
    if args.json {
        output::print_json(&acted)?;
    } else if verb == JobVerb::Retry && !acted.ids.is_empty() {
        output::print(&acted.ids.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))?;
    } else {
        let skipped = acted.skipped.len();
        let skipped = if skipped > 0 { format!("; {skipped} left alone, in another state by now") } else { String::new() };
        output::print(&format!("{} {done_word}{skipped}", jobs(acted.ids.len())))?;
    }
    for refused in acted.refused.iter().take(TOLD_MAX) {
        output::remark(&format!("rota: {}", refused.reason));
    }
    match acted.refused.len() {
        0 => Ok(()),
        count => Err(anyhow::Error::new(Failure(format!("{} could not be {done_word}", jobs(count))))),
    }
}

fn jobs(count: usize) -> String {
    if count == 1 { "1 job".to_owned() } else { format!("{count} jobs") }
}

/// Moves a job that waits ahead of others, or behind them.
pub fn prioritise(args: &PriorityArgs) -> anyhow::Result<()> {
    let change = JobChange { priority: args.priority };
    let job: Job = Client::new(&args.state).send(&hyper::Method::PATCH, &format!("/api/v1/jobs/{}", args.id), &change)?;
    if args.json { output::print_json(&job) } else { Ok(()) }
}
