//! Whatever the policy and the workload, with failures: plans are sound (the checker is on in tests), every job finishes or is reported
//! failed, work is conserved to the nanosecond, and the same inputs give the same events.

use crate::scene::{Outcome, on_cluster, run_with, seconds};
use proptest::prelude::*;
use rota_core::event::EventKind;
use rota_core::{Bound, Cluster, Dependency, DependencyCondition, End, Job, JobId, MilliGpu, Score, Span, Time};
use rota_sim::{Mechanism, NodeFaults, Restart, SimOptions};
use std::sync::Arc;

pub const POLICIES: &[&str] = &[
    "fcfs",
    "fcfs:backfill=greedy",
    "fcfs:backfill=easy",
    "fcfs:backfill=conservative",
    "sjf",
    "sjf:backfill=none",
    "sjf:backfill=conservative,depth=3",
    "sjf:estimates=history",
    "sjf:estimates=history,backfill=conservative",
    "srtf",
    "srsf",
    "srsf:estimates=history",
    "fcfs:backfill=easy,estimates=history",
    "saf",
    "f1",
    "f2:backfill=none",
    "f3:backfill=greedy",
    "f4",
    "wfp3",
    "unicep:backfill=none",
    "rr:quantum=3",
    "lottery",
    "wfq",
    "priority",
    "priority:preempt=true,age=5",
    "least-loaded",
    "random",
    "las:first=5,factor=2,promote=2",
    "gittins:first=2",
    "gittins:classes=on",
    "lag-match:tick=5",
    "lag-gittins:tick=5,sigma=0.5",
    "lag-history:tick=5",
    "lag-srsf",
    "fifo",
    "fifo-perf",
    "fifo-packed",
    "allox:tick=5",
    "isolated:tick=5",
    "proportional",
    "max-min:tick=5",
    "max-min-perf:tick=5",
    "max-min-packed",
    "water-filling",
    "water-filling-perf:tick=5",
    "water-filling-packed",
    "ftf",
    "ftf-perf:tick=5",
    "ftf-packed",
    "makespan",
    "makespan-perf:tick=5",
    "makespan-packed",
    "max-throughput-perf:tick=5",
    "max-throughput-cost-perf",
    "max-throughput-cost-slo-perf:tick=5",
    "max-throughput-cost-slo-packed",
    "strategy-proof",
    "hierarchical:tick=5",
    "gandiva:tick=5",
];

#[test]
fn every_registered_policy_is_among_them() {
    for info in rota_policy::Registry::default().policies() {
        assert!(POLICIES.iter().any(|spec| spec.split(':').next() == Some(info.name)), "{}", info.name);
    }
}

/// What is drawn for one job, beside when and how long.
#[derive(Clone, Debug)]
struct Traits {
    share: u16,
    memory_mib: u32,
    nodes_max: u32,
    priority: i32,
    fails_at: Option<u32>,
    retries: u32,
    after: Option<(prop::sample::Index, bool)>,
    estimate: Option<u32>,
}

prop_compose! {
    fn traits()(
        share in prop_oneof![3 => Just(1000_u16), 1 => 1_u16..1000],
        memory_mib in prop_oneof![2 => Just(0_u32), 1 => 0_u32..24_576],
        nodes_max in prop_oneof![4 => Just(0_u32), 1 => 2_u32..4],
        priority in -3_i32..4,
        fails_at in prop::option::weighted(0.15, 1_u32..20),
        retries in 0_u32..3,
        after in prop::option::weighted(0.2, (any::<prop::sample::Index>(), any::<bool>())),
        estimate in prop::option::weighted(0.4, 1_u32..60),
    ) -> Traits {
        Traits { share, memory_mib, nodes_max, priority, fails_at, retries, after, estimate }
    }
}

pub fn workload() -> impl Strategy<Value = Vec<Job>> {
    let one = (0_u32..80, 1_u32..30, 1_u32..7, traits());
    prop::collection::vec(one, 1..30).prop_map(|drawn| {
        let mut jobs = Vec::new();
        for (position, (arrival, duration, gpus, traits)) in drawn.into_iter().enumerate() {
            let after = traits.after.filter(|_| position > 0).map(|(index, ok)| Dependency {
                job: JobId::from_index(index.index(position)),
                condition: if ok { DependencyCondition::Ok } else { DependencyCondition::Any },
            });
            jobs.push(Job {
                gpus,
                share: MilliGpu(traits.share),
                memory_mib: traits.memory_mib,
                nodes_max: traits.nodes_max,
                priority: traits.priority,
                fails_at: traits.fails_at.map(|at| seconds(f64::from(at))),
                retries: traits.retries,
                after: after.into_iter().collect(),
                estimate: traits.estimate.map(|estimate| seconds(f64::from(estimate))),
                ..Job::new(Time::from_seconds(f64::from(arrival)).unwrap(), seconds(f64::from(duration)))
            });
        }
        jobs
    })
}

pub const CLUSTER: &str = r#"
[[gpu_type]]
name = "slow"
memory_mib = 24576
idle_watts = 1
full_watts = 2
speed = 0.5
[[node]]
name = "fast"
gpus = "fast:4"
count = 3
[[node]]
name = "slow"
gpus = "slow:3"
count = 2
[[outage]]
node = "fast-0"
from_s = 15
until_s = 60
[[outage]]
node = "slow-1"
from_s = 20
"#;

prop_compose! {
    pub fn options()(
        round in prop::option::of(4_u32..12),
        seed in any::<u64>(),
        score in 0..Score::WORDS.len(),
        cost in 0_u32..4,
        checkpoint in prop::option::of(0_u32..5),
        with_faults in any::<bool>(),
        stop_time in 0_u32..4,
    ) -> SimOptions {
        SimOptions {
            mechanism: round.map_or(Mechanism::Event, |length| Mechanism::Rounds { length: seconds(f64::from(length)) }),
            seed,
            score: Score::WORDS[score].parse().unwrap(),
            restart: Restart { cost: seconds(f64::from(cost)), checkpoint: checkpoint.map(|every| seconds(f64::from(every))), ..Restart::default() },
            stop_time: seconds(f64::from(stop_time)),
            faults: with_faults.then(|| NodeFaults { mean_uptime: seconds(200.0), mean_repair: seconds(20.0) }),
            window: None,
        }
    }
}

/// Adds up the work of each finished job from its events alone, segment by segment.
fn assert_work_is_conserved(bound: &Bound, outcome: &Outcome, options: &SimOptions) {
    struct Progress {
        done: Span,
        started: Option<(Time, f64)>,
        starts: u32,
    }
    let mut jobs = bound.jobs.iter().map(|_| Progress { done: Span::ZERO, started: None, starts: 0 }).collect::<Vec<_>>();
    let mut last = Time::ZERO;
    for event in &outcome.events {
        assert!(event.time_ns >= last, "time went back");
        last = event.time_ns;
        let Some(job) = event.kind.job() else { continue };
        let progress = &mut jobs[job.index()];
        let overhead = if progress.starts > 1 { options.restart.cost } else { Span::ZERO };
        let ran = progress.started.map(|(start, speed)| (event.time_ns.since(start + overhead), speed));
        match &event.kind {
            EventKind::Started { gpus, .. } => {
                let gpu_type = bound.cluster.gpus[gpus[0].index()].gpu_type;
                progress.started = Some((event.time_ns, bound.speeds(job)[gpu_type.index()]));
                progress.starts += 1;
                continue;
            }
            EventKind::Ended { end: End::Preempted, .. } => {
                let (span, speed) = ran.expect("only a running job is preempted");
                progress.done += span.work_at_speed(speed);
            }
            EventKind::Ended { end: End::Evicted, .. } => {
                let (span, speed) = ran.expect("only a running job is evicted");
                let saved = match options.restart.checkpoint {
                    None => Span::ZERO,
                    Some(Span(0)) => span,
                    Some(every) => Span(span.0 / every.0 * every.0),
                };
                progress.done += saved.work_at_speed(speed);
            }
            EventKind::Ended { end: End::Retried, .. } => progress.done = Span::ZERO,
            EventKind::Ended { end: End::Finished, .. } => {
                let (span, speed) = ran.expect("only a running job finishes");
                let total = progress.done + span.work_at_speed(speed);
                let work = bound.truth(job).work;
                // At speed 1 to the nanosecond; otherwise a run may be a nanosecond longer than needed.
                assert!(total >= work && total <= work + Span(2), "job {job}: {total:?} of {work:?}");
            }
            EventKind::Ended { .. } => {}
            // A job that is leaving, or that GPUs are kept for, goes on as it is.
            _ => continue,
        }
        progress.started = None;
    }
}

fn assert_sound(bound: &Arc<Bound>, policy: &str, options: &SimOptions) -> Result<(), TestCaseError> {
    let outcome = run_with(bound, policy, options);
    for job in &bound.jobs {
        let ends = usize::from(outcome.finish[job.id.index()].is_some()) + usize::from(outcome.failed[job.id.index()]);
        prop_assert_eq!(ends, 1, "{}: job {} ended {} times", policy, job.id, ends);
    }
    assert_work_is_conserved(bound, &outcome, options);
    prop_assert_eq!(outcome.events, run_with(bound, policy, options).events, "{} is not deterministic", policy);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn runs_are_sound_whatever_happens(jobs in workload(), options in options()) {
        let bound = on_cluster(Cluster::from_toml(CLUSTER).unwrap(), jobs);
        for policy in POLICIES {
            assert_sound(&bound, policy, &options)?;
        }
    }
}

#[test]
fn jobs_that_can_never_run_are_reported_failed() {
    let text = "[[node]]\nname='a'\ngpus='x:4'\n[[node]]\nname='b'\ngpus='x:4'\n[[outage]]\nnode='b'\nfrom_s=1";
    let jobs = [crate::scene::gang(8, 2.0, 5.0), crate::scene::gang(4, 3.0, 5.0)];
    let bound = on_cluster(Cluster::from_toml(text).unwrap(), jobs);
    for policy in POLICIES {
        for mechanism in [Mechanism::Event, Mechanism::Rounds { length: seconds(2.0) }] {
            let outcome = run_with(&bound, policy, &SimOptions { mechanism, ..SimOptions::default() });
            assert!(outcome.failed[0], "{policy}");
            let waits_behind_its_head = ["fcfs", "fifo"].contains(policy) || policy.contains("backfill=none");
            assert_eq!(outcome.finish[1].is_some(), !waits_behind_its_head, "{policy}");
        }
    }
}
