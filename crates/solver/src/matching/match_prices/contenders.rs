//! The rows among which gangs are matched. Most rows of a long queue are worth far less than the prices: no step of a matching would touch
//! them, so it is made without them. Of those bystanders the most that one is worth is kept, for each size and pool, and every step asks
//! whether it would have touched such a row. If one would, the matching is made anew with more rows: the outcome is that of all rows.

use super::Matching;

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
    /// For each size, the rows that are worth less than the prices, with how much less.
    below: Vec<Vec<(f64, u32)>>,
}

/// What is known of the rows that do not take part.
#[derive(Clone, Debug, Default)]
pub(super) struct Bystanders {
    /// The most that one is worth, by size and pool; nothing where there is none.
    pub(super) most: Vec<f64>,
    /// How many of their entries are worth something.
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

    /// Lets those rows take part that are worth a price, and of each size so many of the next best. `values` and `surplus` have a list for
    /// each pool: what a row is worth there, or nothing at all, and what is left of that beyond the price.
    pub(super) fn choose(&mut self, matching: &Matching<'_>, values: &[Vec<f64>], surplus: &[Vec<f64>], more: usize) {
        let (rows, pools) = (matching.sizes.len(), matching.capacities.len());
        self.rows.clear();
        self.below.resize_with(self.kinds.len(), Vec::new);
        self.below.iter_mut().for_each(Vec::clear);
        let is_all = more >= rows;
        if is_all {
            self.rows.extend(0..rows as u32);
        } else {
            for row in 0..rows {
                let left = surplus.iter().map(|surplus| surplus[row]).fold(f64::NEG_INFINITY, f64::max);
                if left >= 0.0 {
                    self.rows.push(row as u32);
                } else {
                    self.below[self.kind_of_all[row] as usize].push((left, row as u32));
                }
            }
        }
        let bystanders = &mut self.bystanders;
        *bystanders = Bystanders { most: std::mem::take(&mut bystanders.most), entries: 0, rows, is_empty: true };
        bystanders.most.clear();
        bystanders.most.resize(self.kinds.len() * pools, f64::NEG_INFINITY);
        for (kind, below) in self.below.iter_mut().enumerate() {
            let next_best = more.min(below.len());
            if next_best < below.len() {
                below.select_nth_unstable_by(next_best, |left, right| right.0.total_cmp(&left.0));
                bystanders.is_empty = false;
            }
            let (nearly, far) = below.split_at(next_best);
            self.rows.extend(nearly.iter().map(|(_, row)| *row));
            for (pool, most) in bystanders.most[kind * pools..][..pools].iter_mut().enumerate() {
                *most = far.iter().map(|(_, row)| values[pool][*row as usize]).fold(f64::NEG_INFINITY, f64::max);
            }
            let is_entry = |value: &&f64| **value > 0.0;
            bystanders.entries +=
                far.iter().map(|(_, row)| matching.row(*row as usize).iter().filter(is_entry).count()).sum::<usize>();
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
