//! The row-and-pool problems written out as linear programs, for when the price methods do not reach their tolerance.
//!
//! The backend's answer is never trusted: prices from its duals go through the same pass that certifies every other method, and its
//! allocation is clipped and scaled until it fits.

use crate::climb::Peak;
use crate::error::SolveError;
use crate::lp::{Clarabel, LinearProgram, LpBackend, LpSolution, LpStatus, Relation};
use crate::sweep::{Oracle, PerPool, Rows};

/// The variables of a written-out problem: one per usable (row, column).
pub(crate) struct Layout {
    pub program: LinearProgram,
    /// (row, column) of each variable.
    pub cells: Vec<(usize, usize)>,
    /// Constraint index of each pool with capacity.
    pub pools: Vec<Option<usize>>,
}

/// Rows must reach their needs; pools are `used/capacity ≤ bound` (plus a load variable, if given).
pub(crate) fn layout(oracle: &Oracle<'_>, load: Option<f64>, gain: impl Fn(usize, usize) -> f64) -> Layout {
    let problem = oracle.problem;
    let mut program = LinearProgram::default();
    let load_variable = load.map(|objective| program.add_variable(objective));
    let mut cells = vec![(usize::MAX, usize::MAX); usize::from(load.is_some())];
    let mut used: Vec<Vec<(usize, f64)>> = vec![Vec::new(); problem.columns()];
    for row in 0..problem.rows() {
        let (need, _) = oracle.requirement.at(row, oracle.level);
        let need = need.min(problem.best_rate(row));
        let (mut time, mut rate) = (Vec::new(), Vec::new());
        for (column, &speed) in problem.rates(row).iter().enumerate().filter(|(_, speed)| **speed > 0.0) {
            let variable = program.add_variable(gain(row, column));
            cells.push((row, column));
            time.push((variable, 1.0));
            // Divided by the best rate, so that all rows are of one size for the backend.
            rate.push((variable, speed / problem.best_rate(row)));
            used[column].push((variable, problem.counts()[row] * problem.sizes()[row] / problem.capacities()[column]));
        }
        if need > 0.0 {
            program.add_constraint(rate, Relation::AtLeast, need / problem.best_rate(row));
        }
        program.add_constraint(time, Relation::AtMost, 1.0);
    }
    let pools = used
        .into_iter()
        .map(|mut terms| {
            let nonempty = !terms.is_empty();
            if let Some(variable) = load_variable {
                terms.push((variable, -1.0));
            }
            nonempty.then(|| program.add_constraint(terms, Relation::AtMost, if load.is_some() { 0.0 } else { 1.0 }))
        })
        .collect();
    Layout { program, cells, pools }
}

/// Solves, and refuses anything but an answer.
pub(crate) fn answer(layout: &Layout, seconds: f64) -> Result<LpSolution, SolveError> {
    let solution = Clarabel::default().solve(&layout.program, seconds)?;
    match solution.status {
        LpStatus::Optimal | LpStatus::Inaccurate => Ok(solution),
        LpStatus::Infeasible => Err(SolveError::Infeasible),
        LpStatus::Unbounded => Err(SolveError::Backend("unbounded".to_owned())),
        LpStatus::Limit => Err(SolveError::Backend("limit reached".to_owned())),
    }
}

/// The pools' multipliers.
pub(crate) fn pool_prices(layout: &Layout, solution: &LpSolution) -> PerPool {
    layout.pools.iter().map(|pool| pool.map_or(0.0, |index| solution.duals[index].max(0.0))).collect()
}

/// The smallest possible load of the fullest pool at the oracle's level, in the form the level search expects.
pub(crate) fn least_load(oracle: &Oracle<'_>, seconds: f64) -> Result<Peak, SolveError> {
    let layout = layout(oracle, Some(-1.0), |_, _| 0.0);
    let solution = answer(&layout, seconds)?;
    let mut prices = pool_prices(&layout, &solution);
    let sum: f64 = prices.iter().sum();
    let columns = prices.len();
    for price in &mut prices {
        *price = if sum > 0.0 { *price / sum } else { 1.0 / columns as f64 };
    }
    let tally = oracle.tally(Rows::All, &prices);
    let value = tally.value(&prices);
    let shares = to_shares(oracle, &layout, &solution);
    let mut mixed = tally.clone();
    mixed.usage = loads(oracle, &shares);
    Ok(Peak::of_shares(prices, value, tally, mixed, shares))
}

/// The backend's values as shares: clipped to 0..=1 and to whole rows.
pub(crate) fn to_shares(oracle: &Oracle<'_>, layout: &Layout, solution: &LpSolution) -> Vec<f64> {
    let columns = oracle.columns();
    let mut shares = vec![0.0; oracle.problem.rows() * columns];
    for (&(row, column), &value) in layout.cells.iter().zip(&solution.values) {
        if row != usize::MAX {
            shares[row * columns + column] = value.max(0.0);
        }
    }
    for row in shares.chunks_exact_mut(columns) {
        let time: f64 = row.iter().sum();
        if time > 1.0 {
            for share in row {
                *share /= time;
            }
        }
    }
    shares
}

/// Load of each pool, 1 = full.
pub(crate) fn loads(oracle: &Oracle<'_>, shares: &[f64]) -> PerPool {
    let problem = oracle.problem;
    let mut used = vec![0.0; problem.columns()];
    for (row, share) in shares.chunks_exact(problem.columns()).enumerate() {
        for (used, fraction) in used.iter_mut().zip(share) {
            *used += problem.counts()[row] * problem.sizes()[row] * fraction;
        }
    }
    used.iter().zip(problem.capacities()).map(|(used, &capacity)| if capacity > 0.0 { used / capacity } else { 0.0 }).collect()
}
