//! The objectives as plain linear programs, one row per job, for the interior-point method.
//!
//! What comes back is clipped until it fits, and the bound is computed here from the multipliers made valid, so it holds whatever the
//! method's own tolerance was.

use super::level::{Found, Shares};
use rota_solver::SolveError;
use rota_solver::lp::{Clarabel, LinearProgram, LpBackend, LpSolution, LpStatus, Relation};
use rota_solver::problem::Problem;

const SECONDS: f64 = 600.0;

/// A program under construction: one variable per usable (row, type), row times and pools.
struct Program {
    linear: LinearProgram,
    cells: Vec<(usize, usize)>,
    pools: Vec<usize>,
}

impl Program {
    /// Times and pools; variables of what is worth `gain` there.
    fn new(problem: &Problem, gain: impl Fn(usize, usize) -> f64) -> Self {
        let mut program = LinearProgram::default();
        let mut cells = Vec::new();
        let mut used: Vec<Vec<(usize, f64)>> = vec![Vec::new(); problem.columns()];
        for row in 0..problem.rows() {
            let mut time = Vec::new();
            for (column, _) in problem.rates(row).iter().enumerate().filter(|(_, rate)| **rate > 0.0) {
                let variable = program.add_variable(gain(row, column));
                cells.push((row, column));
                time.push((variable, 1.0));
                used[column].push((variable, problem.sizes()[row] * problem.counts()[row] / problem.capacities()[column]));
            }
            program.add_constraint(time, Relation::AtMost, 1.0);
        }
        let pools = used.into_iter().map(|terms| program.add_constraint(terms, Relation::AtMost, 1.0)).collect();
        Self { linear: program, cells, pools }
    }

    /// Adds "the rate of each row, in units, is at least `bound`", minus a level variable if given; returns each constraint.
    fn add_rates(&mut self, problem: &Problem, units: &[f64], level: Option<usize>, bounds: &[f64]) -> Vec<Option<usize>> {
        let mut terms: Vec<Vec<(usize, f64)>> = vec![Vec::new(); problem.rows()];
        for (variable, &(row, column)) in self.cells.iter().enumerate() {
            if units[row] > 0.0 {
                terms[row].push((variable, problem.rates(row)[column] / units[row]));
            }
        }
        let mut added = Vec::with_capacity(problem.rows());
        for (row, mut terms) in terms.into_iter().enumerate() {
            added.push((units[row] > 0.0).then(|| {
                terms.extend(level.map(|level| (level, -1.0)));
                self.linear.add_constraint(terms, Relation::AtLeast, bounds[row])
            }));
        }
        added
    }

    fn solve(&self) -> Result<LpSolution, SolveError> {
        let solution = Clarabel::default().solve(&self.linear, SECONDS)?;
        match solution.status {
            LpStatus::Optimal | LpStatus::Inaccurate => Ok(solution),
            LpStatus::Infeasible => Err(SolveError::Infeasible),
            LpStatus::Unbounded => Err(SolveError::Backend("unbounded".to_owned())),
            LpStatus::Limit => Err(SolveError::Backend("limit reached".to_owned())),
        }
    }

    /// The values as shares that fit: clipped, rows and then pools scaled down where they are exceeded.
    fn shares(&self, problem: &Problem, solution: &LpSolution) -> Vec<f64> {
        let columns = problem.columns();
        let mut shares = vec![0.0; problem.rows() * columns];
        for (&(row, column), &value) in self.cells.iter().zip(&solution.values) {
            shares[row * columns + column] = value.clamp(0.0, 1.0);
        }
        let mut used = vec![0.0; columns];
        for (row, share) in shares.chunks_exact_mut(columns).enumerate() {
            let time: f64 = share.iter().sum();
            for (used, share) in used.iter_mut().zip(share) {
                *share /= time.max(1.0);
                *used += *share * problem.sizes()[row] * problem.counts()[row];
            }
        }
        for share in shares.chunks_exact_mut(columns) {
            for ((share, &used), &capacity) in share.iter_mut().zip(&used).zip(problem.capacities()) {
                *share *= if used > capacity { capacity / used } else { 1.0 };
            }
        }
        shares
    }

    /// A bound that the pools' prices and the rows' multipliers prove: what the pools sell for and what each row's time is then worth.
    fn bound(&self, problem: &Problem, solution: &LpSolution, worth: impl Fn(usize, usize) -> f64) -> f64 {
        let prices: Vec<f64> = self.pools.iter().map(|&pool| solution.duals[pool].max(0.0)).collect();
        let mut bound: f64 = prices.iter().sum();
        for row in 0..problem.rows() {
            let mut best: f64 = 0.0;
            for (column, _) in problem.rates(row).iter().enumerate().filter(|(_, rate)| **rate > 0.0) {
                let load = problem.sizes()[row] * problem.counts()[row] / problem.capacities()[column];
                best = best.max(worth(row, column) - load * prices[column]);
            }
            bound += best;
        }
        bound
    }
}

/// The highest level at which every row has `slope·level`.
pub(super) fn highest_level(problem: &Problem, slope: &[f64]) -> Result<Found, SolveError> {
    // In units of what the worst-off row could have alone, the level is a number between 0 and 1.
    let cap = (0..problem.rows())
        .filter(|&row| slope[row] > 0.0)
        .map(|row| problem.best_rate(row) / slope[row])
        .fold(f64::INFINITY, f64::min);
    let units: Vec<f64> = slope.iter().map(|slope| slope * cap).collect();
    let mut program = Program::new(problem, |_, _| 0.0);
    let level = program.linear.add_variable(1.0);
    let rates = program.add_rates(problem, &units, Some(level), &vec![0.0; problem.rows()]);
    let solution = program.solve()?;
    let mut worths: Vec<f64> = rates.iter().map(|rate| rate.map_or(0.0, |rate| (-solution.duals[rate]).max(0.0))).collect();
    let sum: f64 = worths.iter().sum();
    for worth in &mut worths {
        *worth /= if sum > 0.0 { sum } else { 1.0 };
    }
    let bound = if sum > 0.0 {
        program.bound(problem, &solution, |row, column| {
            if units[row] > 0.0 { worths[row] * problem.rates(row)[column] / units[row] } else { 0.0 }
        })
    } else {
        1.0
    };
    let shares = program.shares(problem, &solution);
    let reached = (0..problem.rows())
        .filter(|&row| slope[row] > 0.0)
        .map(|row| problem.row_rate(row, &shares) / slope[row])
        .fold(f64::INFINITY, f64::min);
    Ok(Found {
        shares: Shares::Known(shares),
        level: reached,
        upper_bound: cap * bound.min(1.0),
        final_already: false,
        solver: "clarabel",
    })
}

/// A sum maximised under floors.
pub(super) struct Greatest {
    pub shares: Vec<f64>,
    pub value: f64,
    pub upper_bound: f64,
}

/// The greatest sum of `factors[column]·rate` with every row at or above its floor.
pub(super) fn greatest_sum(problem: &Problem, factors: &[f64], floors: &[f64]) -> Result<Greatest, SolveError> {
    let largest = (0..problem.rows())
        .flat_map(|row| problem.rates(row).iter().zip(factors).map(|(rate, factor)| rate * factor))
        .fold(f64::MIN_POSITIVE, f64::max);
    let gain = |row: usize, column: usize| problem.counts()[row] * problem.rates(row)[column] * factors[column] / largest;
    let mut program = Program::new(problem, gain);
    let rates = program.add_rates(problem, floors, None, &vec![1.0; problem.rows()]);
    let solution = program.solve()?;
    let worth = |row: usize| rates[row].map_or(0.0, |rate| (-solution.duals[rate]).max(0.0));
    let kept: f64 = (0..problem.rows()).map(worth).sum();
    let bound = program.bound(problem, &solution, |row, column| {
        let floor = if floors[row] > 0.0 { worth(row) * problem.rates(row)[column] / floors[row] } else { 0.0 };
        gain(row, column) + floor
    });
    let shares = program.shares(problem, &solution);
    let columns = problem.columns();
    let value: f64 = shares.iter().enumerate().map(|(cell, share)| share * gain(cell / columns, cell % columns)).sum();
    Ok(Greatest { shares, value: value * largest, upper_bound: (bound - kept).max(value) * largest })
}
