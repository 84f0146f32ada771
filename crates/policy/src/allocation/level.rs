//! The step that max-min, finish-time fairness and makespan share: the highest common level, then as much as possible on top of it.

use super::Solver;
use super::interior;
use super::rows::Rows;
use rota_solver::SolveError;
use rota_solver::max_sum::{SumGoal, max_sum_with_floors};
use rota_solver::price::{Identical, Method, Options, Reached, Warm, maximise_level, reach_level};
use rota_solver::requirement::Requirement;
use rota_solver::top_up::top_up;
use serde::{Deserialize, Serialize};

/// Given up of every floor in the second pass, relatively, so that rounding cannot make the floors infeasible.
const FLOOR_SLACK: f64 = 1e-7;

/// Rows for which the second pass may try a slower method.
const FEW_ROWS: usize = 4096;

/// Gap at which a slower method is tried.
const TOLERANCE: f64 = 1e-6;

impl Solver {
    /// What merged rows are solved with.
    pub(super) fn options(self) -> Options {
        let first = match self {
            Solver::Price => Method::Prices,
            Solver::Interior => Method::Backend,
        };
        Options { tolerance: TOLERANCE, backend_seconds: 600.0, first, last: Method::Backend, identical: Identical::Keep }
    }

    /// Whether identical claims become one row.
    pub(super) fn identical(self) -> Identical {
        match self {
            Solver::Price => Identical::Merge,
            Solver::Interior => Identical::Keep,
        }
    }
}

/// The word for a method.
pub(super) fn method_name(method: Method) -> &'static str {
    match method {
        Method::Prices => "price",
        Method::PlainCuts => "price-plain",
        Method::Backend => "clarabel",
    }
}

/// What the last allocation leaves for the next one, which is nearly the same.
#[derive(Default, Clone, Serialize, Deserialize)]
pub(super) struct Before {
    /// Of the level.
    level: Option<Warm>,
    /// Prices of the sum on top of it.
    sum: Option<Vec<f64>>,
}

/// Shares at the highest level.
pub(super) struct Levelled {
    /// What each claim gets, claims × types.
    pub shares: Vec<f64>,
    /// The level these shares give the worst-off claim.
    pub level: f64,
    /// No allocation gives a higher one.
    pub upper_bound: f64,
    pub solver: &'static str,
}

/// Raises the common level as far as it goes and then, with prices, maximises the sum of rates over fair rates with that level as floor.
pub(super) fn level_then_sum(
    rows: &Rows,
    requirement: &Requirement,
    solver: Solver,
    before: &mut Before,
) -> Result<Levelled, SolveError> {
    let warm = &mut before.level;
    let mut found = match first_pass(rows, requirement, solver, warm) {
        // An interior point that does not come to an end says nothing about the prices.
        Err(SolveError::Backend(_)) if solver == Solver::Interior => first_pass(rows, requirement, Solver::Price, warm)?,
        outcome => outcome?,
    };
    // Where requirements differ by orders of magnitude, an interior point may end too far from the optimum. It says so itself.
    if solver == Solver::Interior
        && found.upper_bound - found.level > TOLERANCE * found.upper_bound
        && let Ok(nearer) = first_pass(rows, requirement, Solver::Price, warm)
        && nearer.level > found.level
    {
        found = nearer;
    }
    let floor = |row: usize| (requirement.at(row, found.level).0 * (1.0 - FLOOR_SLACK)).min(rows.problem.best_rate(row));
    let floors: Vec<f64> = (0..rows.problem.rows()).map(floor).collect();
    // Where nobody can have more than its level, there is nothing left to maximise.
    let second = match solver {
        Solver::Price if !found.final_already => match found.shares.topped_up(rows, requirement) {
            Some(shares) => Some(shares),
            None => second_pass(rows, &floors, &mut before.sum)?,
        },
        _ => None,
    };
    let shares = rows.expand(second.unwrap_or_else(|| found.shares.of(rows, requirement)), &floors);
    let mut level = f64::INFINITY;
    rows.each_rate(&shares, |row, rate| level = level.min(requirement.level_of(row, rate)));
    let level = if level.is_finite() { level } else { 0.0 };
    Ok(Levelled { shares, level, upper_bound: found.upper_bound.max(level), solver: found.solver })
}

/// The highest common level, by one solver.
fn first_pass(rows: &Rows, requirement: &Requirement, solver: Solver, warm: &mut Option<Warm>) -> Result<Found, SolveError> {
    if requirement.slopes().is_empty() {
        // Nobody asks for a level: only the sum counts.
        return Ok(Found { shares: Shares::None, level: 0.0, upper_bound: 0.0, final_already: false, solver: "none" });
    }
    if solver == Solver::Interior && requirement.is_straight() {
        return interior::highest_level(&rows.problem, requirement.slopes());
    }
    let usable = warm.as_ref().filter(|warm| warm.prices.len() == rows.problem.columns());
    let reached = if solver == Solver::Price { reach_level(&rows.problem, requirement, usable)? } else { None };
    let (solution, shares) = if let Some(reached) = reached {
        (reached.solution.clone(), Shares::Later(Box::new(reached)))
    } else {
        let mut solution = maximise_level(&rows.problem, requirement, &solver.options(), usable)?;
        let shares = std::mem::take(&mut solution.shares);
        (solution, Shares::Known(shares))
    };
    *warm = Some(solution.warm());
    Ok(Found {
        final_already: solution.closed_rows(&rows.problem, requirement).iter().all(|closed| *closed),
        level: solution.level,
        upper_bound: solution.upper_bound,
        solver: method_name(solution.method),
        shares,
    })
}

/// The shares of the first pass, which the second one mostly replaces.
pub(super) enum Shares {
    /// Nobody gets anything.
    None,
    Known(Vec<f64>),
    /// Not worked out yet.
    Later(Box<Reached>),
}

impl Shares {
    /// For many rows: these shares and on top of them whatever is free.
    fn topped_up(&self, rows: &Rows, requirement: &Requirement) -> Option<Vec<f64>> {
        match self {
            Shares::Later(reached) if rows.problem.rows() > FEW_ROWS => {
                top_up(&rows.problem, requirement, reached, &gains(rows), &sum_options(rows))
            }
            _ => None,
        }
    }

    /// Rows × types.
    fn of(self, rows: &Rows, requirement: &Requirement) -> Vec<f64> {
        match self {
            Shares::None => vec![0.0; rows.problem.rows() * rows.problem.columns()],
            Shares::Known(shares) => shares,
            Shares::Later(reached) => reached.shares(&rows.problem, requirement),
        }
    }
}

/// The outcome of the first pass, rows × types.
pub(super) struct Found {
    pub shares: Shares,
    pub level: f64,
    pub upper_bound: f64,
    /// Whether it is proven that no row can have more without another falling below the level.
    pub final_already: bool,
    pub solver: &'static str,
}

/// What a unit of rate is worth in the second pass: the sum is of rates over fair rates.
fn gains(rows: &Rows) -> Vec<f64> {
    rows.fair.iter().map(|fair| fair.recip()).collect()
}

/// The sum need not be exact, the floors must be kept. Only where rows are few is it worth another method's time.
fn sum_options(rows: &Rows) -> Options {
    let last = if rows.problem.rows() <= FEW_ROWS { Method::PlainCuts } else { Method::Prices };
    Options { tolerance: 1e-3, last, ..Solver::Price.options() }
}

/// The greatest sum of rates over fair rates that keeps the floors; none if it cannot be had, and then the first pass must do.
fn second_pass(rows: &Rows, floors: &[f64], before: &mut Option<Vec<f64>>) -> Result<Option<Vec<f64>>, SolveError> {
    let near = before.take().filter(|prices| prices.len() == rows.problem.columns());
    let goal = SumGoal { weights: &gains(rows), factors: &vec![1.0; rows.problem.columns()], floors, near: near.as_deref() };
    match max_sum_with_floors(&rows.problem, &goal, &sum_options(rows)) {
        Ok(solution) if solution.shortfall <= FLOOR_SLACK => {
            *before = Some(solution.prices);
            Ok(Some(solution.shares))
        }
        Ok(_) | Err(SolveError::Infeasible | SolveError::Backend(_)) => Ok(None),
        Err(other) => Err(other),
    }
}
