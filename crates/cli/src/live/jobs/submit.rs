//! `rota submit`: gives jobs to the queue.

use super::sanity;
use super::show::counterfactual_lines;
use crate::live::args::{Memory, SubmitArgs};
use crate::live::client::Client;
use crate::live::text::clock_time;
use crate::output;
use anyhow::{Context, bail};
use rota_daemon::Text;
use rota_daemon::api::{After, AfterCondition, DryRun, GavelScript, Submit, Submitted, SweepParam, TypeOutcome};
use std::io::IsTerminal;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

/// Gives jobs to the queue and prints their numbers.
pub fn submit(args: &SubmitArgs) -> anyhow::Result<()> {
    let client = Client::new(&args.state);
    if args.dry_run {
        return dry_run(&client, args);
    }
    let submitted = send(&client, args)?;
    if args.json {
        let single = args.array.is_none() && args.params.is_empty();
        return match submitted.ids.as_slice() {
            [id] if single => output::print_json(&serde_json::json!({ "id": id })),
            ids => output::print_json(&serde_json::json!({ "group": submitted.group, "ids": ids })),
        };
    }
    let ids = submitted.ids.iter().map(ToString::to_string).collect::<Vec<_>>();
    output::print(&ids.join("\n"))?;
    if let Some(group) = submitted.group.filter(|_| std::io::stderr().is_terminal()) {
        output::remark(&format!("group:{group} has {} jobs; `rota show group:{group}` shows what becomes of them", ids.len()));
    }
    Ok(())
}

/// Says what would become of the job.
fn dry_run(client: &Client, args: &SubmitArgs) -> anyhow::Result<()> {
    let ask = checked_ask(args)?;
    let told: DryRun = client.send(&hyper::Method::POST, "/api/v1/jobs/dry-run", &ask)?;
    if args.json {
        return output::print_json(&told);
    }
    let mut lines = Vec::new();
    if told.jobs > 1 {
        lines.push(format!("{} jobs would be submitted; this is about the first of them", told.jobs));
    }
    lines.push(match (&told.start, &told.note) {
        _ if told.starts_now => "it would start now".to_owned(),
        (Some(start), None) => format!("it would start about {}", clock_time(start)),
        (Some(start), Some(note)) => format!("it would start about {}; {note}", clock_time(start)),
        (None, Some(note)) => format!("when it would start is not known: {note}"),
        (None, None) => "when it would start is not known".to_owned(),
    });
    lines.extend(told.end.as_deref().map(|end| format!("it would end about {}", clock_time(end))));
    lines.extend(counterfactual_lines(&told.counterfactuals));
    if let Some(first) = told.first_done.as_ref().filter(|_| told.gpu_types.len() > 1) {
        let on = |one: &TypeOutcome| Some(format!("{} about {}", one.gpu_type, clock_time(one.end.as_deref()?)));
        let ends = told.gpu_types.iter().filter_map(on).collect::<Vec<_>>().join(", ");
        lines.push(format!("it would be done first on {first} ({ends})"));
    }
    output::print(&lines.join("\n"))
}

/// Sends what was typed to the daemon.
pub fn send(client: &Client, args: &SubmitArgs) -> anyhow::Result<Submitted> {
    client.send(&hyper::Method::POST, "/api/v1/jobs", &checked_ask(args)?)
}

/// What was typed, unless it cannot be meant.
fn checked_ask(args: &SubmitArgs) -> anyhow::Result<Submit> {
    let ask = ask(args)?;
    for warning in sanity::check(&ask, args.force)? {
        output::remark(&format!("rota: {warning}"));
    }
    Ok(ask)
}

/// All of this process's environment.
pub fn environment() -> Vec<(Text, Text)> {
    std::env::vars_os().map(|(name, value)| (Text::from(name.as_os_str()), Text::from(value.as_os_str()))).collect()
}

/// The limits of this process's resources, which its jobs are to have.
pub fn rlimits() -> Arc<str> {
    rota_exec::ResourceLimits::of_this_process().to_string().into()
}

fn ask(args: &SubmitArgs) -> anyhow::Result<Submit> {
    let here = std::env::current_dir().context("finding the current directory; name one with --cwd")?;
    let cwd = args.cwd.as_ref().map_or_else(|| here.clone(), |dir| here.join(dir));
    let mut env = environment();
    for pair in &args.env {
        let bytes = pair.as_bytes();
        let Some(at) = bytes.iter().position(|byte| *byte == b'=').filter(|at| *at > 0) else {
            bail!("--env: `{}` is not NAME=VALUE", pair.to_string_lossy());
        };
        let (name, value) = (Text(bytes[..at].to_vec()), Text(bytes[at + 1..].to_vec()));
        env.retain(|(known, _)| *known != name);
        env.push((name, value));
    }
    for (option, value) in [("--share", args.share), ("--weight", Some(args.weight)), ("--cpus", args.cpus)] {
        if let Some(value) = value.filter(|value| !value.is_finite()) {
            // JSON has no word for it: it would arrive as nothing.
            bail!("{option}: {value} is not a number");
        }
    }
    Ok(Submit {
        command: Arc::new(args.command.iter().map(|part| Text::from(part.as_os_str())).collect()),
        cwd: Text::from(cwd.as_os_str()),
        env: Arc::new(env),
        rlimits: Some(rlimits()),
        gpus: args.gpus,
        gpu_ids: args.gpu_ids.clone(),
        gpu_types: args.gpu_types.clone(),
        any_type: args.any_type,
        memory_mib: match args.memory {
            Some(Memory::Mib(memory)) => Some(memory),
            Some(Memory::Auto) | None => None,
        },
        memory_auto: args.memory == Some(Memory::Auto),
        buffer_mib: args.buffer,
        profile_as: args.profile_as.clone(),
        job_type: args.job_type.clone(),
        profile_epochs: args.profile_epochs,
        number_argument: None,
        share: args.share,
        exclusive: args.exclusive,
        priority: args.priority,
        weight: args.weight,
        tickets: args.tickets,
        estimate_seconds: args.estimate,
        deadline: args.deadline.as_deref().map(deadline),
        time_limit_seconds: args.time_limit,
        after: args.after.iter().map(|text| after(text)).collect::<anyhow::Result<_>>()?,
        retries: args.retries,
        retry_delay_seconds: args.retry_delay,
        name: args.name.clone(),
        project: args.project.clone(),
        key: args.key.clone(),
        threads_percent: args.threads_percent,
        mps: args.mps,
        preemptible: args.preemptible || args.saves_progress,
        saves_progress: args.saves_progress,
        preempt: args.preempt.clone(),
        resume_arg: args.resume_arg.as_ref().map(|text| Text::from(text.as_os_str())),
        gavel: args.total_steps.filter(|_| args.gavel).map(|total_steps| GavelScript {
            total_steps,
            steps_arg: args.steps_arg.clone(),
            data_dir: args.data_dir.as_ref().map(|dir| Text::from(here.join(dir).as_os_str())),
        }),
        budget_seconds: args.budget,
        extra_gpus: args.extra_gpus,
        hold: args.hold,
        grace_seconds: args.grace,
        host_memory_mib: args.host_memory,
        cpus: args.cpus,
        group: None,
        group_name: None,
        array: args.array.as_deref().map(indices).transpose()?.unwrap_or_default(),
        params: args.params.iter().map(|text| param(text)).collect::<anyhow::Result<_>>()?,
    })
}

/// A deadline by the local clock, or as it is written.
fn deadline(text: &str) -> String {
    let local = || text.parse::<jiff::civil::DateTime>().ok()?.to_zoned(jiff::tz::TimeZone::system()).ok();
    let is_exact = text.parse::<jiff::Timestamp>().is_ok();
    local().filter(|_| !is_exact).map_or_else(|| text.to_owned(), |zoned| zoned.timestamp().to_string())
}

fn after(text: &str) -> anyhow::Result<After> {
    let (id, condition) = match text.split_once(':') {
        None | Some((_, "ok")) => (text.split(':').next().unwrap_or(text), AfterCondition::Ok),
        Some((id, "any")) => (id, AfterCondition::Any),
        Some(_) => bail!("--after: `{text}` is not ID, ID:ok or ID:any"),
    };
    let id = id.parse().ok().with_context(|| format!("--after: `{text}` is not ID, ID:ok or ID:any"))?;
    Ok(After { id, condition })
}

fn param(text: &str) -> anyhow::Result<SweepParam> {
    let (name, values) = text
        .split_once('=')
        .filter(|(name, _)| !name.is_empty())
        .with_context(|| format!("--param: `{text}` is not NAME=VALUE,VALUE,…"))?;
    Ok(SweepParam { name: name.to_owned(), values: values.split(',').map(str::to_owned).collect() })
}

/// Reads `0-9`, `1,3,8-12` or `0-100:10`.
fn indices(text: &str) -> anyhow::Result<Vec<u64>> {
    let wrong = || format!("--array: `{text}` is not a list such as 0-9, 1,3,8-12 or 0-100:10");
    let mut all = Vec::new();
    for part in text.split(',') {
        let (range, step) = part.split_once(':').map_or((part, "1"), |(range, step)| (range, step));
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let first: u64 = first.trim().parse().ok().with_context(wrong)?;
        let last: u64 = last.trim().parse().ok().with_context(wrong)?;
        let step: usize = step.trim().parse().ok().filter(|step| *step > 0).with_context(wrong)?;
        if last < first || (last - first) / step as u64 > 1_000_000 {
            bail!(wrong());
        }
        all.extend((first..=last).step_by(step));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_indices() {
        assert_eq!(indices("0-3").unwrap(), [0, 1, 2, 3]);
        assert_eq!(indices("1,8-10").unwrap(), [1, 8, 9, 10]);
        assert_eq!(indices("0-20:10").unwrap(), [0, 10, 20]);
        for wrong in ["", "a", "3-1", "1-2:0", "1--2"] {
            assert!(indices(wrong).is_err(), "{wrong}");
        }
    }
}
