//! Integral matching by prices: each row on at most one column, pools not overfilled, the sum of values nearly the highest.
//!
//! A price per pool and unit is raised until what the rows want fits; rows then take their columns in the order of what they are worth
//! beyond the prices, what is left is filled by value per unit, and moves, swaps and replacements are made as long as they raise the sum.
//! Gangs leave gaps that prices cannot see: without those exchanges about two per cent of the value is lost.
//! Deterministic; ties go to the lower row and column. No optimality is claimed: it is the engine for decisions that are taken again a
//! moment later, where a few milliseconds matter more than the last half per cent.

use crate::error::{SolveError, check_length, check_non_negative, check_positive};

/// Sweeps over the pools' prices.
const SWEEPS: usize = 12;
/// Exchanges looked at when a matching is improved: all there are for a few hundred rows, a limit for many thousand.
const EXCHANGES_MAX: usize = 2_000_000;
/// The least gain of an exchange, against the value it brings: rounding must not make two rows change places for ever.
const LEAST_GAIN: f64 = 1e-9;

/// Values, sizes and pools. A value that is not positive forbids the entry.
#[derive(Debug, Clone, Copy)]
pub struct Matching<'a> {
    /// Rows × pools.
    pub values: &'a [f64],
    /// Units each row holds.
    pub sizes: &'a [f64],
    /// Units in each pool.
    pub capacities: &'a [f64],
}

impl Matching<'_> {
    fn check(&self) -> Result<(), SolveError> {
        check_positive("sizes", self.sizes)?;
        check_non_negative("capacities", self.capacities)?;
        check_length("values", self.values.len(), self.sizes.len().saturating_mul(self.capacities.len()))?;
        match self.values.iter().position(|value| !value.is_finite()) {
            Some(index) => Err(SolveError::Number { what: "values", index, value: self.values[index], wanted: "finite" }),
            None => Ok(()),
        }
    }

    fn row(&self, row: usize) -> &[f64] {
        &self.values[row * self.capacities.len()..(row + 1) * self.capacities.len()]
    }

    /// The column that leaves a row most beyond the prices, among those that `allowed` lets through.
    fn best(&self, row: usize, prices: &[f64], allowed: impl Fn(usize) -> bool) -> Option<(usize, f64)> {
        let mut best: Option<(usize, f64)> = None;
        for (column, &value) in self.row(row).iter().enumerate() {
            let surplus = value - self.sizes[row] * prices[column];
            if value > 0.0
                && self.sizes[row] <= self.capacities[column]
                && allowed(column)
                && best.is_none_or(|(_, most)| surplus > most)
            {
                best = Some((column, surplus));
            }
        }
        best
    }
}

/// The column of each row, or none.
pub fn match_by_prices(matching: &Matching<'_>) -> Result<Vec<Option<usize>>, SolveError> {
    matching.check()?;
    let prices = find_prices(matching);
    let mut state = State {
        matching,
        free: matching.capacities.to_vec(),
        column_of: vec![None; matching.sizes.len()],
        least_loss: Vec::new(),
    };
    state.take(&prices);
    state.fill();
    state.improve();
    state.fill();
    Ok(state.column_of)
}

/// Prices at which the wanted units fit, pool by pool.
fn find_prices(matching: &Matching<'_>) -> Vec<f64> {
    let pools = matching.capacities.len();
    let mut prices = vec![0.0; pools];
    for _ in 0..SWEEPS {
        let before = prices.clone();
        for pool in 0..pools {
            prices[pool] = fitting_price(matching, &prices, pool);
        }
        if before == prices {
            break;
        }
    }
    prices
}

/// The smallest price of a pool, the others given, at which the rows that want it fit.
fn fitting_price(matching: &Matching<'_>, prices: &[f64], pool: usize) -> f64 {
    // A row wants the pool below one price of its own: where its surplus meets its next best. So the demand is a sorted list.
    let mut limits: Vec<(f64, f64)> = Vec::new();
    for (row, &size) in matching.sizes.iter().enumerate() {
        let value = matching.row(row)[pool];
        if value > 0.0 && size <= matching.capacities[pool] {
            let other = matching.best(row, prices, |column| column != pool).map_or(0.0, |(_, surplus)| surplus.max(0.0));
            if value > other {
                limits.push(((value - other) / size, size));
            }
        }
    }
    limits.sort_unstable_by(|left, right| right.0.total_cmp(&left.0));
    let mut wanted = 0.0;
    for (limit, size) in limits {
        wanted += size;
        if wanted > matching.capacities[pool] {
            return limit;
        }
    }
    0.0
}

struct State<'a> {
    matching: &'a Matching<'a>,
    free: Vec<f64>,
    column_of: Vec<Option<usize>>,
    /// For each column, the least that a row on it would lose by leaving; kept while matchings are improved.
    least_loss: Vec<f64>,
}

impl State<'_> {
    fn place(&mut self, row: usize, column: usize) {
        self.free[column] -= self.matching.sizes[row];
        self.column_of[row] = Some(column);
    }

    /// Rows in the order of surplus per unit, each on its best column with room, if that is worth its price.
    fn take(&mut self, prices: &[f64]) {
        let matching = self.matching;
        let key = |row: usize| {
            let per_unit = matching.row(row).iter().zip(prices).map(|(value, price)| value / matching.sizes[row] - price);
            per_unit.fold(f64::NEG_INFINITY, f64::max)
        };
        for row in ordered((0..matching.sizes.len()).map(|row| (key(row), row)).collect()) {
            let free = &self.free;
            if let Some((column, surplus)) = matching.best(row, prices, |column| matching.sizes[row] <= free[column])
                && surplus >= 0.0
            {
                self.place(row, column);
            }
        }
    }

    /// Rows still without a column, by value per unit over all entries, wherever there is room.
    fn fill(&mut self) {
        let pools = self.matching.capacities.len();
        let mut entries = Vec::new();
        for (row, _) in self.column_of.iter().enumerate().filter(|(_, column)| column.is_none()) {
            for (column, &value) in self.matching.row(row).iter().enumerate() {
                if value > 0.0 && self.matching.sizes[row] <= self.free[column] {
                    entries.push((value / self.matching.sizes[row], row * pools + column));
                }
            }
        }
        for entry in ordered(entries) {
            let (row, column) = (entry / pools, entry % pools);
            if self.column_of[row].is_none() && self.matching.sizes[row] <= self.free[column] {
                self.place(row, column);
            }
        }
    }

    /// Moves, swaps and replacements that raise the sum, until none is left or the budget is used up.
    fn improve(&mut self) {
        let (rows, pools) = (self.column_of.len(), self.free.len());
        let mut budget = EXCHANGES_MAX;
        self.least_loss = (0..pools).map(|column| self.find_least_loss(column)).collect();
        loop {
            let mut better = false;
            for row in 0..rows {
                for column in 0..pools {
                    better |= self.improve_row(row, column, &mut budget);
                    if budget == 0 {
                        return;
                    }
                }
            }
            if !better {
                return;
            }
        }
    }

    /// Brings a row to a column if that raises the sum: into free room, or by sending one other row from there to where it fits best.
    fn improve_row(&mut self, row: usize, column: usize, budget: &mut usize) -> bool {
        let (values, size) = (self.matching.row(row), self.matching.sizes[row]);
        let current = self.column_of[row];
        if current == Some(column) || values[column] <= 0.0 {
            return false;
        }
        let gain = values[column] - current.map_or(0.0, |current| values[current]);
        if size <= self.free[column] {
            if gain > 0.0 {
                self.leave(row);
                self.place(row, column);
                for touched in [Some(column), current].into_iter().flatten() {
                    self.least_loss[touched] = self.find_least_loss(touched);
                }
            }
            return gain > 0.0;
        }
        // Most rows cannot gain what anybody would lose by leaving, wherever it went: no need to look at them one by one.
        if gain <= self.least_loss[column] {
            return false;
        }
        let mut best: Option<(f64, usize, Option<usize>)> = None;
        for other in 0..self.column_of.len() {
            if self.column_of[other] != Some(column) || self.free[column] + self.matching.sizes[other] < size {
                continue;
            }
            *budget = budget.saturating_sub(1);
            let (refuge, value) = self.refuge(other, column, current.map(|current| (current, size)));
            let change = gain + value - self.matching.row(other)[column];
            if change > LEAST_GAIN * values[column] && best.is_none_or(|(most, _, _)| change > most) {
                best = Some((change, other, refuge));
            }
        }
        let Some((_, other, refuge)) = best else { return false };
        self.leave(other);
        self.leave(row);
        self.place(row, column);
        if let Some(refuge) = refuge {
            self.place(other, refuge);
        }
        for touched in [Some(column), current, refuge].into_iter().flatten() {
            self.least_loss[touched] = self.find_least_loss(touched);
        }
        true
    }

    /// The least that any row on a column would lose by leaving it, if it could go wherever it liked.
    fn find_least_loss(&self, column: usize) -> f64 {
        let here = self.column_of.iter().enumerate().filter(|(_, taken)| **taken == Some(column));
        let loss = |row: usize| {
            let values = self.matching.row(row);
            let elsewhere = values.iter().enumerate().filter(|(pool, _)| *pool != column).map(|(_, value)| *value);
            values[column] - elsewhere.fold(0.0, f64::max)
        };
        here.map(|(row, _)| loss(row)).fold(f64::INFINITY, f64::min)
    }

    /// Where a row that must leave its column goes, if `vacated` (a column and its units) falls free; and what it is worth there.
    fn refuge(&self, row: usize, column: usize, vacated: Option<(usize, f64)>) -> (Option<usize>, f64) {
        let mut best = (None, 0.0);
        for (pool, &value) in self.matching.row(row).iter().enumerate() {
            let more = vacated.filter(|(vacated, _)| *vacated == pool).map_or(0.0, |(_, units)| units);
            if pool != column && value > best.1 && self.matching.sizes[row] <= self.free[pool] + more {
                best = (Some(pool), value);
            }
        }
        best
    }

    fn leave(&mut self, row: usize) {
        if let Some(column) = self.column_of[row].take() {
            self.free[column] += self.matching.sizes[row];
        }
    }
}

/// Indices by falling key; equal keys keep their order.
fn ordered(mut keyed: Vec<(f64, usize)>) -> Vec<usize> {
    keyed.sort_by(|left, right| right.0.total_cmp(&left.0).then(left.1.cmp(&right.1)));
    keyed.into_iter().map(|(_, index)| index).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn total(values: &[f64], pools: usize, columns: &[Option<usize>]) -> f64 {
        columns.iter().enumerate().filter_map(|(row, column)| column.map(|column| values[row * pools + column])).sum()
    }

    /// The best there is, by trying everything.
    fn best(matching: &Matching<'_>, row: usize, free: &mut Vec<f64>) -> f64 {
        if row == matching.sizes.len() {
            return 0.0;
        }
        let mut most = best(matching, row + 1, free);
        for column in 0..free.len() {
            let value = matching.row(row)[column];
            if value > 0.0 && matching.sizes[row] <= free[column] {
                free[column] -= matching.sizes[row];
                most = most.max(value + best(matching, row + 1, free));
                free[column] += matching.sizes[row];
            }
        }
        most
    }

    proptest! {
        #[test]
        fn pools_are_never_overfilled_and_little_is_lost(
            rows in prop::collection::vec((prop::sample::select(vec![1.0, 2.0, 4.0]), 0.0..3.0_f64, 0.0..3.0_f64), 1..8),
            first in 0_u32..9, second in 0_u32..9,
        ) {
            let sizes = rows.iter().map(|row| row.0).collect::<Vec<_>>();
            let values = rows.iter().flat_map(|row| [row.1, row.2]).collect::<Vec<_>>();
            let capacities = [f64::from(first), f64::from(second)];
            let matching = Matching { values: &values, sizes: &sizes, capacities: &capacities };
            let columns = match_by_prices(&matching).unwrap();
            for (pool, capacity) in capacities.iter().enumerate() {
                let used = sizes.iter().zip(&columns).filter(|(_, column)| **column == Some(pool)).map(|(size, _)| size).sum::<f64>();
                prop_assert!(used <= *capacity);
            }
            let (found, most) = (total(&values, 2, &columns), best(&matching, 0, &mut capacities.to_vec()));
            prop_assert!(found <= most + 1e-9);
            prop_assert!(found >= 0.5 * most, "{found} of {most}");
        }
    }

    #[test]
    fn comparative_advantage_decides() {
        // Both rows are best on the first column; the second row loses less on the other.
        let columns = match_by_prices(&Matching { values: &[10.0, 1.0, 8.0, 7.0], sizes: &[1.0, 1.0], capacities: &[1.0, 1.0] });
        assert_eq!(columns, Ok(vec![Some(0), Some(1)]));
    }

    #[test]
    fn bad_numbers_are_refused() {
        let refused =
            |values: &[f64], sizes: &[f64], capacities: &[f64]| match_by_prices(&Matching { values, sizes, capacities }).is_err();
        assert!(refused(&[f64::NAN], &[1.0], &[1.0]));
        assert!(refused(&[1.0], &[0.0], &[1.0]));
        assert!(refused(&[1.0], &[1.0], &[-1.0]));
        assert!(refused(&[1.0, 2.0], &[1.0], &[1.0]));
    }
}
