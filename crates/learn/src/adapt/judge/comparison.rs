//! Choices on tables that nothing was learned from, compared with a network that does not grow. Differences are paired by seed: runs of
//! one seed share their beginning. Intervals are 95 % intervals of Student's t over the seeds.

use crate::adapt::choose::forecast::Forecaster;
use crate::adapt::judge::evaluation::{Interval, best_fixed_of};
use crate::adapt::record::table::{RecordedRun, Table, Triple, triple_text};
use serde::Serialize;

/// How much better than a network that does not grow one way of choosing ends on one table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Gain {
    /// The name of the table.
    pub table: String,
    /// The way of choosing.
    pub choice: String,
    /// The triples it chose, for each seed of its learning where there are several.
    pub triples: Vec<String>,
    /// The accuracy after the last epoch, in points above "nothing".
    pub last_points: Interval,
    /// The mean accuracy of the last five epochs, in points above "nothing".
    pub settled_points: Interval,
    /// How many seeds of training the intervals are over.
    pub seeds: usize,
}

/// Compares ways of choosing on each table. The default decision maker learns from `learned`, which must not be these tables.
pub fn against_nothing(learned: &[Table], judged: &[Table], seeds: u64) -> Vec<Gain> {
    judged.iter().flat_map(|table| of_table(learned, table, seeds)).collect()
}

fn of_table(learned: &[Table], table: &Table, seeds: u64) -> Vec<Gain> {
    let lessons = learned.iter().collect::<Vec<_>>();
    let choose = |seed| Forecaster::learn(&lessons, seed).triple(&table.architecture, table.part_left());
    let default = (0..seeds.max(1)).map(choose).collect::<Vec<_>>();
    let mut gains = vec![gain(table, "default", &default)];
    if let Some(fixed) = best_fixed_of(&lessons, table) {
        gains.push(gain(table, "best fixed triple of the tables it learned from", &[fixed]));
    }
    let all = table.runs.iter().map(|run| run.actions).collect::<Vec<_>>();
    gains.push(Gain { triples: Vec::new(), ..gain(table, "random triple", &all) });
    let best = table.runs.iter().fold(&table.runs[0], |best, run| if run.settled > best.settled { run } else { best });
    gains.push(gain(table, "best of this table, chosen afterwards", &[best.actions]));
    gains
}

/// The mean gain of some triples, for each seed of the training, and its interval over these seeds.
fn gain(table: &Table, choice: &str, triples: &[Triple]) -> Gain {
    let nothing = table.run(table.nothing());
    let points = |value: &dyn Fn(&RecordedRun) -> &[f64]| {
        let of_seed = |seed: usize| {
            let sum = triples.iter().map(|triple| value(table.run(*triple))[seed] - value(nothing)[seed]).sum::<f64>();
            100.0 * sum / triples.len() as f64
        };
        Interval::of(&(0..table.seeds).map(of_seed).collect::<Vec<_>>())
    };
    Gain {
        table: table.name(),
        choice: choice.to_owned(),
        triples: triples.iter().map(|triple| triple_text(triple)).collect(),
        last_points: points(&|run| run.accuracy_by_seed.as_slice()),
        settled_points: points(&|run| run.settled_by_seed.as_slice()),
        seeds: table.seeds,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapt::record::table::tests::example;

    #[test]
    fn gains_are_paired_by_seed() {
        let learned = [example(), example()];
        let mut judged = example();
        judged.seeds = 3;
        for run in &mut judged.runs {
            // Seeds differ by ten points, and alike for every triple: the difference to nothing has no spread.
            let of_seeds = [0.0, 0.1, 0.2].map(|shift| run.accuracy + shift).to_vec();
            (run.accuracy_by_seed, run.settled_by_seed) = (of_seeds.clone(), of_seeds);
        }
        let gains = against_nothing(&learned, &[judged], 2);
        let of = |name: &str| gains.iter().find(|gain| gain.choice == name).unwrap();
        let default = of("default");
        assert_eq!(default.triples, ["000", "000"]);
        assert!((default.last_points.mean - 15.0).abs() < 1e-9 && (default.last_points.high - 15.0).abs() < 1e-9, "{default:?}");
        assert!((of("random triple").settled_points.mean - 7.5).abs() < 1e-9, "{gains:?}");
        assert!((of("best of this table, chosen afterwards").last_points.low - 15.0).abs() < 1e-9, "{gains:?}");
    }
}
