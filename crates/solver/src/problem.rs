//! The common shape of the problems: rows that share pools.
//!
//! A row (one agent, or `count` identical ones) divides its time between columns; column `j` gives it `rate[j]` and uses `size`
//! units of pool `j`. Always: every number is finite, sizes and counts are positive, rates and capacities are not negative, and a
//! column without capacity has rate zero everywhere, so that no row can plan to use it. Rows are stored one after the other, padded
//! to a stride for which the inner loops are compiled with a constant length.

use crate::error::{SolveError, check_length, check_non_negative, check_positive};
use std::cell::Cell;
use std::collections::HashSet;

/// Rows, pools and rates; see the module's head for what always holds.
#[derive(Debug, Clone, PartialEq)]
pub struct Problem {
    capacities: Vec<f64>,
    sizes: Vec<f64>,
    counts: Vec<f64>,
    rates: Vec<f64>,
    stride: usize,
    /// The highest rate of each row.
    best_rates: Vec<f64>,
    /// Whether every column gives every row something.
    all_usable: bool,
    guesses: Guesses,
}

/// Where each row was found last, which is where the next pass looks first. Never more than a guess: what is found does not depend on it.
#[derive(Debug, Clone)]
struct Guesses(Vec<Cell<LastChoice>>);

/// The slower and the faster column of a row's choice; [`LastChoice::default`] if there is none to begin with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LastChoice {
    pub left: u8,
    pub right: u8,
}

impl LastChoice {
    /// No column, or idling.
    pub const NONE: u8 = u8::MAX;
}

impl Default for LastChoice {
    fn default() -> Self {
        Self { left: Self::NONE, right: Self::NONE }
    }
}

impl PartialEq for Guesses {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// A problem whose identical rows have become one row each, with the way back.
#[derive(Debug, Clone, PartialEq)]
pub struct Merged {
    /// The smaller problem; `counts` say how many rows each of its rows stands for.
    pub problem: Problem,
    /// The numbers that had to be equal as well, one list per list given, merged like the rows.
    pub extras: Vec<Vec<f64>>,
    /// For each original row, the merged row that stands for it.
    pub row_of: Vec<u32>,
}

/// Rows looked at to see whether there are identical ones among very many.
const LOOKED_AT: usize = 4096;

/// Identical rows by their first member.
struct Groups {
    representatives: Vec<u32>,
    counts: Vec<f64>,
    row_of: Vec<u32>,
}

/// The row length used in memory for a number of columns.
fn stride_for(columns: usize) -> usize {
    match columns {
        0..=8 => columns,
        9..=12 => 12,
        13..=16 => 16,
        _ => columns.next_multiple_of(8),
    }
}

impl Problem {
    /// A problem of rows that each stand for one agent. `rates` holds one row after the other, a number per pool.
    pub fn new(capacities: &[f64], sizes: &[f64], rates: &[f64]) -> Result<Self, SolveError> {
        Self::with_counts(capacities, sizes, rates, &vec![1.0; sizes.len()])
    }

    /// A problem in which row `i` stands for `counts[i]` identical agents.
    pub fn with_counts(capacities: &[f64], sizes: &[f64], rates: &[f64], counts: &[f64]) -> Result<Self, SolveError> {
        Self::owned(capacities.to_vec(), sizes.to_vec(), rates.to_vec(), counts.to_vec())
    }

    /// As [`Self::with_counts`], without copying what may be very large.
    pub fn owned(capacities: Vec<f64>, sizes: Vec<f64>, mut rates: Vec<f64>, counts: Vec<f64>) -> Result<Self, SolveError> {
        if capacities.is_empty() {
            return Err(SolveError::Empty("pools"));
        }
        if sizes.is_empty() {
            return Err(SolveError::Empty("rows"));
        }
        let columns = capacities.len();
        check_length("counts", counts.len(), sizes.len())?;
        check_length("rates", rates.len(), sizes.len().saturating_mul(columns))?;
        check_non_negative("capacities", &capacities)?;
        check_non_negative("rates", &rates)?;
        check_positive("sizes", &sizes)?;
        check_positive("counts", &counts)?;
        let stride = stride_for(columns);
        if stride > columns {
            let mut padded = vec![0.0; sizes.len() * stride];
            for (target, source) in padded.chunks_exact_mut(stride).zip(rates.chunks_exact(columns)) {
                target[..columns].copy_from_slice(source);
            }
            rates = padded;
        }
        // Rates below the smallest normal number cannot be divided by without overflow: they count as none.
        let is_none = |rate: f64| rate > 0.0 && rate < f64::MIN_POSITIVE;
        if capacities.iter().any(|&capacity| capacity <= 0.0) || rates.iter().any(|&rate| is_none(rate)) {
            for row in rates.chunks_exact_mut(stride) {
                for (cell, &capacity) in row.iter_mut().zip(&capacities) {
                    *cell = if capacity > 0.0 && !is_none(*cell) { *cell } else { 0.0 };
                }
            }
        }
        let best = |row: &[f64]| row.iter().fold(0.0, |best, &rate| if rate > best { rate } else { best });
        let best_rates = rates.chunks_exact(stride).map(best).collect();
        let all_usable = rates.iter().all(|&rate| rate > 0.0);
        let guesses = Guesses(vec![Cell::default(); sizes.len()]);
        Ok(Self { capacities, sizes, counts, rates, stride, best_rates, all_usable, guesses })
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.sizes.len()
    }

    /// Number of pools.
    pub fn columns(&self) -> usize {
        self.capacities.len()
    }

    /// Units in each pool.
    pub fn capacities(&self) -> &[f64] {
        &self.capacities
    }

    /// Units a row holds while it runs.
    pub fn sizes(&self) -> &[f64] {
        &self.sizes
    }

    /// Agents each row stands for.
    pub fn counts(&self) -> &[f64] {
        &self.counts
    }

    /// What the columns give a row.
    pub fn rates(&self, row: usize) -> &[f64] {
        &self.rates[row * self.stride..row * self.stride + self.columns()]
    }

    /// All rates with padding, and the distance between rows.
    pub(crate) fn padded_rates(&self) -> (&[f64], usize) {
        (&self.rates, self.stride)
    }

    /// Whether every column, padding too, gives every row something.
    #[inline]
    pub(crate) fn all_usable(&self) -> bool {
        self.all_usable
    }

    /// Where a row was found last.
    #[inline]
    pub(crate) fn guess(&self, row: usize) -> &Cell<LastChoice> {
        &self.guesses.0[row]
    }

    /// A row's best rate; zero if no column serves it.
    #[inline]
    pub fn best_rate(&self, row: usize) -> f64 {
        self.best_rates[row]
    }

    /// Shares of the wrong row or pool budget: the largest relative excess over 1 or over a capacity, and the most negative share.
    pub fn violation(&self, shares: &[f64]) -> f64 {
        let columns = self.columns();
        let mut used = vec![0.0; columns];
        let mut worst: f64 = 0.0;
        for (row, share) in shares.chunks_exact(columns).enumerate() {
            worst = worst.max(share.iter().sum::<f64>() - 1.0);
            for (column, &fraction) in share.iter().enumerate() {
                worst = worst.max(-fraction);
                used[column] += fraction * self.sizes[row] * self.counts[row];
            }
        }
        for (&units, &capacity) in used.iter().zip(&self.capacities) {
            // A pool without capacity can only be violated absolutely.
            worst = worst.max(if capacity > 0.0 { units / capacity - 1.0 } else { units });
        }
        worst
    }

    /// What a row gets from shares laid out like `rates`.
    pub fn row_rate(&self, row: usize, shares: &[f64]) -> f64 {
        let columns = self.columns();
        self.rates(row).iter().zip(&shares[row * columns..(row + 1) * columns]).map(|(rate, share)| rate * share).sum()
    }

    /// Makes identical rows one: same rates, same size, and same numbers in every list of `extras` (bit for bit).
    pub fn merge(&self, extras: &[&[f64]]) -> Result<Merged, SolveError> {
        let groups = self.groups(extras)?;
        Ok(self.gather(&groups.representatives, groups.counts, extras, groups.row_of))
    }

    /// As [`Self::merge`], but none if all rows differ: large problems are then not copied. Very many rows of which some thousands, taken
    /// evenly, all differ are not looked at further: merging them would gain less than looking costs.
    pub fn merge_if_smaller(&self, extras: &[&[f64]]) -> Result<Option<Merged>, SolveError> {
        for extra in extras {
            check_length("merge key", extra.len(), self.rows())?;
        }
        if self.rows() >= 16 * LOOKED_AT {
            let step = self.rows() / LOOKED_AT;
            let hashes: HashSet<u64> = (0..LOOKED_AT).map(|place| self.hash_row(place * step, extras)).collect();
            if hashes.len() == LOOKED_AT {
                return Ok(None);
            }
        }
        let groups = self.groups(extras)?;
        let smaller = groups.representatives.len() < self.rows();
        Ok(smaller.then(|| self.gather(&groups.representatives, groups.counts, extras, groups.row_of)))
    }

    /// Which rows are identical.
    fn groups(&self, extras: &[&[f64]]) -> Result<Groups, SolveError> {
        for extra in extras {
            check_length("merge key", extra.len(), self.rows())?;
        }
        let mut table = vec![u32::MAX; (self.rows() * 2).next_power_of_two()];
        let mut representatives: Vec<u32> = Vec::new();
        let mut counts: Vec<f64> = Vec::new();
        let mut row_of = Vec::with_capacity(self.rows());
        for row in 0..self.rows() {
            let mut slot = self.hash_row(row, extras) as usize & (table.len() - 1);
            // Open addressing with at most half of the slots taken: the walk is short.
            let merged = loop {
                match table[slot] {
                    u32::MAX => {
                        table[slot] = representatives.len() as u32;
                        representatives.push(row as u32);
                        counts.push(0.0);
                        break table[slot];
                    }
                    found if self.same_row(row, representatives[found as usize] as usize, extras) => break found,
                    _ => slot = (slot + 1) & (table.len() - 1),
                }
            };
            counts[merged as usize] += self.counts[row];
            row_of.push(merged);
        }
        Ok(Groups { representatives, counts, row_of })
    }

    fn gather(&self, representatives: &[u32], counts: Vec<f64>, extras: &[&[f64]], row_of: Vec<u32>) -> Merged {
        let pick = |list: &[f64]| representatives.iter().map(|&row| list[row as usize]).collect::<Vec<f64>>();
        let mut rates = Vec::with_capacity(representatives.len() * self.stride);
        for &row in representatives {
            let start = row as usize * self.stride;
            rates.extend_from_slice(&self.rates[start..start + self.stride]);
        }
        let guesses = Guesses(representatives.iter().map(|&row| self.guesses.0[row as usize].clone()).collect());
        let (capacities, sizes, best_rates) = (self.capacities.clone(), pick(&self.sizes), pick(&self.best_rates));
        let problem = Self { capacities, sizes, counts, rates, best_rates, guesses, ..*self };
        Merged { problem, extras: extras.iter().map(|extra| pick(extra)).collect(), row_of }
    }

    fn hash_row(&self, row: usize, extras: &[&[f64]]) -> u64 {
        // Multiply and rotate: rows are data, not an adversary's choice of hash keys, and equality is checked anyway.
        let mix = |hash: u64, number: f64| (hash.rotate_left(23) ^ number.to_bits()).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let start = row * self.stride;
        let hash = self.rates[start..start + self.stride].iter().fold(mix(0, self.sizes[row]), |hash, &rate| mix(hash, rate));
        let hash = extras.iter().fold(hash, |hash, extra| mix(hash, extra[row]));
        hash ^ (hash >> 32)
    }

    fn same_row(&self, left: usize, right: usize, extras: &[&[f64]]) -> bool {
        self.sizes[left].to_bits() == self.sizes[right].to_bits()
            && self.rates(left).iter().zip(self.rates(right)).all(|(a, b)| a.to_bits() == b.to_bits())
            && extras.iter().all(|extra| extra[left].to_bits() == extra[right].to_bits())
    }
}

impl Merged {
    /// Gives every original row the shares of the row that stood for it.
    pub fn expand(&self, shares: &[f64]) -> Vec<f64> {
        let columns = self.problem.columns();
        if self.problem.rows() == self.row_of.len() {
            // Nothing was merged, and then the order is the original one.
            return shares.to_vec();
        }
        let mut expanded = Vec::with_capacity(self.row_of.len() * columns);
        for &row in &self.row_of {
            expanded.extend_from_slice(&shares[row as usize * columns..(row as usize + 1) * columns]);
        }
        expanded
    }
}

impl Problem {
    /// The picked rows alone, each standing for `weight` times as many agents.
    pub(crate) fn sampled(&self, rows: &[u32], weight: f64) -> Self {
        let counts = rows.iter().map(|&row| self.counts[row as usize] * weight).collect();
        self.gather(rows, counts, &[], Vec::new()).problem
    }
}
