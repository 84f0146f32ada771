//! `rota wait`: stays until jobs have ended, also when the daemon is restarted meanwhile.

use super::select::{Purpose, counted, select};
use crate::live::args::{JobWord, WaitArgs};
use crate::live::client::{Client, Failure};
use crate::output;
use rota_daemon::api::{Job, JobState};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How long a daemon that was there may be away before a command that waits for a job gives up.
pub const ABSENCE_MAX: Duration = Duration::from_mins(1);

/// Jobs that ended badly and are told one by one.
const TOLD_MAX: usize = 10;

/// Waits until all jobs are over; exit code 0 if all ended with 0.
pub fn wait(args: &WaitArgs) -> anyhow::Result<ExitCode> {
    let client = Client::new(&args.select.daemon());
    let deadline = args.timeout.map(|seconds| Instant::now() + Duration::from_secs_f64(seconds));
    let mut jobs = Vec::new();
    for id in chosen(&client, args)? {
        match wait_for(&client, id, deadline)? {
            Some(job) => jobs.push(job),
            None => return Err(anyhow::Error::new(Failure(format!("job {id} has not ended in time")))),
        }
    }
    if args.json {
        output::print_json(&jobs)?;
    } else {
        let bad = jobs.iter().filter(|job| job.state != JobState::Done).collect::<Vec<_>>();
        if bad.len() > TOLD_MAX {
            output::remark(&format!("{} jobs: {}", jobs.len(), counted(&jobs)));
        }
        for job in bad.iter().take(TOLD_MAX) {
            let why = job.reason.as_ref().map_or_else(String::new, |reason| format!(": {reason}"));
            output::remark(&format!("job {}: {}{why}", job.id, job.state.word()));
        }
    }
    Ok(if jobs.iter().all(|job| job.state == JobState::Done) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The jobs that are waited for.
fn chosen(client: &Client, args: &WaitArgs) -> anyhow::Result<Vec<u64>> {
    let numbers = args.select.what.iter().map(|word| match word {
        JobWord::Job(id) => Some(*id),
        JobWord::Range(..) | JobWord::Group(_) => None,
    });
    match numbers.collect::<Option<Vec<_>>>().filter(|ids| !ids.is_empty() && !args.select.is_filter()) {
        Some(ids) => Ok(ids),
        None => Ok(select(client, &args.select, Purpose::Wait)?.jobs.iter().map(|job| job.id).collect()),
    }
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

/// Asks a daemon that was there a moment ago, and waits for it if it is being restarted.
pub fn wait_for_restart<T>(client: &Client, longest: Duration, mut ask: impl FnMut() -> anyhow::Result<T>) -> anyhow::Result<T> {
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
