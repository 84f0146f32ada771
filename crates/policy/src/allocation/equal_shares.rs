//! `isolated` and `proportional`: fixed shares, nothing is weighed against anything.

use super::Allocator;
use super::demand::{Allocation, Claim, Demand};
use rota_solver::SolveError;
use serde::{Deserialize, Serialize};

/// A private n-th of every GPU type, in parts of the time of a gang; all of its time where there is enough for that.
pub(crate) fn isolated_share(gpus: &[f64], jobs: usize, gang: f64) -> Vec<f64> {
    let shares: Vec<f64> = gpus.iter().map(|gpus| gpus / jobs as f64 / gang).collect();
    let time: f64 = shares.iter().sum();
    shares.iter().map(|share| if time > 1.0 { share / time } else { *share }).collect()
}

/// Everybody the n-th part of every GPU type.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Isolated;

impl Allocator for Isolated {
    fn allocate(&mut self, demand: &Demand<'_>) -> Result<Allocation, SolveError> {
        fixed(demand, |claim, jobs| isolated_share(demand.gpus, jobs, claim.gang))
    }
}

/// Everybody all of its time, divided like the GPUs. This is what fair shares are measured by, not something that all can have at once:
/// together the shares may ask for more GPUs than there are.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Proportional;

impl Allocator for Proportional {
    fn allocate(&mut self, demand: &Demand<'_>) -> Result<Allocation, SolveError> {
        let total: f64 = demand.gpus.iter().sum();
        fixed(demand, |_, _| demand.gpus.iter().map(|gpus| gpus / total).collect())
    }
}

/// Shares by a formula, closed types left empty. The objective is that of `max-min-perf`, for comparison.
fn fixed(demand: &Demand<'_>, shares_of: impl Fn(&Claim, usize) -> Vec<f64>) -> Result<Allocation, SolveError> {
    demand.check()?;
    let jobs = demand.claims.iter().filter(|claim| demand.takes_part(claim)).count();
    let mut allocation = Allocation::nothing(demand);
    let total: f64 = demand.gpus.iter().sum();
    let mut least = f64::INFINITY;
    for (claim, target) in demand.claims.iter().zip(allocation.shares.chunks_exact_mut(demand.gpus.len())) {
        if demand.takes_part(claim) {
            let (mut rate, mut fair) = (0.0, 0.0);
            for (index, share) in shares_of(claim, jobs).into_iter().enumerate() {
                target[index] = if claim.rates[index] > 0.0 { share } else { 0.0 };
                rate += claim.rates[index] * target[index];
                fair += claim.rates[index] * demand.gpus[index] / total;
            }
            least = least.min(claim.gang * rate / (claim.weight * fair));
        }
    }
    if least.is_finite() {
        (allocation.objective, allocation.upper_bound) = (least, least);
    }
    (allocation.rows, allocation.solver) = (jobs, "formula");
    Ok(allocation)
}
