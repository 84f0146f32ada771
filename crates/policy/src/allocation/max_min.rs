//! `max-min`, `max-min-perf`: the smallest share of a fair part, over weight, is as large as it can be.
//!
//! A claim's measure is its rate against its mean speed over all GPUs, times its gang, over its weight.

use super::demand::{Allocation, Demand, relative_gap};
use super::level::{Before, level_then_sum};
use super::rows::{Rows, Speeds};
use super::{Allocator, Solver};
use rota_solver::SolveError;
use rota_solver::requirement::Requirement;
use serde::{Deserialize, Serialize};

#[derive(Clone, Serialize, Deserialize)]
pub(super) struct MaxMin {
    speeds: Speeds,
    solver: Solver,
    before: Before,
}

impl MaxMin {
    pub fn new(speeds: Speeds, solver: Solver) -> Self {
        Self { speeds, solver, before: Before::default() }
    }
}

/// For each row the rate that is one unit of the measure: weight × fair rate / gang.
pub(super) fn units(rows: &Rows, weights: &[f64]) -> Vec<f64> {
    let fair = rows.fair.iter().zip(weights).zip(rows.problem.sizes());
    fair.map(|((fair, weight), size)| weight * fair / size).collect()
}

impl Allocator for MaxMin {
    fn allocate(&mut self, demand: &Demand<'_>) -> Result<Allocation, SolveError> {
        let weight = |claim: usize| demand.claims[claim].weight;
        let Some(rows) = Rows::new(demand, self.speeds, self.solver.identical(), &[&weight])? else {
            return Ok(Allocation::nothing(demand));
        };
        let requirement = Requirement::max_min(units(&rows, &rows.keys[0]))?;
        let found = level_then_sum(&rows, &requirement, self.solver, &mut self.before)?;
        Ok(Allocation {
            shares: found.shares,
            pairs: Vec::new(),
            objective: found.level,
            upper_bound: found.upper_bound,
            gap: relative_gap(found.level, found.upper_bound),
            rows: rows.problem.rows(),
            solver: found.solver,
        })
    }
}
