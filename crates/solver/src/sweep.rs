//! One pass over rows at given prices: the oracle of every price method here.
//!
//! Prices are per whole pool: a row of size `s` pays `s·price[j]/capacity[j]` for all its time on column `j`, less the gain of being
//! there. What a pass adds up is affine in the prices (`offset + prices·usage`) and never below the true minimum at other prices, so
//! each pass is a cut for all prices. Sums are taken in blocks: a million naive additions would cost three digits.

#![expect(
    clippy::inline_always,
    reason = "the pass over rows is the whole cost, and is only quick as one loop of constant width"
)]

use crate::envelope::{Choice, CostSign, IDLE, choose, settled};
use crate::problem::Problem;
use crate::requirement::Requirement;
use smallvec::{SmallVec, smallvec};

/// One number a pool, on the stack for as many pools as most problems have: small problems are solved many thousand times.
pub(crate) type PerPool = SmallVec<[f64; 8]>;

/// What rows are worth beside what they must reach: row `i` on column `j` gains `weights[i]·factors[j]·rate[i][j]`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Gain<'a> {
    pub weights: &'a [f64],
    /// One factor per column, padded to the row stride.
    pub factors: &'a [f64],
}

/// Everything a pass needs to know of the problem.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Oracle<'a> {
    pub problem: &'a Problem,
    pub requirement: &'a Requirement,
    pub gain: Option<Gain<'a>>,
    pub level: f64,
}

/// The rows of a pass.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Rows<'a> {
    All,
    Some(&'a [u32]),
}

/// The sum over rows of their choices.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Tally {
    /// The part of the cost that does not depend on prices: minus the gains.
    pub offset: f64,
    /// Load of each pool, 1 = full.
    pub usage: PerPool,
    /// How the load grows with the level.
    pub growth: PerPool,
}

impl Tally {
    pub fn new(columns: usize) -> Self {
        Self { offset: 0.0, usage: smallvec![0.0; columns], growth: smallvec![0.0; columns] }
    }

    /// The cost at prices.
    pub fn value(&self, prices: &[f64]) -> f64 {
        self.offset + dot(&self.usage, prices)
    }

    /// The derivative of the cost in the level at prices.
    pub fn value_growth(&self, prices: &[f64]) -> f64 {
        dot(&self.growth, prices)
    }

    pub fn add(&mut self, other: &Self, weight: f64) {
        self.offset += weight * other.offset;
        for (mine, theirs) in self.usage.iter_mut().zip(&other.usage) {
            *mine += weight * theirs;
        }
        for (mine, theirs) in self.growth.iter_mut().zip(&other.growth) {
            *mine += weight * theirs;
        }
    }
}

pub(crate) fn dot(left: &[f64], right: &[f64]) -> f64 {
    left.iter().zip(right).map(|(a, b)| a * b).sum()
}

/// One row as a pass sees it.
pub(crate) struct Seen<'a> {
    pub row: usize,
    pub rates: &'a [f64],
    pub costs: &'a [f64],
    pub choice: Choice,
    /// Derivative of the requirement in the level; zero where it does not bind.
    pub need_slope: f64,
}

/// Adds up choices in blocks.
struct Adder<'a> {
    oracle: &'a Oracle<'a>,
    block: Tally,
    total: Tally,
    pending: usize,
}

impl<'a> Adder<'a> {
    fn new(oracle: &'a Oracle<'a>) -> Self {
        let columns = oracle.problem.columns();
        Self { oracle, block: Tally::new(columns), total: Tally::new(columns), pending: 0 }
    }

    #[inline(always)]
    fn add(&mut self, seen: &Seen<'_>) {
        let problem = self.oracle.problem;
        let count = problem.counts()[seen.row];
        let load = count * problem.sizes()[seen.row];
        let growth = load * seen.choice.weight_slope * seen.need_slope;
        for ((column, time), sign) in seen.choice.parts().into_iter().zip([-1.0, 1.0]) {
            if column != IDLE {
                self.block.usage[column] += load * time;
                self.block.growth[column] += sign * growth;
                if let Some(gain) = &self.oracle.gain {
                    self.block.offset -= count * gain.weights[seen.row] * gain.factors[column] * seen.rates[column] * time;
                }
            }
        }
        self.pending += 1;
        if self.pending == 1024 {
            self.flush();
        }
    }

    fn flush(&mut self) {
        self.total.add(&self.block, 1.0);
        self.block.offset = 0.0;
        self.block.usage.fill(0.0);
        self.block.growth.fill(0.0);
        self.pending = 0;
    }

    fn finish(mut self) -> Tally {
        self.flush();
        for (column, &capacity) in self.oracle.problem.capacities().iter().enumerate() {
            let share = if capacity > 0.0 { capacity.recip() } else { 0.0 };
            self.total.usage[column] *= share;
            self.total.growth[column] *= share;
        }
        self.total
    }
}

impl Oracle<'_> {
    pub fn columns(&self) -> usize {
        self.problem.columns()
    }

    pub fn at_level(&self, level: f64) -> Self {
        Self { level, ..*self }
    }

    /// Adds up the rows' best choices.
    pub fn tally(&self, rows: Rows<'_>, prices: &[f64]) -> Tally {
        let mut adder = Adder::new(self);
        self.visit(rows, prices, |seen| adder.add(seen));
        adder.finish()
    }

    /// Adds up the rows whose choice cannot change while prices stay within `radius` of the given ones and the level within the
    /// fraction `level_slack` of its own, and lists the others. What the former use is then linear in the level, if the requirement is.
    pub fn classify(&self, rows: Rows<'_>, prices: &[f64], radius: &[f64], level_slack: f64) -> (Tally, Vec<u32>) {
        let mut adder = Adder::new(self);
        let mut open = Vec::new();
        let per_unit = self.per_unit(radius);
        let mut slack = per_unit.clone();
        let sign = if self.gain.is_some() { CostSign::Any } else { CostSign::NonNegative };
        self.visit(rows, prices, |seen| {
            let size = self.problem.sizes()[seen.row];
            for (slack, unit) in slack.iter_mut().zip(&per_unit) {
                *slack = size * unit;
            }
            let swing = level_slack * self.level * seen.need_slope * seen.choice.weight_slope;
            let stays = seen.choice.weight >= swing && seen.choice.weight + swing <= 1.0;
            if stays && settled(seen.rates, seen.costs, &slack, sign, &seen.choice) {
                adder.add(seen);
            } else {
                open.push(seen.row as u32);
            }
        });
        (adder.finish(), open)
    }

    /// Prices per unit of each pool, padded to the row stride.
    fn per_unit(&self, prices: &[f64]) -> PerPool {
        let (_, stride) = self.problem.padded_rates();
        let mut unit: PerPool = smallvec![0.0; stride];
        for ((unit, &price), &capacity) in unit.iter_mut().zip(prices).zip(self.problem.capacities()) {
            *unit = if capacity > 0.0 { price / capacity } else { 0.0 };
        }
        unit
    }

    /// Calls `see` for each row with its best choice, in order. The common widths are compiled with a constant length.
    pub fn visit(&self, rows: Rows<'_>, prices: &[f64], see: impl FnMut(&Seen<'_>)) {
        let unit = self.per_unit(prices);
        match unit.len() {
            1 => self.visit_width::<1>(rows, &unit, see),
            2 => self.visit_width::<2>(rows, &unit, see),
            3 => self.visit_width::<3>(rows, &unit, see),
            4 => self.visit_width::<4>(rows, &unit, see),
            5 => self.visit_width::<5>(rows, &unit, see),
            6 => self.visit_width::<6>(rows, &unit, see),
            7 => self.visit_width::<7>(rows, &unit, see),
            8 => self.visit_width::<8>(rows, &unit, see),
            12 => self.visit_width::<12>(rows, &unit, see),
            16 => self.visit_width::<16>(rows, &unit, see),
            width => {
                let mut costs = vec![0.0; width];
                let mut see = see;
                self.each(rows, |row, rates| self.see_row(row, rates, &unit, &mut costs, &mut see));
            }
        }
    }

    fn visit_width<const WIDTH: usize>(&self, rows: Rows<'_>, unit: &[f64], mut see: impl FnMut(&Seen<'_>)) {
        let mut fixed = [0.0; WIDTH];
        fixed.copy_from_slice(unit);
        let mut costs = [0.0; WIDTH];
        self.each(rows, |row, rates| {
            if let Ok(rates) = <&[f64; WIDTH]>::try_from(rates) {
                self.see_row(row, rates, &fixed, &mut costs, &mut see);
            }
        });
    }

    #[inline(always)]
    fn each(&self, rows: Rows<'_>, mut call: impl FnMut(usize, &[f64])) {
        let (rates, stride) = self.problem.padded_rates();
        match rows {
            Rows::All => rates.chunks_exact(stride).enumerate().for_each(|(row, rates)| call(row, rates)),
            Rows::Some(list) => {
                for &row in list {
                    let start = row as usize * stride;
                    call(row as usize, &rates[start..start + stride]);
                }
            }
        }
    }

    #[inline(always)]
    fn see_row(&self, row: usize, rates: &[f64], unit: &[f64], costs: &mut [f64], see: &mut impl FnMut(&Seen<'_>)) {
        let size = self.problem.sizes()[row];
        for index in 0..rates.len() {
            costs[index] = if rates[index] > 0.0 { size * unit[index] } else { f64::INFINITY };
        }
        if let Some(gain) = &self.gain {
            for index in 0..rates.len() {
                costs[index] -= gain.weights[row] * gain.factors[index] * rates[index];
            }
        }
        let (need, slope) = self.requirement.at(row, self.level);
        let choice = choose(rates, costs, need);
        let need_slope = if choice.weight >= 1.0 { self.slope_at_best(rates, need, slope) } else { slope };
        see(&Seen { row, rates, costs, choice, need_slope });
    }

    /// A row held at its own best rate asks for no more as the level rises; any other row keeps its slope.
    fn slope_at_best(&self, rates: &[f64], need: f64, slope: f64) -> f64 {
        let held = self.requirement.ceiling == crate::requirement::Ceiling::OwnBest && rates.iter().all(|&rate| rate <= need);
        if held { 0.0 } else { slope }
    }
}
