//! `rota show`, `rota explain`, `rota logs`: one job in full, why it waits, and what it wrote.

use super::group::show_group;
use super::select::{Purpose, select};
use crate::live::args::{ExplainArgs, JobArgs, JobWord, LogsArgs, SelectArgs};
use crate::live::client::Client;
use crate::live::text::{clock_time, command_line, seconds_text, with_local_times};
use crate::output;
use anyhow::bail;
use rota_daemon::api::{Counterfactual, Delay, Explanation, Job};
use std::io::Write;

/// Prints one job in full.
pub fn show(args: &JobArgs) -> anyhow::Result<()> {
    let client = Client::new(&args.state);
    if let JobWord::Group(group) = args.job {
        return show_group(&client, group, args.json);
    }
    let job: Job = client.get(&format!("/api/v1/jobs/{}", one(&args.job)?))?;
    if args.json {
        return output::print_json(&job);
    }
    let none = || "-".to_owned();
    let time = |moment: &Option<String>| moment.as_deref().map_or_else(none, clock_time);
    let mut rows = vec![
        ("job", job.id.to_string()),
        ("name", job.name.clone().unwrap_or_else(none)),
        ("group", job.group.map_or_else(none, |group| format!("group:{group}"))),
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
        ("submitted", clock_time(&job.submitted_at)),
        ("started", time(&job.started_at)),
        ("finished", time(&job.finished_at)),
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
pub fn explain(args: &ExplainArgs) -> anyhow::Result<()> {
    let why: Explanation = Client::new(&args.state).get(&format!("/api/v1/jobs/{}/explain", one(&args.job)?))?;
    if args.json {
        return output::print_json(&why);
    }
    let mut lines = vec![format!("job {} ({}): {}", why.id, why.state.word(), with_local_times(&why.reason))];
    lines.extend(
        why.cause.iter().filter(|_| why.blockers.len() > 1).map(|cause| format!("most of all: {}", with_local_times(cause))),
    );
    lines.extend(why.blockers.iter().map(|blocker| format!("  {}: {}", blocker.kind, with_local_times(&blocker.text))));
    lines.extend(counterfactual_lines(&why.counterfactuals));
    if let Some(expected) = expected_start(&why) {
        let otherwise = if why.counterfactuals.is_empty() { "expected to start" } else { "otherwise it is expected to start" };
        lines.push(format!("{otherwise} {expected}"));
    } else if let Some(note) = &why.start_note {
        let latest = why.start_p90.as_deref().map(|latest| format!("; at the latest it starts about {}", clock_time(latest)));
        lines.push(format!("when it starts is {note}{}", latest.unwrap_or_default()));
    }
    output::print(&lines.join("\n"))
}

/// When a job is expected to start, in words; nothing if that is not known.
pub fn expected_start(why: &Explanation) -> Option<String> {
    let (low, middle, high) = (why.earliest_start.as_ref()?, why.start_p50.as_ref()?, why.start_p90.as_ref()?);
    Some(format!("about {}, most likely between {} and {}", clock_time(middle), clock_time(low), clock_time(high)))
}

/// What would start a job sooner, in lines: first what starts it at once.
pub fn counterfactual_lines(found: &[Counterfactual]) -> Vec<String> {
    let delays = |one: &Counterfactual| {
        let delay = |delay: &Delay| format!("job {} by {}", delay.id, seconds_text(delay.seconds));
        let delays = one.delays.iter().map(delay).collect::<Vec<_>>().join(", ");
        if delays.is_empty() { String::new() } else { format!(" (delays {delays})") }
    };
    let line = |one: &Counterfactual| {
        let when = if one.is_now { "now".to_owned() } else { format!("about {}", clock_time(&one.start)) };
        format!("would start {when} with: {}{}", one.change, delays(one))
    };
    found.iter().map(line).collect()
}

/// The one job that is meant.
fn one(job: &JobWord) -> anyhow::Result<u64> {
    match *job {
        JobWord::Job(id) => Ok(id),
        JobWord::Range(..) | JobWord::Group(_) => bail!("name one job by its number; `rota show group:7` shows a group"),
    }
}

/// Prints the output of jobs. Several are told apart by a line before each.
pub fn logs(args: &LogsArgs) -> anyhow::Result<()> {
    let choice =
        SelectArgs { state: args.state.clone(), what: args.what.clone(), name: args.name.clone(), user: args.user.clone() };
    let client = Client::new(&choice.daemon());
    let mut query = vec![format!("follow={}", args.follow)];
    query.extend(args.tail.map(|lines| format!("tail={lines}")));
    query.extend(args.attempt.map(|attempt| format!("attempt={attempt}")));
    let query = query.join("&");
    let mut stdout = std::io::stdout().lock();
    let mut show = |id: u64| {
        client.stream(&format!("/api/v1/jobs/{id}/logs?{query}"), |piece| {
            stdout.write_all(piece)?;
            Ok(stdout.flush()?)
        })
    };
    if let ([JobWord::Job(id)], false) = (args.what.as_slice(), choice.is_filter()) {
        return show(*id);
    }
    let jobs = select(&client, &choice, Purpose::Look)?.jobs;
    if let [job] = jobs.as_slice() {
        return show(job.id);
    }
    for job in &jobs {
        let name = job.name.as_ref().map_or_else(String::new, |name| format!(" {name}"));
        output::print(&format!("==> {}{name} ({}) <==", job.id, job.state.word()))?;
        show(job.id)?;
    }
    Ok(())
}
