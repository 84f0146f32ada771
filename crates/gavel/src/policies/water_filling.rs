//! Water filling: max-min fairness again and again. Jobs that cannot rise any more are held at their level.

use super::program::{Ending, Program, speed_terms};
use super::shares::{isolated, proportional_row, speed_with};
use super::{GavelPolicy, Shares, View};
use crate::GavelError;
use crate::name::Awareness;
use microlp::{ComparisonOp, OptimizationDirection, Problem, SolveOptions, SolveOutcome};

/// A job can rise if it can have this much more than its level.
const RISE: f64 = 1.0001;
/// And one that does not rise stays this much below that.
const RISE_MARGIN: f64 = 1e-5;
/// Levels come from an inexact solver: by so much they may be missed.
const LEVEL_SLACK: f64 = 1e-7;
/// More branches than this are not tried; what was found by then counts.
const BRANCHES_MAX: u64 = 2000;

/// The policy, which remembers nothing but its last objective.
pub(crate) struct WaterFilling {
    awareness: Awareness,
    objective: Option<f64>,
}

/// The levels reached so far.
struct Water {
    /// What each share adds to the standing of each job.
    terms: Vec<Vec<(usize, f64)>>,
    /// What a unit of standing counts, for gangs and weights.
    factors: Vec<f64>,
    /// More than any standing.
    ceiling: f64,
    levels: Vec<f64>,
    is_final: Vec<bool>,
}

impl WaterFilling {
    pub fn new(awareness: Awareness) -> Self {
        Self { awareness, objective: None }
    }

    fn begin(&self, view: &View<'_>) -> Water {
        let is_agnostic = self.awareness == Awareness::Agnostic;
        let even = proportional_row(view.counts, view.jobs.len());
        let ones = vec![1.0; view.types()];
        let mut terms = speed_terms(view);
        let mut ceiling = 0.0_f64;
        for (job, terms) in view.jobs.iter().zip(&mut terms) {
            let speeds = if is_agnostic { &ones } else { job.speeds };
            let scale = 1.0 / speed_with(speeds, &even);
            for (_, value) in terms.iter_mut() {
                *value = if is_agnostic { scale } else { *value * scale };
            }
            ceiling = speeds.iter().map(|speed| speed * f64::from(job.gpus) * scale).fold(ceiling, f64::max);
        }
        let factors = view.jobs.iter().map(|job| 1.0 / job.weight * f64::from(job.gpus)).collect();
        Water { terms, factors, ceiling, levels: vec![0.0; view.jobs.len()], is_final: vec![false; view.jobs.len()] }
    }
}

impl Water {
    /// Raises all that still rise by the same weighted amount, the largest there is. Returns it with the shares.
    fn rise(&mut self, view: &View<'_>) -> Option<(f64, Shares)> {
        let mut program = Program::new(view);
        let least = program.add_column(-1.0);
        for (job, terms) in self.terms.iter().enumerate() {
            program.at_most(terms.iter().map(|&(column, value)| (column, -value)), -self.levels[job]);
        }
        for (job, terms) in self.terms.iter().enumerate() {
            if self.is_final[job] {
                program.at_most([(least, 1.0)], self.ceiling);
                continue;
            }
            let factor = self.factors[job];
            let above = terms.iter().map(|&(column, value)| (column, -(value * factor)));
            program.at_most(std::iter::once((least, 1.0)).chain(above), -(self.levels[job] * factor));
        }
        let solved = program.solve();
        if solved.ending == Ending::Failed {
            return None;
        }
        let amount = -solved.cost;
        for (job, level) in self.levels.iter_mut().enumerate().filter(|&(job, _)| !self.is_final[job]) {
            *level += amount * (1.0 / self.factors[job]);
        }
        Some((amount, solved.shares(view)))
    }

    /// The largest set of jobs that can rise together while the others keep their levels.
    fn can_rise(&self, view: &View<'_>) -> Vec<bool> {
        let nobody = vec![false; self.levels.len()];
        // Where the level is too low for the margin to fit, staying is impossible: such a job must rise, or there is no answer.
        let cannot_stay = |job: usize| self.levels[job] * RISE - RISE_MARGIN < self.levels[job];
        if (0..self.levels.len()).any(|job| self.is_final[job] && cannot_stay(job)) {
            return nobody;
        }
        let mut problem = Problem::new(OptimizationDirection::Maximize);
        let shares = (0..view.rows() * view.types()).map(|_| problem.add_var(0.0, (0.0, 1.0))).collect::<Vec<_>>();
        for (kind, &count) in view.counts.iter().enumerate() {
            let used = (0..view.rows()).map(|row| (shares[view.column(row, kind)], view.row_gpus(row))).collect::<Vec<_>>();
            problem.add_constraint(used.as_slice(), ComparisonOp::Le, count);
        }
        for rows in view.rows_of_jobs() {
            let columns = rows.iter().flat_map(|&(row, _)| (0..view.types()).map(move |kind| view.column(row, kind)));
            let time = columns.map(|column| (shares[column], 1.0)).collect::<Vec<_>>();
            problem.add_constraint(time.as_slice(), ComparisonOp::Le, 1.0);
        }
        let mut rises = Vec::new();
        for (job, terms) in self.terms.iter().enumerate() {
            let level = self.levels[job];
            let mut standing = terms.iter().map(|&(column, value)| (shares[column], value)).collect::<Vec<_>>();
            let choice = match (self.is_final[job], cannot_stay(job)) {
                (true, _) => None,
                (false, true) => Some(problem.add_integer_var(1.0, (1, 1))),
                (false, false) => Some(problem.add_binary_var(1.0)),
            };
            standing.extend(choice.map(|choice| (choice, -(RISE - 1.0) * level)));
            problem.add_constraint(standing.as_slice(), ComparisonOp::Ge, level * (1.0 - LEVEL_SLACK));
            rises.push(choice);
        }
        let mut options = SolveOptions::default();
        options.node_limit = Some(BRANCHES_MAX);
        let Ok(SolveOutcome::Solution(solution)) = problem.solve_with(options) else { return nobody };
        rises.into_iter().map(|choice| choice.is_some_and(|choice| solution.var_value(choice) > 0.5)).collect()
    }
}

impl GavelPolicy for WaterFilling {
    fn allocate(&mut self, view: &View<'_>) -> Result<Shares, GavelError> {
        if view.jobs.is_empty() {
            return Ok(Shares::new());
        }
        let mut water = self.begin(view);
        let mut shares = isolated(view);
        while let Some((amount, risen)) = water.rise(view) {
            self.objective = Some(amount);
            shares = risen;
            let can_rise = water.can_rise(view);
            let mut grew = false;
            for (is_final, can_rise) in water.is_final.iter_mut().zip(can_rise) {
                if !*is_final && !can_rise {
                    *is_final = true;
                    grew = true;
                }
            }
            if !grew || water.is_final.iter().all(|&is_final| is_final) {
                break;
            }
        }
        Ok(shares)
    }

    fn objective(&self) -> Option<f64> {
        self.objective
    }
}
