//! Turns by credit.

use super::*;
use crate::allocation::{Allocation, Allocator};
use crate::share::sharing::BY_TYPE;
use rota_core::bind::BadJobs;
use rota_core::random::RandomStream;
use rota_core::{Cluster, Durations, Job, JobState, Phase, ThroughputTable, Workload};
use rota_solver::SolveError;

/// An allocator that never finds an allocation.
#[derive(Clone, Serialize, Deserialize)]
struct Failing;

impl Allocator for Failing {
    fn allocate(&mut self, _: &Demand<'_>) -> Result<Allocation, SolveError> {
        Err(SolveError::Empty("solution"))
    }
}

/// Jobs of one GPU that are all there at the beginning.
fn alike(count: usize, cluster: &str) -> Bound {
    let mut workload = Workload::new("alike");
    for _ in 0..count {
        workload.push(Job::new(Time::ZERO, Span::from_whole_seconds(60)));
    }
    workload.finish();
    let cluster = Cluster::from_spec(cluster, 1).unwrap();
    Bound::new(workload, cluster, &ThroughputTable::default(), BadJobs::Refuse).unwrap()
}

/// Runs a test with what a decision at the first moment goes by.
fn at_first(bound: &Bound, states: &[JobState], test: impl FnOnce(&Snapshot<'_>)) {
    let gpus = bound.cluster.gpus.len();
    let (outside, costs) = (vec![rota_core::Slice::default(); gpus], rota_core::RestartCosts::default());
    let changed = (0..states.len()).map(JobId::from_index).collect::<Vec<_>>();
    test(&Snapshot {
        now: Time::ZERO,
        round: None,
        is_tick: false,
        bound,
        states,
        nodes_up: &vec![true; bound.cluster.nodes.len()],
        gpu_busy: &vec![Span::ZERO; gpus],
        outside: &outside,
        outside_changes: 0,
        restart_cost: Span::ZERO,
        restart_costs: &costs,
        min_run: Span::ZERO,
        min_run_restarts: None,
        speed_changes: 0,
        durations: Durations::Hidden,
        changed: &changed,
        lengths: &[],
        repaced: &[],
    });
}

#[test]
fn a_failed_solve_is_told_and_jobs_start_all_the_same() {
    let waiting = JobState { phase: Phase::Waiting, ..JobState::default() };
    at_first(&alike(1, "gpu:1"), &[waiting], |snapshot| {
        let allocator = Named { name: "failing".to_owned(), solver: Solver::Price, allocator: Box::new(Failing) };
        let mut policy = Share::new(allocator, BY_TYPE, Span::from_whole_seconds(360), 2.0);
        let mut context = Context { stream: RandomStream::new(0, "policy"), problems: Vec::new() };
        let target = policy.decide(snapshot, &mut context);
        assert_eq!(context.problems, ["shares could not be computed, so the last ones stay: the problem has no solution"]);
        let Wish::Assignment { types, .. } = target.wish else { panic!("an assignment was expected") };
        assert_eq!(types, [(JobId(0), Some(GpuTypeId(0)))]);
    });
}

#[test]
fn of_jobs_that_are_owed_nearly_the_same_the_first_is_served_and_the_last_makes_room() {
    let waiting = JobState { phase: Phase::Waiting, ..JobState::default() };
    let running =
        |gpu| JobState { phase: Phase::Running, gpus: [rota_core::GpuId(gpu)].into_iter().collect(), ..JobState::default() };
    let served = |states: &[JobState], values: &[f64], mut columns: Vec<Option<usize>>| {
        at_first(&alike(states.len(), "gpu:2"), states, |snapshot| {
            let jobs = (0..states.len()).map(JobId::from_index);
            first_come_first_served(jobs, (values, &vec![1.0; states.len()]), &mut columns, TIE_ROUNDS, snapshot);
        });
        columns
    };
    let here = Some(0);
    let three = [waiting.clone(), waiting.clone(), waiting.clone()];
    assert_eq!(served(&three, &[2.0, 2.05, 2.02], vec![None, here, here]), [here, here, None]);
    assert_eq!(served(&three, &[1.8, 2.05, 2.0], vec![None, here, here]), [None, here, here], "it is owed less");
    let two = [running(0), running(1), waiting];
    assert_eq!(served(&two, &[1.0, 1.05, 4.0], vec![None, here, here]), [here, None, here], "the one that waited stays served");
}
