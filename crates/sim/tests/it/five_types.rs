//! Five GPU types that no list knows, gangs of 1 to 64, jobs that can share GPUs and gangs that are slower when spread: every policy
//! copes, and no work is lost or invented.

use crate::properties::POLICIES;
use crate::scene::{Outcome, run_with, seconds};
use proptest::prelude::*;
use rota_core::bind::BadJobs;
use rota_core::event::EventKind;
use rota_core::{Bound, Cluster, Companions, End, Job, JobId, Span, ThroughputTable, Time, Workload};
use rota_sim::{Mechanism, Restart, SimOptions};
use std::sync::Arc;

const TYPES: [(&str, u32); 5] = [("oak", 64), ("elm", 24), ("ash", 16), ("fir", 8), ("yew", 4)];
const GANGS: [u32; 5] = [1, 2, 4, 16, 64];
const KINDS: usize = 4;

/// Speeds from a few draws: some types serve nobody, some pairs cannot share, some are unknown.
fn table(draws: &[u8]) -> ThroughputTable {
    let mut table = ThroughputTable::new("drawn");
    let mut next = draws.iter().cycle().copied();
    let mut draw = || next.next().unwrap_or(1);
    for gpus in GANGS {
        for kind in 0..KINDS {
            for (position, (gpu_type, _)) in TYPES.iter().enumerate() {
                // Everybody can run on the largest type.
                let speed = if position > 0 && draw() % 4 == 0 { 0.0 } else { 0.5 + f64::from(draw() % 40) / 10.0 };
                table.insert(&format!("net{kind}"), gpus, gpu_type, speed);
                if gpus > 1 && speed > 0.0 && draw() % 2 == 0 {
                    table.insert_spread(&format!("net{kind}"), gpus, gpu_type, speed * (0.3 + f64::from(draw() % 8) / 10.0));
                }
            }
        }
        for first in 0..KINDS {
            for second in first..KINDS {
                for (gpu_type, _) in TYPES {
                    let (a, b) = (format!("net{first}"), format!("net{second}"));
                    let alone = |name: &str| table.get(name, gpus, gpu_type).unwrap_or(0.0);
                    let together = match draw() % 3 {
                        0 => continue,
                        1 => (0.0, 0.0),
                        _ => {
                            let part = 0.4 + f64::from(draw() % 6) / 10.0;
                            (alone(&a) * part, alone(&b) * part)
                        }
                    };
                    let together = if first == second { (together.0, together.0) } else { together };
                    table.insert_pair((&a, gpus), (&b, gpus), gpu_type, together);
                }
            }
        }
    }
    table
}

#[derive(Clone, Debug)]
struct Drawn {
    arrival: u32,
    steps: u32,
    gang: usize,
    kind: usize,
    weight: u32,
    deadline: Option<u32>,
    user: usize,
}

prop_compose! {
    fn drawn()(
        arrival in 0_u32..60,
        steps in 1_u32..200,
        gang in 0..GANGS.len(),
        kind in 0..KINDS,
        weight in 1_u32..4,
        deadline in prop::option::of(1_u32..200),
        user in 0_usize..3,
    ) -> Drawn {
        Drawn { arrival, steps, gang, kind, weight, deadline, user }
    }
}

fn bind(jobs: &[Drawn], table: &ThroughputTable) -> Arc<Bound> {
    let mut workload = Workload::new("five types");
    for drawn in jobs {
        let mut job = Job::new(Time::from_seconds(f64::from(drawn.arrival)).unwrap(), Span::ZERO);
        job.gpus = GANGS[drawn.gang];
        job.steps = f64::from(drawn.steps);
        job.weight = f64::from(drawn.weight);
        job.kind = workload.names.intern(&format!("net{}", drawn.kind));
        job.user = workload.names.intern(["ada", "bea", "cyd"][drawn.user]);
        job.deadline = drawn.deadline.map(|after| job.arrival + seconds(f64::from(after)));
        workload.push(job);
    }
    workload.finish();
    let spec = TYPES.map(|(name, count)| format!("{name}:{count}")).join(",");
    let cluster = Cluster::from_spec(&spec, 12).unwrap();
    Arc::new(Bound::new(workload, cluster, table, BadJobs::Refuse).unwrap())
}

/// What a job has done, followed from events alone.
#[derive(Clone, Default)]
struct Progress {
    done: f64,
    /// Since when it makes progress, and how fast.
    pace: Option<(f64, f64)>,
    gpus: Vec<rota_core::GpuId>,
    starts: u32,
    changes: u32,
}

fn speed(bound: &Bound, job: JobId, gpus: &[rota_core::GpuId], partner: Option<JobId>) -> f64 {
    let place = |gpu: &rota_core::GpuId| &bound.cluster.gpus[gpu.index()];
    let gpu_type = place(&gpus[0]).gpu_type;
    let is_spread = gpus.iter().any(|gpu| place(gpu).node != place(&gpus[0]).node);
    let spread = bound.class(job).spread_part.as_ref().filter(|_| is_spread).map_or(1.0, |parts| parts[gpu_type.index()]);
    let shared = partner.map_or(1.0, |partner| bound.pair_part(job, partner, gpu_type).expect("only jobs that can share do").0);
    bound.speeds(job)[gpu_type.index()] * spread * shared
}

fn settle(progress: &mut Progress, now: f64) {
    if let Some((from, speed)) = &mut progress.pace
        && now > *from
    {
        progress.done += (now - *from) * *speed;
        *from = now;
        progress.changes += 1;
    }
}

/// Follows every job through its starts, stops and partners; each must end with exactly its work done.
fn assert_work_is_conserved(bound: &Bound, outcome: &Outcome, restart: f64, policy: &str) {
    let mut jobs = vec![Progress::default(); bound.jobs.len()];
    let mut companions = Companions::new(bound.cluster.gpus.len());
    for event in &outcome.events {
        let now = event.time_ns.seconds();
        let Some(job) = event.kind.job() else { continue };
        let mut repace = None;
        match &event.kind {
            EventKind::Started { gpus, .. } => {
                let partner = companions.start(job, gpus);
                let progress = &mut jobs[job.index()];
                progress.gpus = gpus.to_vec();
                let from = now + if progress.starts > 0 { restart } else { 0.0 };
                progress.starts += 1;
                progress.pace = Some((from, speed(bound, job, gpus, partner)));
                repace = partner.map(|partner| (partner, Some(job)));
            }
            EventKind::Ended { end: End::Preempted, .. } | EventKind::Ended { end: End::Finished, .. } => {
                let progress = &mut jobs[job.index()];
                settle(progress, now);
                progress.pace = None;
                let gpus = std::mem::take(&mut progress.gpus);
                if matches!(event.kind, EventKind::Ended { end: End::Finished, .. }) {
                    let work = bound.truth(job).work.seconds();
                    let slack = 1e-8 * f64::from(progress.changes + 2);
                    assert!((progress.done - work).abs() <= slack, "{policy}: job {job} did {} of {work}", progress.done);
                }
                repace = companions.leave(job, &gpus).map(|partner| (partner, None));
            }
            _ => {}
        }
        if let Some((partner, beside)) = repace {
            settle(&mut jobs[partner.index()], now);
            let pace = speed(bound, partner, &jobs[partner.index()].gpus.clone(), beside);
            if let Some((_, speed)) = &mut jobs[partner.index()].pace {
                *speed = pace;
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn every_policy_copes_with_five_invented_types(
        jobs in prop::collection::vec(drawn(), 1..14),
        draws in prop::collection::vec(any::<u8>(), 64..128),
        round in prop::option::of(5_u32..40),
        restart in 0_u32..3,
    ) {
        let bound = bind(&jobs, &table(&draws));
        let options = SimOptions {
            mechanism: round.map_or(Mechanism::Event, |length| Mechanism::Rounds { length: seconds(f64::from(length)) }),
            restart: Restart { cost: seconds(f64::from(restart)), checkpoint: None, ..Restart::default() },
            ..SimOptions::default()
        };
        for policy in POLICIES {
            let outcome = run_with(&bound, policy, &options);
            for job in &bound.jobs {
                prop_assert!(outcome.finish[job.id.index()].is_some(), "{}: job {} never ended", policy, job.id);
            }
            assert_work_is_conserved(&bound, &outcome, f64::from(restart), policy);
            prop_assert_eq!(&outcome.events, &run_with(&bound, policy, &options).events, "{} is not deterministic", policy);
        }
    }
}
