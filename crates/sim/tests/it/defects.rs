//! What Gavel gets wrong and its policies here do not.

use crate::scene::{gang, job, run_with, scene, seconds};
use rota_core::bind::BadJobs;
use rota_core::event::EventKind;
use rota_core::{Bound, Cluster, Job, Span, ThroughputTable, Time, Workload};
use rota_sim::{Mechanism, SimOptions};
use std::sync::Arc;

fn rounds() -> SimOptions {
    SimOptions { mechanism: Mechanism::Rounds { length: seconds(360.0) }, ..SimOptions::default() }
}

/// Jobs of one type, in steps, with a table.
fn in_steps(cluster: &str, table: &ThroughputTable, jobs: &[(f64, u32, f64)]) -> Arc<Bound> {
    let mut workload = Workload::new("steps");
    for &(arrival, gpus, steps) in jobs {
        let kind = workload.names.intern("net");
        let arrival = Time::from_seconds(arrival).unwrap();
        workload.push(Job { gpus, steps, kind, ..Job::new(arrival, Span::ZERO) });
    }
    workload.finish();
    Arc::new(Bound::new(workload, Cluster::from_spec(cluster, 8).unwrap(), table, BadJobs::Refuse).unwrap())
}

#[test]
fn fifo_uses_every_type_and_gives_out_no_gpu_twice() {
    // Twelve jobs on 2 + 2 + 2 GPUs: Gavel gives all of them to the v100s. The plan checker refuses a GPU given out twice.
    let bound = scene("v100:2,p100:2,k80:2", (0..12).map(|_| job(0.0, 100.0)));
    let outcome = run_with(&bound, "fifo", &rounds());
    assert_eq!(outcome.first_start.iter().filter(|start| **start == Some(0.0)).count(), 6);
    assert_eq!(outcome.finishes().into_iter().fold(0.0, f64::max), 200.0);
}

#[test]
fn a_new_job_starts_at_once_on_an_idle_gpu() {
    // Gavel lets the second one wait for its next allocation, 1,920 s later.
    let bound = scene("v100:2", [job(0.0, 5000.0), job(400.0, 41.5)]);
    for policy in ["max-min-perf", "ftf-perf", "isolated", "fifo-perf", "allox", "gandiva", "makespan-perf"] {
        let outcome = run_with(&bound, policy, &rounds());
        assert_eq!(outcome.first_start[1], Some(400.0), "{policy}");
        assert_eq!(outcome.finishes()[1], 441.5, "{policy}");
    }
}

#[test]
fn what_falls_free_inside_a_round_is_given_out_inside_it() {
    let bound = scene("v100:1", [job(0.0, 100.0), job(0.0, 100.0), job(0.0, 100.0)]);
    for policy in ["max-min-perf", "water-filling-perf", "max-throughput-perf", "allox"] {
        let finishes = run_with(&bound, policy, &rounds()).finishes();
        assert_eq!(finishes.iter().copied().fold(0.0, f64::max), 300.0, "{policy}");
    }
}

#[test]
fn a_job_with_fewer_steps_than_gpus_finishes() {
    let mut table = ThroughputTable::new("test");
    table.insert("net", 8, "v100", 1.0);
    let bound = in_steps("v100:8", &table, &[(0.0, 8, 3.0)]);
    for policy in ["max-min-perf", "fifo-perf", "ftf-perf"] {
        assert_eq!(run_with(&bound, policy, &rounds()).finishes(), [3.0], "{policy}");
    }
}

#[test]
fn allox_runs_gangs_and_leaves_slow_types_as_fast_ones_fall_free() {
    let mut table = ThroughputTable::new("test");
    table.insert("net", 1, "v100", 4.0);
    table.insert("net", 1, "k80", 1.0);
    let bound = in_steps("v100:1,k80:1", &table, &[(0.0, 1, 400.0), (0.0, 1, 4000.0)]);
    let outcome = run_with(&bound, "allox", &SimOptions::default());
    // The long one begins on the slow GPU for 100 s and does the rest on the fast one.
    assert_eq!(outcome.finishes()[0], 100.0);
    assert!((outcome.finishes()[1] - 1075.0).abs() < 1.0, "{:?}", outcome.finishes());
    let gangs = scene("v100:4", [gang(4, 0.0, 100.0), gang(2, 0.0, 10.0), gang(2, 0.0, 10.0)]);
    assert_eq!(run_with(&gangs, "allox", &SimOptions::default()).finishes(), [110.0, 10.0, 10.0]);
}

#[test]
fn gandiva_keeps_pairs_that_pay_and_no_others() {
    let shares_gpus = |together: f64| {
        let mut table = ThroughputTable::new("test");
        table.insert("net", 1, "v100", 10.0);
        table.insert_pair(("net", 1), ("net", 1), "v100", (together, together));
        let bound = in_steps("v100:1", &table, &[(0.0, 1, 1000.0), (0.0, 1, 1000.0)]);
        let outcome = run_with(&bound, "gandiva", &rounds());
        let starts =
            outcome.events.iter().filter(|event| matches!(event.kind, EventKind::Started { .. }) && event.time_ns == Time::ZERO);
        starts.count() == 2
    };
    assert!(shares_gpus(8.0), "together they make 1.6 of one");
    assert!(!shares_gpus(4.0), "together they make 0.8 of one");
}

#[test]
fn at_low_load_max_min_is_not_slower_than_first_come_first_served() {
    // One job at a time: it belongs on the fastest type from its beginning to its end.
    let mut table = ThroughputTable::new("test");
    for (gpu_type, speed) in [("v100", 4.0), ("p100", 2.0), ("k80", 1.0)] {
        table.insert("net", 1, gpu_type, speed);
    }
    let jobs = (0..6).map(|number| (f64::from(number) * 2000.0, 1, 4000.0)).collect::<Vec<_>>();
    let bound = in_steps("v100:1,p100:1,k80:1", &table, &jobs);
    let total = |policy| run_with(&bound, policy, &rounds()).finishes().iter().sum::<f64>();
    assert!(total("max-min-perf") <= total("fifo-perf") + 1e-6);
}
