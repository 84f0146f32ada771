//! The noise of tables: runs that took the same actions in another order ought to end alike, so that their spread bounds the noise from
//! above; and what an agent could reach that knew everything but the noise.

use crate::adapt::record::table::{Table, Triple};
use rota_core::random::RandomStream;
use std::collections::BTreeMap;

/// Simulated tables that the noise floor is the mean of.
const DRAWS: usize = 2000;

/// The runs of each set of actions, whatever their order.
fn sets(table: &Table) -> Vec<Vec<usize>> {
    let mut sets: BTreeMap<Triple, Vec<usize>> = BTreeMap::new();
    for (place, run) in table.runs.iter().enumerate() {
        let mut set = run.actions;
        set.sort_unstable();
        sets.entry(set).or_default().push(place);
    }
    sets.into_values().collect()
}

/// The variance of these accuracies, and the part of it that is between orders of the same actions.
fn variances(table: &Table, accuracies: &[f64]) -> (f64, f64) {
    let spread = |places: &mut dyn Iterator<Item = usize>| {
        let values = places.map(|place| accuracies[place]).collect::<Vec<_>>();
        let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
        (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>(), values.len().saturating_sub(1))
    };
    let (total, freedom) = spread(&mut (0..accuracies.len()));
    let within = sets(table).into_iter().map(|set| spread(&mut set.into_iter()));
    let (noise, noise_freedom) = within.fold((0.0, 0), |sum, own| (sum.0 + own.0, sum.1 + own.1));
    let total = total / freedom.max(1) as f64;
    (total, (noise / noise_freedom.max(1) as f64).min(total))
}

/// The part of the variance of a table's accuracies that is not noise.
pub fn reliability(table: &Table, accuracies: &[f64]) -> f64 {
    let (total, noise) = variances(table, accuracies);
    if total > 0.0 { 1.0 - noise / total } else { 0.0 }
}

/// The mean regret, in points, of an agent that knows the true mean of every set of actions: simulated with the table's own variances.
pub fn floor_points(table: &Table, stream: &mut RandomStream) -> f64 {
    let accuracies = table.runs.iter().map(|run| run.accuracy).collect::<Vec<_>>();
    let (total, noise) = variances(table, &accuracies);
    let sets = sets(table);
    let mut regret = 0.0;
    for _ in 0..DRAWS {
        let mut best_seen = f64::NEG_INFINITY;
        let mut chosen = (f64::NEG_INFINITY, 0.0);
        for set in &sets {
            let mean = stream.normal() * (total - noise).sqrt();
            for number in 0..set.len() {
                let seen = mean + stream.normal() * noise.sqrt();
                best_seen = best_seen.max(seen);
                if number == 0 && mean > chosen.0 {
                    chosen = (mean, seen);
                }
            }
        }
        regret += best_seen - chosen.1;
    }
    100.0 * regret / DRAWS as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapt::record::table::tests::example;

    #[test]
    fn a_table_without_noise_is_reliable_and_has_no_floor() {
        let mut table = example();
        let accuracies = |table: &Table| table.runs.iter().map(|run| run.accuracy).collect::<Vec<_>>();
        assert!((reliability(&table, &accuracies(&table)) - 1.0).abs() < 1e-9);
        assert!(floor_points(&table, &mut RandomStream::new(1, "floor")).abs() < 1e-6);
        let mut stream = RandomStream::new(1, "noise");
        for run in &mut table.runs {
            run.accuracy = 0.5 + 0.01 * stream.normal();
        }
        assert!(reliability(&table, &accuracies(&table)) < 0.4);
        // Of 64 draws of one normal distribution the best is 2.4 standard deviations above the mean.
        let floor = floor_points(&table, &mut stream);
        assert!((1.0..3.0).contains(&floor), "{floor}");
    }
}
