//! Gittins index: the job most likely to end soon for the GPU time it has had, going by how long earlier jobs turned out to be.
//!
//! For attained GPU time a, the index is the best over d of P(S ≤ a + d | S > a) / E[min(S − a, d) | S > a]: the chance of ending within
//! d more, per GPU time spent on it. The distribution of S is learned from jobs that ended; until there are many, one imagined job at
//! every level keeps it a heavy tail, under which the index falls with a and the policy does what `las` does.

use super::by_history::ByHistory;
use super::levels::Levels;
use crate::params::{Param, Params, PolicyError};
use crate::{Context, Policy};
use rota_core::{JobId, Phase, Preempt, Renumbering, Rule, Snapshot, Target};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Parameters of `gittins`.
pub const PARAMS: &[Param] = &[
    Param { name: "levels", default: "40", meaning: "steps of attained GPU time at which a job is ranked again" },
    Param { name: "first", default: "60", meaning: "GPU seconds of the first step" },
    Param { name: "factor", default: "1.5", meaning: "how much longer each further step is" },
    Param {
        name: "classes",
        default: "off",
        meaning: "on: learn for each user, project, gang size and job type, on steps of its own",
    },
];

#[derive(Clone, Serialize, Deserialize)]
struct Gittins {
    levels: Levels,
    /// Index of each level; larger goes first.
    indices: Vec<f64>,
    /// Jobs that ended at each level, and beyond the last step.
    ended: Vec<Ended>,
    /// How many jobs ended, and at how many the indices are found again.
    jobs: u64,
    learn_at: u64,
    active: BTreeSet<JobId>,
    /// Whether jobs teach nothing any more, because what happens is only a forecast.
    #[serde(skip)]
    is_closed: bool,
}

/// Jobs that ended at one level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Ended {
    jobs: f64,
    /// GPU seconds of all of them.
    seconds: f64,
}

impl Ended {
    fn add(&mut self, seconds: f64) {
        self.jobs += 1.0;
        self.seconds += seconds;
    }
}

impl Gittins {
    /// Takes in the GPU seconds of a job that ended.
    fn take_in(&mut self, seconds: f64) {
        self.jobs += 1;
        // A job that took no time says nothing about the others.
        if seconds > 0.0 {
            let level = self.levels.steps.partition_point(|step| step.seconds() < seconds);
            self.ended[level].add(seconds);
        }
    }

    /// Finds the indices again.
    fn learn(&mut self) {
        self.learn_at = self.jobs + self.jobs / 4 + 16;
        let steps = self.levels.steps.iter().map(|step| step.seconds()).collect::<Vec<_>>();
        let mut ended = self.ended.clone();
        for (level, step) in ended.iter_mut().zip(&steps) {
            level.add(*step);
        }
        self.indices = indices(&ended, &steps);
    }
}

/// The index at the beginning of each level, given the jobs that ended at each.
fn indices(ended: &[Ended], steps: &[f64]) -> Vec<f64> {
    // Those that ended before each level, and all.
    let mut before = vec![Ended::default()];
    for level in ended {
        let sum = before[before.len() - 1];
        before.push(Ended { jobs: sum.jobs + level.jobs, seconds: sum.seconds + level.seconds });
    }
    let all = before[ended.len()];
    let index = |level: usize| {
        let (attained, below) = (if level == 0 { 0.0 } else { steps[level - 1] }, before[level]);
        let until = |next: usize| {
            let by_then = before[next + 1];
            let (jobs, beyond) = (by_then.jobs - below.jobs, all.jobs - by_then.jobs);
            let spent_by_ended = by_then.seconds - below.seconds - jobs * attained;
            let spent_by_others = if beyond > 0.0 { beyond * (steps[next] - attained) } else { 0.0 };
            let spent = spent_by_ended + spent_by_others;
            if spent > 0.0 { jobs / spent } else { 0.0 }
        };
        (level..=steps.len()).map(until).fold(0.0, f64::max)
    };
    (0..=steps.len()).map(index).collect()
}

impl Policy for Gittins {
    fn decide(&mut self, snapshot: &Snapshot<'_>, _: &mut Context) -> Target {
        for view in snapshot.changed_jobs() {
            if view.state.phase.is_active() {
                self.active.insert(view.id());
            } else {
                self.active.remove(&view.id());
            }
            if view.state.phase == Phase::Finished && !self.is_closed {
                self.take_in(view.service().seconds());
            }
        }
        let learned = self.jobs >= self.learn_at;
        if learned {
            self.learn();
        }
        let mut moved = Vec::new();
        self.levels.follow(snapshot, |view, level| moved.push((view.id(), level)));
        if learned {
            moved = self.active.iter().map(|&job| (job, self.levels.level(job))).collect();
        }
        let mut target =
            Target::order(Rule::preemptive(Preempt::Always), moved.into_iter().map(|(job, level)| (job, -self.indices[level])));
        target.review_at = self.levels.next_crossing();
        target
    }

    fn begin_forecast(&mut self) {
        self.is_closed = true;
    }

    fn renumber(&mut self, rows: &Renumbering) {
        self.levels.renumber(rows);
        rows.rename_set(&mut self.active);
    }
}

/// Builds the policy `gittins`.
pub fn build(params: &Params<'_>) -> Result<Box<dyn Policy>, PolicyError> {
    match params.word("classes") {
        "on" => {
            params.refuse(&["levels", "first", "factor"], "left out beside classes=on, which has steps of its own")?;
            return Ok(Box::new(ByHistory::most_likely_to_end()));
        }
        "off" => {}
        _ => return Err(params.bad_value("classes", "on or off")),
    }
    let first = params.number("first", 0.001, 1e9)?;
    let factor = params.number("factor", 1.01, 1e6)?;
    let levels = Levels::new(first, factor, params.whole("levels", 1, 256)? as usize);
    let ended = vec![Ended::default(); levels.steps.len() + 1];
    let mut gittins =
        Gittins { levels, indices: Vec::new(), ended, jobs: 0, learn_at: 0, active: BTreeSet::new(), is_closed: false };
    gittins.learn();
    Ok(Box::new(gittins))
}

#[cfg(test)]
mod tests {
    use super::Ended;

    /// The indices where jobs of these lengths ended.
    fn indices(lengths: &[f64], steps: &[f64]) -> Vec<f64> {
        let mut ended = vec![Ended::default(); steps.len() + 1];
        for length in lengths {
            ended[steps.partition_point(|step| step < length)].add(*length);
        }
        super::indices(&ended, steps)
    }

    #[test]
    fn the_index_of_known_distributions() {
        // All jobs take 10: the closer to 10, the better.
        let all_ten = indices(&[10.0; 50], &[5.0, 9.0, 10.0]);
        assert!((all_ten[0] - 0.1).abs() < 1e-12 && (all_ten[1] - 0.2).abs() < 1e-12 && (all_ten[2] - 1.0).abs() < 1e-12);
        // Nine short ones and a long one: past the short length nobody ends soon.
        let mut mixed = vec![1.0; 9];
        mixed.push(1000.0);
        let index = indices(&mixed, &[1.0, 10.0, 1000.0]);
        assert!((index[0] - 0.9).abs() < 1e-12, "{index:?}");
        assert!(index[1] < 0.0011 && index[2] < 0.0011 && index[1] < index[2]);
    }
}
