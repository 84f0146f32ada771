//! What the mechanism `rounds` promises: nobody is stopped inside a round but by policies that do not wait for its end,
//! nothing stands idle inside a round, who stays pays nothing.

use crate::scene::{gang, job, run, run_with, scene, seconds};
use rota_core::event::EventKind;
use rota_sim::{Mechanism, Restart, SimOptions};
use std::sync::Arc;

fn rounds(length: f64) -> SimOptions {
    SimOptions {
        mechanism: Mechanism::Rounds { length: seconds(length) },
        restart: Restart { cost: seconds(2.0), checkpoint: None, ..Restart::default() },
        ..SimOptions::default()
    }
}

#[test]
fn a_better_job_waits_for_the_end_of_the_round_and_no_longer() {
    // Under `event` the short job would start at 3; the round ends at 10.
    let bound = scene("gpu:1", [job(0.0, 100.0), job(3.0, 5.0)]);
    let outcome = run_with(&bound, "srtf", &rounds(10.0));
    assert_eq!(outcome.first_start, [Some(0.0), Some(10.0)]);
    // It ends at 15, inside a round: the long job goes on at once, after the 2 s that a restart costs.
    assert_eq!(outcome.finishes(), [107.0, 15.0]);
    assert_eq!(run(&bound, "srtf").first_start, [Some(0.0), Some(3.0)]);
}

#[test]
fn the_lag_policies_do_not_wait_for_the_end_of_a_round() {
    let bound = scene("gpu:1", [job(0.0, 5_000.0), job(1_000.0, 10.0)]);
    let options = SimOptions { mechanism: Mechanism::Rounds { length: seconds(3_600.0) }, ..SimOptions::default() };
    for policy in ["lag-match", "lag-gittins", "lag-srsf"] {
        assert_eq!(run_with(&bound, policy, &options).finishes(), [5_010.0, 1_010.0], "{policy}");
    }
}

#[test]
fn a_free_gpu_is_given_out_inside_a_round() {
    // The second GPU falls free at 4 and somebody arrives at 6: neither waits for the round's end at 100.
    let bound = scene("gpu:2", [job(0.0, 50.0), job(0.0, 4.0), job(1.0, 1.0), job(6.0, 1.0)]);
    let outcome = run_with(&bound, "las", &rounds(100.0));
    assert_eq!(outcome.first_start, [Some(0.0), Some(0.0), Some(4.0), Some(6.0)]);
}

#[test]
fn who_stays_keeps_its_gpus_and_pays_no_restart() {
    // Many rounds pass, and a job that never fits waits through them; the running jobs are never touched.
    let bound = scene("gpu:4", [gang(2, 0.0, 95.0), job(0.0, 95.0), gang(4, 1.0, 10.0)]);
    let outcome = run_with(&bound, "las:first=1000", &rounds(10.0));
    assert!(!outcome.events.iter().any(|event| matches!(event.kind, EventKind::Ended { end: rota_core::End::Preempted, .. })));
    assert_eq!(outcome.finishes(), [95.0, 95.0, 105.0]);
}

#[test]
fn the_plan_follows_what_changed_at_the_next_round() {
    // Long jobs fill the cluster; a short one arrives every 40 s. None of them waits longer than the rest of its round.
    let jobs = std::iter::repeat_n(job(0.0, 500.0), 2).chain((1..8).map(|number| job(40.0 * f64::from(number) + 3.0, 5.0)));
    let outcome = run_with(&scene("gpu:2", jobs), "srtf", &rounds(10.0));
    for (number, start) in outcome.first_start.iter().enumerate().skip(2) {
        let arrival = 40.0 * (number as f64 - 1.0) + 3.0;
        let waited = start.unwrap() - arrival;
        assert!((0.0..=10.0).contains(&waited), "job {number} waited {waited}");
    }
}

#[test]
fn where_nobody_who_waits_has_a_share_the_next_shares_say_who_runs() {
    // The sum of steps gives the one GPU to the shortest of identical jobs, and the others nothing: not even a claim on what it leaves.
    let bound = scene("v100:1", [job(0.0, 100.0), job(0.0, 300.0), job(0.0, 200.0)]);
    let options = SimOptions { mechanism: Mechanism::Rounds { length: seconds(360.0) }, ..SimOptions::default() };
    assert_eq!(run_with(&bound, "max-throughput-perf", &options).finishes(), [100.0, 600.0, 300.0]);
}

/// Two GPUs. The first user has three long jobs from the beginning; the second comes later, with jobs of a thousand seconds of work in all.
fn late_user(entities: &[(&str, f64)], jobs: u32) -> f64 {
    let mut workload = rota_core::Workload::new("users");
    let (first, second) = (workload.names.intern("first"), workload.names.intern("second"));
    for _ in 0..3 {
        workload.push(rota_core::Job { user: first, ..job(0.0, 20_000.0) });
    }
    for _ in 0..jobs {
        workload.push(rota_core::Job { user: second, ..job(100.0, 1000.0 / f64::from(jobs)) });
    }
    workload.finish();
    let mut cluster = rota_core::Cluster::from_spec("gpu:2", 8).unwrap();
    cluster.entities = entities
        .iter()
        .map(|(name, weight)| rota_core::cluster::SharingEntity {
            name: (*name).to_owned(),
            weight: *weight,
            rule: rota_core::cluster::SharingRule::Fairness,
        })
        .collect();
    let table = rota_core::ThroughputTable::default();
    let bound = Arc::new(rota_core::Bound::new(workload, cluster, &table, rota_core::bind::BadJobs::Refuse).unwrap());
    let finishes = run(&bound, "hierarchical:tick=10").finishes();
    finishes[3..].iter().copied().fold(0.0, f64::max) - 100.0
}

#[test]
fn a_user_who_comes_later_has_a_part_of_their_own() {
    // Half of two GPUs is one GPU, so its job runs all the time; as one of four equal jobs it would take twice as long.
    let alone = late_user(&[], 1);
    assert!((1000.0..1150.0).contains(&alone), "{alone}");
    // A quarter of two GPUs is half a GPU, where the site says so.
    let light = late_user(&[("first", 3.0), ("second", 1.0)], 2);
    assert!((1700.0..2300.0).contains(&light), "{light}");
}
