//! Water filling: levels rise together, rows that cannot rise further keep what they have, and the others rise on.
//!
//! One stage is a level search in which a row at its own best rate simply stays there. The prices that end the stage name the rows that
//! no allocation could raise: those for which more rate would cost something. Each stage closes at least one more pool, so there are
//! about as many stages as pools, however many rows there are. Levels are lowered by some 1e-11 when they are frozen, so that the
//! next stage starts from what certainly fits.

use crate::error::{SolveError, check_length, check_non_negative};
use crate::price::{LevelSolution, Method, Options, maximise_level};
use crate::problem::Problem;
use crate::requirement::{Ceiling, Requirement};

/// What is given up of a frozen level, relatively.
const SLACK: f64 = 1e-11;

/// The outcome of a filling.
#[derive(Debug, Clone, PartialEq)]
pub struct WaterSolution {
    /// Fractions of time, rows × pools.
    pub shares: Vec<f64>,
    /// The rate guaranteed to each row.
    pub levels: Vec<f64>,
    /// Stages it took.
    pub stages: usize,
    /// The largest relative gap of any stage.
    pub gap: f64,
    /// No allocation brings the first stage's level above this.
    pub first_bound: f64,
    /// The slowest method that a stage needed.
    pub method: Method,
}

/// Fills with fixed weights: row `i` rises by `weights[i]` per unit of level.
pub fn water_filling(problem: &Problem, weights: &[f64], options: &Options) -> Result<WaterSolution, SolveError> {
    water_filling_with(problem, options, |_, _| weights.to_vec())
}

/// Fills with weights that are asked for before each stage, given the levels so far and which rows are final.
/// A weight of zero holds a row for the stage; final rows are held whatever their weight.
pub fn water_filling_with(
    problem: &Problem,
    options: &Options,
    mut weights: impl FnMut(&[f64], &[bool]) -> Vec<f64>,
) -> Result<WaterSolution, SolveError> {
    let rows = problem.rows();
    let mut levels = vec![0.0; rows];
    let mut finals: Vec<bool> = (0..rows).map(|row| problem.best_rate(row) <= 0.0).collect();
    let mut solution = WaterSolution {
        shares: vec![0.0; rows * problem.columns()],
        levels: Vec::new(),
        stages: 0,
        gap: 0.0,
        first_bound: f64::INFINITY,
        method: options.first,
    };
    // Each stage makes a row final, so this bound only matters if rounding hides it.
    while solution.stages < rows {
        let mut slopes = weights(&levels, &finals);
        check_length("weights", slopes.len(), rows)?;
        check_non_negative("weights", &slopes)?;
        for (slope, &done) in slopes.iter_mut().zip(&finals) {
            *slope = if done { 0.0 } else { *slope };
        }
        if slopes.iter().all(|&slope| slope <= 0.0) {
            break;
        }
        let (requirement, stage) = next_stage(problem, &mut levels, &slopes, options)?;
        solution.stages += 1;
        if solution.stages == 1 {
            solution.first_bound = stage.upper_bound;
        }
        solution.method = solution.method.max(stage.method);
        solution.gap = solution.gap.max(stage.gap);
        // The backend's prices carry noise that would close rows by mistake: who is final is decided by exact ones.
        let exact = match stage.method {
            Method::Backend => {
                maximise_level(problem, &requirement, &Options { first: Method::Prices, ..options.clone() }, None).ok()
            }
            _ => None,
        };
        let decisive = exact.as_ref().unwrap_or(&stage);
        let closed = decisive.closed_rows(problem, &requirement);
        let mut grew = false;
        for row in 0..rows {
            let best = problem.best_rate(row);
            let (need, _) = requirement.at(row, stage.level);
            // Never more than the shares at hand really give: the next stage must be able to start from them.
            levels[row] = need.min(best).min(problem.row_rate(row, &stage.shares)) * (1.0 - SLACK);
            // A row that was held this time and could not rise at these prices cannot later either: nobody ever gives anything back.
            if !finals[row] && (closed[row] || need >= best * (1.0 - 1e-9)) {
                finals[row] = true;
                grew = true;
            }
        }
        solution.shares = stage.shares;
        if !grew {
            break;
        }
    }
    solution.levels = levels;
    Ok(solution)
}

/// One stage. Where rates nearly tie, rounding alone may make the levels seem out of reach: then a little more of them is given up.
fn next_stage(
    problem: &Problem,
    levels: &mut [f64],
    slopes: &[f64],
    options: &Options,
) -> Result<(Requirement, LevelSolution), SolveError> {
    for slack in [1e-9, 1e-7] {
        let requirement = Requirement::general(levels, slopes, &[], Ceiling::OwnBest)?;
        match maximise_level(problem, &requirement, options, None) {
            Err(SolveError::Infeasible) => levels.iter_mut().for_each(|level| *level *= 1.0 - slack),
            other => return Ok((requirement, other?)),
        }
    }
    let requirement = Requirement::general(levels, slopes, &[], Ceiling::OwnBest)?;
    let stage = maximise_level(problem, &requirement, options, None)?;
    Ok((requirement, stage))
}
