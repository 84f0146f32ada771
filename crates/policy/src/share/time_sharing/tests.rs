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

#[test]
fn a_failed_solve_is_told_and_jobs_start_all_the_same() {
    let mut workload = Workload::new("one job");
    workload.push(Job::new(Time::ZERO, Span::from_whole_seconds(60)));
    workload.finish();
    let cluster = Cluster::from_spec("gpu:1", 1).unwrap();
    let bound = Bound::new(workload, cluster, &ThroughputTable::default(), BadJobs::Refuse).unwrap();
    let snapshot = Snapshot {
        now: Time::ZERO,
        round: None,
        is_tick: false,
        bound: &bound,
        states: &[JobState { phase: Phase::Waiting, ..JobState::default() }],
        nodes_up: &[true],
        gpu_busy: &[Span::ZERO],
        outside: &[rota_core::Slice::default()],
        outside_changes: 0,
        restart_cost: Span::ZERO,
        restart_costs: &rota_core::RestartCosts::default(),
        min_run: Span::ZERO,
        min_run_restarts: None,
        speed_changes: 0,
        durations: Durations::Hidden,
        changed: &[JobId(0)],
        lengths: &[],
        repaced: &[],
    };
    let allocator = Named { name: "failing".to_owned(), solver: Solver::Price, allocator: Box::new(Failing) };
    let mut policy = Share::new(allocator, BY_TYPE, Span::from_whole_seconds(360), 2.0);
    let mut context = Context { stream: RandomStream::new(0, "policy"), problems: Vec::new() };
    let target = policy.decide(&snapshot, &mut context);
    assert_eq!(context.problems, ["shares could not be computed, so the last ones stay: the problem has no solution"]);
    let Wish::Assignment { types, .. } = target.wish else { panic!("an assignment was expected") };
    assert_eq!(types, [(JobId(0), Some(GpuTypeId(0)))]);
}
