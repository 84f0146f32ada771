//! What backfill promises: EASY never delays the head it reserved for, conservative never delays anybody who came before.

use crate::scene::{gang, job, run, scene, seconds};
use proptest::prelude::*;
use rota_core::{Bound, GpuId, Job, JobId, MilliGpu, Phase, Promise, Time};
use rota_engine::{Engine, Moment};
use rota_sim::SimOptions;
use std::sync::Arc;

#[test]
fn the_three_ways_to_treat_a_wide_head() {
    // GPU 0 is busy until 10, GPU 1 until 4; the wide job needs both. The short job fits in the gap, the long one does not.
    let jobs = [job(0.0, 10.0), job(0.0, 4.0), gang(2, 1.0, 5.0), job(2.0, 20.0), job(3.0, 6.0)];
    let starts =
        |policy: &str| run(&scene("gpu:2", jobs.clone()), policy).first_start.iter().flatten().copied().collect::<Vec<_>>();
    assert_eq!(starts("fcfs"), [0.0, 0.0, 10.0, 15.0, 15.0]);
    assert_eq!(starts("fcfs:backfill=easy"), [0.0, 0.0, 10.0, 15.0, 4.0]);
    assert_eq!(starts("fcfs:backfill=greedy"), [0.0, 0.0, 24.0, 4.0, 10.0]);
    assert_eq!(starts("fcfs:backfill=conservative"), [0.0, 0.0, 10.0, 15.0, 4.0]);
}

#[test]
fn easy_may_delay_the_second_in_line_and_conservative_may_not() {
    // The head (3 GPUs) can start at 10; the next (2 GPUs, 10 s) could start at 20 when the head ends, or at 10 beside nothing.
    // A long job on one GPU would push the second in line from 15 to 40: EASY lets it, conservative does not.
    let jobs = [gang(2, 0.0, 10.0), gang(3, 1.0, 5.0), gang(4, 2.0, 5.0), job(3.0, 37.0)];
    let easy = run(&scene("gpu:4", jobs.clone()), "fcfs:backfill=easy");
    let conservative = run(&scene("gpu:4", jobs), "fcfs:backfill=conservative");
    assert_eq!(easy.first_start[1], Some(10.0));
    assert_eq!((easy.first_start[3], easy.first_start[2]), (Some(3.0), Some(40.0)));
    assert_eq!((conservative.first_start[3], conservative.first_start[2]), (Some(20.0), Some(15.0)));
}

#[test]
fn a_job_of_another_type_is_not_held_up() {
    let mut workload = rota_core::Workload::new("types");
    let (a, b) = (workload.names.intern("a"), workload.names.intern("b"));
    for (gpu_type, gpus, arrival) in [(a, 1, 0.0), (a, 2, 1.0), (b, 1, 2.0), (a, 1, 3.0)] {
        workload.push(Job { gpu_types: Box::new([gpu_type]), ..gang(gpus, arrival, 10.0) });
    }
    workload.finish();
    let cluster = rota_core::Cluster::from_spec("a:2,b:1", 4).unwrap();
    let table = rota_core::ThroughputTable::default();
    let bound = Arc::new(Bound::new(workload, cluster, &table, rota_core::bind::BadJobs::Refuse).unwrap());
    assert_eq!(run(&bound, "fcfs").first_start, [Some(0.0), Some(10.0), Some(2.0), Some(20.0)]);
}

/// A job of one GPU that keeps to certain GPUs.
fn pinned(gpus: &[u32], arrival: f64, duration: f64) -> Job {
    Job { only: gpus.iter().map(|gpu| GpuId(*gpu)).collect(), ..job(arrival, duration) }
}

#[test]
fn a_pinned_job_keeps_its_own_gpu_and_no_other() {
    // GPU 0 is busy, and another job waits for that very GPU; nobody says how long anything takes. GPUs 1 to 3 are for the others.
    let jobs =
        [pinned(&[0], 0.0, 100.0), pinned(&[0], 1.0, 10.0), job(2.0, 50.0), job(2.0, 50.0), job(2.0, 50.0), job(2.0, 50.0)];
    for policy in ["fcfs", "priority", "wfq", "sjf", "fcfs:backfill=easy", "fcfs:backfill=greedy", "fcfs:backfill=conservative"] {
        let outcome = run(&scene("gpu:4", jobs.clone()), policy);
        assert_eq!(outcome.first_start[2..], [Some(2.0), Some(2.0), Some(2.0), Some(52.0)], "{policy}");
        assert_eq!(outcome.first_start[1], Some(100.0), "{policy}");
    }
}

#[test]
fn a_gpu_that_a_pinned_job_waits_for_is_kept_for_it() {
    // GPU 0 is busy until 10, and a gang waits for GPUs 0 and 1. The long job that comes at 5 would keep GPU 1 too long; the short one
    // is done with it in time.
    let both = |arrival, duration| Job { gpus: 2, ..pinned(&[0, 1], arrival, duration) };
    let jobs = [pinned(&[0], 0.0, 10.0), both(1.0, 5.0), job(5.0, 20.0), job(5.0, 4.0)].map(|job| with_estimate(job, 1));
    for policy in ["fcfs:backfill=easy", "fcfs:backfill=conservative"] {
        let starts = run(&scene("gpu:2", jobs.clone()), policy).first_start;
        assert_eq!(starts, [Some(0.0), Some(10.0), Some(15.0), Some(5.0)], "{policy}");
    }
}

#[test]
fn a_wide_job_behind_a_pinned_one_has_a_reservation_too() {
    // The pinned job waits for GPU 0 until 1000. The gang of three waits for GPU 1 until 10; single jobs must not push it back for ever.
    let singles = (0..20).map(|number| job(3.0 + f64::from(number), 8.0));
    let jobs = [pinned(&[0], 0.0, 1000.0), pinned(&[1], 0.0, 10.0), pinned(&[0], 1.0, 1.0), gang(3, 2.0, 5.0)];
    let jobs = jobs.into_iter().chain(singles).map(|job| with_estimate(job, 1));
    let outcome = run(&scene("gpu:4", jobs), "fcfs:backfill=easy");
    assert_eq!(outcome.first_start[3], Some(10.0));
}

#[test]
fn a_promise_that_a_late_job_breaks_does_not_let_those_behind_go_first() {
    // The first job was to end at 100 and ends at 130; a gang was promised its GPUs for then, and the long job behind it for 200. When it is
    // 100, the gang no longer fits before 200. The long job could start at once, and must not.
    let late = Job { estimate: Some(seconds(100.0)), ..job(0.0, 130.0) };
    let jobs =
        [late, with_estimate(gang(2, 10.0, 100.0), 1), with_estimate(job(20.0, 10_000.0), 1), with_estimate(job(105.0, 1.0), 1)];
    let starts = run(&scene("gpu:2", jobs), "fcfs:backfill=conservative").first_start;
    assert_eq!((starts[1], starts[2]), (Some(130.0), Some(230.0)));
}

/// The job with an estimate that is `factor` times too long.
fn with_estimate(job: Job, factor: u32) -> Job {
    Job { estimate: Some(seconds(job.work.seconds() * f64::from(factor))), ..job }
}

/// A job of one GPU that needs a part of it.
fn part(thousandths: u16, memory_mib: u32, arrival: f64, duration: f64) -> Job {
    Job { share: MilliGpu(thousandths), memory_mib, ..job(arrival, duration) }
}

#[test]
fn conservative_lets_jobs_share_a_gpu() {
    // Three jobs of 0.4 each: two fit beside each other, the third when the first ends. The last needs too much memory until both ended.
    let jobs = [part(400, 4000, 0.0, 10.0), part(400, 4000, 0.0, 30.0), part(400, 4000, 0.0, 15.0), part(100, 14_000, 0.0, 5.0)];
    let starts = run(&scene("t4:1", jobs), "fcfs:backfill=conservative").first_start;
    assert_eq!(starts, [Some(0.0), Some(0.0), Some(10.0), Some(30.0)]);
}

#[test]
fn conservative_keeps_a_whole_gpu_free_of_small_jobs_for_a_job_that_was_promised_it() {
    // The wide job gets both GPUs at 10. A small job that would still be there has to wait; one that ends in time need not.
    let jobs = [part(500, 0, 0.0, 10.0), gang(2, 1.0, 5.0), part(500, 0, 2.0, 9.0), part(500, 0, 2.0, 8.0)];
    let starts = run(&scene("t4:2", jobs), "fcfs:backfill=conservative").first_start;
    assert_eq!(starts, [Some(0.0), Some(10.0), Some(15.0), Some(2.0)]);
}

/// Every promise made in a run, with the state it was made from, and the start of each job.
fn promises(bound: &Arc<Bound>, policy: &str, mut at_promise: impl FnMut(&Engine, Time, &Promise)) -> Vec<Time> {
    let mut session = rota_sim::session(bound, rota_policy::build(policy).unwrap(), &SimOptions::default());
    let mut starts = vec![Time::FAR_FUTURE; bound.jobs.len()];
    while let Some(Moment { now, .. }) = session.advance(&mut |_| {}) {
        let target = session.ask();
        let plan = session.hand_in(&target, &mut |_| {});
        for start in &plan.starts {
            starts[start.job.index()] = now;
        }
        plan.promises.iter().for_each(|promise| at_promise(&session.engine, now, promise));
    }
    starts
}

/// When a gang could start at the earliest, counting the believed ends of running jobs by hand.
fn start_by_hand(engine: &Engine, now: Time, job: JobId) -> Time {
    let bound = &engine.state.bound;
    let mut ends = Vec::new();
    for (index, state) in engine.state.jobs.iter().enumerate() {
        if state.phase == Phase::Running {
            let spec = &bound.jobs[index];
            let believed = spec.estimate.unwrap_or(bound.truth(spec.id).work);
            ends.push(((state.since + believed).max(now + rota_core::Span(1)), spec.gpus));
        }
    }
    ends.sort_unstable();
    let in_use = ends.iter().map(|(_, gpus)| gpus).sum::<u32>();
    let mut free = bound.cluster.gpus.len() as u32 - in_use;
    for (end, gpus) in ends {
        free += gpus;
        if free >= bound.job(job).gpus {
            return end;
        }
    }
    Time::FAR_FUTURE
}

prop_compose! {
    /// Jobs whose estimates are never too short; exact where `factor` is 1.
    fn some_job(exact: bool)(arrival in 0_u32..60, duration in 1_u32..40, gpus in 1_u32..9, factor in 1_u32..4) -> Job {
        let factor = if exact { 1 } else { factor };
        Job { estimate: Some(seconds(f64::from(duration * factor))), ..gang(gpus, f64::from(arrival), f64::from(duration)) }
    }
}

prop_compose! {
    /// Jobs on two nodes of four GPUs, some of which keep to certain GPUs or to one node.
    fn particular_job()(job in some_job(false), kind in 0_u32..4, first in 0_u32..8, last in 0_u32..8) -> Job {
        match kind {
            0 => {
                let only = (first.min(last)..=first.max(last)).map(GpuId).collect::<Box<_>>();
                Job { gpus: job.gpus.min(only.len() as u32), only, ..job }
            }
            1 => Job { gpus: job.gpus.min(4), nodes_max: 1, ..job },
            _ => job,
        }
    }
}

prop_compose! {
    /// Jobs of which most share GPUs.
    fn sharing_job()(job in some_job(false), thousandths in 50_u16..1500, memory_mib in 0_u32..16_000) -> Job {
        Job { gpus: job.gpus.min(4), share: MilliGpu(thousandths.min(1000)), memory_mib, ..job }
    }
}

fn two_nodes(jobs: Vec<Job>) -> Arc<Bound> {
    crate::scene::on_cluster(rota_core::Cluster::from_spec("gpu:8", 4).unwrap(), jobs)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn promises_to_jobs_that_keep_to_gpus_or_nodes_hold(jobs in prop::collection::vec(particular_job(), 1..40)) {
        let bound = two_nodes(jobs);
        for policy in ["fcfs:backfill=easy", "fcfs:backfill=conservative"] {
            let mut made = Vec::new();
            let starts = promises(&bound, policy, |_, _, promise| made.push(*promise));
            for promise in made {
                prop_assert!(starts[promise.job.index()] <= promise.start, "{policy}: job {} was promised {} and started at {}", promise.job, promise.start, starts[promise.job.index()]);
            }
        }
    }

    #[test]
    fn promises_to_jobs_that_share_gpus_hold(jobs in prop::collection::vec(sharing_job(), 1..40)) {
        let bound = scene("t4:4", jobs);
        let mut made = Vec::new();
        let starts = promises(&bound, "fcfs:backfill=conservative", |_, _, promise| made.push(*promise));
        prop_assert!(starts.iter().all(|start| *start < Time::FAR_FUTURE));
        for promise in made {
            prop_assert!(starts[promise.job.index()] <= promise.start, "job {} was promised {} and started at {}", promise.job, promise.start, starts[promise.job.index()]);
        }
    }

    #[test]
    fn easy_never_delays_the_head(jobs in prop::collection::vec(some_job(false), 1..40)) {
        let bound = scene("gpu:8", jobs);
        let mut made = Vec::new();
        let starts = promises(&bound, "fcfs:backfill=easy", |engine, now, promise| {
            // Jobs started beside the head in this very plan end before it or leave it enough GPUs, so counting them changes nothing.
            assert_eq!(promise.start, start_by_hand(engine, now, promise.job));
            made.push(*promise);
        });
        for promise in made {
            prop_assert!(starts[promise.job.index()] <= promise.start, "job {} was promised {} and started at {}", promise.job, promise.start, starts[promise.job.index()]);
        }
    }

    #[test]
    fn conservative_keeps_every_promise(jobs in prop::collection::vec(some_job(false), 1..40)) {
        let bound = scene("gpu:8", jobs);
        let mut made = Vec::new();
        let starts = promises(&bound, "fcfs:backfill=conservative", |_, _, promise| made.push(*promise));
        for promise in made {
            prop_assert!(starts[promise.job.index()] <= promise.start, "job {} was promised {} and started at {}", promise.job, promise.start, starts[promise.job.index()]);
        }
    }

    #[test]
    fn conservative_never_delays_anybody_who_came_before(jobs in prop::collection::vec(some_job(true), 1..25)) {
        let bound = scene("gpu:8", jobs);
        let full = run(&bound, "fcfs:backfill=conservative");
        for count in 1..bound.jobs.len() {
            let alone = scene("gpu:8", bound.jobs[..count].iter().map(|job| bound.whole_job(job.id)));
            let without_later_jobs = run(&alone, "fcfs:backfill=conservative");
            prop_assert_eq!(full.first_start[count - 1], without_later_jobs.first_start[count - 1]);
        }
    }
}
