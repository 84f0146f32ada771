//! Gathers a packed allocation into few columns without changing what anybody gets.
//!
//! An interior-point method spreads every class over all columns that are equally good. Whenever a column's effect (the rates it gives, the
//! units it takes, what it gains, and the time of classes that have none to spare) is a combination of the others' effects, amounts can be
//! shifted until one column is empty. What is left is about one column per class, so agents have few places and few partners.

use crate::mix::combination;
use crate::packed::{Column, PackedProblem};

/// Used part of its time above which a class's time is not to be touched.
const NEARLY_ALL: f64 = 0.5;

/// The same allocation in fewer columns; amounts by column. Classes that had time to spare may use a little more or less of it.
pub(crate) fn thinned(
    problem: &PackedProblem,
    columns: &[Column],
    amounts: &[(usize, f64)],
    gain: impl Fn(&Column) -> f64,
) -> Vec<(usize, f64)> {
    let classes = problem.classes.len();
    let mut times = vec![0.0; classes];
    for &(index, amount) in amounts {
        columns[index].members().for_each(|(class, _)| times[class] += amount / problem.classes[class].count);
    }
    let scarce: Vec<usize> = (0..classes).filter(|&class| times[class] > NEARLY_ALL).collect();
    let total: f64 = amounts.iter().map(|&(index, amount)| gain(&columns[index]) * amount).sum();
    let effect = |index: usize| {
        let column = &columns[index];
        let mut effect = vec![0.0; classes + problem.capacities.len() + 1 + scarce.len()];
        for (class, rate) in column.members() {
            let best = problem.classes[class].rates.iter().copied().fold(0.0, f64::max);
            effect[class] += rate / best / problem.classes[class].count;
            if let Ok(place) = scarce.binary_search(&class) {
                effect[classes + problem.capacities.len() + 1 + place] += 1.0 / problem.classes[class].count;
            }
        }
        effect[classes + column.pool] = column.size / problem.capacities[column.pool];
        effect[classes + problem.capacities.len()] = if total > 0.0 { gain(column) / total } else { 0.0 };
        effect
    };
    // Largest first: what is held longest should be what matters most.
    let mut order = amounts.to_vec();
    order.sort_by(|one, other| other.1.total_cmp(&one.1).then(one.0.cmp(&other.0)));
    let mut held: Vec<(usize, f64, Vec<f64>)> = Vec::new();
    for (index, amount) in order {
        let own = effect(index);
        let independent: Vec<&[f64]> = held.iter().map(|held| held.2.as_slice()).collect();
        match combination(&independent, &own) {
            None => held.push((index, amount, own)),
            Some(moves) => shift(&mut held, (index, amount, own), &moves),
        }
    }
    let mut left: Vec<(usize, f64)> =
        held.into_iter().map(|(index, amount, _)| (index, amount)).filter(|entry| entry.1 > 0.0).collect();
    left.sort_by_key(|entry| entry.0);
    left
}

/// Replaces a column by the combination of held ones that has its effect, as far as they last; if one of them runs out first, the new
/// column takes its place.
fn shift(held: &mut [(usize, f64, Vec<f64>)], new: (usize, f64, Vec<f64>), moves: &[f64]) {
    let (index, amount, own) = new;
    // Moving `step` of the new column adds `step·moves` to the held ones; those with a negative move run out.
    let (mut step, mut limit) = (amount, None);
    for (place, &along) in moves.iter().enumerate() {
        if along < 0.0 && held[place].1 / -along < step {
            (step, limit) = (held[place].1 / -along, Some(place));
        }
    }
    for (entry, &along) in held.iter_mut().zip(moves) {
        entry.1 = (entry.1 + step * along).max(0.0);
    }
    if let Some(place) = limit {
        held[place] = (index, amount - step, own);
    }
}
