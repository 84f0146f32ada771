//! Exchanges: rows of different sizes take columns at given prices, then move, swap and replace each other as long as that raises the sum.

use super::contenders::{Bystanders, Sizes};
use super::{Matching, SWEEPS};

/// Exchanges looked at when a matching is improved: all there are for a few hundred rows, a limit for many thousand.
const EXCHANGES_MAX: usize = 2_000_000;
/// The least gain of an exchange, against the value it brings: rounding must not make two rows change places for ever.
const LEAST_GAIN: f64 = 1e-9;
/// What sums may be wrong by where it is asked whether a bystander might be touched.
const ROUNDING: f64 = 1e-9;
/// The least gain of a row that several others make room for: less is not worth moving so many.
const LEAST_REPLACEMENT: f64 = 0.2;

/// A matching of gangs in the making: the room that is free, and the column of each row.
pub(super) struct GangMatching<'a> {
    pub(super) matching: &'a Matching<'a>,
    pub(super) sizes: Sizes<'a>,
    /// The rows that were left out of the matching.
    pub(super) bystanders: &'a Bystanders,
    /// Whether one of those might have been touched: then the outcome counts for nothing.
    pub(super) is_in_doubt: bool,
    pub(super) free: &'a mut [f64],
    pub(super) column_of: &'a mut [Option<usize>],
    /// Kept while a matching is improved.
    pub(super) exits: &'a mut Exits,
    /// Emptied before every use.
    pub(super) keyed: &'a mut Vec<(f64, usize)>,
}

/// For each column, size and refuge, the row that loses least by going there from the column. With it an exchange is found without
/// looking at the rows one by one.
#[derive(Clone, Debug, Default)]
pub(super) struct Exits {
    /// Loss and row by column, size and refuge; the last refuge is to wait.
    least: Vec<(f64, u32)>,
    /// No row on a column ever had a smaller loss than this: most exchanges are ruled out by it alone.
    lowest: Vec<f64>,
    /// By size and column, the least loss at which somebody makes room there for a row that waits.
    bars: Vec<f64>,
    /// Whether rows were moved since those were found.
    is_moved: bool,
}

/// The exit of a column that no row could leave.
const NO_EXIT: (f64, u32) = (f64::INFINITY, u32::MAX);

/// A row that makes room, from which place in the table of exits.
#[derive(Clone, Copy)]
struct Exit {
    change: f64,
    row: usize,
    refuge: Option<usize>,
}

impl Exits {
    /// Forgets everything.
    fn renew(&mut self, kinds: usize, pools: usize) {
        self.least.clear();
        self.least.resize(pools * kinds * (pools + 1), NO_EXIT);
        self.lowest.clear();
        self.lowest.resize(pools, f64::INFINITY);
        self.bars.clear();
        self.bars.resize(kinds * pools, f64::NEG_INFINITY);
        self.is_moved = true;
    }

    /// The exits of one size from a column.
    fn of(&mut self, column: usize, sizes: Sizes<'_>, kind: usize, pools: usize) -> &mut [(f64, u32)] {
        &mut self.least[(column * sizes.kinds.len() + kind) * (pools + 1)..][..=pools]
    }

    /// Notes what a row on a column would lose.
    fn note(&mut self, row: usize, column: usize, sizes: Sizes<'_>, values: &[f64]) {
        let mut lowest = self.lowest[column];
        let exits = self.of(column, sizes, sizes.kind_of[row] as usize, values.len());
        for (refuge, exit) in exits.iter_mut().enumerate() {
            let there = values.get(refuge).copied().unwrap_or(0.0);
            let open = refuge == values.len() || (refuge != column && there > 0.0);
            let loss = values[column] - there;
            if open && (loss, row as u32) < *exit {
                *exit = (loss, row as u32);
                lowest = lowest.min(loss);
            }
        }
        self.lowest[column] = lowest;
    }
}

impl GangMatching<'_> {
    /// Gives rows columns at these prices, and exchanges them.
    pub(super) fn find(&mut self, prices: &[f64]) {
        self.take(prices);
        if !self.is_in_doubt {
            self.fill();
            self.improve();
        }
        for _ in 0..SWEEPS {
            if self.is_in_doubt || !self.replace() {
                break;
            }
            self.improve();
        }
        if !self.is_in_doubt {
            self.fill();
        }
    }

    fn place(&mut self, row: usize, column: usize) {
        self.free[column] -= self.matching.sizes[row];
        self.column_of[row] = Some(column);
    }

    /// Rows in the order of surplus per unit, each on its best column with room, if that is worth its price.
    fn take(&mut self, prices: &[f64]) {
        let matching = self.matching;
        // Most rows wait: those that are worth less than the price everywhere need not be sorted.
        let key = |row: usize| {
            let (_, surplus) = matching.best(row, prices, |_| true)?;
            (surplus >= 0.0).then_some((surplus / matching.sizes[row], row))
        };
        self.keyed.clear();
        self.keyed.extend((0..matching.sizes.len()).filter_map(key));
        order(self.keyed);
        let mut unasked = Some(self.bystanders.surplus).filter(|surplus| *surplus >= 0.0);
        for place in 0..self.keyed.len() {
            if unasked.take_if(|surplus| self.keyed[place].0 <= *surplus).is_some() && self.bystander_per_unit() > 0.0 {
                self.is_in_doubt = true;
                return;
            }
            let (row, free) = (self.keyed[place].1, &*self.free);
            if let Some((column, surplus)) = matching.best(row, prices, |column| matching.sizes[row] <= free[column])
                && surplus >= 0.0
            {
                self.place(row, column);
            }
        }
        self.is_in_doubt |= unasked.is_some() && self.bystander_per_unit() > 0.0;
    }

    /// Rows still without a column, by value per unit over all entries, wherever there is room.
    fn fill(&mut self) {
        let pools = self.matching.capacities.len();
        self.keyed.clear();
        for (row, _) in self.column_of.iter().enumerate().filter(|(_, column)| column.is_none()) {
            for (column, &value) in self.matching.row(row).iter().enumerate() {
                if value > 0.0 && self.matching.sizes[row] <= self.free[column] {
                    self.keyed.push((value / self.matching.sizes[row], row * pools + column));
                }
            }
        }
        order(self.keyed);
        // Bystanders would have their turn after the rows that are worth more per unit.
        let mut unasked = Some(self.bystander_per_unit()).filter(|most| *most > 0.0);
        for place in 0..self.keyed.len() {
            if unasked.take_if(|most| self.keyed[place].0 <= *most).is_some() && self.bystander_per_unit() > 0.0 {
                self.is_in_doubt = true;
                return;
            }
            let (row, column) = (self.keyed[place].1 / pools, self.keyed[place].1 % pools);
            if self.column_of[row].is_none() && self.matching.sizes[row] <= self.free[column] {
                self.place(row, column);
            }
        }
        self.is_in_doubt |= unasked.is_some() && self.bystander_per_unit() > 0.0;
    }

    /// What bystanders of each size are worth at the most on a column, where they are worth something: size and worth.
    fn bystanders_on(&self, column: usize) -> impl Iterator<Item = (f64, f64)> {
        let (bystanders, pools) = (self.bystanders, self.free.len());
        let kinds = self.sizes.kinds.iter().enumerate().filter(|_| !bystanders.is_empty());
        kinds.map(move |(kind, &size)| (size, bystanders.most[kind * pools + column])).filter(|(_, most)| *most > 0.0)
    }

    /// The most that a bystander is worth per unit where it has room now; zero if none has.
    fn bystander_per_unit(&self) -> f64 {
        let on = |column: usize| {
            let fitting = self.bystanders_on(column).filter(move |(size, _)| *size <= self.free[column]);
            fitting.map(|(size, most)| most / size).fold(0.0, f64::max)
        };
        (0..self.free.len()).map(on).fold(0.0, f64::max)
    }

    /// Whether a bystander might be brought to a column as the matching is now: see [`Self::improve_row`].
    fn might_bring_bystander(&mut self) -> bool {
        if self.bystanders.is_empty() {
            return false;
        }
        self.find_bars();
        self.bystanders.most.iter().zip(&self.exits.bars).any(|(most, bar)| *most > 0.0 && most > bar)
    }

    /// Finds anew what a waiting row of each size must be worth on each column before anybody makes room for it there.
    fn find_bars(&mut self) {
        if !std::mem::take(&mut self.exits.is_moved) {
            return;
        }
        let (kinds, pools) = (self.sizes.kinds, self.free.len());
        for (kind, &size) in kinds.iter().enumerate() {
            for column in 0..pools {
                let room = self.free[column];
                let mut bar = if size <= room { f64::NEG_INFINITY } else { f64::INFINITY };
                let exits = self.exits.least[column * kinds.len() * (pools + 1)..].chunks_exact(pools + 1);
                for (&other, exits) in kinds.iter().zip(exits).filter(|(other, _)| room + **other >= size) {
                    for (refuge, &(loss, _)) in exits.iter().enumerate() {
                        if loss < bar && (refuge == pools || other <= self.free[refuge]) {
                            bar = loss;
                        }
                    }
                }
                self.exits.bars[kind * pools + column] = bar;
            }
        }
    }

    /// Moves, swaps and replacements that raise the sum, until none is left or the budget is used up.
    fn improve(&mut self) {
        let (rows, pools) = (self.column_of.len(), self.free.len());
        let mut budget = EXCHANGES_MAX;
        self.exits.renew(self.sizes.kinds.len(), pools);
        for row in 0..rows {
            if let Some(column) = self.column_of[row] {
                self.exits.note(row, column, self.sizes, self.matching.row(row));
            }
        }
        self.is_in_doubt |= self.might_bring_bystander();
        while !self.is_in_doubt {
            let mut better = false;
            for row in 0..rows {
                let mut moved = false;
                for column in 0..pools {
                    moved |= self.improve_row(row, column, &mut budget);
                    if budget == 0 {
                        self.is_in_doubt |= !self.bystanders.is_empty();
                        return;
                    }
                }
                better |= moved;
                if moved && self.might_bring_bystander() {
                    self.is_in_doubt = true;
                    return;
                }
            }
            if !better {
                return;
            }
            // Bystanders would have been looked at as well.
            budget = budget.saturating_sub(self.bystanders.entries.saturating_mul(self.sizes.kinds.len()));
        }
    }

    /// Brings a row to a column if that raises the sum: into free room, or by sending one other row from there to where it fits best.
    fn improve_row(&mut self, row: usize, column: usize, budget: &mut usize) -> bool {
        let (values, size) = (self.matching.row(row), self.matching.sizes[row]);
        let current = self.column_of[row];
        if current == Some(column) || values[column] <= 0.0 {
            return false;
        }
        let gain = self.gain(row, column);
        if size <= self.free[column] {
            if gain > 0.0 {
                self.shift(row, Some(column), budget);
            }
            return gain > 0.0;
        }
        *budget = budget.saturating_sub(self.sizes.kinds.len());
        if gain - self.exits.lowest[column] <= LEAST_GAIN * values[column] {
            return false;
        }
        if current.is_none() {
            self.find_bars();
            let bar = self.exits.bars[self.sizes.kind_of[row] as usize * self.free.len() + column];
            if gain - bar <= LEAST_GAIN * values[column] {
                return false;
            }
        }
        let Some(exit) = self.best_exit(row, column, gain) else { return false };
        self.shift(exit.row, exit.refuge, budget);
        self.shift(row, Some(column), budget);
        true
    }

    /// The row whose leaving a column for `row` raises the sum most, and where it goes.
    fn best_exit(&self, row: usize, column: usize, gain: f64) -> Option<Exit> {
        let (pools, size, current) = (self.free.len(), self.matching.sizes[row], self.column_of[row]);
        let mut best: Option<Exit> = None;
        let mut most = LEAST_GAIN * self.matching.row(row)[column];
        let exits = self.exits.least[column * self.sizes.kinds.len() * (pools + 1)..].chunks_exact(pools + 1);
        for (&other, exits) in self.sizes.kinds.iter().zip(exits) {
            if self.free[column] + other < size {
                continue;
            }
            for (refuge, &(loss, leaver)) in exits.iter().enumerate() {
                if gain - loss <= most {
                    continue;
                }
                // What the row leaves behind is room for the other.
                let vacated = if current == Some(refuge) { size } else { 0.0 };
                if refuge == pools || other <= self.free[refuge] + vacated {
                    most = gain - loss;
                    best = Some(Exit { change: most, row: leaver as usize, refuge: (refuge < pools).then_some(refuge) });
                }
            }
        }
        best.filter(|exit| exit.change > 0.0)
    }

    /// Rows in the place of several that are together worth less than they gain, and those wherever they then fit: true if there were any.
    ///
    /// Exchanges of one row for another cannot do that: two small rows keep a gang out that is worth more than both.
    fn replace(&mut self) -> bool {
        let (matching, rows) = (self.matching, self.column_of.len());
        let mut replaced = false;
        for column in 0..self.free.len() {
            // A row that comes displaces rows that are worth at least this per unit: it rules out nearly all rows.
            let mut least = self.least_per_unit(column);
            let mut sorted = false;
            if self.might_replace_by_bystander(column, least) {
                self.is_in_doubt = true;
                return false;
            }
            for row in 0..rows {
                let (gain, size) = (self.gain(row, column), matching.sizes[row]);
                let fits = gain > 0.0 && size <= matching.capacities[column];
                if !fits || gain - (size - self.free[column]) * least <= LEAST_REPLACEMENT * matching.row(row)[column] {
                    continue;
                }
                if !std::mem::replace(&mut sorted, true) {
                    self.cheapest_first(column);
                }
                if let Some(leavers) = self.leavers_for(size, matching.row(row)[column], gain, column) {
                    for place in 0..leavers {
                        let leaver = self.keyed[place].1;
                        self.free[column] += matching.sizes[leaver];
                        self.column_of[leaver] = None;
                    }
                    if let Some(from) = self.column_of[row] {
                        self.free[from] += matching.sizes[row];
                    }
                    self.place(row, column);
                    (replaced, sorted, least) = (true, false, self.least_per_unit(column));
                    if self.might_replace_by_bystander(column, least) {
                        self.is_in_doubt = true;
                        return false;
                    }
                }
            }
        }
        if replaced {
            self.fill();
        }
        replaced
    }

    /// Whether a bystander might take the place of several rows on a column, as [`Self::replace`] does it; `least` is the least that one
    /// of these is worth per unit.
    fn might_replace_by_bystander(&mut self, column: usize, least: f64) -> bool {
        let wanted = |(size, most): (f64, f64), free: f64| {
            let bound = most - (size - free) * least;
            if bound <= (LEAST_REPLACEMENT - ROUNDING) * most { None } else { Some((size, most * (1.0 + ROUNDING))) }
        };
        let free = self.free[column];
        if self.bystanders_on(column).all(|bystander| wanted(bystander, free).is_none()) {
            return false;
        }
        self.cheapest_first(column);
        let mut bystanders = self.bystanders_on(column).filter_map(|bystander| wanted(bystander, free));
        bystanders.any(|(size, most)| self.leavers_for(size, most, most, column).is_some())
    }

    /// How many of the cheapest rows on a column must go for one of this size, worth and gain, if they are together worth less than it gains.
    fn leavers_for(&self, size: f64, worth: f64, gain: f64, column: usize) -> Option<usize> {
        let (mut room, mut loss, mut leavers) = (self.free[column], LEAST_REPLACEMENT * worth, 0);
        while room < size && loss < gain {
            let leaver = self.keyed.get(leavers)?.1;
            room += self.matching.sizes[leaver];
            loss += self.matching.row(leaver)[column];
            leavers += 1;
        }
        (loss < gain).then_some(leavers)
    }

    /// What a row gains on a column over where it is; nothing where it is already or cannot be.
    fn gain(&self, row: usize, column: usize) -> f64 {
        let values = self.matching.row(row);
        if values[column] <= 0.0 {
            return 0.0;
        }
        values[column] - self.column_of[row].map_or(0.0, |current| values[current])
    }

    /// The least that a row on a column is worth per unit.
    fn least_per_unit(&self, column: usize) -> f64 {
        let there = self.column_of.iter().enumerate().filter(|(_, place)| **place == Some(column));
        there.map(|(row, _)| self.matching.row(row)[column] / self.matching.sizes[row]).fold(f64::INFINITY, f64::min)
    }

    /// The rows on a column, those worth least per unit first.
    fn cheapest_first(&mut self, column: usize) {
        let matching = self.matching;
        self.keyed.clear();
        let there = self.column_of.iter().enumerate().filter(|(_, place)| **place == Some(column));
        self.keyed.extend(there.map(|(row, _)| (-matching.row(row)[column] / matching.sizes[row], row)));
        order(self.keyed);
    }

    /// Moves a row to a column, or to wait, and keeps the exits.
    fn shift(&mut self, row: usize, to: Option<usize>, budget: &mut usize) {
        let (pools, sizes, kind) = (self.free.len(), self.sizes, self.sizes.kind_of[row]);
        self.exits.is_moved = true;
        if let Some(from) = self.column_of[row].take() {
            self.free[from] += self.matching.sizes[row];
            let exits = self.exits.of(from, sizes, kind as usize, pools);
            // Others are looked at again only if it was this row that would have lost least.
            if exits.iter().any(|exit| exit.1 == row as u32) {
                exits.fill(NO_EXIT);
                *budget = budget.saturating_sub(self.bystanders.rows / 8);
                for (other, column) in self.column_of.iter().enumerate() {
                    if *column == Some(from) && sizes.kind_of[other] == kind {
                        self.exits.note(other, from, sizes, self.matching.row(other));
                    }
                }
            }
        }
        if let Some(to) = to {
            self.place(row, to);
            self.exits.note(row, to, sizes, self.matching.row(row));
        }
    }
}

/// Falling keys; equal ones in the order of their indices.
fn order(keyed: &mut [(f64, usize)]) {
    keyed.sort_unstable_by(|left, right| right.0.total_cmp(&left.0).then(left.1.cmp(&right.1)));
}
