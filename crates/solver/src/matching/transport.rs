//! Rows on columns that take several rows each, worth the most in all: exact, by prices and shortest augmenting paths over the columns.
//!
//! At a price for each column, every row takes the column that leaves it most, or waits. Where more rows come than there are places, or
//! fewer although places have a price, rows are moved on one by one: along the path from column to column that loses least, pushing out at
//! each the row that is cheapest to move, while the prices follow. With few columns that is far less work than an assignment in which every
//! place is a column of its own; and with prices that were right a moment ago hardly any row has to move.

use crate::error::{SolveError, check_length};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// The column of each row, at the lowest total cost. There must be places for all rows.
pub fn assign_to_places(costs: &[f64], places: &[usize]) -> Result<Vec<usize>, SolveError> {
    let columns = places.len();
    if columns == 0 || costs.is_empty() {
        return if costs.is_empty() { Ok(Vec::new()) } else { Err(SolveError::Empty("columns")) };
    }
    let rows = costs.len() / columns;
    check_length("costs", costs.len(), rows * columns)?;
    if let Some(index) = costs.iter().position(|cost| !cost.is_finite()) {
        return Err(SolveError::Number { what: "costs", index, value: costs[index], wanted: "finite" });
    }
    if places.iter().sum::<usize>() < rows {
        return Err(SolveError::Infeasible);
    }
    let values = costs.iter().map(|cost| -cost).collect::<Vec<_>>();
    // To wait is worse than anything, and there are places for all rows: so no row waits.
    let waiting = values.iter().copied().fold(f64::INFINITY, f64::min);
    let waiting = waiting - waiting.abs() - 1.0;
    Ok(Places::default().find(&Offer { values: &values, waiting, places }).iter().map(|column| *column as usize).collect())
}

/// What rows are worth where. All numbers are finite.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offer<'a> {
    /// Rows × columns. A row is never where it is not worth more than waiting.
    pub values: &'a [f64],
    /// What a row is worth that waits.
    pub waiting: f64,
    /// How many rows each column takes.
    pub places: &'a [usize],
}

impl Offer<'_> {
    /// What a row is worth on each column.
    fn row(&self, row: u32) -> &[f64] {
        &self.values[row as usize * self.places.len()..][..self.places.len()]
    }

    /// The column that leaves a row most beyond its price; the lower of equal ones, and to wait only if all leave less.
    fn best(&self, values: &[f64], prices: &[f64]) -> usize {
        let (mut best, mut most) = (values.len(), self.waiting);
        for (column, ((&value, &price), &places)) in values.iter().zip(prices).zip(self.places).enumerate().rev() {
            let left = value - price;
            if left >= most && value > self.waiting && places > 0 {
                (best, most) = (column, left);
            }
        }
        best
    }

    /// Calls with each other column where a row of a column could be, and what would be lost by that; the last is to wait.
    fn each_exit(&self, values: &[f64], from: usize, mut call: impl FnMut(usize, f64)) {
        let here = values.get(from).copied().unwrap_or(self.waiting);
        for (to, (&value, &places)) in values.iter().zip(self.places).enumerate() {
            if to != from && value > self.waiting && places > 0 {
                call(to, here - value);
            }
        }
        if from != values.len() {
            call(values.len(), here - self.waiting);
        }
    }
}

/// No row: a place is left empty instead.
const NOBODY: u32 = u32::MAX;

/// A row that would leave a column, and what is lost by it.
#[derive(Clone, Copy, Debug)]
struct Exit {
    loss: f64,
    row: u32,
}

impl Ord for Exit {
    /// The heap has the highest on top: what loses least, then the lower row.
    fn cmp(&self, other: &Self) -> Ordering {
        other.loss.total_cmp(&self.loss).then(other.row.cmp(&self.row))
    }
}

impl PartialOrd for Exit {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Exit {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Exit {}

/// How a column was reached on the path that loses least.
#[derive(Clone, Copy, Debug)]
struct Reached {
    distance: f64,
    /// The column before it; itself where the path begins.
    from: usize,
    /// The row that moves from there.
    row: u32,
    is_settled: bool,
}

const UNREACHED: Reached = Reached { distance: f64::INFINITY, from: usize::MAX, row: NOBODY, is_settled: false };

/// An engine that is asked again and again: it keeps its lists, and begins with the prices that the last answer left.
///
/// The last column of each list is to wait: it costs nothing and is never full.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Places {
    prices: Vec<f64>,
    #[serde(skip)]
    column_of: Vec<u32>,
    /// Rows on each column.
    #[serde(skip)]
    taken: Vec<usize>,
    /// From each column to each other: the rows, by what each would lose. Rows that have left the column since are still there.
    #[serde(skip)]
    exits: Vec<BinaryHeap<Exit>>,
    /// The columns whose exits are listed.
    #[serde(skip)]
    is_listed: Vec<bool>,
    #[serde(skip)]
    reached: Vec<Reached>,
}

impl Places {
    /// The column of each row; the number of columns for a row that waits.
    pub fn find(&mut self, offer: &Offer<'_>) -> &[u32] {
        let columns = offer.places.len();
        if self.prices.len() != columns + 1 {
            self.prices.clear();
            self.prices.resize(columns + 1, 0.0);
        }
        if self.exits.len() != (columns + 1) * (columns + 1) {
            self.exits.clear();
            self.exits.resize_with((columns + 1) * (columns + 1), BinaryHeap::new);
        }
        self.taken.clear();
        self.taken.resize(columns + 1, 0);
        self.is_listed.clear();
        self.is_listed.resize(columns + 1, false);
        self.column_of.clear();
        for values in offer.values.chunks_exact(columns.max(1)) {
            let column = offer.best(values, &self.prices);
            self.taken[column] += 1;
            self.column_of.push(column as u32);
        }
        while self.move_one(offer) {}
        &self.column_of
    }

    fn is_crowded(&self, column: usize, offer: &Offer<'_>) -> bool {
        offer.places.get(column).is_some_and(|places| self.taken[column] > *places)
    }

    fn has_room(&self, column: usize, offer: &Offer<'_>) -> bool {
        offer.places.get(column).is_none_or(|places| self.taken[column] < *places)
    }

    /// Empty places must not have a price.
    fn is_short(&self, column: usize, offer: &Offer<'_>) -> bool {
        self.prices[column] > 0.0 && self.has_room(column, offer)
    }

    /// Lists the exits from a column.
    fn list_exits(&mut self, from: usize, offer: &Offer<'_>) {
        let exits = &mut self.exits[from * self.taken.len()..][..self.taken.len()];
        let mut lists = exits.iter_mut().map(|heap| std::mem::take(heap).into_vec()).collect::<SmallVec<[Vec<Exit>; 8]>>();
        lists.iter_mut().for_each(Vec::clear);
        for (row, _) in self.column_of.iter().enumerate().filter(|(_, column)| **column as usize == from) {
            let row = row as u32;
            offer.each_exit(offer.row(row), from, |to, loss| lists[to].push(Exit { loss, row }));
        }
        for (heap, list) in exits.iter_mut().zip(lists) {
            *heap = BinaryHeap::from(list);
        }
        self.is_listed[from] = true;
    }

    /// Takes one row too many from a column, or brings one to a column whose price is for nothing: false if all is well.
    fn move_one(&mut self, offer: &Offer<'_>) -> bool {
        let (columns, all) = (offer.places.len(), self.taken.len());
        self.reached.clear();
        self.reached.resize(all, UNREACHED);
        let begin = |reached: &mut [Reached], column: usize| {
            reached[column] = Reached { distance: 0.0, from: column, ..UNREACHED };
        };
        let mut somebody_must_go = false;
        for column in 0..columns {
            if self.is_crowded(column, offer) {
                begin(&mut self.reached, column);
                somebody_must_go = true;
            }
        }
        if !somebody_must_go {
            if !(0..columns).any(|column| self.is_short(column, offer)) {
                return false;
            }
            begin(&mut self.reached, columns);
        }
        let Some(end) = self.nearest_end(somebody_must_go, offer) else { return false };
        self.follow_prices(end);
        self.walk_back(end, offer);
        true
    }

    /// The nearest column at which a path may end, with the path to it.
    fn nearest_end(&mut self, somebody_must_go: bool, offer: &Offer<'_>) -> Option<usize> {
        let (columns, all) = (offer.places.len(), self.taken.len());
        loop {
            let open = (0..all).filter(|&column| !self.reached[column].is_settled && self.reached[column].distance.is_finite());
            let from = open.min_by(|a, b| self.reached[*a].distance.total_cmp(&self.reached[*b].distance))?;
            if (somebody_must_go && self.has_room(from, offer)) || self.is_short(from, offer) {
                return Some(from);
            }
            self.reached[from].is_settled = true;
            if !self.is_listed[from] {
                self.list_exits(from, offer);
            }
            for to in 0..all {
                if to == from || self.reached[to].is_settled {
                    continue;
                }
                let heap = &mut self.exits[from * all + to];
                while heap.peek().is_some_and(|exit| self.column_of[exit.row as usize] != from as u32) {
                    heap.pop();
                }
                let mut exit = heap.peek().copied().unwrap_or(Exit { loss: f64::INFINITY, row: NOBODY });
                // Whoever moves on from a column may leave a place empty, which loses no more than its price.
                let holds = from == columns && (self.prices[to] > 0.0 || self.taken[to] > 0);
                if holds && exit.loss >= 0.0 {
                    exit = Exit { loss: 0.0, row: NOBODY };
                }
                let distance = self.reached[from].distance + (exit.loss - self.prices[from] + self.prices[to]).max(0.0);
                if distance < self.reached[to].distance {
                    self.reached[to] = Reached { distance, from, row: exit.row, is_settled: false };
                }
            }
        }
    }

    /// Raises and lowers prices so that the path to its end loses nothing against them.
    fn follow_prices(&mut self, end: usize) {
        let distance = self.reached[end].distance;
        let columns = self.reached.len() - 1;
        let waits = (distance - self.reached[columns].distance).max(0.0);
        for (price, reached) in self.prices[..columns].iter_mut().zip(&self.reached) {
            *price = (*price + (distance - reached.distance).max(0.0) - waits).max(0.0);
        }
    }

    /// Moves the rows of a path, from its end.
    fn walk_back(&mut self, end: usize, offer: &Offer<'_>) {
        let all = self.taken.len();
        let mut to = end;
        loop {
            let Reached { from, row, .. } = self.reached[to];
            if from == to {
                return;
            }
            if row != NOBODY {
                self.column_of[row as usize] = to as u32;
                self.taken[from] -= 1;
                self.taken[to] += 1;
                if self.is_listed[to] {
                    let exits = &mut self.exits[to * all..][..all];
                    offer.each_exit(offer.row(row), to, |next, loss| exits[next].push(Exit { loss, row }));
                }
            }
            to = from;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assign::assign_dense;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn costs_as_little_as_an_assignment_of_single_places(
            rows in 1_usize..9,
            places in prop::collection::vec(1_usize..4, 1..5),
            costs in prop::collection::vec(0_u32..50, 8 * 4),
        ) {
            let places_in_all = places.iter().sum::<usize>();
            let rows = rows.min(places_in_all);
            let costs = costs[..rows * places.len()].iter().copied().map(f64::from).collect::<Vec<_>>();
            let found = assign_to_places(&costs, &places).unwrap();
            let total = found.iter().enumerate().map(|(row, column)| costs[row * places.len() + column]).sum::<f64>();
            for (column, &most) in places.iter().enumerate() {
                prop_assert!(found.iter().filter(|&&taken| taken == column).count() <= most);
            }
            let column_of = places.iter().enumerate().flat_map(|(column, &count)| std::iter::repeat_n(column, count)).collect::<Vec<_>>();
            let single = (0..rows).flat_map(|row| column_of.iter().map(move |column| (row, *column)))
                .map(|(row, column)| costs[row * places.len() + column]).collect::<Vec<_>>();
            let best = assign_dense(rows, places_in_all, &single).unwrap();
            let least = best.iter().enumerate().map(|(row, place)| single[row * places_in_all + place.unwrap()]).sum::<f64>();
            prop_assert!((total - least).abs() < 1e-9, "{total} against {least}");
        }
    }

    #[test]
    fn too_few_places_are_refused() {
        assert_eq!(assign_to_places(&[1.0, 2.0], &[1]), Err(SolveError::Infeasible));
        assert!(assign_to_places(&[f64::NAN], &[1]).is_err());
    }
}
