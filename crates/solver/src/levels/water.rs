//! Water filling: levels rise together, rows that cannot rise further keep what they have, and the others rise on.
//!
//! One stage is a level search in which a row at its own best rate simply stays there. The prices that end the stage name the rows that
//! no allocation could raise: those for which more rate would cost something. That proof is about the highest level there is, so a row
//! becomes final only if its shares bring it there; one that a method left below it rises on in the next stage. Each stage closes at
//! least one more pool, so there are about as many stages as pools, however many rows there are. Levels are lowered by some 1e-11 when
//! they are frozen, so that the next stage starts from what certainly fits.

use crate::error::{SolveError, check_length, check_non_negative};
use crate::price::{CLEAR_COST, LevelSolution, Method, Options, maximise_level};
use crate::problem::Problem;
use crate::requirement::{Ceiling, Requirement};

/// What is given up of a frozen level, relatively.
const SLACK: f64 = 1e-11;

/// Part of what the proof allows a row that may be missing when it becomes final.
const REACHED: f64 = 1e-7;

/// Consecutive stages that may leave no row final. After them some row becomes final below what it could have.
const PATIENCE: usize = 3;

/// The outcome of a filling.
#[derive(Debug, Clone, PartialEq)]
pub struct WaterSolution {
    /// Fractions of time, rows × pools.
    pub shares: Vec<f64>,
    /// The rate guaranteed to each row.
    pub levels: Vec<f64>,
    /// Stages it took.
    pub stages: usize,
    /// The largest part of what a stage's proof allows a row that its shares did not give it.
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
    let mut fruitless = 0;
    // Every run of fruitless stages ends with a row made final, so this bound is never met.
    while solution.stages < rows.saturating_mul(PATIENCE + 1) {
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
        let end = StageEnd::new(problem, &requirement, stage, options);
        solution.gap = solution.gap.max(end.missing);
        let mut closing = end.closing(problem, &finals, if fruitless < PATIENCE { REACHED } else { 1.0 });
        if closing.is_empty() && fruitless >= PATIENCE {
            closing = end.dearest(&slopes);
        }
        fruitless = if closing.is_empty() { fruitless + 1 } else { 0 };
        for row in closing {
            finals[row] = true;
        }
        (levels, solution.shares) = (end.levels, end.shares);
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
        let requirement = Requirement::general(levels.to_vec(), slopes.to_vec(), Vec::new(), Ceiling::OwnBest)?;
        match maximise_level(problem, &requirement, options, None) {
            Err(SolveError::Infeasible) => levels.iter_mut().for_each(|level| *level *= 1.0 - slack),
            other => return Ok((requirement, other?)),
        }
    }
    let requirement = Requirement::general(levels.to_vec(), slopes.to_vec(), Vec::new(), Ceiling::OwnBest)?;
    let stage = maximise_level(problem, &requirement, options, None)?;
    Ok((requirement, stage))
}

/// What a stage gave, beside what its proof allows.
struct StageEnd {
    shares: Vec<f64>,
    /// The rate that each row certainly has.
    levels: Vec<f64>,
    /// The rate above which no allocation can bring all rows together.
    allowed: Vec<f64>,
    /// What more rate would cost each row; see [`LevelSolution::costs_of_more`].
    costs_of_more: Vec<f64>,
    /// The largest part of what is allowed that a row lacks.
    missing: f64,
}

impl StageEnd {
    fn new(problem: &Problem, requirement: &Requirement, stage: LevelSolution, options: &Options) -> Self {
        // The backend's prices carry noise that would close rows by mistake: exact prices decide which rows are final.
        let exact = match stage.method {
            Method::Backend => {
                maximise_level(problem, requirement, &Options { first: Method::Prices, ..options.clone() }, None).ok()
            }
            _ => None,
        };
        let proof = exact.as_ref().unwrap_or(&stage);
        let costs_of_more = proof.costs_of_more(problem, requirement);
        let upper = proof.upper_bound;
        let allow = |row: usize| requirement.at(row, upper).0.min(problem.best_rate(row));
        let allowed: Vec<f64> = (0..problem.rows()).map(allow).collect();
        let (levels, missing) = levels_of(problem, requirement, &stage, &allowed);
        let mut end = Self { shares: Vec::new(), levels, allowed, costs_of_more, missing };
        // Shares that miss the level the proof speaks of are worth less than those it came with.
        if end.missing > REACHED
            && let Some(exact) = exact
        {
            let (levels, missing) = levels_of(problem, requirement, &exact, &end.allowed);
            if missing < end.missing {
                return Self { shares: exact.shares, levels, missing, ..end };
            }
        }
        end.shares = stage.shares;
        end
    }

    /// The rows that can rise no further, of which at most a part `missing` of what they are allowed is missing.
    fn closing(&self, problem: &Problem, finals: &[bool], missing: f64) -> Vec<usize> {
        // A row that was held this time and could not rise at these prices cannot later either: no row ever gives anything back.
        let stuck =
            |row: usize| self.costs_of_more[row] > CLEAR_COST || self.allowed[row] >= problem.best_rate(row) * (1.0 - 1e-9);
        let reached = |row: usize| self.levels[row] >= self.allowed[row] * (1.0 - missing);
        (0..finals.len()).filter(|&row| !finals[row] && stuck(row) && reached(row)).collect()
    }

    /// The rising rows for which more would cost most. Where rates nearly tie, what bounds the level may cost too little to tell from
    /// noise, and the others must not wait for it for ever.
    fn dearest(&self, slopes: &[f64]) -> Vec<usize> {
        let rising = || (0..slopes.len()).filter(|&row| slopes[row] > 0.0);
        let most = rising().map(|row| self.costs_of_more[row]).fold(0.0, f64::max);
        rising().filter(|&row| self.costs_of_more[row] >= 0.5 * most).collect()
    }
}

/// The rates that a solution gives the rows for certain, and the largest part of what is allowed that one of them lacks.
fn levels_of(problem: &Problem, requirement: &Requirement, solution: &LevelSolution, allowed: &[f64]) -> (Vec<f64>, f64) {
    let mut missing: f64 = 0.0;
    let level = |row: usize| {
        // Never more than the shares at hand really give: the next stage must be able to start from them.
        let need = requirement.at(row, solution.level).0.min(allowed[row]);
        let rate = need.min(problem.row_rate(row, &solution.shares));
        if allowed[row] > 0.0 {
            missing = missing.max(1.0 - rate / allowed[row]);
        }
        rate * (1.0 - SLACK)
    };
    let levels = (0..problem.rows()).map(level).collect();
    (levels, missing)
}
