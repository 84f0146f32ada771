//! How fast forecasts are: starts of 1,000 waiting jobs, and what would start one of 10,000 sooner. Prints CPU seconds of this thread.
//!
//! `cargo run --release -p rota-forecast --example speed [POLICY…]`

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a measurement for people")]

use rota_core::bind::BadJobs;
use rota_core::random::RandomStream;
use rota_core::{Bound, Cluster, Job, JobId, MilliGpu, Phase, Span, ThroughputTable, Time, Workload};
use rota_forecast::{ChangeOptions, ForecastOptions, Fork, Holds, LengthBelief, RunLength, Subject};
use rota_sim::SimOptions;
use std::sync::Arc;

/// Seconds that this thread has run.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split_whitespace().next().unwrap().parse::<f64>().unwrap() / 1e9
}

/// A queue on 64 GPUs in which about so many jobs wait.
fn queue(waiting: u32, policy: &str) -> Fork {
    let mut stream = RandomStream::new(1, "speed");
    let mut workload = Workload::new("a long queue");
    let mut lengths = Vec::new();
    for number in 0..waiting + 40 {
        let gpus = [1, 1, 1, 2, 4, 8][stream.below(6) as usize];
        let seconds = 60.0 + stream.exponential(3600.0);
        let user = workload.names.intern(["ada", "bob", "cy", "dee"][number as usize % 4]);
        let estimate = Span::from_seconds(seconds);
        workload.push(Job { gpus, user, estimate, priority: number.cast_signed() % 3, ..Job::new(Time(0), estimate.unwrap()) });
        lengths.push(RunLength { belief: LengthBelief::Estimated(seconds), limit_seconds: None });
    }
    workload.finish();
    let cluster = Cluster::from_spec("a100:32,t4:32", 8).unwrap();
    let bound = Bound::new(workload, cluster, &ThroughputTable::default(), BadJobs::Refuse).unwrap();
    let mut session = rota_sim::session(&Arc::new(bound), rota_policy::build(policy).unwrap(), &SimOptions::default());
    session.advance(&mut |_| {}).unwrap();
    let target = session.ask();
    session.hand_in(&target, &mut |_| {});
    let numbers = (0..session.engine.state.jobs.len() as u64).collect();
    let pending = session.pending();
    Fork {
        engine: session.engine,
        pending,
        now: Time(0),
        numbers,
        lengths,
        stop_time: Span::ZERO,
        holds: Holds::default(),
        recent: None,
    }
}

fn waiting(fork: &Fork) -> Vec<JobId> {
    let jobs = fork.engine.state.jobs.iter().enumerate();
    jobs.filter(|(_, job)| job.phase == Phase::Waiting).map(|(row, _)| JobId::from_index(row)).collect()
}

/// What is measured where no policy is named.
const POLICIES: &[&str] = &[
    "priority",
    "fcfs:backfill=easy",
    "sjf",
    "las",
    "gittins",
    "sjf:estimates=history",
    "gittins:classes=on",
    "max-min-perf",
    "ftf-perf",
    "lag-match",
    "lag-gittins",
    "lag-srsf",
    "lag-history",
];

fn main() {
    let named = std::env::args().skip(1).collect::<Vec<_>>();
    let policies = || if named.is_empty() { POLICIES.to_vec() } else { named.iter().map(String::as_str).collect() };
    for policy in policies() {
        let fork = queue(1000, policy);
        let before = cpu_seconds();
        let forecasts = fork.starts(&ForecastOptions::default());
        println!("{policy}: starts of {} waiting jobs, 100 draws: {:.2} CPU s", forecasts.len(), cpu_seconds() - before);
    }
    for policy in policies() {
        let fork = queue(10_000, policy);
        let rows = waiting(&fork);
        // The queue's own thread hands out a copy of itself, and nothing else, for each forecast.
        let before = cpu_seconds();
        let copies = (0..200).map(|_| fork.engine.clone().state.jobs.len()).sum::<usize>();
        println!("{policy}: a copy of {} jobs: {:.2} ms", copies / 200, 1000.0 * (cpu_seconds() - before) / 200.0);
        let mut times = Vec::new();
        let mut found = 0;
        for step in 0..20 {
            let row = rows[step * rows.len() / 20];
            let before = cpu_seconds();
            let options = ChangeOptions {
                gpu_types: vec!["a100".into(), "t4".into()],
                share_by_memory: Some(MilliGpu(250)),
                decisions_max: 200,
                own_decisions_max: 200,
                wants_types: false,
                has_time: &|| cpu_seconds() - before < 0.035,
            };
            found += fork.changes(&Subject::Waiting(row), &options).counterfactuals.len();
            times.push(1000.0 * (cpu_seconds() - before));
        }
        times.sort_by(f64::total_cmp);
        println!(
            "{policy}: changes for one of {} waiting jobs: median {:.1} ms, longest {:.1} ms; {found} found for 20 jobs",
            rows.len(),
            times[10],
            times[19]
        );
    }
}
