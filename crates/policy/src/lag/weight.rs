//! What a job's turn is worth to the lag policies, beside its speed: how far it is behind its fair share, and what is known of its length.

use super::strictness::Strictness;
use crate::history::Tracker;
use rota_core::{JobId, Snapshot};
use serde::{Deserialize, Serialize};
use std::sync::LazyLock;

/// Seconds that soften the lag of a job that has done almost nothing yet.
pub(super) const LAG_SECONDS: f64 = 600.0;
/// Seconds that soften how far behind a short job is, and from where on that counts.
const BEHIND_SECONDS: f64 = 20.0;
const BEHIND_MIN: f64 = 1.1;
/// Seconds added to both sides of the lag that guards a job's turn. With fewer seconds most jobs would be guarded all the time, and jobs would
/// only take turns.
const GUARD_SECONDS: f64 = 7200.0;
/// The lag from which on a job's turn is guarded, that at which it is guarded fully, and how many times it is worth then on one GPU.
const GUARD_MIN: f64 = 1.03;
const GUARD_FULL: f64 = 1.08;
const GUARD_WORTH: f64 = 3.0;
/// Where restarts cost time, the lag for full guarding is larger by this number times the stay bonus.
const GUARD_PATIENCE: f64 = 0.5;
/// The smallest index in use, so that a job of a kind that was never seen to end still gets a turn.
const INDEX_MIN: f64 = 1e-12;
/// Seconds that soften attained service.
const SERVICE_SECONDS: f64 = 7200.0;

/// What is known of a job's length.
#[derive(Clone, Serialize, Deserialize)]
pub enum Knowledge {
    /// Nothing: jobs that have had little are worth a little more.
    Nothing,
    /// An estimate with a log-normal error: the table of its Gittins index.
    Estimate(GittinsTable),
    /// What earlier jobs taught about jobs like it.
    History(Box<Tracker>),
    /// The length itself.
    Exact,
}

impl Knowledge {
    /// Changes with everything learned.
    pub fn version(&self) -> u64 {
        if let Self::History(tracker) = self { tracker.version() } else { 0 }
    }
}

/// The last result for one job and the numbers it was computed from. Most waiting jobs have the same numbers at the next decision, and
/// computing a power is slow.
#[derive(Clone, Copy, Debug, Default)]
pub struct Memo {
    from: [u64; 2],
    found: f64,
}

impl Memo {
    fn recall(&mut self, from: [f64; 2], find: impl FnOnce() -> f64) -> f64 {
        // No number that anything is found from has the bits of zero in both places.
        let bits = from.map(f64::to_bits);
        if self.from != bits {
            *self = Self { from: bits, found: find() };
        }
        self.found
    }
}

/// The facts about one job that decide the worth of its turn.
#[derive(Clone, Copy)]
pub struct Turn<'a> {
    /// The job.
    pub job: JobId,
    /// What the decision goes by.
    pub snapshot: &'a Snapshot<'a>,
    /// Its best speed on the cluster.
    pub best_speed: f64,
    /// What it has done, in seconds on its best GPU type.
    pub done_seconds: f64,
    /// Its GPUs.
    pub gpus: u32,
    /// What a private share would have done for it, in seconds on its best GPU type.
    pub due_seconds: f64,
    /// The lag of all jobs of its user that are alike; 0 if none are known.
    pub lag_alike: f64,
    /// How much more it is worth that it stays where it is.
    pub stay_bonus: f64,
    /// How many GPU types there are.
    pub types: usize,
}

/// The worth of a job's turn. Work is measured in seconds on its best GPU type.
pub fn worth(turn: &Turn<'_>, fairness: f64, strictness: Strictness, knowledge: &mut Knowledge, memo: &mut Memo) -> f64 {
    let Turn { job, snapshot, best_speed, done_seconds, gpus, due_seconds, lag_alike, stay_bonus, types } = *turn;
    let mut lag = (due_seconds + LAG_SECONDS) / (done_seconds + LAG_SECONDS);
    let by_length = match knowledge {
        Knowledge::Nothing => by_service(done_seconds, memo) * guard(gpus, due_seconds, done_seconds, stay_bonus),
        Knowledge::Estimate(table) => {
            let estimate = snapshot.view(job).believed_work().at_speed(best_speed).seconds().max(1e-3);
            memo.recall([done_seconds, estimate], || (table.index(done_seconds / estimate) / estimate).powf(0.25))
        }
        // Differences in length are guesses, and must not count in full; beside differences in speed between GPU types still less.
        Knowledge::History(tracker) => {
            let index = tracker.index(job, done_seconds).max(INDEX_MIN);
            let root = index.sqrt().sqrt();
            if types <= 1 {
                lag = strictness.eased(lag.max(lag_alike));
                root * root * root
            } else {
                root * guard(gpus, due_seconds, done_seconds, stay_bonus)
            }
        }
        Knowledge::Exact => {
            let view = snapshot.view(job);
            let left =
                view.exact_work().unwrap_or(view.believed_work()).minus(view.done()).at_speed(best_speed).seconds().max(1.0);
            memo.recall([left, 0.0], || left.powf(-0.5))
        }
    };
    raised(lag, fairness) * by_length
}

/// `value` to the power of `exponent`. The usual exponents need no logarithm, and a decision raises a number for every waiting job.
fn raised(value: f64, exponent: f64) -> f64 {
    if exponent.to_bits() == 1.0_f64.to_bits() {
        value
    } else if exponent.to_bits() == 2.0_f64.to_bits() {
        value * value
    } else {
        value.powf(exponent)
    }
}

/// The worth of a job that has had so much service, where nothing is known of lengths.
fn by_service(done_seconds: f64, memo: &mut Memo) -> f64 {
    /// The worth of a job that has not run. Most waiting jobs have not.
    static UNSERVED: LazyLock<f64> = LazyLock::new(|| SERVICE_SECONDS.powf(-0.25));
    if done_seconds > 0.0 { memo.recall([done_seconds, 0.0], || (done_seconds + SERVICE_SECONDS).powf(-0.25)) } else { *UNSERVED }
}

/// How many times more a job's turn is worth that is behind what a private share would have done for it.
fn guard(gpus: u32, due_seconds: f64, done_seconds: f64, stay_bonus: f64) -> f64 {
    // Short jobs are over before the lag, softened as it is, counts for much: whoever is clearly behind is worth more at once.
    let behind = (due_seconds + BEHIND_SECONDS) / (done_seconds + BEHIND_SECONDS);
    // A gang is matched by its worth for each GPU, so that many single jobs outweigh it long after it has fallen behind; and a job
    // that crawls on a slow type all the time is behind by little more each hour. Beyond its fair share everybody counts in full.
    let full = GUARD_FULL + GUARD_PATIENCE * stay_bonus;
    let lag = (due_seconds + GUARD_SECONDS) / (done_seconds + GUARD_SECONDS);
    let guarded = ((lag - GUARD_MIN) / (full - GUARD_MIN)).clamp(0.0, 1.0);
    let whole = GUARD_WORTH * f64::from(gpus).sqrt();
    let times = if guarded <= 0.0 {
        1.0
    } else if guarded >= 1.0 {
        whole
    } else {
        whole.powf(guarded)
    };
    (behind / BEHIND_MIN).max(1.0) * times
}

/// The Gittins index of a job of estimated length 1 that has attained u: the best chance of ending per time spent, for a length whose
/// logarithm is normal with mean 0 and deviation sigma.
#[derive(Clone, Serialize, Deserialize)]
pub struct GittinsTable {
    /// The index at attained service `FIRST * RATIO^i`.
    values: Vec<f64>,
}

const FIRST: f64 = 1e-3;
const RATIO: f64 = 1.1;
const STEPS: usize = 160;

impl GittinsTable {
    /// The table for an error of deviation `sigma`.
    pub fn new(sigma: f64) -> Self {
        let grid = (0..STEPS * 2).map(|step| FIRST * RATIO.powf(step as f64)).collect::<Vec<_>>();
        let survival = grid.iter().map(|&length| 1.0 - normal_cdf(length.ln() / sigma)).collect::<Vec<_>>();
        // Time spent until each grid point by those that get there or end before: the integral of survival.
        let mut spent = vec![FIRST];
        for step in 1..grid.len() {
            spent.push(spent[step - 1] + (grid[step] - grid[step - 1]) * 0.5 * (survival[step] + survival[step - 1]));
        }
        let index = |from: usize| {
            let chances =
                (from + 1..grid.len()).map(|until| (survival[from] - survival[until]) / (spent[until] - spent[from]).max(1e-300));
            chances.fold(0.0, f64::max)
        };
        let mut values = (0..STEPS).map(index).collect::<Vec<_>>();
        // Past what floating point can tell apart, nothing more is known: the index stays.
        for step in 1..STEPS {
            if !values[step].is_finite() || survival[step] < 1e-12 {
                values[step] = values[step - 1];
            }
        }
        Self { values }
    }

    /// The index after attained service `attained`, in parts of the estimate.
    pub fn index(&self, attained: f64) -> f64 {
        let step = ((attained / FIRST).max(1.0).ln() / RATIO.ln()) as usize;
        self.values[step.min(STEPS - 1)].max(1e-12)
    }
}

/// The standard normal distribution function (Abramowitz and Stegun 26.2.17; error below 1e-7).
fn normal_cdf(value: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * value.abs());
    let polynomial = t * (0.319_381_530 + t * (-0.356_563_782 + t * (1.781_477_937 + t * (-1.821_255_978 + t * 1.330_274_429))));
    let tail = (-0.5 * value * value).exp() / (2.0 * std::f64::consts::PI).sqrt() * polynomial;
    if value >= 0.0 { 1.0 - tail } else { tail }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_normal_distribution_function() {
        for (value, expected) in [(0.0, 0.5), (1.0, 0.841_344_7), (-1.96, 0.024_997_9), (3.0, 0.998_650_1)] {
            assert!((normal_cdf(value) - expected).abs() < 1e-6, "{value}");
        }
    }

    #[test]
    fn a_sure_estimate_gives_one_over_what_remains_and_an_unsure_one_falls_in_the_end() {
        let sure = GittinsTable::new(0.02);
        assert!((sure.index(0.01) - 1.0).abs() < 0.1, "{}", sure.index(0.01));
        assert!((sure.index(0.5) - 2.0).abs() < 0.25, "{}", sure.index(0.5));
        let unsure = GittinsTable::new(1.0);
        assert!(unsure.index(30.0) < unsure.index(1.0));
    }
}
