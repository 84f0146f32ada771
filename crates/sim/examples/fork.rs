//! What it costs to fork a queue: `cargo run --release -p rota-sim --example fork [JOBS]`.
//!
//! 64 GPUs are taken and 10,000 jobs (or as many as are asked for) wait. A fork is a clone of the whole session: the state, the policy
//! and what it remembers, the placement, and the world.

#![allow(clippy::print_stdout, clippy::unwrap_used, missing_docs)]

use rota_core::bind::BadJobs;
use rota_core::{Bound, Cluster, Job, Span, ThroughputTable, Time, Workload};
use rota_sim::SimOptions;
use std::sync::Arc;
use std::time::Instant;

const FORKS: usize = 50;

fn main() {
    let jobs = std::env::args().nth(1).map_or(10_000, |text| text.parse::<u32>().unwrap());
    println!("{:<14} {:>12} {:>12}   target", "policy", "median", "longest");
    for policy in ["fcfs", "srtf", "las", "wfq", "lottery", "max-min-perf", "lag-match", "lag-history"] {
        let mut workload = Workload::new("fork");
        for number in 0..jobs + 64 {
            let estimate = Some(Span::from_whole_seconds(3600 + u64::from(number % 977)));
            let arrival = Time(u64::from(number) * 1_000_000);
            workload.push(Job { estimate, gpus: 1 + number % 4, ..Job::new(arrival, Span::from_whole_seconds(100_000)) });
        }
        workload.finish();
        let cluster = Cluster::from_spec("a100:32,v100:32", 8).unwrap();
        let bound = Arc::new(Bound::new(workload, cluster, &ThroughputTable::default(), BadJobs::Refuse).unwrap());
        let mut session = rota_sim::session(&bound, rota_policy::build(policy).unwrap(), &SimOptions::default());
        let is_there = |session: &rota_engine::Session<rota_sim::SimulatedWorld>| session.engine.state.waiting >= jobs as usize;
        while !is_there(&session) && session.advance(&mut |_| {}).is_some() {
            let target = session.ask();
            session.hand_in(&target, &mut |_| {});
        }
        let mut times = Vec::new();
        for _ in 0..FORKS {
            let before = Instant::now();
            let fork = std::hint::black_box(session.clone());
            times.push(before.elapsed().as_secs_f64() * 1e3);
            drop(fork);
        }
        times.sort_by(f64::total_cmp);
        println!("{policy:<14} {:>9.2} ms {:>9.2} ms   < 5 ms", times[FORKS / 2], times[FORKS - 1]);
    }
}
