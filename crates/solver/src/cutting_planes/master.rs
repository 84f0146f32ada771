//! The small linear program behind the cutting planes: the best prices in a box according to the cuts known so far.
//!
//! Maximise `t` with `t ≤ offset_k + prices·usage_k` for every cut, prices in a box, and (optionally) prices that sum to 1. It is solved
//! in its dual form, in which each cut is a column: adding cuts or moving the box leaves the last basis feasible, so each solve is a few
//! pivots. The dual multipliers of the cuts are the mixture of allocations that proves the value. There are only as many equations as
//! pools plus one, so the basis inverse is kept dense and rebuilt often; accuracy matters more than the microseconds.

use crate::sweep::{PerPool, Tally, dot};
use smallvec::{SmallVec, smallvec};

/// Bounds on prices.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PriceBox {
    pub lower: PerPool,
    pub upper: PerPool,
    /// Bounds that belong to the problem: reaching one is no sign that the box is too small.
    outer: (PerPool, PerPool),
    pub scale: Scale,
}

/// Whether prices are relative or absolute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scale {
    /// Prices sum to 1.
    Simplex,
    /// Prices are independent of each other.
    Free,
}

impl PriceBox {
    /// The whole space of prices.
    pub fn whole(columns: usize, upper: f64, scale: Scale) -> Self {
        let (lower, upper): (PerPool, PerPool) = (smallvec![0.0; columns], smallvec![upper; columns]);
        Self { outer: (lower.clone(), upper.clone()), lower, upper, scale }
    }

    /// The same box, all there is from now on.
    pub fn into_whole(mut self) -> Self {
        self.outer = (self.lower.clone(), self.upper.clone());
        self
    }

    /// Whether prices lie at a bound of this box that is not one of `whole`.
    pub fn holds_back(&self, prices: &[f64], whole: &Self) -> bool {
        let near = |price: f64, bound: f64, width: f64| (price - bound).abs() <= 1e-6 * width;
        (0..prices.len()).any(|pool| {
            let width = self.upper[pool] - self.lower[pool];
            let below = self.lower[pool] > whole.lower[pool] && near(prices[pool], self.lower[pool], width);
            let above = self.upper[pool] < whole.upper[pool] && near(prices[pool], self.upper[pool], width);
            below || above
        })
    }

    /// The part of this box within `radius` of a point.
    pub fn around(&self, center: &[f64], radius: &[f64]) -> Self {
        let mut part = self.clone();
        for column in 0..center.len() {
            part.lower[column] = (center[column] - radius[column]).max(self.lower[column]);
            part.upper[column] = (center[column] + radius[column]).min(self.upper[column]);
        }
        part
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Column {
    Cut(usize),
    /// The multiplier of "prices sum to 1", split into its two signs.
    SumUp,
    SumDown,
    Lower(usize),
    Upper(usize),
}

/// Basis times basis, on the stack while that is small.
type Table = SmallVec<[f64; 32]>;

/// The dual simplex table; see the module's head.
#[derive(Debug)]
pub(crate) struct Master {
    bounds: PriceBox,
    cuts: Vec<Tally>,
    basis: SmallVec<[Column; 8]>,
    inverse: Table,
    values: PerPool,
    /// Pivots since the inverse was made.
    pivots: usize,
    pub prices: PerPool,
    pub value: f64,
}

/// Pivots after which the inverse is made anew.
const PIVOTS_MAX: usize = 8;

impl Master {
    /// A master that knows one cut.
    pub fn new(bounds: PriceBox, first: Tally) -> Self {
        let columns = first.usage.len();
        // With the cut alone each price sits at the bound that the sign of its usage asks for: a feasible basis.
        let mut basis: SmallVec<[Column; 8]> = (0..columns)
            .map(|column| if first.usage[column] >= 0.0 { Column::Upper(column) } else { Column::Lower(column) })
            .collect();
        basis.push(Column::Cut(0));
        let size = columns + 1;
        let mut master = Self {
            bounds,
            cuts: vec![first],
            basis,
            inverse: smallvec![0.0; size * size],
            values: smallvec![0.0; size],
            pivots: 0,
            prices: smallvec![0.0; columns],
            value: 0.0,
        };
        master.rebuild();
        master
    }

    pub fn add(&mut self, cut: Tally) {
        self.cuts.push(cut);
    }

    fn size(&self) -> usize {
        self.basis.len()
    }

    /// Writes a column's equation coefficients: one per pool, and one for "multipliers sum to 1".
    fn fill(&self, column: Column, target: &mut [f64]) {
        let last = self.size() - 1;
        target.fill(0.0);
        match column {
            Column::Cut(cut) => {
                target[..last].copy_from_slice(&self.cuts[cut].usage);
                target[last] = 1.0;
            }
            Column::SumUp => target[..last].fill(-1.0),
            Column::SumDown => target[..last].fill(1.0),
            Column::Lower(pool) => target[pool] = 1.0,
            Column::Upper(pool) => target[pool] = -1.0,
        }
    }

    fn cost(&self, column: Column) -> f64 {
        match column {
            Column::Cut(cut) => self.cuts[cut].offset,
            Column::SumUp => 1.0,
            Column::SumDown => -1.0,
            Column::Lower(pool) => -self.bounds.lower[pool],
            Column::Upper(pool) => self.bounds.upper[pool],
        }
    }

    /// Recomputes inverse and values from the basis columns; false if they have become dependent.
    fn rebuild(&mut self) -> bool {
        let size = self.size();
        let mut work: Table = smallvec![0.0; size * 2 * size];
        let mut column_entries: PerPool = smallvec![0.0; size];
        for (position, &column) in self.basis.iter().enumerate() {
            self.fill(column, &mut column_entries);
            for (row, &entry) in column_entries.iter().enumerate() {
                work[row * 2 * size + position] = entry;
            }
        }
        for row in 0..size {
            work[row * 2 * size + size + row] = 1.0;
        }
        if !invert(&mut work, size) {
            return false;
        }
        self.pivots = 0;
        for row in 0..size {
            self.inverse[row * size..(row + 1) * size].copy_from_slice(&work[row * 2 * size + size..(row + 1) * 2 * size]);
            // The right-hand side is zero except for the last equation.
            self.values[row] = self.inverse[row * size + size - 1].max(0.0);
        }
        true
    }

    /// Pivots to the optimum; false if the work limit came first or the basis broke down (the last prices are then still usable).
    pub fn solve(&mut self) -> bool {
        let size = self.size();
        let (mut entries, mut direction): (PerPool, PerPool) = (smallvec![0.0; size], smallvec![0.0; size]);
        let mut stalled = 0;
        for _ in 0..200 + 40 * size {
            if self.pivots >= PIVOTS_MAX && !self.rebuild() {
                return false;
            }
            self.price();
            let Some(entering) = self.entering(stalled > 2 * size) else { return true };
            self.fill(entering, &mut entries);
            for (row, along) in direction.iter_mut().enumerate() {
                *along = dot(&self.inverse[row * size..(row + 1) * size], &entries);
            }
            let Some(leaving) = self.leaving(&direction) else { return false };
            let step = self.values[leaving] / direction[leaving];
            stalled = if step > 1e-13 { 0 } else { stalled + 1 };
            self.pivot(entering, leaving, &direction, step);
        }
        false
    }

    /// Prices and value that belong to the basis.
    fn price(&mut self) {
        let size = self.size();
        let mut dual: PerPool = smallvec![0.0; size];
        for (row, &column) in self.basis.iter().enumerate() {
            let cost = self.cost(column);
            for (dual, inverse) in dual.iter_mut().zip(&self.inverse[row * size..(row + 1) * size]) {
                *dual += cost * inverse;
            }
        }
        for (price, dual) in self.prices.iter_mut().zip(&dual) {
            *price = -dual;
        }
        self.value = dual[size - 1];
    }

    /// A column that would lower the dual: the steepest, or while stalled the first (which cannot cycle).
    fn entering(&self, first: bool) -> Option<Column> {
        let tolerance = 1e-14 * (1.0 + self.value.abs());
        let sum = 1.0 - self.prices.iter().sum::<f64>();
        let pools = self.prices.len();
        let simplex = [(Column::SumUp, sum), (Column::SumDown, -sum)];
        let sums = simplex.into_iter().filter(|_| self.bounds.scale == Scale::Simplex);
        let cuts = self.cuts.iter().enumerate().map(|(cut, tally)| (Column::Cut(cut), tally.value(&self.prices) - self.value));
        let lower = (0..pools).map(|pool| (Column::Lower(pool), self.prices[pool] - self.bounds.lower[pool]));
        let upper = (0..pools).map(|pool| (Column::Upper(pool), self.bounds.upper[pool] - self.prices[pool]));
        let mut best = None;
        let mut least = -tolerance;
        for (column, reduced) in sums.chain(cuts).chain(lower).chain(upper) {
            if reduced < least && !self.basis.contains(&column) {
                if first {
                    return Some(column);
                }
                least = reduced;
                best = Some(column);
            }
        }
        best
    }

    fn leaving(&self, direction: &[f64]) -> Option<usize> {
        let mut best: Option<usize> = None;
        for (row, &along) in direction.iter().enumerate() {
            if along > 1e-11 {
                let better = best.is_none_or(|other| {
                    let (mine, theirs) = (self.values[row] * direction[other], self.values[other] * along);
                    // On ties the larger pivot: it keeps the inverse accurate.
                    mine < theirs || (mine <= theirs && along > direction[other])
                });
                if better {
                    best = Some(row);
                }
            }
        }
        best
    }

    fn pivot(&mut self, entering: Column, leaving: usize, direction: &[f64], step: f64) {
        let size = self.size();
        let scale = direction[leaving].recip();
        for column in 0..size {
            self.inverse[leaving * size + column] *= scale;
        }
        for (row, &along) in direction.iter().enumerate() {
            if row != leaving && along != 0.0 {
                for column in 0..size {
                    self.inverse[row * size + column] -= along * self.inverse[leaving * size + column];
                }
                self.values[row] = (self.values[row] - step * along).max(0.0);
            }
        }
        self.values[leaving] = step;
        self.basis[leaving] = entering;
        self.pivots += 1;
    }

    /// The cuts in the mixture, with their weights.
    pub fn mixture(&self) -> SmallVec<[(usize, f64); 4]> {
        let mut parts: SmallVec<[(usize, f64); 4]> = SmallVec::new();
        let mut total = 0.0;
        for (&column, &value) in self.basis.iter().zip(&self.values) {
            if let Column::Cut(cut) = column
                && value > 0.0
            {
                parts.push((cut, value));
                total += value;
            }
        }
        for part in &mut parts {
            part.1 /= total;
        }
        parts
    }

    /// The sum of the mixture's cuts.
    pub fn mixed(&self) -> Tally {
        let mut sum = Tally::new(self.prices.len());
        for (cut, weight) in self.mixture() {
            sum.add(&self.cuts[cut], weight);
        }
        sum
    }

    /// Whether a bound that is not the problem's own holds the prices back.
    pub fn at_edge(&self) -> bool {
        self.basis.iter().zip(&self.values).any(|(&column, &value)| match column {
            Column::Lower(pool) => value > 1e-11 && self.bounds.lower[pool] > self.bounds.outer.0[pool],
            Column::Upper(pool) => value > 1e-11 && self.bounds.upper[pool] < self.bounds.outer.1[pool],
            _ => false,
        })
    }
}

/// Gauss-Jordan with row pivoting on `[matrix | identity]`; false if singular.
fn invert(work: &mut [f64], size: usize) -> bool {
    let width = 2 * size;
    for column in 0..size {
        let largest = (column..size).max_by(|&a, &b| work[a * width + column].abs().total_cmp(&work[b * width + column].abs()));
        let Some(row) = largest.filter(|&row| work[row * width + column].abs() > 1e-13) else { return false };
        for index in 0..width {
            work.swap(row * width + index, column * width + index);
        }
        let scale = work[column * width + column].recip();
        for index in 0..width {
            work[column * width + index] *= scale;
        }
        for other in 0..size {
            let factor = work[other * width + column];
            if other != column && factor != 0.0 {
                for index in 0..width {
                    work[other * width + index] -= factor * work[column * width + index];
                }
            }
        }
    }
    true
}
