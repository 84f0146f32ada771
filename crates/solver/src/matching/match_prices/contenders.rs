//! The rows among which gangs are matched. Most rows of a long queue are worth far less than the prices: no step of a matching would touch
//! them, so it is made without them. Of those bystanders the most that one is worth is kept, for each size and pool, and every step asks
//! whether it would have touched such a row. If one would, the matching is made anew with more rows: the outcome is that of all rows.

use super::{Matching, limit_at};

/// The rows that take part, as a matching of their own.
#[derive(Clone, Debug, Default)]
pub(super) struct Contenders {
    /// The rows, in their order.
    rows: Vec<u32>,
    values: Vec<f64>,
    sizes: Vec<f64>,
    /// The different sizes of all rows, in the order in which they come.
    kinds: Vec<f64>,
    /// The place of each row's size among them, for all rows.
    kind_of_all: Vec<u32>,
    /// The same for the rows that take part.
    pub(super) kind_of: Vec<u32>,
    bystanders: Bystanders,
    /// For each size, the rows that need not take part, with what they have beyond the prices.
    below: Vec<Vec<(f64, u32)>>,
    /// What each row has beyond the prices.
    surplus: Vec<f64>,
    /// That per unit, and the size, of rows that are worth the prices.
    worthy: Vec<(f64, f64)>,
    /// What a row had to have per unit to be among the best in the last matching.
    least: f64,
}

/// The rows that are worth most per unit take part, up to so many times the room there is.
const ROOM: f64 = 1.25;

/// Rows are searched for the best among those first that have nearly as much per unit as the best had in the last matching.
const NEARLY: f64 = 0.9;

/// What is known of the rows that do not take part.
#[derive(Clone, Debug, Default)]
pub(super) struct Bystanders {
    /// The most that one is worth, by size and pool; nothing where there is none.
    pub(super) most: Vec<f64>,
    /// The most that one has beyond the prices, per unit.
    pub(super) surplus: f64,
    /// How many entries they have.
    pub(super) entries: usize,
    /// How many rows there are, with those that take part.
    pub(super) rows: usize,
    is_empty: bool,
}

impl Bystanders {
    /// Whether all rows take part.
    pub(super) fn is_empty(&self) -> bool {
        self.is_empty
    }
}

impl Contenders {
    /// Takes up other rows.
    pub(super) fn renew(&mut self, sizes: &[f64]) {
        self.kinds.clear();
        self.kind_of_all.clear();
        for size in sizes {
            let known = self.kinds.iter().position(|known| known.to_bits() == size.to_bits());
            let kind = known.unwrap_or_else(|| {
                self.kinds.push(*size);
                self.kinds.len() - 1
            });
            self.kind_of_all.push(kind as u32);
        }
    }

    /// Lets those rows take part that are worth most per unit beyond the prices, as long as they are worth them and there is room for
    /// most of them, and of each size so many of the next best. `values` and `surplus` have a list for each pool: what a row is worth
    /// there, or nothing at all, and what is left of that beyond the price.
    pub(super) fn choose(&mut self, matching: &Matching<'_>, values: &[Vec<f64>], surplus: &[Vec<f64>], more: usize) {
        let (rows, pools) = (matching.sizes.len(), matching.capacities.len());
        self.rows.clear();
        self.below.resize_with(self.kinds.len(), Vec::new);
        self.below.iter_mut().for_each(Vec::clear);
        if more >= rows {
            self.rows.extend(0..rows as u32);
        } else {
            let least = self.least_worthy(matching, surplus);
            for (row, &left) in self.surplus.iter().enumerate() {
                if left >= 0.0 && left / matching.sizes[row] >= least {
                    self.rows.push(row as u32);
                } else {
                    self.below[self.kind_of_all[row] as usize].push((left, row as u32));
                }
            }
        }
        let bystanders = &mut self.bystanders;
        bystanders.most.clear();
        bystanders.most.resize(self.kinds.len() * pools, f64::NEG_INFINITY);
        (bystanders.entries, bystanders.rows, bystanders.is_empty) = (0, rows, true);
        bystanders.surplus = f64::NEG_INFINITY;
        for (kind, below) in self.below.iter_mut().enumerate() {
            let next_best = more.min(below.len());
            if next_best < below.len() {
                below.select_nth_unstable_by(next_best, |left, right| right.0.total_cmp(&left.0));
            }
            let (nearly, far) = below.split_at(next_best);
            self.rows.extend(nearly.iter().map(|(_, row)| *row));
            let Some((left, _)) = far.first() else { continue };
            bystanders.is_empty = false;
            bystanders.surplus = bystanders.surplus.max(left / self.kinds[kind]);
            for (pool, most) in bystanders.most[kind * pools..][..pools].iter_mut().enumerate() {
                *most = far.iter().map(|(_, row)| values[pool][*row as usize]).fold(f64::NEG_INFINITY, f64::max);
            }
            bystanders.entries += far.len() * pools;
        }
        self.rows.sort_unstable();
        self.values.clear();
        self.sizes.clear();
        self.kind_of.clear();
        for &row in &self.rows {
            self.values.extend_from_slice(matching.row(row as usize));
            self.sizes.push(matching.sizes[row as usize]);
            self.kind_of.push(self.kind_of_all[row as usize]);
        }
    }

    /// What each row has beyond the prices at the most, and how much per unit it must have to be among the best.
    fn least_worthy(&mut self, matching: &Matching<'_>, surplus: &[Vec<f64>]) -> f64 {
        self.surplus.clear();
        self.surplus.resize(matching.sizes.len(), f64::NEG_INFINITY);
        for surplus in surplus {
            for (most, &surplus) in self.surplus.iter_mut().zip(surplus) {
                *most = if surplus > *most { surplus } else { *most };
            }
        }
        let room = ROOM * matching.capacities.iter().sum::<f64>();
        let mut wanted = self.find_worthy(matching.sizes, NEARLY * self.least);
        if wanted <= room {
            wanted = self.find_worthy(matching.sizes, 0.0);
        }
        self.least = if wanted <= room { 0.0 } else { limit_at(&mut self.worthy, wanted, room) };
        self.least
    }

    /// Finds the rows that have at least so much per unit. Gives the sum of their sizes.
    fn find_worthy(&mut self, sizes: &[f64], least: f64) -> f64 {
        self.worthy.clear();
        let mut wanted = 0.0;
        for (left, &size) in self.surplus.iter().zip(sizes) {
            if *left >= least * size {
                self.worthy.push((left / size, size));
                wanted += size;
            }
        }
        wanted
    }

    /// The rows that take part as a matching, the different sizes of all rows, the sizes of these as places among them, and the others.
    pub(super) fn parts<'a>(&'a self, capacities: &'a [f64]) -> (Matching<'a>, Sizes<'a>, &'a Bystanders) {
        let matching = Matching { values: &self.values, sizes: &self.sizes, capacities };
        (matching, Sizes { kinds: &self.kinds, kind_of: &self.kind_of }, &self.bystanders)
    }

    /// Gives the rows that take part their columns; all others wait.
    pub(super) fn tell(&self, columns: &[Option<usize>], all: &mut Vec<Option<usize>>) {
        all.clear();
        all.resize(self.bystanders.rows, None);
        for (&row, &column) in self.rows.iter().zip(columns) {
            all[row as usize] = column;
        }
    }
}

/// The different sizes, and which of them each row has.
#[derive(Clone, Copy)]
pub(super) struct Sizes<'a> {
    pub(super) kinds: &'a [f64],
    pub(super) kind_of: &'a [u32],
}
