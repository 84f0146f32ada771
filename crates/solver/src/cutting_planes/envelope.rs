//! One row against prices: the cheapest way to reach a requirement.
//!
//! Column `j` is a point (rate, cost). Dividing time between columns, or idling at the origin, reaches every point of their convex
//! hull, so the cheapest way to a rate of at least `need` is a point of the lower envelope: the point of least cost if that is already
//! fast enough, otherwise the envelope at `need`, which mixes at most two columns. Always: fractions are in 0..=1 and sum to at most 1.

#![expect(
    clippy::inline_always,
    clippy::needless_bitwise_bool,
    reason = "the pass over rows is the whole cost, and is only quick as one loop of constant width without branches"
)]

use crate::problem::LastChoice;
use std::cell::Cell;

/// Index standing for the origin, that is, for idling.
pub const IDLE: usize = usize::MAX;

/// The cheapest division of one row's time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Choice {
    /// The slower point of the segment; [`IDLE`] for the origin.
    pub left: usize,
    /// The faster point; [`IDLE`] if the row stays on `left` alone.
    pub right: usize,
    /// Time on `right`; the rest is spent on `left`.
    pub weight: f64,
    /// How `weight` grows with the requirement (zero where the requirement does not bind).
    pub weight_slope: f64,
}

impl Choice {
    /// The fractions as (column, time) pairs; an idle part is left out.
    pub fn parts(&self) -> [(usize, f64); 2] {
        [(self.left, 1.0 - self.weight), (self.right, self.weight)]
    }

    /// True if both take the same segment and so can differ only in how they divide it.
    pub fn same_columns(&self, other: &Self) -> bool {
        self.left == other.left && self.right == other.right
    }
}

/// A column's point, or the origin.
#[inline(always)]
fn point(rates: &[f64], costs: &[f64], index: usize) -> (f64, f64) {
    if index == IDLE { (0.0, 0.0) } else { (rates[index], costs[index]) }
}

/// The best choice for a row, whose best rate is given. `costs` of unusable columns are infinite; `need` above the best rate counts as
/// the best rate.
#[inline(always)]
pub fn choose(rates: &[f64], best_rate: f64, costs: &[f64], need: f64) -> Choice {
    let mut left = IDLE;
    let mut least = 0.0;
    // Selections instead of branches, here and below: which column wins is as good as random, and a wrong guess costs more than the sums.
    for (index, &cost) in costs.iter().enumerate() {
        // Strictly less: where idling is as cheap, it leaves more for others.
        let cheaper = cost < least;
        least = if cheaper { cost } else { least };
        left = if cheaper { index } else { left };
    }
    let saturated = need >= best_rate;
    let need = if saturated { best_rate } else { need };
    let stay = Choice { left, right: IDLE, weight: 0.0, weight_slope: 0.0 };
    if best_rate <= 0.0 || (left != IDLE && rates[left] >= need) {
        return stay;
    }
    let Some((left, right)) = segment(rates, costs, need, left) else { return stay };
    let (left_rate, _) = point(rates, costs, left);
    let width = (rates[right] - left_rate).recip();
    let weight = ((need - left_rate) * width).clamp(0.0, 1.0);
    Choice { left, right, weight, weight_slope: width }
}

/// Columns among which looking anew is as quick as looking whether the last choice is still right.
const FEW_COLUMNS: usize = 4;

/// How far above the line through two columns, relative to their costs, all others lie where there is no doubt about these two.
const CLEAR: f64 = 1e-12;

/// As [`choose`], tried first on the columns that were right the last time: other columns are looked for unless all of them, and idling,
/// lie clearly above the line through these. The choice is the one that [`choose`] makes, always.
#[inline(always)]
pub(crate) fn choose_from(rates: &[f64], best_rate: f64, costs: &[f64], need: f64, guess: &Cell<LastChoice>) -> Choice {
    if rates.len() <= FEW_COLUMNS {
        return choose(rates, best_rate, costs, need);
    }
    if let Some(choice) = still(rates, costs, need, guess.get()) {
        return choice;
    }
    let choice = choose(rates, best_rate, costs, need);
    let name = |column: usize| u8::try_from(column).unwrap_or(LastChoice::NONE);
    let whole =
        choice.right < usize::from(LastChoice::NONE) && (choice.left == IDLE || choice.left < usize::from(LastChoice::NONE));
    guess.set(if whole { LastChoice { left: name(choice.left), right: name(choice.right) } } else { LastChoice::default() });
    choice
}

/// The choice of these columns, if it is still the best one.
#[inline(always)]
fn still(rates: &[f64], costs: &[f64], need: f64, guess: LastChoice) -> Option<Choice> {
    let right = usize::from(guess.right);
    if right >= rates.len() {
        return None;
    }
    let left = if guess.left == LastChoice::NONE { IDLE } else { usize::from(guess.left) };
    let (left_rate, left_cost) = point(rates, costs, left);
    let (right_rate, right_cost) = (rates[right], costs[right]);
    let width = (right_rate - left_rate).recip();
    let slope = (right_cost - left_cost) * width;
    // Clearly: where others lie on the line, all passes must agree on which is chosen, whatever was chosen before.
    let near = CLEAR * (left_cost.abs() + right_cost.abs());
    let is_clear = |rate: f64, cost: f64| (cost - left_cost) - slope * (rate - left_rate) > near;
    // Idling is a point like any other.
    let idling_is_clear = left == IDLE || is_clear(0.0, 0.0);
    // The two columns themselves lie on the line. All are counted and they are taken off: a loop without exceptions is much quicker.
    let clear = rates.iter().zip(costs).map(|(&rate, &cost)| usize::from(is_clear(rate, cost))).sum::<usize>();
    let others = rates.len() - 1 - usize::from(left != IDLE);
    let all_clear = idling_is_clear && clear - usize::from(is_clear(right_rate, right_cost)) == others;
    let fits = left_rate < need && need <= right_rate && slope > 0.0 && all_clear;
    let weight = ((need - left_rate) * width).clamp(0.0, 1.0);
    fits.then_some(Choice { left, right, weight, weight_slope: width })
}

/// The edge of the lower envelope above `need`, found from `left`, a vertex of the envelope that is slower than `need`.
#[inline(always)]
fn segment(rates: &[f64], costs: &[f64], need: f64, mut left: usize) -> Option<(usize, usize)> {
    let (mut left_rate, mut left_cost) = point(rates, costs, left);
    // First guess: the smallest slope from `left` among the columns that are fast enough.
    let mut right = IDLE;
    let mut least = f64::INFINITY;
    for index in 0..rates.len() {
        let slope = (costs[index] - left_cost) / (rates[index] - left_rate);
        // Where there is no run the slope is no number, and no comparison with it holds.
        let better = (rates[index] >= need) & (rates[index] > left_rate) & (slope < least);
        least = if better { slope } else { least };
        right = if better { index } else { right };
    }
    if right == IDLE {
        return None;
    }
    // Each step finds a new vertex strictly below the line, so there are at most as many as columns; the bound is for rounding.
    for _ in 0..rates.len() {
        let slope = (costs[right] - left_cost) / (rates[right] - left_rate);
        let mut below = 0.0;
        let mut next = IDLE;
        for index in 0..rates.len() {
            let depth = (costs[index] - left_cost) - slope * (rates[index] - left_rate);
            let deeper = (depth < below) & (index != right) & (index != left);
            below = if deeper { depth } else { below };
            next = if deeper { index } else { next };
        }
        if next == IDLE || below > -1e-15 * (left_cost.abs() + costs[right].abs()) {
            break;
        }
        if rates[next] >= need && rates[next] > left_rate {
            right = next;
        } else if rates[next] < rates[right] {
            left = next;
            (left_rate, left_cost) = (rates[next], costs[next]);
        } else {
            break;
        }
    }
    Some((left, right))
}

/// What is known of the costs beyond the numbers themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CostSign {
    /// Costs are prices alone, and no price is ever negative.
    NonNegative,
    /// Gains have been taken off: moving prices may make a column worth using for its own sake.
    Any,
}

/// Whether the choice stays the best one (with the same columns) for every cost within `size·slack[j]` of `costs[j]`.
#[inline(always)]
pub fn settled(rates: &[f64], costs: &[f64], slack: &[f64], size: f64, sign: CostSign, choice: &Choice) -> bool {
    // One check of the length in place of one for each column.
    let slack = &slack[..rates.len()];
    let (left_rate, left_cost) = point(rates, costs, choice.left);
    let left_slack = if choice.left == IDLE { 0.0 } else { size * slack[choice.left] };
    if choice.right == IDLE {
        // Alone on the cheapest column: everything else, idling too, must stay dearer.
        let mut safe = choice.left == IDLE || -left_cost > left_slack;
        for index in 0..rates.len() {
            safe &= index == choice.left || costs[index] - left_cost > size * slack[index] + left_slack;
        }
        return safe;
    }
    let right_cost = costs[choice.right];
    let right_slack = size * slack[choice.right];
    let slope = (right_cost - left_cost) * choice.weight_slope;
    // How far the line through both points may move at another rate: linear extrapolation of the two slacks.
    let sway = |rate: f64| {
        let along = (rate - left_rate) * choice.weight_slope;
        along.abs() * right_slack + (1.0 - along).abs() * left_slack
    };
    // Moving right must stay costly, or the requirement would cease to bind.
    let mut safe = sign == CostSign::NonNegative || right_cost - left_cost > left_slack + right_slack;
    if choice.left != IDLE {
        safe &= slope * left_rate - left_cost > sway(0.0);
    }
    let stays_above = |rate: f64, cost: f64, slack: f64| {
        let depth = (cost - left_cost) - slope * (rate - left_rate);
        depth > size * slack + sway(rate)
    };
    // The two columns themselves lie on the line: counted and taken off, as above.
    let points = rates.iter().zip(costs).zip(slack);
    let above = points.map(|((&rate, &cost), &slack)| usize::from(stays_above(rate, cost, slack))).sum::<usize>();
    let others = rates.len() - 1 - usize::from(choice.left != IDLE);
    safe && above - usize::from(stays_above(rates[choice.right], right_cost, slack[choice.right])) == others
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Numbers that often tie.
    fn number() -> impl Strategy<Value = f64> {
        prop_oneof![0.0..4.0_f64, (0..5_u8).prop_map(f64::from)]
    }

    proptest! {
        #[test]
        fn the_choice_does_not_depend_on_the_guess(
            columns in prop::collection::vec((number(), number(), -1.0..3.0_f64), 5..12),
            need in number(),
            left in 0..14_u8,
            right in 0..14_u8,
            gains in any::<bool>(),
        ) {
            let rates: Vec<f64> = columns.iter().map(|column| column.0).collect();
            let cost = |column: &(f64, f64, f64)| if column.0 <= 0.0 { f64::INFINITY } else if gains { column.2 } else { column.1 };
            let costs: Vec<f64> = columns.iter().map(cost).collect();
            let name = |guess: u8| if usize::from(guess) < columns.len() { guess } else { LastChoice::NONE };
            let guess = Cell::new(LastChoice { left: name(left), right: name(right) });
            let best = rates.iter().copied().fold(0.0, f64::max);
            let plain = choose(&rates, best, &costs, need);
            for _ in 0..2 {
                let chosen = choose_from(&rates, best, &costs, need, &guess);
                prop_assert_eq!((chosen.left, chosen.right), (plain.left, plain.right));
                prop_assert!((chosen.weight - plain.weight).abs() < 1e-12);
            }
        }
    }
}
