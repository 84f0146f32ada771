//! The greatest product of rates (Nash welfare): every row's rate counts by its logarithm, so that every row gets something.
//!
//! Solved with exponential cones. The bound does not rest on that: the logarithm lies below its tangents, so the greatest sum of rates,
//! each over the rate found, bounds how much more any allocation could have, and that sum has a bound of its own.

use crate::error::{SolveError, check_length, check_positive};
use crate::max_sum::{SumGoal, max_sum_with_floors};
use crate::price::{Identical, Options};
use crate::problem::Problem;
use clarabel::algebra::CscMatrix;
use clarabel::solver::{DefaultSettings, DefaultSolver, IPSolver, SolverStatus, SupportedConeT};

/// A certified allocation of greatest product.
#[derive(Debug, Clone, PartialEq)]
pub struct NashSolution {
    /// Fractions of time, rows × pools.
    pub shares: Vec<f64>,
    /// Each row's rate over its unit.
    pub rates: Vec<f64>,
    /// The geometric mean of those over all agents.
    pub mean: f64,
    /// No allocation has a greater one.
    pub upper_bound: f64,
}

/// Maximises the geometric mean of `rate/unit` over agents.
pub fn greatest_product(problem: &Problem, units: &[f64], seconds: f64) -> Result<NashSolution, SolveError> {
    check_length("units", units.len(), problem.rows())?;
    check_positive("units", units)?;
    if let Some(row) = (0..problem.rows()).find(|&row| problem.best_rate(row) <= 0.0) {
        return Err(SolveError::HopelessRow(row));
    }
    let shares = fitted(problem, &cone_program(problem, seconds)?);
    let own: Vec<f64> = (0..problem.rows()).map(|row| problem.row_rate(row, &shares)).collect();
    if let Some(row) = own.iter().position(|&rate| rate <= 0.0) {
        return Err(SolveError::HopelessRow(row));
    }
    let weights: Vec<f64> = own.iter().map(|rate| rate.recip()).collect();
    let zeros = vec![0.0; problem.rows()];
    let goal = SumGoal { weights: &weights, factors: &vec![1.0; problem.columns()], floors: &zeros, near: None };
    let options = Options { tolerance: 1e-6, identical: Identical::Keep, ..Options::default() };
    let most = max_sum_with_floors(problem, &goal, &options)?.upper_bound;
    let agents: f64 = problem.counts().iter().sum();
    let rates: Vec<f64> = own.iter().zip(units).map(|(rate, unit)| rate / unit).collect();
    let logarithms: f64 = rates.iter().zip(problem.counts()).map(|(rate, count)| count * rate.ln()).sum();
    let mean = (logarithms / agents).exp();
    let upper_bound = ((logarithms + (most - agents).max(0.0)) / agents).exp();
    Ok(NashSolution { shares, rates, mean, upper_bound })
}

/// Shares that may exceed rows and pools by the method's tolerance. Rates count in units of each row's best.
fn cone_program(problem: &Problem, seconds: f64) -> Result<Vec<f64>, SolveError> {
    let (rows, columns) = (problem.rows(), problem.columns());
    let cells: Vec<(usize, usize)> = (0..rows)
        .flat_map(|row| (0..columns).map(move |column| (row, column)))
        .filter(|&(row, column)| problem.rates(row)[column] > 0.0)
        .collect();
    // Variables: a share per cell, then a logarithm per row.
    let mut entries: (Vec<usize>, Vec<usize>, Vec<f64>) = (Vec::new(), Vec::new(), Vec::new());
    let mut put = |line: usize, variable: usize, value: f64| {
        entries.0.push(line);
        entries.1.push(variable);
        entries.2.push(value);
    };
    let (times, pools, signs) = (0, rows, rows + columns);
    let cones_start = signs + cells.len();
    for (variable, &(row, column)) in cells.iter().enumerate() {
        put(times + row, variable, 1.0);
        put(pools + column, variable, problem.sizes()[row] * problem.counts()[row] / problem.capacities()[column]);
        put(signs + variable, variable, -1.0);
        put(cones_start + 3 * row + 2, variable, -problem.rates(row)[column] / problem.best_rate(row));
    }
    for row in 0..rows {
        put(cones_start + 3 * row, cells.len() + row, -1.0);
    }
    let mut bounds = vec![1.0; signs];
    bounds.resize(cones_start, 0.0);
    for _ in 0..rows {
        bounds.extend([0.0, 1.0, 0.0]);
    }
    let mut cones = vec![SupportedConeT::NonnegativeConeT(cones_start)];
    cones.extend((0..rows).map(|_| SupportedConeT::ExponentialConeT()));
    let variables = cells.len() + rows;
    let agents: f64 = problem.counts().iter().sum();
    let mut costs = vec![0.0; cells.len()];
    costs.extend(problem.counts().iter().map(|count| -count / agents));
    let matrix = CscMatrix::new_from_triplets(bounds.len(), variables, entries.0, entries.1, entries.2);
    let settings = DefaultSettings {
        verbose: false,
        time_limit: seconds.max(f64::MIN_POSITIVE),
        max_iter: 200,
        ..DefaultSettings::default()
    };
    let quadratic = CscMatrix::zeros((variables, variables));
    let mut solver = DefaultSolver::new(&quadratic, &costs, &matrix, &bounds, &cones, settings)
        .map_err(|error| SolveError::Backend(error.to_string()))?;
    solver.solve();
    if !matches!(solver.solution.status, SolverStatus::Solved | SolverStatus::AlmostSolved | SolverStatus::InsufficientProgress) {
        return Err(SolveError::Backend(solver.solution.status.to_string()));
    }
    let mut shares = vec![0.0; rows * columns];
    for (&(row, column), &value) in cells.iter().zip(&solver.solution.x) {
        shares[row * columns + column] = value.max(0.0);
    }
    Ok(shares)
}

/// Scaled down where a row or a pool is exceeded.
fn fitted(problem: &Problem, shares: &[f64]) -> Vec<f64> {
    let scale = 1.0 + problem.violation(shares).max(0.0);
    shares.iter().map(|share| share / scale).collect()
}
