//! From prices back to an allocation: mixes the choices that the certificate names, then gathers fractions into few rows.
//!
//! The mixture of whole allocations splits every open row a little. Moves that change no pool's load can undo all but about as many
//! splits as there are pools, which turns the mixture into something like a vertex: nearly every row is then at one corner of its own
//! choices. Always: the result loads no pool above its capacity (beyond rounding) and no row above its time.

use crate::climb::Peak;
use crate::envelope::{Choice, IDLE};
use crate::sweep::{Oracle, PerPool, Rows, Seen};
use smallvec::{SmallVec, smallvec};

/// A row that the mixture treats in several ways, with the weight of each.
struct Split {
    row: usize,
    ways: Ways,
}

/// Ways to treat a row, with their weights: seldom more than two.
type Ways = SmallVec<[(Choice, f64); 2]>;

/// The allocation that a peak describes, scaled to fit the pools; rows × columns.
pub(crate) fn recover(oracle: &Oracle<'_>, peak: &Peak) -> Vec<f64> {
    let columns = oracle.columns();
    if let Some(shares) = &peak.shares {
        let load = fullest(oracle, shares).max(1.0);
        return shares.iter().map(|share| share / load).collect();
    }
    let mut shares = vec![0.0; oracle.problem.rows() * columns];
    oracle.visit(Rows::All, &peak.prices, &mut |seen: &Seen<'_>| write(&mut shares, columns, seen.row, &[(seen.choice, 1.0)]));
    let mut splits = splits(oracle, peak);
    let mixed: Vec<Ways> = splits.iter().map(|split| split.ways.clone()).collect();
    let mixed_load = peak.load();
    gather(oracle, &mut splits);
    for split in &splits {
        write(&mut shares, columns, split.row, &split.ways);
    }
    let mut load = fullest(oracle, &shares);
    // Gathering moves loads only by rounding; if it did not (nearly dependent directions), the mixture itself is kept.
    if load > mixed_load.max(1.0) * (1.0 + 2e-14) {
        for (split, ways) in splits.iter().zip(&mixed) {
            write(&mut shares, columns, split.row, ways);
        }
        load = fullest(oracle, &shares);
    }
    if load > 1.0 {
        for share in &mut shares {
            *share /= load;
        }
    }
    shares
}

fn write(shares: &mut [f64], columns: usize, row: usize, ways: &[(Choice, f64)]) {
    let target = &mut shares[row * columns..(row + 1) * columns];
    target.fill(0.0);
    for (choice, weight) in ways {
        for (column, time) in choice.parts() {
            if column != IDLE {
                target[column] += weight * time;
            }
        }
    }
}

/// The largest load over capacity.
fn fullest(oracle: &Oracle<'_>, shares: &[f64]) -> f64 {
    let problem = oracle.problem;
    let columns = problem.columns();
    let (mut used, mut block): (PerPool, PerPool) = (smallvec![0.0; columns], smallvec![0.0; columns]);
    for (row, share) in shares.chunks_exact(columns).enumerate() {
        let load = problem.sizes()[row] * problem.counts()[row];
        for (block, &fraction) in block.iter_mut().zip(share) {
            *block += load * fraction;
        }
        if row % 1024 == 1023 {
            used.iter_mut().zip(&mut block).for_each(|(used, block)| *used += std::mem::take(block));
        }
    }
    used.iter_mut().zip(&block).for_each(|(used, block)| *used += block);
    let loads =
        used.iter().zip(problem.capacities()).filter(|(_, capacity)| **capacity > 0.0).map(|(used, capacity)| used / capacity);
    loads.fold(0.0, f64::max)
}

/// The open rows for which the mixture's prices lead to different choices.
fn splits(oracle: &Oracle<'_>, peak: &Peak) -> Vec<Split> {
    let count = peak.open.as_ref().map_or(oracle.problem.rows(), Vec::len);
    let rows = peak.open.as_deref().map_or(Rows::All, Rows::Some);
    let mut ways: Vec<Ways> = vec![Ways::new(); count];
    let mut names = vec![0; count];
    for (prices, share) in &peak.mixture {
        let mut index = 0;
        oracle.visit(rows, prices, &mut |seen: &Seen<'_>| {
            names[index] = seen.row;
            match ways[index].iter_mut().find(|(choice, _)| choice.same_columns(&seen.choice)) {
                Some(way) => way.1 += share,
                None => ways[index].push((seen.choice, *share)),
            }
            index += 1;
        });
    }
    names.into_iter().zip(ways).map(|(row, ways)| Split { row, ways }).filter(|split| !split.ways.is_empty()).collect()
}

/// A move within one row: from its last way to its first, and what that does to the pools.
struct Held {
    split: usize,
    effect: PerPool,
}

/// Shifts weight inside rows along directions that cancel in every pool until at most one row per pool stays split.
fn gather(oracle: &Oracle<'_>, splits: &mut [Split]) {
    let mut held: Vec<Held> = Vec::new();
    for index in 0..splits.len() {
        // Each round removes a way of some row or holds this row, so the bound is never met by a correct run.
        for _ in 0..4 * (oracle.columns() + 2) * (oracle.columns() + 2) {
            if splits[index].ways.len() < 2 || held.iter().any(|held| held.split == index) {
                break;
            }
            let effect = effect(oracle, &splits[index]);
            let Some(moves) = combination(&effects(&held), &effect) else {
                held.push(Held { split: index, effect });
                break;
            };
            shift(splits, index, &held, &moves);
            refresh(oracle, splits, &mut held);
        }
    }
}

/// Load change per unit of weight moved from the last way of a row to its first.
fn effect(oracle: &Oracle<'_>, split: &Split) -> PerPool {
    let problem = oracle.problem;
    let load = problem.sizes()[split.row] * problem.counts()[split.row];
    let mut change: PerPool = smallvec![0.0; problem.columns()];
    for (way, sign) in [(split.ways.first(), 1.0), (split.ways.last(), -1.0)] {
        for (column, time) in way.map_or([(IDLE, 0.0); 2], |(choice, _)| choice.parts()) {
            if column != IDLE {
                change[column] += sign * load * time / problem.capacities()[column];
            }
        }
    }
    change
}

fn effects(held: &[Held]) -> SmallVec<[&[f64]; 8]> {
    held.iter().map(|held| held.effect.as_slice()).collect()
}

/// Amounts of independent vectors that add up to `effect`, or none if it is independent of them.
pub(crate) fn combination(held: &[&[f64]], effect: &[f64]) -> Option<Vec<f64>> {
    let (rows, columns) = (effect.len(), held.len());
    let width = columns + 1;
    let mut table: SmallVec<[f64; 32]> = smallvec![0.0; rows * width];
    for row in 0..rows {
        for (column, held) in held.iter().enumerate() {
            table[row * width + column] = held[row];
        }
        table[row * width + columns] = effect[row];
    }
    let mut pivots = Vec::with_capacity(columns);
    for column in 0..columns {
        // Rows above `column` are used up: every held move has exactly one pivot, because held moves are independent.
        let best = (column..rows).max_by(|&a, &b| table[a * width + column].abs().total_cmp(&table[b * width + column].abs()))?;
        for entry in 0..width {
            table.swap(best * width + entry, column * width + entry);
        }
        let pivot = table[column * width + column];
        if pivot == 0.0 {
            return None;
        }
        for row in (0..rows).filter(|&row| row != column) {
            let factor = table[row * width + column] / pivot;
            for entry in column..width {
                table[row * width + entry] -= factor * table[column * width + entry];
            }
        }
        pivots.push(pivot);
    }
    let size = effect.iter().fold(0.0_f64, |most, entry| most.max(entry.abs()));
    let rest = (columns..rows).fold(0.0_f64, |most, row| most.max(table[row * width + columns].abs()));
    (rest <= 1e-12 * size).then(|| pivots.iter().enumerate().map(|(row, pivot)| table[row * width + columns] / pivot).collect())
}

/// Moves row `index` one way and the held rows the other, as far as some weight lasts.
fn shift(splits: &mut [Split], index: usize, held: &[Held], moves: &[f64]) {
    let mut step = splits[index].ways[splits[index].ways.len() - 1].1;
    let mut limit = index;
    for (held, &amount) in held.iter().zip(moves) {
        let ways = &splits[held.split].ways;
        // The held row moves by minus `amount`: a positive amount drains its first way, a negative one its last.
        let room = if amount > 0.0 { ways[0].1 } else { ways[ways.len() - 1].1 };
        if amount != 0.0 && room / amount.abs() < step {
            step = room / amount.abs();
            limit = held.split;
        }
    }
    let mut apply = |split: usize, direction: f64| {
        let ways = &mut splits[split].ways;
        let last = ways.len() - 1;
        ways[0].1 = (ways[0].1 + direction * step).max(0.0);
        ways[last].1 = (ways[last].1 - direction * step).max(0.0);
        if split == limit {
            // Rounding must not keep alive what the step was chosen to end. The direction says which way that is even where the step is
            // nothing, because an earlier one emptied two ways at once.
            ways.remove(if direction > 0.0 { last } else { 0 });
            let total: f64 = ways.iter().map(|way| way.1).sum();
            for way in ways {
                way.1 /= total;
            }
        }
    };
    apply(index, 1.0);
    for (held, &amount) in held.iter().zip(moves) {
        apply(held.split, -amount);
    }
}

/// Drops rows that are whole again and recomputes the moves of rows that lost a way.
fn refresh(oracle: &Oracle<'_>, splits: &[Split], held: &mut Vec<Held>) {
    let mut kept: Vec<Held> = Vec::with_capacity(held.len());
    for old in held.drain(..) {
        let split = &splits[old.split];
        if split.ways.len() >= 2 {
            let effect = effect(oracle, split);
            if combination(&effects(&kept), &effect).is_none() {
                kept.push(Held { split: old.split, effect });
            }
        }
    }
    *held = kept;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_that_is_empty_already_is_the_one_that_goes() {
        let way = |left: usize| Choice { left, right: IDLE, weight: 0.0, weight_slope: 0.0 };
        let mut splits = [Split { row: 0, ways: smallvec![(way(0), 1.0), (way(1), 0.0)] }];
        shift(&mut splits, 0, &[], &[]);
        assert_eq!(splits[0].ways.as_slice(), [(way(0), 1.0)]);
    }
}
