//! `rota status`: the daemon, the queue and the GPUs at a glance.

use super::gpus::gpu_table;
use crate::live::args::PlainArgs;
use crate::live::client::Client;
use crate::live::jobs::{groups_of, table};
use crate::live::text::{ago, columns};
use crate::output;
use rota_daemon::api::{Job, JobState, Status};

/// The whole state at a glance.
pub fn status(args: &PlainArgs) -> anyhow::Result<()> {
    let client = Client::new(&args.state);
    let status: Status = client.get("/api/v1/status")?;
    if args.json {
        return output::print_json(&status);
    }
    let mut lines = vec![
        format!("daemon   pid {} on {}, up {}, {}", status.pid, status.state_dir, ago(&status.started_at), status.driver),
        format!(
            "policy   {}{}",
            status.policy,
            if status.draining { "; DRAINED: nothing is started, `rota resume` goes on" } else { "" }
        ),
        format!("queue    {} running, {} waiting, {} held", status.running, status.waiting, status.held),
    ];
    lines.extend(status.http.iter().map(|http| format!("http     {http} (token in {}/token)", status.state_dir)));
    lines.extend(status.warnings.iter().map(|warning| format!("WARNING  {warning}")));
    if !status.gpus.is_empty() {
        lines.push(String::new());
        lines.push(gpu_table(&status.gpus));
    }
    if status.running + status.waiting + status.held > 0 {
        lines.push(String::new());
        lines.push(jobs_now(&client)?);
    }
    output::print(&lines.join("\n"))
}

/// Rows of jobs that are shown.
const ROWS_MAX: usize = 12;

/// What runs, then what waits and why; a group is one row.
fn jobs_now(client: &Client) -> anyhow::Result<String> {
    let mut jobs: Vec<Job> = client.get("/api/v1/jobs?limit=10000")?;
    jobs.sort_by_key(|job| (!job.state.has_gpus(), job.state == JobState::Held, job.id));
    let groups = groups_of(client, &jobs)?;
    let mut rows = table(&jobs, &groups);
    let left = rows.len().saturating_sub(ROWS_MAX + 1);
    rows.truncate(ROWS_MAX + 1);
    let text = columns(&rows, output::table_width());
    Ok(if left > 0 { format!("{text}\n… and {left} more: `rota queue` shows all") } else { text })
}
