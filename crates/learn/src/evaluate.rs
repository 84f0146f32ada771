//! Evaluation: every model and every rule plays the same episodes, and differences are judged in pairs.
//!
//! Intervals are 95 % bootstrap intervals: episodes are drawn again with replacement, the same draw for everybody, so that an episode that
//! is hard for all does not blur the difference between two. A trace that is played whole is one episode; there the days of the trace are
//! drawn, with all jobs that were submitted on them.

use crate::environment::Outcome;
use crate::model::Model;
use crate::simulated::{Day, Episodes};
use crate::task::{Task, TaskError};
use rayon::prelude::*;
use rota_core::random::RandomStream;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Draws of a bootstrap.
const DRAWS: usize = 2000;

/// Somebody who plays.
pub enum Player {
    /// A rule of the environment, or a policy of the registry.
    Rule(String),
    /// A model, with its name, and the task as it plays it where that is another (under power limits, say).
    Model(String, Arc<Model>, Option<Task>),
}

impl Player {
    fn name(&self) -> &str {
        match self {
            Self::Rule(name) | Self::Model(name, ..) => name,
        }
    }

    fn play(&self, task: &Task, seed: u64) -> Result<Outcome, TaskError> {
        match self {
            Self::Rule(rule) => task.play_rule(rule, seed, Episodes::Judging),
            Self::Model(_, model, own) => Ok(own.as_ref().unwrap_or(task).play_model(model, seed, Episodes::Judging)?.0),
        }
    }

    fn play_by_day(&self, task: &Task, seed: u64) -> Result<Option<(Outcome, Vec<Day>)>, TaskError> {
        match self {
            Self::Rule(rule) => task.rule_by_day(rule, seed),
            Self::Model(_, model, own) => own.as_ref().unwrap_or(task).model_by_day(model, seed),
        }
    }
}

/// What is drawn again in a bootstrap: an episode, or the jobs of a day.
#[derive(Clone, Copy)]
struct Unit {
    weight: f64,
    /// Sums of the metrics, in the order of [`METRICS`].
    sums: [f64; METRICS.len()],
}

impl From<&Outcome> for Unit {
    fn from(outcome: &Outcome) -> Self {
        Self { weight: 1.0, sums: METRICS.map(|(_, metric)| metric(outcome)) }
    }
}

/// A player's episodes, and the units that they are drawn by.
struct Played {
    outcomes: Vec<Outcome>,
    units: Vec<Unit>,
}

fn play(player: &Player, task: &Task, seeds: &[u64]) -> Result<Played, TaskError> {
    if let [seed] = seeds
        && let Some((outcome, days)) = player.play_by_day(task, *seed)?
    {
        // When the last job ends is no matter of one day: each day stands for the whole there.
        // Energy is that of all jobs together: the jobs of a day stand for as many as there are.
        let jobs = days.iter().map(|day| day.jobs).sum::<f64>();
        let unit = |day: &Day| Unit {
            weight: day.jobs,
            sums: [-day.wait_s, day.wait_s, outcome.makespan_s * day.jobs, day.bsld, day.jct_s, day.energy_kwh * jobs],
        };
        return Ok(Played { outcomes: vec![outcome], units: days.iter().map(unit).collect() });
    }
    let outcomes = seeds.par_iter().map(|seed| player.play(task, *seed)).collect::<Result<Vec<_>, _>>()?;
    let units = outcomes.iter().map(Unit::from).collect();
    Ok(Played { outcomes, units })
}

/// A mean with its interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// The mean over all episodes.
    pub mean: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// How one player did.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[expect(missing_docs, reason = "each field is its own name and unit")]
pub struct Score {
    pub policy: String,
    pub episodes: usize,
    pub reward_mean: f64,
    pub reward_mean_low: f64,
    pub reward_mean_high: f64,
    pub wait_mean_s: f64,
    pub wait_mean_s_low: f64,
    pub wait_mean_s_high: f64,
    pub makespan_mean_s: f64,
    pub makespan_mean_s_low: f64,
    pub makespan_mean_s_high: f64,
    pub bsld_mean: f64,
    pub bsld_mean_low: f64,
    pub bsld_mean_high: f64,
    pub jct_mean_s: f64,
    pub jct_mean_s_low: f64,
    pub jct_mean_s_high: f64,
    pub energy_kwh: Option<f64>,
    pub energy_kwh_low: Option<f64>,
    pub energy_kwh_high: Option<f64>,
    pub lost: u64,
    /// For every other player, the difference (this one minus the other) of each metric.
    pub paired: BTreeMap<String, BTreeMap<&'static str, Interval>>,
}

type Metric = (&'static str, fn(&Outcome) -> f64);
const METRICS: [Metric; 6] = [
    ("reward_mean", |outcome| outcome.reward),
    ("wait_mean_s", |outcome| outcome.wait_mean_s),
    ("makespan_mean_s", |outcome| outcome.makespan_s),
    ("bsld_mean", |outcome| outcome.bsld_mean),
    ("jct_mean_s", |outcome| outcome.jct_mean_s),
    (ENERGY, |outcome| outcome.energy_kwh.unwrap_or(0.0)),
];
/// The one that is not known everywhere.
const ENERGY: &str = "energy_kwh";

/// Lets everybody play the same episodes.
pub fn evaluate(task: &Task, players: &[Player], seeds: &[u64]) -> Result<Vec<Score>, TaskError> {
    let played = players.par_iter().map(|player| play(player, task, seeds)).collect::<Result<Vec<_>, _>>()?;
    let units = played.iter().map(|played| played.units.len()).min().unwrap_or(0);
    let draws = draws(units);
    let judged = players.iter().zip(&played).enumerate().map(|(place, (player, own))| {
        let means = std::array::from_fn(|metric| interval(&column(&own.units[..units], metric), &draws));
        let others = players.iter().zip(&played).enumerate().filter(|(other, _)| *other != place);
        let paired = others.map(|(_, (other, theirs))| {
            let knows_energy = own.outcomes.iter().chain(&theirs.outcomes).all(|outcome| outcome.energy_kwh.is_some());
            let metrics = METRICS.iter().enumerate().filter(|(_, (name, _))| *name != ENERGY || knows_energy);
            let metrics = metrics.map(|(metric, (name, _))| {
                let difference = |(own, other): (&Unit, &Unit)| (own.sums[metric] - other.sums[metric], own.weight);
                let differences = own.units[..units].iter().zip(&theirs.units).map(difference).collect::<Vec<_>>();
                (*name, interval(&differences, &draws))
            });
            (other.name().to_owned(), metrics.collect::<BTreeMap<_, _>>())
        });
        score(player.name(), &own.outcomes, means, paired.collect())
    });
    Ok(judged.collect())
}

/// The sums of one metric with their weights.
fn column(units: &[Unit], metric: usize) -> Vec<(f64, f64)> {
    units.iter().map(|unit| (unit.sums[metric], unit.weight)).collect()
}

fn score(
    name: &str,
    outcomes: &[Outcome],
    means: [Interval; METRICS.len()],
    paired: BTreeMap<String, BTreeMap<&'static str, Interval>>,
) -> Score {
    let [reward, wait, makespan, bsld, jct, energy] = means;
    let energy = outcomes.iter().all(|outcome| outcome.energy_kwh.is_some()).then_some(energy);
    Score {
        policy: name.to_owned(),
        episodes: outcomes.len(),
        reward_mean: reward.mean,
        reward_mean_low: reward.low,
        reward_mean_high: reward.high,
        wait_mean_s: wait.mean,
        wait_mean_s_low: wait.low,
        wait_mean_s_high: wait.high,
        makespan_mean_s: makespan.mean,
        makespan_mean_s_low: makespan.low,
        makespan_mean_s_high: makespan.high,
        bsld_mean: bsld.mean,
        bsld_mean_low: bsld.low,
        bsld_mean_high: bsld.high,
        jct_mean_s: jct.mean,
        jct_mean_s_low: jct.low,
        jct_mean_s_high: jct.high,
        energy_kwh: energy.map(|energy| energy.mean),
        energy_kwh_low: energy.map(|energy| energy.low),
        energy_kwh_high: energy.map(|energy| energy.high),
        lost: outcomes.iter().map(|outcome| outcome.lost).sum(),
        paired,
    }
}

/// Which units each draw takes, the same for every player.
fn draws(units: usize) -> Vec<Vec<u32>> {
    let mut stream = RandomStream::new(0, "bootstrap");
    (0..DRAWS).map(|_| (0..units).map(|_| stream.below(units as u64) as u32).collect()).collect()
}

/// The mean of sums over their weights, and how it varies over the draws.
fn interval(values: &[(f64, f64)], draws: &[Vec<u32>]) -> Interval {
    let over = |picked: &mut dyn Iterator<Item = &(f64, f64)>| {
        let (sum, weight) = picked.fold((0.0, 0.0), |(sums, weights), (sum, weight)| (sums + sum, weights + weight));
        sum / f64::max(weight, 1e-9)
    };
    let mean = over(&mut values.iter());
    let mut means = draws.iter().map(|draw| over(&mut draw.iter().map(|&place| &values[place as usize]))).collect::<Vec<_>>();
    means.sort_by(f64::total_cmp);
    let at = |part: f64| means.get((part * means.len() as f64) as usize).copied().unwrap_or(mean);
    Interval { mean, low: at(0.025), high: at(0.975) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_plays_the_same_episodes_and_differences_are_paired() {
        let task = Task::ClassroomCompat { gpus: 4 };
        let rule = |name: &str| Player::Rule(name.to_owned());
        let seeds = (0..60).collect::<Vec<_>>();
        let scores = evaluate(&task, &[rule("best-fit"), rule("random"), rule("best-fit")], &seeds).unwrap();
        assert!((scores[0].reward_mean - scores[2].reward_mean).abs() < 1e-12);
        let to_itself = scores[0].paired["best-fit"]["reward_mean"];
        assert_eq!((to_itself.low, to_itself.high), (0.0, 0.0));
        let to_random = scores[0].paired["random"]["reward_mean"];
        assert!(to_random.low > 0.0 && to_random.low < to_random.mean && to_random.mean < to_random.high, "{to_random:?}");
        let alone = scores[0].reward_mean_high - scores[0].reward_mean_low;
        assert!(alone > 0.0);
    }

    #[test]
    fn a_trace_that_is_played_whole_is_drawn_by_its_days() {
        use rota_core::{Cluster, Job, Span, ThroughputTable, Time, Workload};
        let mut workload = Workload::new("twelve days");
        for hour in 0..288 {
            let seconds = if hour % 2 == 0 { 1800 } else { 3600 + 20 * hour };
            workload.push(Job::new(Time(hour * 1_800_000_000_000), Span::from_whole_seconds(seconds)));
        }
        workload.finish();
        let cluster = Cluster::from_spec("t4:2", 2).unwrap();
        let options = rota_sim::SimOptions::default();
        let scenario = crate::simulated::Scenario::trace(workload, ThroughputTable::default(), 288, cluster, options);
        let task = Task::Simulated(Box::new(scenario));
        let players = [Player::Rule("sjf".to_owned()), Player::Rule("fcfs".to_owned())];
        let scores = evaluate(&task, &players, &[0]).unwrap();
        let whole = task.play_rule("sjf", 0, Episodes::Judging).unwrap();
        assert!((scores[0].jct_mean_s - whole.jct_mean_s).abs() < 1e-6);
        assert!(scores[0].jct_mean_s_low < whole.jct_mean_s && whole.jct_mean_s < scores[0].jct_mean_s_high);
        let paired = scores[0].paired["fcfs"]["jct_mean_s"];
        assert!((paired.mean - (scores[0].jct_mean_s - scores[1].jct_mean_s)).abs() < 1e-6);
        assert!(paired.low < paired.high);
    }

    #[test]
    fn an_unknown_rule_is_told_with_the_known_ones() {
        let task = Task::ClassroomCompat { gpus: 4 };
        let error = evaluate(&task, &[Player::Rule("best".to_owned())], &[1]).unwrap_err().to_string();
        assert_eq!(error, "unknown rule `best`; known here are random, least-loaded, best-fit, best-fit-stale");
    }
}
