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
    /// GPU seconds of jobs that ended.
    lengths: Vec<f64>,
    learn_at: usize,
    active: BTreeSet<JobId>,
}

impl Gittins {
    fn learn(&mut self) {
        self.learn_at = self.lengths.len() + self.lengths.len() / 4 + 16;
        let steps = self.levels.steps.iter().map(|step| step.seconds()).collect::<Vec<_>>();
        self.lengths.sort_by(f64::total_cmp);
        let imagined = steps.iter().copied();
        let mut lengths = self.lengths.iter().copied().chain(imagined).collect::<Vec<_>>();
        lengths.sort_by(f64::total_cmp);
        self.indices = indices(&lengths, &steps);
    }
}

/// The index at the beginning of each level, given sorted lengths.
fn indices(lengths: &[f64], steps: &[f64]) -> Vec<f64> {
    let mut sums = vec![0.0];
    for length in lengths {
        sums.push(sums[sums.len() - 1] + length);
    }
    let up_to = |bound: f64| lengths.partition_point(|&length| length <= bound);
    let starts = std::iter::once(0.0).chain(steps.iter().copied());
    starts
        .map(|attained| {
            let below = up_to(attained);
            let ends = steps.iter().copied().filter(|&end| end > attained).chain([f64::INFINITY]);
            ends.map(|end| {
                let ended = up_to(end);
                let spent_by_ended = sums[ended] - sums[below] - (ended - below) as f64 * attained;
                let beyond = (lengths.len() - ended) as f64;
                let spent_by_others = if beyond > 0.0 { beyond * (end - attained) } else { 0.0 };
                let spent = spent_by_ended + spent_by_others;
                if spent > 0.0 { (ended - below) as f64 / spent } else { 0.0 }
            })
            .fold(0.0, f64::max)
        })
        .collect()
}

impl Policy for Gittins {
    fn decide(&mut self, snapshot: &Snapshot<'_>, _: &mut Context) -> Target {
        for view in snapshot.changed_jobs() {
            if view.state.phase.is_active() {
                self.active.insert(view.id());
            } else {
                self.active.remove(&view.id());
            }
            if view.state.phase == Phase::Finished {
                self.lengths.push(view.service().seconds());
            }
        }
        let learned = self.lengths.len() >= self.learn_at;
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

    fn renumber(&mut self, rows: &Renumbering) {
        self.levels.renumber(rows);
        rows.rename_set(&mut self.active);
    }
}

/// Builds the policy `gittins`.
pub fn build(params: &Params<'_>) -> Result<Box<dyn Policy>, PolicyError> {
    match params.word("classes") {
        "on" => return Ok(Box::new(ByHistory::most_likely_to_end())),
        "off" => {}
        _ => return Err(params.bad_value("classes", "on or off")),
    }
    let first = params.number("first", 0.001, 1e9)?;
    let factor = params.number("factor", 1.01, 1e6)?;
    let levels = Levels::new(first, factor, params.whole("levels", 1, 256)? as usize);
    let mut gittins = Gittins { levels, indices: Vec::new(), lengths: Vec::new(), learn_at: 0, active: BTreeSet::new() };
    gittins.learn();
    Ok(Box::new(gittins))
}

#[cfg(test)]
mod tests {
    use super::indices;

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
