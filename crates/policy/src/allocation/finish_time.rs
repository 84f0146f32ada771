//! `ftf`, `ftf-perf`: finish-time fairness. The largest ratio of a job's finish time to what it would be on a private n-th of the
//! cluster is as small as it can be.
//!
//! The private share is remembered by job: what has been done since the last allocation is turned into the time it would have taken
//! there, so that a job is not held to a promise made when fewer jobs were about. Weights do not count.

use super::demand::{Allocation, Claim, Demand};
use super::equal_shares::isolated_share;
use super::level::{Before, level_then_sum};
use super::makespan::inverted;
use super::rows::{Rows, Speeds};
use super::{Allocator, Solver};
use rota_core::JobId;
use rota_solver::SolveError;
use rota_solver::requirement::{Ceiling, Requirement};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// What is remembered of a job from one allocation to the next.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Past {
    /// Seconds a private share would have needed for what is done.
    private_seconds: f64,
    /// Its rate on a private share, last time.
    private_rate: f64,
    /// Steps left, last time.
    remaining: f64,
}

/// The memory of finish-time fairness.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(super) struct Memory {
    past: HashMap<JobId, Past>,
}

impl Memory {
    /// Jobs have other rows from now on.
    pub fn renumber(&mut self, rows: &rota_core::Renumbering) {
        let past = std::mem::take(&mut self.past).into_iter();
        self.past = past.filter_map(|(job, past)| Some((rows.new_of(job)?, past))).collect();
    }

    /// For each claim the seconds a private share needs from beginning to end; 0 for claims that take no part.
    pub fn expected_seconds(&mut self, demand: &Demand<'_>, speeds: Speeds) -> Result<Vec<f64>, SolveError> {
        demand.check()?;
        let jobs = demand.claims.iter().filter(|claim| demand.takes_part(claim)).count();
        let mut next = HashMap::with_capacity(jobs);
        let mut expected = Vec::with_capacity(demand.claims.len());
        for claim in demand.claims {
            if !demand.takes_part(claim) {
                expected.push(0.0);
                continue;
            }
            let before = self.past.get(&claim.id);
            let done = before.map_or(0.0, |past| (past.remaining - claim.remaining).max(0.0) / past.private_rate);
            let private_seconds = before.map_or(0.0, |past| past.private_seconds) + done;
            let private_rate = private_rate(claim, demand.gpus, jobs, speeds);
            next.insert(claim.id, Past { private_seconds, private_rate, remaining: claim.remaining });
            expected.push(private_seconds + claim.remaining / private_rate);
        }
        self.past = next;
        Ok(expected)
    }
}

/// A claim's rate on a private n-th of every GPU type; above zero for a claim that takes part.
fn private_rate(claim: &Claim, gpus: &[f64], jobs: usize, speeds: Speeds) -> f64 {
    let best = claim.rates.iter().zip(gpus).filter(|(_, gpus)| **gpus > 0.0).fold(0.0, |best: f64, (&rate, _)| best.max(rate));
    let shares = isolated_share(gpus, jobs, claim.gang);
    let rate = |rate: f64| if speeds == Speeds::Best && rate > 0.0 { best } else { rate };
    claim.rates.iter().zip(shares).map(|(&own, share)| rate(own) * share).sum::<f64>().max(f64::MIN_POSITIVE)
}

/// What a claim asks for at level 1/ρ. One that is done asks for nothing, however late it is.
pub(super) fn slope_and_bend(remaining: f64, age: f64, expected: f64) -> (f64, f64) {
    if remaining > 0.0 && expected > 0.0 && expected.is_finite() { (remaining / expected, age / expected) } else { (0.0, 0.0) }
}

#[derive(Clone, Serialize, Deserialize)]
pub(super) struct FinishTime {
    speeds: Speeds,
    solver: Solver,
    memory: Memory,
    before: Before,
}

impl FinishTime {
    pub fn new(speeds: Speeds, solver: Solver) -> Self {
        Self { speeds, solver, memory: Memory::default(), before: Before::default() }
    }
}

impl Allocator for FinishTime {
    fn renumber(&mut self, rows: &rota_core::Renumbering) {
        self.memory.renumber(rows);
    }

    fn allocate(&mut self, demand: &Demand<'_>) -> Result<Allocation, SolveError> {
        let expected = self.memory.expected_seconds(demand, self.speeds)?;
        let ask = |claim: usize| slope_and_bend(demand.claims[claim].remaining, demand.claims[claim].age, expected[claim]);
        let (slope, bend) = (|claim: usize| ask(claim).0, |claim: usize| ask(claim).1);
        let Some(mut rows) = Rows::new(demand, self.speeds, self.solver.identical(), &[&slope, &bend])? else {
            return Ok(Allocation::nothing(demand));
        };
        let (slope, bend) = (std::mem::take(&mut rows.keys[0]), std::mem::take(&mut rows.keys[1]));
        let requirement = Requirement::general(Vec::new(), slope, bend, Ceiling::Common)?;
        let found = level_then_sum(&rows, &requirement, self.solver, &mut self.before)?;
        Ok(inverted(found.shares, found.level, found.upper_bound, rows.problem.rows(), found.solver))
    }
}
