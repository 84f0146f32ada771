//! `strategy-proof`: the greatest product of measures, each job then held back by what its presence costs the others, so that nobody gains by
//! claiming to be other than it is.
//!
//! One solve with everybody, and one without a job of each class of identical jobs. The objective is the geometric mean before jobs are held back.

use super::demand::{Allocation, Demand, relative_gap};
use super::max_min::units;
use super::rows::{Rows, Speeds};
use super::{Allocator, Solver};
use rota_solver::SolveError;
use rota_solver::nash::greatest_product;
use rota_solver::problem::Problem;
use serde::{Deserialize, Serialize};

const SECONDS: f64 = 600.0;

#[derive(Clone, Serialize, Deserialize)]
pub(super) struct StrategyProof(pub Solver);

impl Allocator for StrategyProof {
    fn allocate(&mut self, demand: &Demand<'_>) -> Result<Allocation, SolveError> {
        let weight = |claim: usize| demand.claims[claim].weight;
        let Some(rows) = Rows::new(demand, Speeds::Real, self.0.identical(), &[&weight])? else {
            return Ok(Allocation::nothing(demand));
        };
        let units = units(&rows, &rows.keys[0]);
        let all = greatest_product(&rows.problem, &units, SECONDS)?;
        let kept = (0..rows.problem.rows())
            .map(|row| kept_by(&rows.problem, &units, &all.rates, row))
            .collect::<Result<Vec<f64>, _>>()?;
        let levels: Vec<f64> = all.rates.iter().zip(&units).map(|(rate, unit)| rate * unit).collect();
        let mut shares = rows.expand(all.shares, &levels);
        let types = demand.gpus.len();
        for (place, &claim) in rows.claims.iter().enumerate() {
            for share in &mut shares[claim as usize * types..][..types] {
                *share *= kept[rows.row(place)];
            }
        }
        Ok(Allocation {
            shares,
            pairs: Vec::new(),
            objective: all.mean,
            upper_bound: all.upper_bound,
            gap: relative_gap(all.mean, all.upper_bound),
            rows: rows.problem.rows(),
            solver: "clarabel",
        })
    }
}

/// The part a job of a row keeps: the product over all others of what they have with it to what they would have without it.
fn kept_by(problem: &Problem, units: &[f64], with: &[f64], row: usize) -> Result<f64, SolveError> {
    let mut counts = problem.counts().to_vec();
    counts[row] -= 1.0;
    let left: Vec<usize> = (0..problem.rows()).filter(|&other| counts[other] > 0.5).collect();
    if left.is_empty() {
        return Ok(1.0);
    }
    let pick = |list: &[f64]| left.iter().map(|&other| list[other]).collect::<Vec<f64>>();
    let rates = left.iter().flat_map(|&other| problem.rates(other).iter().copied()).collect();
    let smaller = Problem::owned(problem.capacities().to_vec(), pick(problem.sizes()), rates, pick(&counts))?;
    let without = greatest_product(&smaller, &pick(units), SECONDS)?;
    let logarithm: f64 = left.iter().zip(&without.rates).map(|(&other, rate)| counts[other] * (with[other] / rate).ln()).sum();
    Ok(logarithm.exp().min(1.0))
}
