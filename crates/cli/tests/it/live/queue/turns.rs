//! Turns on real processes: who is stopped for whom, and that nobody is stopped in vain.

use crate::live::{Daemon, until};
use serde_json::Value;

/// A job that leaves when it is asked to, after so many seconds, and goes on later.
fn leaves_after(seconds: f64) -> String {
    format!("trap 'sleep {seconds}; exit 85' USR1; while :; do sleep 0.02; done")
}

const NOTICE: [&str; 2] = ["--preempt", "signal=USR1,grace=30"];

/// What happened to jobs, in order: the number of the event, the job, what, and on which GPUs.
fn history(daemon: &Daemon, jobs: &[u64]) -> Vec<(u64, u64, String, String)> {
    let mut all = Vec::new();
    for job in jobs {
        let (status, body) = daemon.request("GET", &format!("/api/v1/jobs/{job}/events"), b"");
        assert_eq!(status, 200, "{body}");
        for event in serde_json::from_str::<Vec<Value>>(&body).unwrap() {
            let kind = event["kind"].as_str().unwrap().to_owned();
            all.push((event["seq"].as_u64().unwrap(), *job, kind, event["detail"]["gpus"].to_string()));
        }
    }
    all.sort_unstable();
    all
}

fn count(history: &[(u64, u64, String, String)], kind: &str) -> usize {
    history.iter().filter(|(_, _, what, _)| what == kind).count()
}

#[test]
fn one_job_is_stopped_for_one_that_waits_however_long_it_takes_to_leave() {
    let daemon = Daemon::configured("a100:2", "policy = 'las:first=0.4'\n[jobs]\nmin_run_seconds = 0.1\n");
    let slow = leaves_after(1.5);
    let running = [daemon.shell(&NOTICE, &slow), daemon.shell(&NOTICE, &slow)];
    for job in running {
        daemon.until_state(job, "running");
    }
    let waits = daemon.shell(&NOTICE, &leaves_after(0.0));
    // While the first one leaves, the ranks of both running jobs move on.
    until("it has begun", || daemon.show(waits)["attempts"] == 1);
    let mut all = running.to_vec();
    all.push(waits);
    let known = history(&daemon, &all);
    let began = known.iter().position(|(_, job, kind, _)| *job == waits && kind == "started").unwrap();
    assert_eq!(count(&known[..began], "stopping"), 1, "{known:?}");
    daemon.ok(&["cancel", &all[0].to_string(), &all[1].to_string(), &all[2].to_string()]);
}

#[test]
fn no_job_is_stopped_to_be_started_on_the_same_gpu() {
    for policy in ["max-min-perf:tick=0.5", "ftf-perf:tick=0.5"] {
        let config = format!("policy = '{policy}'\n[jobs]\nmin_run_seconds = 0.1\n");
        let daemon = Daemon::configured("a100:1,t4:1", &config);
        let jobs = [0; 3].map(|_| daemon.shell(&NOTICE, &leaves_after(0.3)));
        until("they have taken turns", || count(&history(&daemon, &jobs), "preempted") >= 4);
        let known = history(&daemon, &jobs);
        daemon.ok(&["cancel", &jobs[0].to_string(), &jobs[1].to_string(), &jobs[2].to_string()]);
        let starts = known.iter().filter(|(_, _, kind, _)| kind == "started").collect::<Vec<_>>();
        for (place, (_, job, _, gpus)) in starts.iter().enumerate() {
            let before = starts[..place].iter().rev().find(|(_, _, _, others)| others == gpus);
            assert!(before.is_none_or(|(_, other, _, _)| other != job), "{policy}: job {job} on {gpus} again: {known:?}");
        }
    }
}

#[test]
fn a_lottery_takes_gpus_away_at_the_ends_of_rounds() {
    let config = "policy = 'lottery'\nmechanism = 'rounds'\nround_seconds = 0.5\n[jobs]\nmin_run_seconds = 0.0\n";
    let daemon = Daemon::configured("a100:1", config);
    let jobs = [0; 2].map(|_| daemon.shell(&NOTICE, &leaves_after(0.0)));
    until("both have had two turns", || jobs.iter().all(|job| daemon.show(*job)["attempts"].as_u64() >= Some(2)));
    daemon.ok(&["cancel", &jobs[0].to_string(), &jobs[1].to_string()]);
}
