//! Integral matching by prices: each row on at most one column, pools not overfilled, the sum of values the highest or nearly so.
//!
//! Rows of one size are matched exactly ([`crate::transport`]). For others a price per pool and unit is set so that what the rows want
//! fits; rows then take their columns in the order of what they are worth beyond the prices, what is left is filled by value per unit, and
//! moves, swaps and replacements are made as long as they raise the sum.
//! Gangs leave gaps that prices cannot see: without those exchanges about two per cent of the value is lost.
//! Deterministic; ties go to the lower row and column. No optimality is claimed for gangs: it is the engine for decisions that are taken
//! again a moment later, where a few milliseconds matter more than the last half per cent.

mod contenders;
mod exchange;

use crate::error::{SolveError, check_finite, check_length, check_non_negative, check_positive};
use crate::transport::{Offer, Places};
use contenders::Contenders;
use exchange::{Exits, GangMatching};
use serde::{Deserialize, Serialize};

/// Sweeps over the pools' prices, and rounds of replacements.
const SWEEPS: usize = 12;
/// Rows of each size that take part although they are worth less than the prices, and how many times more whenever those were too few.
const MORE_ROWS: usize = 12;
const STILL_MORE: usize = 8;

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
        check_finite("values", self.values)
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
    let mut matcher = Matcher::default();
    matcher.find(matching)?;
    Ok(matcher.columns)
}

/// A matching engine that is asked again and again: it begins with the prices that the last matching left, which is quick where the rows
/// are much the same, and keeps its lists.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Matcher {
    /// For rows of one size, with the places of each pool.
    equal: Places,
    prices: Vec<f64>,
    // Filled anew by every matching.
    #[serde(skip)]
    places: Vec<usize>,
    #[serde(skip)]
    market: Lists,
    #[serde(skip)]
    exits: Exits,
    #[serde(skip)]
    free: Vec<f64>,
    #[serde(skip)]
    columns: Vec<Option<usize>>,
    #[serde(skip)]
    contenders: Contenders,
    /// The columns of the rows that take part.
    #[serde(skip)]
    taken: Vec<Option<usize>>,
    #[serde(skip)]
    keyed: Vec<(f64, usize)>,
}

impl Matcher {
    /// Begins the next matching of gangs without prices. Rows of one size need not: prices only make their matching quicker.
    pub fn forget_prices(&mut self) {
        self.prices.clear();
    }

    /// The column of each row, or none.
    pub fn find(&mut self, matching: &Matching<'_>) -> Result<&mut [Option<usize>], SolveError> {
        matching.check()?;
        match matching.sizes {
            [first, others @ ..] if others.iter().all(|size| size.to_bits() == first.to_bits()) => {
                Ok(self.find_equal(matching, *first))
            }
            _ => Ok(self.find_gangs(matching, MORE_ROWS)),
        }
    }

    /// Rows of one size.
    fn find_equal(&mut self, matching: &Matching<'_>, size: f64) -> &mut [Option<usize>] {
        self.places.clear();
        self.places.extend(matching.capacities.iter().map(|capacity| (capacity / size) as usize));
        let found = self.equal.find(&Offer { values: matching.values, waiting: 0.0, places: &self.places });
        let pools = self.places.len();
        self.columns.clear();
        self.columns.extend(found.iter().map(|column| Some(*column as usize).filter(|column| *column < pools)));
        // Without pools no row was looked at, and all rows wait.
        self.columns.resize(matching.sizes.len(), None);
        &mut self.columns
    }

    /// Rows of different sizes; `more` of each that are not worth the prices take part at first, which is no matter for the outcome.
    fn find_gangs(&mut self, matching: &Matching<'_>, mut more: usize) -> &mut [Option<usize>] {
        let Self { prices, market, exits, free, columns, contenders, taken, keyed, .. } = self;
        if prices.len() != matching.capacities.len() || prices.iter().any(|price| !price.is_finite() || *price < 0.0) {
            prices.clear();
            prices.resize(matching.capacities.len(), 0.0);
        }
        Market::new(matching, market, prices).find_prices(prices);
        contenders.renew(matching.sizes);
        loop {
            contenders.choose(matching, &market.values, &market.surplus, more);
            let (among, sizes, bystanders) = contenders.parts(matching.capacities);
            free.clear();
            free.extend_from_slice(matching.capacities);
            taken.clear();
            taken.resize(among.sizes.len(), None);
            let mut matched =
                GangMatching { matching: &among, sizes, bystanders, is_in_doubt: false, free, column_of: taken, exits, keyed };
            matched.find(prices);
            if !matched.is_in_doubt {
                break;
            }
            more = more.saturating_add(1).saturating_mul(STILL_MORE);
        }
        contenders.tell(taken, columns);
        columns
    }
}

/// Numbers of rows by pool: each list holds one number a row.
#[derive(Clone, Debug, Default)]
struct Lists {
    /// What a row is worth in each pool; nothing at all where it cannot be.
    values: Vec<Vec<f64>>,
    /// What is left of that beyond the price.
    surplus: Vec<Vec<f64>>,
    /// The most that a row has beyond the price in the other pools.
    elsewhere: Vec<f64>,
    /// Limits and sizes of the rows that want a pool.
    limits: Vec<(f64, f64)>,
}

/// What rows want at prices, pool by pool.
struct Market<'a> {
    matching: &'a Matching<'a>,
    lists: &'a mut Lists,
}

impl<'a> Market<'a> {
    fn new(matching: &'a Matching<'a>, lists: &'a mut Lists, prices: &[f64]) -> Self {
        lists.values.resize_with(prices.len(), Vec::new);
        lists.surplus.resize_with(prices.len(), Vec::new);
        for (pool, (values, surplus)) in lists.values.iter_mut().zip(&mut lists.surplus).enumerate() {
            let capacity = matching.capacities[pool];
            let rows = matching.values.chunks_exact(prices.len()).zip(matching.sizes);
            let value =
                |(row, size): (&[f64], &f64)| if row[pool] > 0.0 && *size <= capacity { row[pool] } else { f64::NEG_INFINITY };
            values.clear();
            values.extend(rows.map(value));
            surplus.clear();
            surplus.extend(beyond(values, matching.sizes, prices[pool]));
        }
        lists.elsewhere.clear();
        lists.elsewhere.resize(matching.sizes.len(), 0.0);
        Self { matching, lists }
    }

    /// Prices at which the wanted units fit, pool by pool.
    fn find_prices(&mut self, prices: &mut [f64]) {
        for _ in 0..SWEEPS {
            let mut moved = false;
            for (pool, price) in prices.iter_mut().enumerate() {
                let next = self.fitting_price(pool);
                moved |= next.to_bits() != price.to_bits();
                *price = next;
                let Lists { values, surplus, .. } = &mut *self.lists;
                surplus[pool].clear();
                surplus[pool].extend(beyond(&values[pool], self.matching.sizes, next));
            }
            if !moved {
                break;
            }
        }
    }

    /// The smallest price of a pool, the others given, at which the rows that want it fit.
    fn fitting_price(&mut self, pool: usize) -> f64 {
        let Lists { values, surplus, elsewhere, limits } = &mut *self.lists;
        elsewhere.fill(0.0);
        for (other, surplus) in surplus.iter().enumerate() {
            if other != pool {
                for (most, &surplus) in elsewhere.iter_mut().zip(surplus) {
                    *most = if surplus > *most { surplus } else { *most };
                }
            }
        }
        // A row wants the pool below one price of its own: where its surplus meets its next best.
        limits.clear();
        let mut wanted = 0.0;
        for ((&value, &other), &size) in values[pool].iter().zip(&*elsewhere).zip(self.matching.sizes) {
            if value > other {
                limits.push(((value - other) / size, size));
                wanted += size;
            }
        }
        let capacity = self.matching.capacities[pool];
        if wanted <= capacity { 0.0 } else { limit_at(limits, wanted, capacity) }
    }
}

/// What is left of values beyond a price per unit.
fn beyond<'a>(values: &'a [f64], sizes: &'a [f64], price: f64) -> impl Iterator<Item = f64> + 'a {
    values.iter().zip(sizes).map(move |(value, size)| value - size * price)
}

/// The limit of the first entry, by falling limits, that no longer fits; `total` is the size of all of them, and more than `room`.
fn limit_at(mut limits: &mut [(f64, f64)], mut total: f64, mut room: f64) -> f64 {
    // Halving around a guess of the place instead of sorting: only one limit is asked for. Where sizes are equal the first guess is it.
    while limits.len() > 1 {
        let place = ((room / total * limits.len() as f64) as usize).min(limits.len() - 1);
        let (before, middle, after) = limits.select_nth_unstable_by(place, |left, right| right.0.total_cmp(&left.0));
        let above = before.iter().map(|entry| entry.1).sum::<f64>();
        if above > room {
            (limits, total) = (before, above);
        } else if above + middle.1 > room || after.is_empty() {
            return middle.0;
        } else {
            room -= above + middle.1;
            total -= above + middle.1;
            limits = after;
        }
    }
    limits.first().map_or(0.0, |limit| limit.0)
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

    proptest! {
        #[test]
        fn rows_that_are_left_out_change_nothing(
            rows in prop::collection::vec((0_usize..4, 0_u32..40, prop::collection::vec(0_u32..4, 3)), 2..120),
            capacities in prop::collection::vec(0_u32..24, 1..4),
            parts in prop::sample::select(vec![1.0, 8.0, 7.3]),
            more in 0_usize..6,
        ) {
            let sizes = rows.iter().map(|row| [1.0, 2.0, 4.0, 0.5][row.0]).collect::<Vec<_>>();
            let capacities = capacities.into_iter().map(f64::from).collect::<Vec<_>>();
            // Few different values, so that there are ties, and rows that are worth much more than others.
            let value = |row: &(usize, u32, Vec<u32>), pool: usize| (1.0 + f64::from(row.1) / parts).powi(2) * f64::from(row.2[pool]) / 3.0;
            let values = rows.iter().flat_map(|row| (0..capacities.len()).map(move |pool| value(row, pool))).collect::<Vec<_>>();
            let matching = Matching { values: &values, sizes: &sizes, capacities: &capacities };
            let all = Matcher::default().find_gangs(&matching, usize::MAX).to_vec();
            let some = Matcher::default().find_gangs(&matching, more).to_vec();
            prop_assert_eq!(all, some);
        }
    }

    proptest! {
        #[test]
        fn rows_of_one_size_are_worth_the_most_whatever_was_matched_before(
            rows in prop::collection::vec((0_u32..6, 0_u32..6, 0_u32..6), 1..8),
            before in prop::collection::vec((0_u32..6, 0_u32..6, 0_u32..6), 0..8),
            places in (0_u32..5, 0_u32..5, 0_u32..5),
            size in prop::sample::select(vec![1.0, 0.5, 3.0]),
        ) {
            let capacities = [places.0, places.1, places.2].map(|places| f64::from(places) * size + 0.1);
            let values = |rows: &[(u32, u32, u32)]| rows.iter().flat_map(|row| [row.0, row.1, row.2]).map(f64::from).collect::<Vec<_>>();
            let mut matcher = Matcher::default();
            let mut find = |rows: &[(u32, u32, u32)]| {
                let (values, sizes) = (values(rows), vec![size; rows.len()]);
                let matching = Matching { values: &values, sizes: &sizes, capacities: &capacities };
                let columns = matcher.find(&matching).unwrap();
                let used = |pool| columns.iter().filter(|column| **column == Some(pool)).count() as f64 * size;
                assert!((0..3).all(|pool| used(pool) <= capacities[pool]));
                (total(&values, 3, columns), best(&matching, 0, &mut capacities.to_vec()))
            };
            find(&before);
            let (found, most) = find(&rows);
            prop_assert!((found - most).abs() < 1e-9, "{found} of {most}");
        }
    }

    #[test]
    fn comparative_advantage_decides() {
        // Both rows are best on the first column; the second row loses less on the other.
        let columns = match_by_prices(&Matching { values: &[10.0, 1.0, 8.0, 7.0], sizes: &[1.0, 1.0], capacities: &[1.0, 1.0] });
        assert_eq!(columns, Ok(vec![Some(0), Some(1)]));
    }

    #[test]
    fn a_gang_takes_the_place_of_several_small_rows() {
        let found = |values: &[f64], sizes: &[f64], capacities: &[f64]| match_by_prices(&Matching { values, sizes, capacities });
        // The second row would rather be in a pool that does not exist; that does not put it before the first.
        let columns = found(&[0.0, 1.6, 2.0, 0.3, 0.0, 0.3], &[2.0, 1.0, 1.0], &[0.0, 2.0]);
        assert_eq!(columns, Ok(vec![Some(1), None, None]));
        // The best row per unit and a worthless one keep four units from a row that is worth more than both.
        let columns = found(&[2.7, 0.1, 1.1], &[4.0, 1.0, 1.0], &[4.0]);
        assert_eq!(columns, Ok(vec![Some(0), None, None]));
        // All have a place, but a gang is nearly worthless in its own; the two that hold the other are worth nearly the same in both.
        let columns = found(&[1.0, 0.9, 2.3, 0.1, 0.7, 0.7], &[1.0, 4.0, 2.0], &[4.0, 4.0]);
        assert_eq!(columns, Ok(vec![Some(1), Some(0), Some(1)]));
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

    #[test]
    fn without_pools_everybody_waits() {
        for sizes in [[1.0, 1.0], [1.0, 2.0]] {
            assert_eq!(match_by_prices(&Matching { values: &[], sizes: &sizes, capacities: &[] }), Ok(vec![None, None]));
        }
    }
}
