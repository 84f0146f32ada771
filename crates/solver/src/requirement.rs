//! What each row asks for at a common level: one formula for every max-min-like objective.
//!
//! Row `i` asks for the rate `base + slope·level / (1 − bend·level)`, which never falls as the level rises and is convex in it.
//! With the base and bend at zero this is weighted max-min, and the makespan (level = 1/time); with a base it is water filling over
//! levels already reached; with a bend it is finish-time fairness (level = 1/ρ, slope = remaining/E, bend = elapsed/E).

#![expect(
    clippy::inline_always,
    reason = "the pass over rows is the whole cost, and is only quick as one loop of constant width"
)]

use crate::error::{SolveError, check_length, check_non_negative};
use crate::problem::Problem;

/// How near its own best rate, relatively, a row that is to be there must come to count as there. Interior points come to some 1e-8.
const NEAR_BEST: f64 = 1e-6;

/// What ends the rise of the level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ceiling {
    /// The first row that is at its best rate: the level is common to all.
    Common,
    /// Nothing but the pools: a row at its best rate stays there while the others rise on.
    OwnBest,
}

/// The requirement of every row as a function of the level. Empty lists stand for zeros.
#[derive(Debug, Clone, PartialEq)]
pub struct Requirement {
    pub(crate) base: Vec<f64>,
    pub(crate) slope: Vec<f64>,
    pub(crate) bend: Vec<f64>,
    pub(crate) ceiling: Ceiling,
}

impl Requirement {
    /// Row `i` gets at least `weights[i]` times the level.
    pub fn max_min(weights: Vec<f64>) -> Result<Self, SolveError> {
        Self::general(Vec::new(), weights, Vec::new(), Ceiling::Common)
    }

    /// Row `i` gets at least `floors[i]`, whatever the level.
    pub fn floors(floors: Vec<f64>) -> Result<Self, SolveError> {
        Self::general(floors, Vec::new(), Vec::new(), Ceiling::Common)
    }

    /// Row `i` finishes `work[i]` within 1/level.
    pub fn makespan(work: Vec<f64>) -> Result<Self, SolveError> {
        Self::max_min(work)
    }

    /// `(elapsed + remaining/rate) / expected ≤ 1/level` for every row.
    pub fn finish_time(remaining: &[f64], elapsed: &[f64], expected: &[f64]) -> Result<Self, SolveError> {
        check_length("elapsed", elapsed.len(), remaining.len())?;
        check_length("expected", expected.len(), remaining.len())?;
        crate::error::check_positive("expected", expected)?;
        let over = |list: &[f64]| list.iter().zip(expected).map(|(number, expected)| number / expected).collect::<Vec<f64>>();
        Self::general(Vec::new(), over(remaining), over(elapsed), Ceiling::Common)
    }

    /// The formula itself; lists may be empty.
    pub fn general(base: Vec<f64>, slope: Vec<f64>, bend: Vec<f64>, ceiling: Ceiling) -> Result<Self, SolveError> {
        let rows = base.len().max(slope.len()).max(bend.len());
        for (what, list) in [("requirement base", &base), ("requirement slope", &slope), ("requirement bend", &bend)] {
            check_non_negative(what, list)?;
            if !list.is_empty() {
                check_length(what, list.len(), rows)?;
            }
        }
        // All-zero lists are dropped: passes over many rows then read less memory.
        let keep = |list: Vec<f64>| if list.iter().any(|&number| number > 0.0) { list } else { Vec::new() };
        Ok(Self { base: keep(base), slope: keep(slope), bend: keep(bend), ceiling })
    }

    /// The slopes of all rows; empty if no row asks for more as the level rises.
    pub fn slopes(&self) -> &[f64] {
        &self.slope
    }

    /// Whether all requirements are lines in the level.
    pub fn is_straight(&self) -> bool {
        self.bend.is_empty()
    }

    /// How fast a row's requirement rises with the level, but for its bend.
    #[inline(always)]
    fn slope(&self, row: usize) -> f64 {
        if self.slope.is_empty() { 0.0 } else { self.slope[row] }
    }

    /// The rate row `row` asks for, and its derivative in the level.
    #[inline(always)]
    pub fn at(&self, row: usize, level: f64) -> (f64, f64) {
        let base = if self.base.is_empty() { 0.0 } else { self.base[row] };
        let slope = self.slope(row);
        if self.bend.is_empty() {
            return (base + slope * level, slope);
        }
        let room = 1.0 - self.bend[row] * level;
        if room <= 0.0 || slope == 0.0 {
            return if slope == 0.0 { (base, 0.0) } else { (f64::INFINITY, 0.0) };
        }
        (base + slope * level / room, slope / (room * room))
    }

    /// The highest level at which a rate satisfies a row; infinite for a row that asks for nothing more.
    pub fn level_of(&self, row: usize, rate: f64) -> f64 {
        let above = rate - if self.base.is_empty() { 0.0 } else { self.base[row] };
        let bend = if self.bend.is_empty() { 0.0 } else { self.bend[row] };
        let slope = self.slope(row);
        if slope <= 0.0 { f64::INFINITY } else { above / (slope + bend * above) }
    }

    /// The level that shares realise, if none above `upper` can be had: the lowest over the rows that ask for any. Two kinds of rows say
    /// nothing of how far the others rose: those that only keep their base, and those that `upper` wants at their own best, where they may
    /// stay. What such a row misses of that is taken off the level, in proportion, and not read as a level of its own: a row that stopped
    /// rising early and lost its last digits when the shares were scaled to fit would otherwise pull the level down to where it stopped.
    pub(crate) fn realised(&self, problem: &Problem, shares: &[f64], upper: f64) -> f64 {
        let stops_at_best = self.ceiling == Ceiling::OwnBest;
        let (mut level, mut kept) = (if stops_at_best { upper } else { f64::INFINITY }, 1.0_f64);
        for row in 0..problem.rows() {
            let rate = problem.row_rate(row, shares);
            let need = self.at(row, upper).0.min(if stops_at_best { problem.best_rate(row) } else { f64::INFINITY });
            let stopped = || {
                let best = problem.best_rate(row);
                need >= best * (1.0 - 1e-9) && rate >= best * (1.0 - NEAR_BEST)
            };
            if self.slope(row) > 0.0 && !(stops_at_best && stopped()) {
                level = level.min(self.level_of(row, rate));
            } else if rate < need {
                kept = kept.min(rate / need);
            }
        }
        level * kept
    }

    /// The level no allocation can exceed, seen from each row alone.
    pub(crate) fn cap(&self, problem: &Problem) -> Result<f64, SolveError> {
        for list in [&self.base, &self.slope, &self.bend].into_iter().filter(|list| !list.is_empty()) {
            check_length("requirement", list.len(), problem.rows())?;
        }
        let (mut lowest, mut highest) = (f64::INFINITY, 0.0_f64);
        for row in 0..problem.rows() {
            let best = problem.best_rate(row);
            let base = if self.base.is_empty() { 0.0 } else { self.base[row] };
            if base > best {
                return Err(SolveError::Infeasible);
            }
            if self.slope(row) > 0.0 {
                if best <= 0.0 {
                    return Err(SolveError::HopelessRow(row));
                }
                let own = self.level_of(row, best);
                lowest = lowest.min(own);
                highest = highest.max(own);
            }
        }
        if lowest == f64::INFINITY {
            return Err(SolveError::Empty("row with a positive requirement slope"));
        }
        Ok(if self.ceiling == Ceiling::Common { lowest } else { highest })
    }
}

impl Requirement {
    /// The requirement of some rows alone.
    pub(crate) fn sampled(&self, rows: &[u32]) -> Self {
        let pick = |list: &[f64]| if list.is_empty() { Vec::new() } else { rows.iter().map(|&row| list[row as usize]).collect() };
        Self { base: pick(&self.base), slope: pick(&self.slope), bend: pick(&self.bend), ceiling: self.ceiling }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two rows with pools of their own: the first is at its best, 1, from level 1 on, the second rises to 10.
    fn realised(first: f64, second: f64) -> f64 {
        let problem = Problem::new(&[1.0, 1.0], &[1.0, 1.0], &[1.0, 0.0, 0.0, 20.0]).unwrap();
        let requirement = Requirement::general(Vec::new(), vec![1.0, 1.0], Vec::new(), Ceiling::OwnBest).unwrap();
        requirement.realised(&problem, &[first, 0.0, 0.0, second], 10.0)
    }

    #[test]
    fn a_row_just_below_its_best_does_not_hold_the_others() {
        for short in [0.0, 1e-12, 1e-9, 2e-8, 5e-7] {
            let level = realised(1.0 - short, 0.5);
            assert!((level / 10.0 - (1.0 - short)).abs() < 1e-12, "{short:e} short: {level}");
        }
    }

    #[test]
    fn rows_that_really_miss_the_level_lower_it() {
        assert!((realised(0.9, 0.5) - 0.9).abs() < 1e-12);
        assert!((realised(1.0, 0.4) - 8.0).abs() < 1e-12);
    }
}
