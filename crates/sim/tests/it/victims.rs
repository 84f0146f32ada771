//! Jobs that are stopped for one that waits: no more of them than it needs.

use crate::scene::{gang, run_with, scene, seconds};
use proptest::prelude::*;
use rota_core::event::EventKind;
use rota_core::{Bound, Event, GpuList, Job, JobId};
use rota_sim::{Mechanism, SimOptions};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Policies that take GPUs from the jobs of lower rank.
const POLICIES: [&str; 5] = ["srtf", "las:first=5", "rr:quantum=3", "priority:preempt=true", "lottery"];

/// What is wrong: a job that was stopped although none of its GPUs was needed, or a gang for which more were stopped than it has GPUs.
fn needless_stop(bound: &Bound, events: &[Event]) -> Option<String> {
    let mut gpus_of: HashMap<JobId, GpuList> = HashMap::new();
    for moment in events.chunk_by(|a, b| a.time_ns == b.time_ns) {
        let at = moment[0].time_ns;
        let mut stopped = HashSet::new();
        let mut needed = HashSet::new();
        for event in moment {
            match &event.kind {
                EventKind::Started { job, gpus, .. } => _ = gpus_of.insert(*job, gpus.clone()),
                EventKind::Stopping { job, .. } => _ = stopped.insert(*job),
                EventKind::Promised { job, gpus, after } => {
                    // A job that makes room and moves to other GPUs waits for its own end, too.
                    let after = after.iter().filter(|victim| *victim != job).collect::<Vec<_>>();
                    let held = |victim: &JobId| gpus_of[victim].iter().filter(|gpu| gpus.contains(gpu)).count();
                    if let Some(victim) = after.iter().find(|victim| held(victim) == 0) {
                        return Some(format!("at {at}: job {job} waits for job {victim}, which has none of its GPUs"));
                    }
                    if after.len() > bound.job(*job).gpus as usize {
                        return Some(format!("at {at}: {} jobs are stopped for job {job}", after.len()));
                    }
                    needed.extend(after.into_iter().copied());
                }
                _ => {}
            }
        }
        if let Some(victim) = stopped.difference(&needed).next() {
            return Some(format!("at {at}: job {victim} is stopped for nobody"));
        }
    }
    None
}

fn jobs() -> impl Strategy<Value = Vec<Job>> {
    let one = (0_u32..40, 1_u32..30, 1_u32..7, -3_i32..4, any::<bool>());
    prop::collection::vec(one, 2..20).prop_map(|drawn| {
        let job = |(arrival, duration, gpus, priority, preemptible)| Job {
            priority,
            preemptible,
            ..gang(gpus, f64::from(arrival), f64::from(duration))
        };
        drawn.into_iter().map(job).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn nobody_is_stopped_who_is_not_in_the_way(jobs in jobs(), round in prop::option::of(4_u32..12), stop in 1_u32..4) {
        let bound: Arc<Bound> = scene("gpu:8", jobs);
        let mechanism = round.map_or(Mechanism::Event, |length| Mechanism::Rounds { length: seconds(f64::from(length)) });
        let options = SimOptions { mechanism, stop_time: seconds(f64::from(stop)), ..SimOptions::default() };
        for policy in POLICIES {
            let events = run_with(&bound, policy, &options).events;
            prop_assert_eq!(needless_stop(&bound, &events), None, "{}", policy);
        }
    }
}
