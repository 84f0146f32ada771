//! `rota __complete`: words that complete a command line, from the queue as it is now. The scripts of `rota completions` call it; where
//! it prints nothing the shell completes commands, options and files.

use crate::live::args::StateArgs;
use crate::live::client::Client;
use rota_daemon::api::{Gpu, Job, JobState};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;

/// Jobs that are offered.
const JOBS_MAX: usize = 200;

/// What is being typed, as far as it matters.
struct Line<'a> {
    verb: &'a str,
    before: &'a [String],
    /// The word before the one that is being typed.
    previous: &'a str,
    current: &'a str,
}

/// Prints the words that the last one may become, one a line.
pub fn complete(words: &[String]) -> anyhow::Result<ExitCode> {
    let Some((current, before)) = words.split_last() else { return Ok(ExitCode::SUCCESS) };
    let verb = before.iter().find(|word| !word.starts_with('-')).map_or("", String::as_str);
    let previous = before.last().map_or("", String::as_str);
    let line = Line { verb, before, previous, current };
    // A daemon that is not there completes nothing.
    let found = candidates(&line).unwrap_or_default();
    let words = found.into_iter().filter(|word| word.starts_with(current.as_str()) && !word.contains(char::is_whitespace));
    let words = words.collect::<Vec<_>>();
    if !words.is_empty() {
        crate::output::print(&words.join("\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn candidates(line: &Line<'_>) -> anyhow::Result<Vec<String>> {
    let states = || JobState::ALL.iter().map(|(word, _)| (*word).to_owned()).collect();
    let chooses = chosen_states(line.verb).is_some();
    match line.previous {
        "--policy" | "--against" => return Ok(policies()),
        "set" if line.verb == "policy" => return Ok(policies()),
        "--in" => return Ok(states()),
        "--state" if chooses => return Ok(states()),
        "--gpu-type" => {
            let gpus: Vec<Gpu> = client(line).get("/api/v1/gpus")?;
            return Ok(gpus.into_iter().map(|gpu| gpu.kind).collect::<BTreeSet<_>>().into_iter().collect());
        }
        "--user" | "-u" => {
            let users = jobs(line, "all=true")?.into_iter().map(|job| job.user).collect::<BTreeSet<_>>();
            return Ok(users.into_iter().chain(["all".to_owned()]).collect());
        }
        "--name" | "-n" if chooses && line.verb != "logs" => return names(line),
        "--after" => return Ok(jobs(line, "all=true")?.iter().map(|job| job.id.to_string()).collect()),
        _ => {}
    }
    let takes_value =
        line.previous.starts_with("--") && !["--json", "--yes", "--follow", "--all", "--unfold"].contains(&line.previous);
    match chosen_states(line.verb) {
        Some(query) if !line.current.starts_with('-') && !takes_value && line.previous != line.current => numbers(line, query),
        _ => Ok(Vec::new()),
    }
}

/// The jobs that a command is about, as a query; `None` if it is about none.
fn chosen_states(verb: &str) -> Option<&'static str> {
    match verb {
        "cancel" | "kill" | "wait" | "explain" | "priority" => Some("all=false"),
        "hold" => Some("state=waiting"),
        "release" => Some("state=held"),
        "retry" | "show" | "logs" | "report" | "queue" | "ps" | "ls" => Some("all=true"),
        _ => None,
    }
}

fn policies() -> Vec<String> {
    rota_learn::registry().policies().iter().map(|info| info.name.to_owned()).collect()
}

/// Numbers of jobs and groups, the newest first.
fn numbers(line: &Line<'_>, query: &str) -> anyhow::Result<Vec<String>> {
    let mut jobs = jobs(line, query)?;
    if line.verb == "retry" {
        jobs.retain(|job| job.state.is_over() && job.state != JobState::Done);
    }
    let groups = jobs.iter().filter_map(|job| job.group).collect::<BTreeSet<_>>();
    let takes_groups = !matches!(line.verb, "explain" | "priority");
    let groups = groups.into_iter().rev().filter(|_| takes_groups).map(|group| format!("group:{group}"));
    Ok(jobs.iter().rev().map(|job| job.id.to_string()).chain(groups).collect())
}

fn names(line: &Line<'_>) -> anyhow::Result<Vec<String>> {
    let query = chosen_states(line.verb).unwrap_or("all=true");
    let names = jobs(line, query)?.into_iter().filter_map(|job| job.name);
    // Of a group, its own name.
    let names = names.map(|name| name.split('[').next().unwrap_or(&name).to_owned());
    Ok(names.collect::<BTreeSet<_>>().into_iter().collect())
}

fn jobs(line: &Line<'_>, query: &str) -> anyhow::Result<Vec<Job>> {
    client(line).get(&format!("/api/v1/jobs?{query}&limit={JOBS_MAX}"))
}

/// The daemon that the line names so far.
fn client(line: &Line<'_>) -> Client {
    let pairs = line.before.windows(2).filter(|pair| pair[0] == "--state");
    let joined = line.before.iter().filter_map(|word| word.strip_prefix("--state="));
    let named = pairs.map(|pair| pair[1].as_str()).chain(joined).filter(|value| JobState::from_word(value).is_none());
    Client::new(&StateArgs { state: named.map(PathBuf::from).collect() })
}
