//! `makespan`, `makespan-perf`: the time until everything now here is done is as short as it can be.
//!
//! One program without bisection: whoever has `remaining/T` steps a second all along is done after `T`, so the greatest common
//! `1/T` is sought. Weights and ages do not count.

use super::demand::{Allocation, Demand, relative_gap};
use super::level::{Before, level_then_sum};
use super::rows::{Rows, Speeds};
use super::{Allocator, Solver};
use rota_solver::SolveError;
use rota_solver::requirement::Requirement;
use serde::{Deserialize, Serialize};

#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Makespan {
    speeds: Speeds,
    solver: Solver,
    before: Before,
}

impl Makespan {
    pub fn new(speeds: Speeds, solver: Solver) -> Self {
        Self { speeds, solver, before: Before::default() }
    }
}

impl Allocator for Makespan {
    fn allocate(&mut self, demand: &Demand<'_>) -> Result<Allocation, SolveError> {
        let remaining = |claim: usize| demand.claims[claim].remaining;
        let Some(mut rows) = Rows::new(demand, self.speeds, self.solver.identical(), &[&remaining])? else {
            return Ok(Allocation::nothing(demand));
        };
        let requirement = Requirement::makespan(std::mem::take(&mut rows.keys[0]))?;
        let found = level_then_sum(&rows, &requirement, self.solver, &mut self.before)?;
        Ok(inverted(found.shares, found.level, found.upper_bound, rows.problem.rows(), found.solver))
    }
}

/// An allocation whose objective is one over the level.
pub(super) fn inverted(shares: Vec<f64>, level: f64, upper: f64, rows: usize, solver: &'static str) -> Allocation {
    let over = |level: f64| if level > 0.0 { level.recip() } else { 0.0 };
    let (objective, bound) = (over(level), over(upper));
    let gap = relative_gap(objective, bound);
    Allocation { shares, pairs: Vec::new(), objective, upper_bound: bound, gap, rows, solver }
}
