//! Speeds that policies do not know at first: jobs progress by the true ones, and the policies come to know them.

use crate::scene::seconds;
use rota_core::bind::BadJobs;
use rota_core::event::EventKind;
use rota_core::{Bound, Cluster, End, Event, Job, MeasuredSpeeds, NoEstimates, SpeedSample, ThroughputTable, Time, Workload};
use rota_sim::{Learning, Mechanism, Restart, SimOptions, simulate, simulate_learning};
use std::collections::BTreeMap;
use std::sync::Arc;

const SPEEDS: [(&str, f64, f64); 2] = [("steep", 80.0, 10.0), ("flat", 30.0, 20.0)];

/// Jobs in steps of two types that gain very differently by the better GPU.
fn bound(jobs_per_type: usize) -> Arc<Bound> {
    let mut table = ThroughputTable::new("truth");
    let mut workload = Workload::new("steps");
    for (job_type, fast, slow) in SPEEDS {
        table.insert(job_type, 1, "fast", fast);
        table.insert(job_type, 1, "slow", slow);
        let kind = workload.names.intern(job_type);
        for _ in 0..jobs_per_type {
            workload.push(Job {
                kind,
                steps: 1200.0,
                preemptible: true,
                saves_progress: true,
                ..Job::new(Time::ZERO, seconds(0.0))
            });
        }
    }
    workload.finish();
    let cluster = Cluster::from_spec("fast:1,slow:1", 8).unwrap();
    Arc::new(Bound::new(workload, cluster, &table, BadJobs::Refuse).unwrap())
}

fn options() -> SimOptions {
    SimOptions { mechanism: Mechanism::Rounds { length: seconds(2.0) }, ..SimOptions::default() }
}

/// The events under `max-min-perf`, learned or known.
fn events(bound: &Arc<Bound>, learns: bool) -> Vec<Event> {
    events_with(bound, &options(), learns)
}

/// The same, with other options.
fn events_with(bound: &Arc<Bound>, options: &SimOptions, learns: bool) -> Vec<Event> {
    let (mut events, policy) = (Vec::new(), rota_policy::build("max-min-perf").unwrap());
    let mut observe = |event: &Event| events.push(event.clone());
    if learns {
        let learning = Learning { every: seconds(1.0), estimator: Arc::new(NoEstimates) };
        simulate_learning(bound, policy, options, &learning, &mut observe, &|| 0.0).unwrap();
    } else {
        simulate(bound, policy, options, &mut observe, &|| 0.0);
    }
    events
}

/// When each job was done.
fn finishes(bound: &Bound, events: &[Event]) -> Vec<f64> {
    let mut finishes = vec![f64::NAN; bound.jobs.len()];
    for event in events {
        if let EventKind::Ended { job, end: End::Finished, .. } = event.kind {
            finishes[job.index()] = event.time_ns.seconds();
        }
    }
    finishes
}

#[test]
fn speeds_come_to_be_known_while_jobs_progress_by_the_true_ones() {
    let bound = bound(4);
    let events = events(&bound, true);
    let mut measured = MeasuredSpeeds::default();
    for event in &events {
        if let EventKind::SpeedMeasured { job_type, gpus, gpu_type, beside, steps, ran } = &event.kind {
            measured.take_in(job_type, *gpus, gpu_type, beside.as_deref(), SpeedSample { steps: *steps, ran: *ran });
        }
    }
    for (job_type, fast, slow) in SPEEDS {
        for (gpu_type, truth) in [("fast", fast), ("slow", slow)] {
            let speed = measured.get(job_type, 1, gpu_type).unwrap().steps_per_second;
            assert!((speed / truth - 1.0).abs() < 0.05, "{job_type} on {gpu_type}: {speed} of {truth}");
        }
    }
    // Each job has done its steps: the sum over its runs of their lengths by the true speeds.
    let mut steps = vec![0.0; bound.jobs.len()];
    let mut since = vec![None; bound.jobs.len()];
    for event in &events {
        match &event.kind {
            EventKind::Started { job, gpus, .. } => {
                let kind = bound.cluster.gpus[gpus[0].index()].gpu_type.index();
                let (_, fast, slow) = SPEEDS[job.index() / 4];
                since[job.index()] = Some((event.time_ns.seconds(), [fast, slow][kind]));
            }
            EventKind::Ended { job, .. } => {
                let (began, speed) = since[job.index()].take().unwrap();
                steps[job.index()] += (event.time_ns.seconds() - began) * speed;
            }
            _ => {}
        }
    }
    assert!(steps.iter().all(|steps| (steps - 1200.0).abs() < 1e-3), "{steps:?}");
}

#[test]
fn every_gpu_type_is_tried_within_three_rounds() {
    let mut first = BTreeMap::new();
    for event in events(&bound(4), true) {
        if let EventKind::SpeedMeasured { job_type, gpu_type, .. } = event.kind {
            first.entry((job_type, gpu_type)).or_insert(event.time_ns.seconds());
        }
    }
    // The second job type comes to a GPU with the second round, and to the other type with the third.
    assert!(first.len() == 4 && first.values().all(|at| *at <= 5.0), "{first:?}");
}

#[test]
fn what_is_learned_early_costs_little() {
    let bound = bound(4);
    let mean = |learns| finishes(&bound, &events(&bound, learns)).iter().sum::<f64>() / bound.jobs.len() as f64;
    let (learned, known) = (mean(true), mean(false));
    assert!(learned < 1.15 * known, "{learned} against {known}");
    assert_eq!(finishes(&bound, &events(&bound, true)), finishes(&bound, &events(&bound, true)), "the same again");
}

/// Steps a second on v100, p100 and k80; seconds that a job takes are about those of `benches/shares.py`.
const KINDS: [(&str, [f64; 3]); 3] =
    [("steep", [80.0, 40.0, 10.0]), ("middle", [60.0, 50.0, 15.0]), ("flat", [30.0, 27.0, 20.0])];

/// Twelve jobs of three types, four of each, which come a moment after each other in this order.
fn twelve(order: impl Iterator<Item = usize>) -> Arc<Bound> {
    let mut table = ThroughputTable::new("truth");
    for (job_type, speeds) in KINDS {
        for (gpu_type, speed) in ["v100", "p100", "k80"].iter().zip(speeds) {
            table.insert(job_type, 1, gpu_type, speed);
        }
    }
    let mut workload = Workload::new("twelve");
    for (place, number) in order.enumerate() {
        let (job_type, speeds) = KINDS[number / 4];
        let kind = workload.names.intern(job_type);
        let steps = (speeds.iter().sum::<f64>() / 6.0 * 130.0 * (1.0 + 0.05 * (number % 4) as f64)).round();
        let arrival = Time::from_seconds(0.03 * place as f64).unwrap();
        workload.push(Job { kind, steps, preemptible: true, saves_progress: true, ..Job::new(arrival, seconds(0.0)) });
    }
    workload.finish();
    let cluster = Cluster::from_spec("v100:2,p100:2,k80:2", 6).unwrap();
    Arc::new(Bound::new(workload, cluster, &table, BadJobs::Refuse).unwrap())
}

#[test]
fn completion_times_hang_on_shares_and_hardly_on_which_job_was_first() {
    let options =
        SimOptions { restart: Restart { cost: seconds(0.12), ..Restart::default() }, stop_time: seconds(0.05), ..options() };
    // In the first rounds, the jobs of a queue that learns run where they would never run with known speeds.
    let worst = |(stride, first): (usize, usize)| {
        let bound = twelve((0..12).map(|place| (stride * place + first) % 12));
        let known = finishes(&bound, &events_with(&bound, &options, false));
        let learned = finishes(&bound, &events_with(&bound, &options, true));
        known.iter().zip(&learned).map(|(known, learned)| (learned / known - 1.0).abs()).fold(0.0, f64::max)
    };
    let orders = [5, 7, 11].into_iter().flat_map(|stride| (0..8).map(move |first| (stride, first)));
    let worst = orders.map(worst).collect::<Vec<_>>();
    let mean = worst.iter().sum::<f64>() / worst.len() as f64;
    assert!(mean < 0.06 && worst.iter().all(|worst| *worst < 0.1), "mean {mean}, {worst:?}");
}
