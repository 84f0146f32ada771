//! One pass over rows at given prices: the oracle of every price method here.
//!
//! Prices are per whole pool: a row of size `s` pays `s·price[j]/capacity[j]` for all its time on column `j`, less the gain of being
//! there. What a pass adds up is affine in the prices (`offset + prices·usage`) and never below the true minimum at other prices, so
//! each pass is a cut for all prices. Sums are taken in blocks: a million naive additions would cost three digits.

#![expect(
    clippy::inline_always,
    reason = "the pass over rows is the whole cost, and is only quick as one loop of constant width"
)]

use crate::envelope::{Choice, CostSign, IDLE, choose_from, settled};
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

/// What looks at every row of a pass. A trait rather than a closure where it matters: closures are not always made part of the loop.
pub(crate) trait See {
    fn see(&mut self, seen: &Seen<'_>);
}

impl<F: FnMut(&Seen<'_>)> See for F {
    #[inline(always)]
    fn see(&mut self, seen: &Seen<'_>) {
        self(seen);
    }
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

impl See for Adder<'_> {
    #[inline(always)]
    fn see(&mut self, seen: &Seen<'_>) {
        self.add(seen);
    }
}

/// Adds up the rows whose choice cannot change, and lists the others.
struct Sorter<'a> {
    adder: Adder<'a>,
    open: Vec<u32>,
    /// How far costs may move, per unit of size.
    slack: PerPool,
    level_slack: f64,
    sign: CostSign,
}

impl See for Sorter<'_> {
    #[inline(always)]
    fn see(&mut self, seen: &Seen<'_>) {
        let oracle = self.adder.oracle;
        let size = oracle.problem.sizes()[seen.row];
        let swing = self.level_slack * oracle.level * seen.need_slope * seen.choice.weight_slope;
        let stays = seen.choice.weight >= swing && seen.choice.weight + swing <= 1.0;
        if stays && settled(seen.rates, seen.costs, &self.slack, size, self.sign, &seen.choice) {
            self.adder.add(seen);
        } else {
            self.open.push(seen.row as u32);
        }
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
        self.visit(rows, prices, &mut adder);
        adder.finish()
    }

    /// Adds up the rows whose choice cannot change while prices stay within `radius` of the given ones and the level within the
    /// fraction `level_slack` of its own, and lists the others. What the former use is then linear in the level, if the requirement is.
    pub fn classify(&self, rows: Rows<'_>, prices: &[f64], radius: &[f64], level_slack: f64) -> (Tally, Vec<u32>) {
        let sign = if self.gain.is_some() { CostSign::Any } else { CostSign::NonNegative };
        let mut sorter = Sorter { adder: Adder::new(self), open: Vec::new(), slack: self.per_unit(radius), level_slack, sign };
        self.visit(rows, prices, &mut sorter);
        (sorter.adder.finish(), sorter.open)
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
    pub fn visit(&self, rows: Rows<'_>, prices: &[f64], see: &mut impl See) {
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
            _ => self.visit_wide(rows, &unit, see),
        }
    }

    fn visit_width<const WIDTH: usize>(&self, rows: Rows<'_>, unit: &[f64], see: &mut impl See) {
        let mut fixed = [0.0; WIDTH];
        fixed.copy_from_slice(unit);
        let mut costs = [0.0; WIDTH];
        let all = self.problem.padded_rates().0.as_chunks::<WIDTH>().0;
        match rows {
            Rows::All => {
                for (row, rates) in all.iter().enumerate() {
                    self.see_row(row, rates, &fixed, &mut costs, see);
                }
            }
            Rows::Some(list) => {
                for &row in list {
                    self.see_row(row as usize, &all[row as usize], &fixed, &mut costs, see);
                }
            }
        }
    }

    /// As [`Self::visit_width`], for widths that are not compiled for.
    fn visit_wide(&self, rows: Rows<'_>, unit: &[f64], see: &mut impl See) {
        let (rates, stride) = self.problem.padded_rates();
        let mut costs = vec![0.0; stride];
        let mut look = |row: usize| self.see_row(row, &rates[row * stride..][..stride], unit, &mut costs, see);
        match rows {
            Rows::All => (0..self.problem.rows()).for_each(look),
            Rows::Some(list) => list.iter().for_each(|&row| look(row as usize)),
        }
    }

    #[inline(always)]
    fn see_row(&self, row: usize, rates: &[f64], unit: &[f64], costs: &mut [f64], see: &mut impl See) {
        let size = self.problem.sizes()[row];
        for index in 0..rates.len() {
            costs[index] = size * unit[index];
        }
        if !self.problem.all_usable() {
            for index in 0..rates.len() {
                costs[index] = if rates[index] > 0.0 { costs[index] } else { f64::INFINITY };
            }
        }
        if let Some(gain) = &self.gain {
            let (weight, factors) = (gain.weights[row], &gain.factors[..rates.len()]);
            for index in 0..rates.len() {
                costs[index] -= weight * factors[index] * rates[index];
            }
        }
        let (need, slope) = self.requirement.at(row, self.level);
        let choice = choose_from(rates, self.problem.best_rate(row), costs, need, self.problem.guess(row));
        let need_slope = if choice.weight >= 1.0 { self.slope_at_best(rates, need, slope) } else { slope };
        see.see(&Seen { row, rates, costs, choice, need_slope });
    }

    /// A row held at its own best rate asks for no more as the level rises; any other row keeps its slope.
    fn slope_at_best(&self, rates: &[f64], need: f64, slope: f64) -> f64 {
        let held = self.requirement.ceiling == crate::requirement::Ceiling::OwnBest && rates.iter().all(|&rate| rate <= need);
        if held { 0.0 } else { slope }
    }
}
