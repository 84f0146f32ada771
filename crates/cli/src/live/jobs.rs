//! Commands about jobs: submit, run, queue, show, explain, logs, cancel and the like, wait.

use crate::live::args::{JobArgs, JobsArgs, LogsArgs, Memory, PriorityArgs, QueueArgs, SubmitArgs, WaitArgs};
use crate::live::client::{Client, Failure};
use crate::live::text::{ago, columns, command_line, state_word};
use crate::output;
use anyhow::{Context, bail};
use rota_daemon::Text;
use rota_daemon::api::{After, AfterCondition, Explanation, Job, JobChange, State, Submit, Submitted, SweepParam};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How long a daemon that was there may be away before those who wait for a job give up.
const ABSENCE_MAX: Duration = Duration::from_mins(1);
/// Jobs that are listed with one request.
const PAGE_MAX: usize = 10_000;

/// Gives jobs to the queue and prints their numbers.
pub fn submit(args: &SubmitArgs) -> anyhow::Result<()> {
    let submitted = send(&Client::new(&args.state)?, args)?;
    if args.json {
        let single = args.array.is_none() && args.params.is_empty();
        return match submitted.ids.as_slice() {
            [id] if single => output::print_json(&serde_json::json!({ "id": id })),
            ids => output::print_json(&serde_json::json!({ "ids": ids })),
        };
    }
    let ids = submitted.ids.iter().map(ToString::to_string).collect::<Vec<_>>();
    output::print(&ids.join("\n"))
}

fn send(client: &Client, args: &SubmitArgs) -> anyhow::Result<Submitted> {
    client.send(hyper::Method::POST, "/api/v1/jobs", &ask(args)?)
}

/// Gives a job to the queue, shows its output, and ends as it does.
pub fn run(args: &SubmitArgs) -> anyhow::Result<ExitCode> {
    if args.array.is_some() || !args.params.is_empty() {
        bail!("`rota run` follows one job; submit arrays and sweeps with `rota submit`, then `rota wait`");
    }
    let client = Client::new(&args.state)?;
    let submitted = send(&client, args)?;
    let Some(&id) = submitted.ids.first() else { bail!("the daemon gave the job no number") };
    output::remark(&format!("job {id}"));
    let mut shown = 0;
    let job = loop {
        let followed = follow(&client, id, &mut shown);
        match followed {
            Err(error) if !client.missed_the_daemon() => return Err(error),
            _ => {}
        }
        let is_whole = followed.is_ok();
        match wait_for_restart(&client, ABSENCE_MAX, || client.get::<Job>(&format!("/api/v1/jobs/{id}/wait?timeout=1")))? {
            job if is_whole && job.state.is_over() => break job,
            // The daemon went away before the log's end: on with it where it stopped.
            _ => {}
        }
    };
    if job.state != State::Done {
        output::remark(&format!(
            "job {id}: {}{}",
            job.state.word(),
            job.reason.map_or_else(String::new, |reason| format!(": {reason}"))
        ));
    }
    Ok(ExitCode::from(exit_code(job.state, job.exit_code, job.signal)))
}

/// Shows a job's log to its end, but for what has been shown of it.
fn follow(client: &Client, id: u64, shown: &mut u64) -> anyhow::Result<()> {
    let mut stdout = std::io::stdout().lock();
    let mut known = *shown;
    client.stream(&format!("/api/v1/jobs/{id}/logs?follow=true"), |piece| {
        let news = &piece[usize::try_from(known).unwrap_or(usize::MAX).min(piece.len())..];
        known -= (piece.len() - news.len()) as u64;
        stdout.write_all(news)?;
        stdout.flush()?;
        *shown += news.len() as u64;
        Ok(())
    })
}

/// Asks a daemon that was there a moment ago, and waits for it if it is being restarted.
fn wait_for_restart<T>(client: &Client, longest: Duration, mut ask: impl FnMut() -> anyhow::Result<T>) -> anyhow::Result<T> {
    let since = Instant::now();
    loop {
        match ask() {
            Err(_) if client.missed_the_daemon() && since.elapsed() < longest => {
                std::thread::sleep(Duration::from_millis(100));
            }
            answer => return answer,
        }
    }
}

/// As a shell would say it: the job's own code, 128 and the signal, or 1 where there is neither.
fn exit_code(state: State, code: Option<i32>, signal: Option<i32>) -> u8 {
    match (state, code, signal) {
        (State::Done, ..) => 0,
        (_, Some(code), _) if code != 0 => u8::try_from(code).unwrap_or(1),
        (_, None, Some(signal)) => u8::try_from(128 + signal).unwrap_or(1),
        _ => 1,
    }
}

/// All of this process's environment.
pub fn environment() -> Vec<(Text, Text)> {
    std::env::vars_os().map(|(name, value)| (Text::from(name.as_os_str()), Text::from(value.as_os_str()))).collect()
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
        command: args.command.iter().map(|part| Text::from(part.as_os_str())).collect(),
        cwd: Text::from(cwd.as_os_str()),
        env,
        gpus: args.gpus,
        gpu_ids: args.gpu_ids.clone(),
        gpu_types: args.gpu_types.clone(),
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
        deadline: args.deadline.clone(),
        time_limit_seconds: args.time_limit,
        after: args.after.iter().map(|text| after(text)).collect::<anyhow::Result<_>>()?,
        retries: args.retries,
        retry_delay_seconds: args.retry_delay,
        name: args.name.clone(),
        project: args.project.clone(),
        key: args.key.clone(),
        threads_percent: args.threads_percent,
        mps: args.mps,
        preemptible: args.preemptible,
        hold: args.hold,
        grace_seconds: args.grace,
        host_memory_mib: args.host_memory,
        cpus: args.cpus,
        array: args.array.as_deref().map(indices).transpose()?.unwrap_or_default(),
        params: args.params.iter().map(|text| param(text)).collect::<anyhow::Result<_>>()?,
    })
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

fn escaped(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

/// Lists jobs.
pub fn queue(args: &QueueArgs) -> anyhow::Result<()> {
    let mut query = vec![format!("all={}", args.all)];
    if let Some(word) = &args.wanted {
        if State::from_word(word).is_none() {
            let known = State::ALL.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", ");
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
    let is_past = args.wanted.as_deref().and_then(State::from_word).map_or(args.all, State::is_over);
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

/// One job, in full.
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

/// Why it waits.
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

/// What a job wrote.
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

/// Waits until all jobs are over; exit code 0 if all ended with 0.
pub fn wait(args: &WaitArgs) -> anyhow::Result<ExitCode> {
    let client = Client::new(&args.jobs.state)?;
    let deadline = args.timeout.map(|seconds| Instant::now() + Duration::from_secs_f64(seconds));
    let mut jobs = Vec::new();
    for &id in &args.jobs.ids {
        match wait_for(&client, id, deadline)? {
            Some(job) => jobs.push(job),
            None => return Err(anyhow::Error::new(Failure(format!("job {id} has not ended in time")))),
        }
    }
    if args.jobs.json {
        output::print_json(&jobs)?;
    } else {
        for job in jobs.iter().filter(|job| job.state != State::Done) {
            let why = job.reason.as_ref().map_or_else(String::new, |reason| format!(": {reason}"));
            output::remark(&format!("job {}: {}{why}", job.id, job.state.word()));
        }
    }
    Ok(if jobs.iter().all(|job| job.state == State::Done) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The job once it is over; `None` if the time is up first. A daemon that is restarted meanwhile is waited for.
pub fn wait_for(client: &Client, id: u64, deadline: Option<Instant>) -> anyhow::Result<Option<Job>> {
    let mut was_there = false;
    loop {
        let left = deadline.map_or(Duration::MAX, |deadline| deadline.saturating_duration_since(Instant::now()));
        let (left, longest) = (left.min(Duration::from_mins(1)), left.min(ABSENCE_MAX));
        let is_late = || deadline.is_some_and(|deadline| deadline <= Instant::now());
        let ask = |seconds: f64| client.get::<Job>(&format!("/api/v1/jobs/{id}/wait?timeout={seconds}"));
        // One that was there a moment ago is being restarted; one that never was is not waited for.
        let job = if was_there && !is_late() { wait_for_restart(client, longest, || ask(left.as_secs_f64())) } else { ask(0.0) }?;
        was_there = true;
        if job.state.is_over() {
            return Ok(Some(job));
        }
        if is_late() {
            return Ok(None);
        }
    }
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

    #[test]
    fn exit_codes_are_a_shells() {
        assert_eq!(exit_code(State::Done, Some(0), None), 0);
        assert_eq!(exit_code(State::Failed, Some(7), None), 7);
        assert_eq!(exit_code(State::Failed, None, Some(9)), 137);
        assert_eq!(exit_code(State::Cancelled, Some(0), None), 1);
        assert_eq!(exit_code(State::Lost, None, None), 1);
    }
}
