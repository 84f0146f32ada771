//! `rota cancel`, `hold`, `release`, `retry`, `priority`: changes of jobs in the queue.

use crate::live::args::{JobsArgs, PriorityArgs};
use crate::live::client::Client;
use crate::output;
use rota_daemon::api::{Job, JobChange};

/// Does something to jobs: each is tried, and every refusal is told.
pub fn act(args: &JobsArgs, verb: &str) -> anyhow::Result<()> {
    let client = Client::new(&args.state)?;
    let mut done: Vec<u64> = Vec::new();
    let mut refused = Vec::new();
    for id in &args.ids {
        match client.post::<Vec<u64>>(&format!("/api/v1/jobs/{id}/{verb}")) {
            Ok(ids) => done.extend(ids),
            Err(error) => refused.push(error),
        }
    }
    if args.json {
        output::print_json(&serde_json::json!({ "ids": done }))?;
    } else if verb == "retry" && !done.is_empty() {
        output::print(&done.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))?;
    }
    let Some(last) = refused.pop() else { return Ok(()) };
    for error in &refused {
        output::remark(&format!("rota: {error:#}"));
    }
    Err(last)
}

/// Moves a job that waits ahead of others, or behind them.
pub fn prioritise(args: &PriorityArgs) -> anyhow::Result<()> {
    let change = JobChange { priority: args.priority };
    let job: Job = Client::new(&args.state)?.send(hyper::Method::PATCH, &format!("/api/v1/jobs/{}", args.id), &change)?;
    if args.json { output::print_json(&job) } else { Ok(()) }
}
