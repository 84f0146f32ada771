//! `rota run`: gives a job to the queue and stays until it has ended.

use super::submit::send;
use super::wait::{ABSENCE_MAX, wait_for_restart};
use crate::live::args::{StateArgs, SubmitArgs};
use crate::live::client::Client;
use crate::output;
use anyhow::bail;
use rota_daemon::api::{Job, JobState};
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// Gives a job to the queue, shows its output, and ends as it does.
pub fn run(args: &SubmitArgs) -> anyhow::Result<ExitCode> {
    if args.array.is_some() || !args.params.is_empty() {
        bail!("`rota run` follows one job; submit arrays and sweeps with `rota submit`, then `rota wait`");
    }
    let client = Client::new(&args.state);
    let submitted = send(&client, args)?;
    let Some(&id) = submitted.ids.first() else { bail!("the daemon gave the job no number") };
    // A user who reads the number may press Ctrl-C at once.
    leave_or_cancel(args.state.clone(), id);
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
    if job.state != JobState::Done {
        output::remark(&format!(
            "job {id}: {}{}",
            job.state.word(),
            job.reason.map_or_else(String::new, |reason| format!(": {reason}"))
        ));
    }
    Ok(ExitCode::from(exit_code(job.state, job.exit_code, job.signal)))
}

/// How long a first Ctrl-C waits for a second one.
const SECOND_PRESS: Duration = Duration::from_secs(5);

/// From now on Ctrl-C says what becomes of the job and leaves it in the queue; a second Ctrl-C soon after cancels it.
fn leave_or_cancel(state: StateArgs, id: u64) {
    let (ready, is_ready) = std::sync::mpsc::channel::<()>();
    std::thread::spawn(move || {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
        let is_second = runtime.block_on(async {
            let mut presses = signal(SignalKind::interrupt()).ok()?;
            drop(ready);
            presses.recv().await?;
            output::remark(&format!(
                "\njob {id} goes on without this terminal: `rota logs -f {id}` shows it. Press Ctrl-C again now to cancel it"
            ));
            Some(tokio::time::timeout(SECOND_PRESS, presses.recv()).await.is_ok())
        });
        match is_second {
            Some(true) => {
                let cancelled = Client::new(&state).post::<Vec<u64>>(&format!("/api/v1/jobs/{id}/cancel"));
                match cancelled {
                    Ok(_) => output::remark(&format!("job {id} is cancelled")),
                    Err(error) => output::remark(&format!("job {id} could not be cancelled: {error:#}")),
                }
            }
            Some(false) => {}
            None => return,
        }
        std::process::exit(INTERRUPTED);
    });
    // Nothing is ever sent: the channel closes when Ctrl-C is listened for, or cannot be.
    _ = is_ready.recv();
}

/// The exit code of a program that Ctrl-C ended.
const INTERRUPTED: i32 = 130;

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

/// As a shell would say it: the job's own code, 128 and the signal, or 1 where there is neither.
fn exit_code(state: JobState, code: Option<i32>, signal: Option<i32>) -> u8 {
    match (state, code, signal) {
        (JobState::Done, ..) => 0,
        (_, Some(code), _) if code != 0 => u8::try_from(code).unwrap_or(1),
        (_, None, Some(signal)) => u8::try_from(128 + signal).unwrap_or(1),
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_a_shells() {
        assert_eq!(exit_code(JobState::Done, Some(0), None), 0);
        assert_eq!(exit_code(JobState::Failed, Some(7), None), 7);
        assert_eq!(exit_code(JobState::Failed, None, Some(9)), 137);
        assert_eq!(exit_code(JobState::Cancelled, Some(0), None), 1);
        assert_eq!(exit_code(JobState::Lost, None, None), 1);
    }
}
