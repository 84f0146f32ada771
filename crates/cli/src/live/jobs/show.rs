//! `rota show`, `rota explain`, `rota logs`: one job in full, why it waits, and what it wrote.

use crate::live::args::{JobArgs, LogsArgs};
use crate::live::client::Client;
use crate::live::text::command_line;
use crate::output;
use rota_daemon::api::{Explanation, Job};
use std::io::Write;

/// Prints one job in full.
pub fn show(args: &JobArgs) -> anyhow::Result<()> {
    let job: Job = Client::new(&args.state)?.get(&format!("/api/v1/jobs/{}", args.id))?;
    if args.json {
        return output::print_json(&job);
    }
    let none = || "-".to_owned();
    let mut rows = vec![
        ("job", job.id.to_string()),
        ("name", job.name.clone().unwrap_or_else(none)),
        ("user", job.user.clone()),
        ("project", job.project.clone().unwrap_or_else(none)),
        ("state", job.state.word().to_owned()),
        ("reason", job.reason.clone().unwrap_or_else(none)),
        ("command", command_line(&job.command)),
        ("directory", job.cwd.lossy()),
        (
            "gpus",
            job.gpu_indices.as_ref().map_or_else(|| format!("{} wanted", job.gpus_requested), |indices| format!("{indices:?}")),
        ),
        ("memory", job.memory_mib.map_or_else(none, |memory| format!("{memory} MiB on each"))),
        ("profile", job.profile.clone().unwrap_or_else(none)),
        ("peak memory", job.peak_memory_mib.map_or_else(none, |memory| format!("{memory} MiB"))),
        ("priority", job.priority.to_string()),
        ("submitted", job.submitted_at.clone()),
        ("started", job.started_at.clone().unwrap_or_else(none)),
        ("finished", job.finished_at.clone().unwrap_or_else(none)),
        ("attempts", format!("{} of {}", job.attempts, job.retries + 1)),
        ("energy", job.energy_wh.map_or_else(none, |energy| format!("{energy:.2} Wh"))),
        ("log", job.log_path.clone().unwrap_or_else(none)),
    ];
    if let Some(code) = job.exit_code {
        rows.push(("exit code", code.to_string()));
    }
    if let Some(signal) = job.signal {
        rows.push(("signal", signal.to_string()));
    }
    let lines = rows.iter().map(|(name, value)| format!("{name:<12} {value}")).collect::<Vec<_>>();
    output::print(&lines.join("\n"))
}

/// Prints why a job waits.
pub fn explain(args: &JobArgs) -> anyhow::Result<()> {
    let why: Explanation = Client::new(&args.state)?.get(&format!("/api/v1/jobs/{}/explain", args.id))?;
    if args.json {
        return output::print_json(&why);
    }
    let mut lines = vec![format!("job {} ({}): {}", why.id, why.state.word(), why.reason)];
    lines.extend(why.blockers.iter().map(|blocker| format!("  {}: {}", blocker.kind, blocker.text)));
    lines.extend(why.earliest_start.map(|at| format!("earliest start known: {at}")));
    output::print(&lines.join("\n"))
}

/// Prints a job's output.
pub fn logs(args: &LogsArgs) -> anyhow::Result<()> {
    let mut query = vec![format!("follow={}", args.follow)];
    query.extend(args.tail.map(|lines| format!("tail={lines}")));
    query.extend(args.attempt.map(|attempt| format!("attempt={attempt}")));
    let mut stdout = std::io::stdout().lock();
    Client::new(&args.state)?.stream(&format!("/api/v1/jobs/{}/logs?{}", args.id, query.join("&")), |piece| {
        stdout.write_all(piece)?;
        Ok(stdout.flush()?)
    })
}
