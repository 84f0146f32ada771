//! Choices compared by regret: how far below the best triple of a table each way of choosing ends, with every table left out in turn.
//! Intervals are 95 % intervals of Student's t over tables; differences to a random triple are paired by table.

use crate::adapt::choose::forecast::Forecaster;
use crate::adapt::choose::game::{Game, GameError};
use crate::adapt::choose::policy::PolicyNetwork;
use crate::adapt::choose::vocabulary::Vocabulary;
use crate::adapt::network::architecture::BlockKind;
use crate::adapt::record::noise::floor_points;
use crate::adapt::record::table::{Table, Triple, triple_at};
use rota_core::random::RandomStream;
use serde::Serialize;
use std::collections::BTreeMap;

/// A mean with its interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[expect(missing_docs, reason = "each field is its own name")]
pub struct Interval {
    pub mean: f64,
    pub low: f64,
    pub high: f64,
}

impl Interval {
    /// The mean of these values and its 95 % interval. One value has no interval.
    pub fn of(values: &[f64]) -> Self {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count.max(1.0);
        if values.len() < 2 {
            return Self { mean, low: f64::NAN, high: f64::NAN };
        }
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
        let half = student(values.len() - 1) * (variance / count).sqrt();
        Self { mean, low: mean - half, high: mean + half }
    }
}

/// The 97.5 % point of Student's t.
fn student(freedom: usize) -> f64 {
    const POINTS: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110,
        2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
    ];
    POINTS.get(freedom.saturating_sub(1)).copied().unwrap_or(1.96)
}

/// How one way of choosing did.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Choice {
    /// The way of choosing.
    pub choice: String,
    /// The mean regret over the tables, in points of accuracy.
    pub regret_points_mean: f64,
    /// The lower end of its interval.
    pub low: f64,
    /// The upper end of its interval.
    pub high: f64,
    /// The mean regret over the tables of each model.
    pub models: BTreeMap<String, f64>,
    /// Random's regret minus this one's, paired by table: over all tables, and over those of each model.
    pub better_than_random: BTreeMap<String, Interval>,
    /// The regret on each table.
    pub tables: BTreeMap<String, f64>,
    /// The triple chosen on each table, for each seed where there are several.
    pub triples: BTreeMap<String, Vec<String>>,
}

/// A policy to be judged: its name, its network, and the vectors of its layers.
pub struct Judged {
    /// The policy's name in the tables.
    pub name: String,
    /// The policy's network.
    pub network: PolicyNetwork,
    /// The layers' vectors.
    pub vocabulary: Vocabulary,
}

/// A way of choosing with, for each table, its regret and its triples.
type Regrets = (String, Vec<(f64, Vec<Triple>)>);

/// Judges every way of choosing on every table, with that table left out of all learning.
pub fn leave_one_out(tables: &[Table], seeds: u64, policies: &[Judged]) -> Result<Vec<Choice>, GameError> {
    let mut judged: Vec<Regrets> = Vec::new();
    let mut fixed = |name: &str, choose: &dyn Fn(usize) -> Option<Triple>| {
        let chosen = (0..tables.len()).map(choose).collect::<Option<Vec<_>>>();
        if let Some(chosen) = chosen {
            let regrets = tables.iter().zip(chosen).map(|(table, triple)| (table.regret_points(triple), vec![triple]));
            judged.push((name.to_owned(), regrets.collect()));
        }
    };
    fixed("nothing", &|place| Some(tables[place].nothing()));
    fixed("best fixed triple of the other tables", &|place| best_fixed(tables, place, |_| true));
    let model = |place: usize| tables[place].architecture.kind;
    fixed("best fixed triple of the same model's other tables", &|place| {
        best_fixed(tables, place, |other| model(other) == model(place))
    });
    fixed("best triple of the nearest scenario, same model", &|place| nearest(tables, place));
    let mean = |keep: &dyn Fn(&Table, Triple) -> bool| {
        let of = |table: &Table| {
            let kept = table.runs.iter().filter(|run| keep(table, run.actions)).map(|run| run.accuracy).collect::<Vec<_>>();
            (100.0 * (table.best() - kept.iter().sum::<f64>() / kept.len().max(1) as f64), Vec::new())
        };
        tables.iter().map(of).collect::<Vec<_>>()
    };
    judged.push(("random triple".to_owned(), mean(&|_, _| true)));
    judged.push((
        "random among triples that only deepen convolutions".to_owned(),
        mean(&|table, triple| {
            let deepens = |action: &usize| table.architecture.block_kind(*action) == Some(BlockKind::Convolution);
            triple.iter().all(deepens)
        }),
    ));
    judged.push(("default".to_owned(), (0..tables.len()).map(|place| default_choice(tables, place, seeds)).collect()));
    for policy in policies {
        judged.push((format!("policy {}", policy.name), of_policy(tables, policy)?));
    }
    let mut stream = RandomStream::new(0, "floor");
    let floor = tables.iter().map(|table| (floor_points(table, &mut stream), Vec::new()));
    judged.push(("noise floor: true means known".to_owned(), floor.collect()));
    let random = judged.iter().find(|(name, _)| name == "random triple").map(|(_, regrets)| regrets.clone());
    let random = random.unwrap_or_default();
    Ok(judged.into_iter().map(|judged| summary(tables, judged, &random)).collect())
}

/// The triple with the highest mean accuracy in the other tables that are kept and have the same actions.
fn best_fixed(tables: &[Table], place: usize, keep: impl Fn(usize) -> bool) -> Option<Triple> {
    let others = tables.iter().enumerate().filter(|(other, _)| *other != place && keep(*other));
    best_fixed_of(&others.map(|(_, table)| table).collect::<Vec<_>>(), &tables[place])
}

/// The triple with the highest mean accuracy in those of some tables that have the same actions as this one.
pub(super) fn best_fixed_of(tables: &[&Table], own: &Table) -> Option<Triple> {
    let others = tables.iter().filter(|other| other.actions() == own.actions()).collect::<Vec<_>>();
    if others.is_empty() {
        return None;
    }
    let mean = |run: usize| others.iter().map(|other| other.runs[run].accuracy).sum::<f64>();
    let best = (0..own.runs.len()).fold(0, |best, run| if mean(run) > mean(best) { run } else { best });
    Some(triple_at(best, own.actions()))
}

/// The best triple of the same model's table whose time left is nearest.
fn nearest(tables: &[Table], place: usize) -> Option<Triple> {
    let own = &tables[place];
    let others =
        tables.iter().enumerate().filter(|(other, table)| *other != place && table.architecture.kind == own.architecture.kind);
    let distance = |table: &Table| (table.part_left() - own.part_left()).abs();
    let (_, near) = others.min_by(|one, other| distance(one.1).total_cmp(&distance(other.1)))?;
    let best = near.runs.iter().fold(&near.runs[0], |best, run| if run.accuracy > best.accuracy { run } else { best });
    Some(best.actions)
}

fn default_choice(tables: &[Table], place: usize, seeds: u64) -> (f64, Vec<Triple>) {
    let others = tables.iter().enumerate().filter(|(other, _)| *other != place).map(|(_, table)| table).collect::<Vec<_>>();
    let own = &tables[place];
    let choose = |seed| Forecaster::learn(&others, seed).triple(&own.architecture, own.part_left());
    let triples = (0..seeds.max(1)).map(choose).collect::<Vec<_>>();
    let mean = triples.iter().map(|triple| own.regret_points(*triple)).sum::<f64>() / triples.len() as f64;
    (mean, triples)
}

/// The policy itself on every table. Its number of actions must be the tables'.
fn of_policy(tables: &[Table], policy: &Judged) -> Result<Vec<(f64, Vec<Triple>)>, GameError> {
    let of = |table: &Table| {
        if policy.network.actions() != table.actions() {
            return Err(GameError::Actions { policy: policy.network.actions(), table: table.name(), actions: table.actions() });
        }
        let (triple, _) = Game::new(table, &policy.vocabulary)?.greedy(&policy.network);
        Ok((table.regret_points(triple), vec![triple]))
    };
    tables.iter().map(of).collect()
}

fn summary(tables: &[Table], (choice, regrets): Regrets, random: &[(f64, Vec<Triple>)]) -> Choice {
    let values = regrets.iter().map(|(regret, _)| *regret).collect::<Vec<_>>();
    let interval = Interval::of(&values);
    let mut groups: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (place, table) in tables.iter().enumerate() {
        groups.entry(table.architecture.kind.name().to_owned()).or_default().push(place);
    }
    let mean = |places: &Vec<usize>| places.iter().map(|place| values[*place]).sum::<f64>() / places.len() as f64;
    let models = groups.iter().map(|(name, places)| (name.clone(), mean(places))).collect();
    groups.insert("all".to_owned(), (0..tables.len()).collect());
    let gain = |places: &Vec<usize>| {
        let gains = places.iter().map(|place| random[*place].0 - values[*place]).collect::<Vec<_>>();
        Interval::of(&gains)
    };
    let better_than_random = groups.iter().map(|(name, places)| (name.clone(), gain(places))).collect();
    let text =
        |triples: &Vec<Triple>| triples.iter().map(|triple| crate::adapt::record::table::triple_text(triple)).collect::<Vec<_>>();
    let chosen = tables.iter().zip(&regrets).filter(|(_, (_, triples))| !triples.is_empty());
    Choice {
        choice,
        regret_points_mean: interval.mean,
        low: interval.low,
        high: interval.high,
        models,
        better_than_random,
        tables: tables.iter().zip(&values).map(|(table, regret)| (table.name(), *regret)).collect(),
        triples: chosen.map(|(table, (_, triples))| (table.name(), text(triples))).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapt::record::table::tests::example;

    #[test]
    fn what_is_known_from_other_tables_is_chosen_and_nothing_is_worst() {
        let (first, mut second) = (example(), example());
        second.scenario = "late".to_owned();
        let choices = leave_one_out(&[first, second], 2, &[]).unwrap();
        let of = |name: &str| choices.iter().find(|choice| choice.choice == name).unwrap();
        assert!((of("nothing").regret_points_mean - 15.0).abs() < 1e-9);
        assert!(of("default").regret_points_mean.abs() < 1e-9);
        assert!(of("best fixed triple of the other tables").regret_points_mean.abs() < 1e-9);
        assert!(of("default").better_than_random["all"].low > 0.0);
        assert_eq!(of("default").triples["ConvNet2/early"], ["000", "000"]);
    }

    #[test]
    fn an_interval_is_students() {
        let interval = Interval::of(&[1.0, 2.0, 3.0]);
        assert!((interval.mean - 2.0).abs() < 1e-12);
        assert!((interval.high - 2.0 - 4.303 / 3.0_f64.sqrt()).abs() < 1e-9);
    }
}
