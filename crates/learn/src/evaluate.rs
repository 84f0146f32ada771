//! Evaluation: every model and every rule plays the same episodes, and differences are judged in pairs.
//!
//! Intervals are 95 % bootstrap intervals: episodes are drawn again with replacement, the same draw for everybody, so that an episode that
//! is hard for all does not blur the difference between two.

use crate::environment::Outcome;
use crate::model::Model;
use crate::simulated::Episodes;
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
    /// A model, with its name.
    Model(String, Arc<Model>),
}

impl Player {
    fn name(&self) -> &str {
        match self {
            Self::Rule(name) | Self::Model(name, _) => name,
        }
    }

    fn play(&self, task: &Task, seed: u64) -> Result<Outcome, TaskError> {
        match self {
            Self::Rule(rule) => task.play_rule(rule, seed, Episodes::Judging),
            Self::Model(_, model) => Ok(task.play_model(model, seed, Episodes::Judging)?.0),
        }
    }
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
    pub lost: u64,
    /// For every other player, the difference (this one minus the other) of each metric.
    pub paired: BTreeMap<String, BTreeMap<&'static str, Interval>>,
}

type Metric = (&'static str, fn(&Outcome) -> f64);
const METRICS: [Metric; 5] = [
    ("reward_mean", |outcome| outcome.reward),
    ("wait_mean_s", |outcome| outcome.wait_mean_s),
    ("makespan_mean_s", |outcome| outcome.makespan_s),
    ("bsld_mean", |outcome| outcome.bsld_mean),
    ("jct_mean_s", |outcome| outcome.jct_mean_s),
];

/// Lets everybody play the same episodes.
pub fn evaluate(task: &Task, players: &[Player], seeds: &[u64]) -> Result<Vec<Score>, TaskError> {
    let played = players.iter().map(|player| {
        let outcomes = seeds.par_iter().map(|seed| player.play(task, *seed));
        outcomes.collect::<Result<Vec<_>, _>>()
    });
    let played = played.collect::<Result<Vec<_>, _>>()?;
    let draws = draws(seeds.len());
    let judged = players.iter().zip(&played).enumerate().map(|(place, (player, outcomes))| {
        let means = METRICS.map(|(_, metric)| interval(&outcomes.iter().map(metric).collect::<Vec<_>>(), &draws));
        let others = players.iter().zip(&played).enumerate().filter(|(other, _)| *other != place);
        let paired = others.map(|(_, (other, theirs))| {
            let metrics = METRICS.map(|(name, metric)| {
                let differences = outcomes.iter().zip(theirs).map(|(own, other)| metric(own) - metric(other));
                (name, interval(&differences.collect::<Vec<_>>(), &draws))
            });
            (other.name().to_owned(), BTreeMap::from(metrics))
        });
        score(player.name(), outcomes, means, paired.collect())
    });
    Ok(judged.collect())
}

fn score(
    name: &str,
    outcomes: &[Outcome],
    means: [Interval; 5],
    paired: BTreeMap<String, BTreeMap<&'static str, Interval>>,
) -> Score {
    let [reward, wait, makespan, bsld, jct] = means;
    let energies = outcomes.iter().map(|outcome| outcome.energy_kwh).collect::<Option<Vec<_>>>();
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
        energy_kwh: energies.map(|all| all.iter().sum::<f64>() / all.len().max(1) as f64),
        lost: outcomes.iter().map(|outcome| outcome.lost).sum(),
        paired,
    }
}

/// Which episodes each draw takes, the same for every player.
fn draws(episodes: usize) -> Vec<Vec<u32>> {
    let mut stream = RandomStream::new(0, "bootstrap");
    (0..DRAWS).map(|_| (0..episodes).map(|_| stream.below(episodes as u64) as u32).collect()).collect()
}

fn interval(values: &[f64], draws: &[Vec<u32>]) -> Interval {
    let count = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / count;
    let resampled = draws.iter().map(|draw| draw.iter().map(|&place| values[place as usize]).sum::<f64>() / count);
    let mut means = resampled.collect::<Vec<_>>();
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
    fn an_unknown_rule_is_told_with_the_known_ones() {
        let task = Task::ClassroomCompat { gpus: 4 };
        let error = evaluate(&task, &[Player::Rule("best".to_owned())], &[1]).unwrap_err().to_string();
        assert_eq!(error, "unknown rule `best`; known here are random, least-loaded, best-fit, best-fit-stale");
    }
}
