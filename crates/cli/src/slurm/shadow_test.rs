//! What a shadow would start, and its score, on made-up pasts.

use super::*;
use rota_exec::slurm::{GpuCount, gpus_of};
use std::path::Path;
use std::time::Duration;

fn node(name: &str, gpus: &str, used: &str) -> SlurmNode {
    SlurmNode {
        name: name.to_owned(),
        partitions: vec!["main".to_owned()],
        state: "mixed".to_owned(),
        gpus: gpus_of(gpus),
        used: gpus_of(used),
    }
}

/// A job as (GPUs, limit in minutes, submitted, started, ended).
fn job(gpus: u32, minutes: u64, submitted: u64, start: Option<u64>, end: Option<u64>) -> SeenJob {
    SeenJob {
        user: "ann".to_owned(),
        gpus: vec![GpuCount { kind: Some("v100".to_owned()), count: gpus }],
        submitted,
        eligible: Some(submitted),
        start,
        end,
        limit: Some(Duration::from_secs(minutes * 60)),
        nodes: start.map(|_| "v1".to_owned()).into_iter().collect(),
    }
}

fn past(jobs: &[(&str, SeenJob)]) -> SeenJobs {
    let mut seen = SeenJobs::open(Path::new("/nonexistent/shadow"), 1000).unwrap();
    seen.jobs = jobs.iter().map(|(id, job)| (((*id).to_owned(), job.submitted), job.clone())).collect();
    seen
}

#[test]
fn what_would_start_leaves_running_jobs_alone_and_keeps_reservations() {
    let nodes = [node("v1", "gpu:v100:4", "gpu:v100:3")];
    let seen = past(&[
        ("1", job(3, 10, 1000, Some(1000), None)),
        // The wide job is the first in line and does not fit.
        ("2", job(4, 10, 1001, None, None)),
        ("3", job(1, 600, 1002, None, None)),
        ("4", job(1, 5, 1003, None, None)),
    ]);
    let ids = |policy: &str| would_start(policy, &seen, &nodes, 1100).unwrap().into_iter().map(|job| job.id).collect::<Vec<_>>();
    assert_eq!(ids("fcfs"), [""; 0], "nobody passes the wide job");
    // Only the short job ends before the wide one could start.
    assert_eq!(ids("fcfs:backfill=easy"), ["4"]);
    assert_eq!(ids("sjf:backfill=greedy"), ["4"]);
    assert_eq!(ids("fcfs:backfill=greedy"), ["3"]);
}

#[test]
fn the_score_counts_what_slurm_kept_waiting() {
    let nodes = [node("v1", "gpu:v100:4", "")];
    // Slurm let the second job wait for the first although there was room.
    let seen = past(&[("1", job(1, 10, 1000, Some(1000), Some(1300))), ("2", job(1, 10, 1100, Some(1300), Some(1600)))]);
    let score = score("fcfs", &seen, &nodes, 2000).unwrap();
    assert_eq!(score.jobs, 2);
    assert_eq!(score.wait_mean_slurm_s, Some(100.0));
    assert!(score.wait_mean_policy_s.unwrap() < 0.001, "{score:?}");
    assert!((score.gpu_hours_slurm - 600.0 / 3600.0).abs() < 1e-9 && (score.gpu_hours_policy - 600.0 / 3600.0).abs() < 1e-6);
}

#[test]
fn a_look_at_a_thousand_jobs_is_quick() {
    let nodes = [node("v1", "gpu:v100:4", "gpu:v100:4"), node("v2", "gpu:v100:4", "")];
    let jobs = (0..1000_u64).map(|number| (number.to_string(), job(1 + number as u32 % 4, 10, 1000 + number, None, None)));
    let jobs = jobs.collect::<Vec<_>>();
    let seen = past(&jobs.iter().map(|(id, job)| (id.as_str(), job.clone())).collect::<Vec<_>>());
    let look = look("fcfs", &seen, &nodes, 3000).unwrap();
    assert_eq!((look.waiting, look.running, look.free_gpus), (1000, 0, 4));
    assert!(!look.would_start.is_empty());
    look.describe().unwrap();
}
