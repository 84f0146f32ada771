//! The rules of batch scheduling that learned policies are compared with. Each gives a job a score; the smallest score runs first.
//!
//! With r the estimated run time in seconds, n the GPUs, s the second of submission (at least 0.1) and w the seconds waited:
//! `saf` r·n, `f1` log10(r)·n + 870·log10(s), `f2` √r·n + 25,600·log10(s), `f3` r·n + 6,860,000·log10(s),
//! `f4` r·√n + 530,000·log10(s) (Carastan-Santos and de Camargo, SC'17), `wfp3` −(w/r)³·n, `unicep` −w/(log2(n)·r) with log2(n) at
//! least 1e-9. The scores of the last two change while a job waits, so every waiting job is ranked again at every decision.

use crate::params::{BACKFILL, DEPTH, Param, Params, PolicyError};
use crate::{Context, Policy};
use rota_core::{JobId, JobView, Phase, Renumbering, Rule, Snapshot, Target};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Parameters of every rule.
pub const PARAMS: &[Param] = &[BACKFILL, DEPTH];

/// What a score is computed from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Facts {
    /// The estimated run time in seconds.
    pub run_seconds: f64,
    /// The GPUs that the job needs, as a number that counts shares of a GPU as such.
    pub gpus: f64,
    /// The second of submission.
    pub submitted_second: f64,
    /// The seconds that the job has waited.
    pub waited_seconds: f64,
}

/// A rule by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BatchRule {
    /// Smallest area first: run time × GPUs.
    Saf,
    /// A rule fitted to traces: the logarithm of the run time × GPUs, plus the time of submission.
    F1,
    /// A rule fitted to traces: the square root of the run time × GPUs, plus the time of submission.
    F2,
    /// A rule fitted to traces: run time × GPUs, plus the time of submission.
    F3,
    /// A rule fitted to traces: run time × the square root of the GPUs, plus the time of submission.
    F4,
    /// Jobs that have waited long for their length come first, the more so the wider they are.
    Wfp3,
    /// Jobs that have waited long for their length come first, the more so the narrower they are.
    Unicep,
}

impl BatchRule {
    /// Every rule, with the name of its policy.
    pub const ALL: [(&'static str, Self); 7] = [
        ("saf", Self::Saf),
        ("f1", Self::F1),
        ("f2", Self::F2),
        ("f3", Self::F3),
        ("f4", Self::F4),
        ("wfp3", Self::Wfp3),
        ("unicep", Self::Unicep),
    ];

    /// The score of a job; the smallest runs first.
    pub fn score(self, facts: Facts) -> f64 {
        let Facts { run_seconds, gpus, submitted_second, waited_seconds } = facts;
        let log_submitted = submitted_second.max(0.1).log10();
        match self {
            Self::Saf => run_seconds * gpus,
            Self::F1 => run_seconds.log10() * gpus + 870.0 * log_submitted,
            Self::F2 => run_seconds.sqrt() * gpus + 25_600.0 * log_submitted,
            Self::F3 => run_seconds * gpus + 6_860_000.0 * log_submitted,
            Self::F4 => run_seconds * gpus.sqrt() + 530_000.0 * log_submitted,
            Self::Wfp3 => -(waited_seconds / run_seconds).powi(3) * gpus,
            Self::Unicep => -waited_seconds / (gpus.log2().max(1e-9) * run_seconds),
        }
    }

    /// Whether the score of a waiting job changes as time passes.
    pub fn ages(self) -> bool {
        matches!(self, Self::Wfp3 | Self::Unicep)
    }
}

/// The GPUs of a job, a share of one counting as such.
pub(crate) fn gpus_of(view: &JobView<'_>) -> f64 {
    f64::from(view.job.gpus) * view.job.share.fraction()
}

#[derive(Clone, Serialize, Deserialize)]
struct ByBatchRule {
    rule: Rule,
    score: BatchRule,
    /// The waiting jobs, kept only where scores change as time passes.
    waiting: BTreeSet<JobId>,
}

impl ByBatchRule {
    fn rank(&self, view: &JobView<'_>, snapshot: &Snapshot<'_>) -> (JobId, f64) {
        let facts = Facts {
            // A job that runs for no time has a score like one of a nanosecond: no division by zero.
            run_seconds: view.believed_seconds().max(1e-9),
            gpus: gpus_of(view),
            submitted_second: view.job.arrival.seconds(),
            waited_seconds: snapshot.now.since(view.job.arrival).seconds(),
        };
        (view.id(), self.score.score(facts))
    }
}

impl Policy for ByBatchRule {
    fn decide(&mut self, snapshot: &Snapshot<'_>, _: &mut Context) -> Target {
        if !self.score.ages() {
            return Target::order(self.rule, snapshot.newly_waiting().map(|view| self.rank(&view, snapshot)));
        }
        for view in snapshot.changed_jobs() {
            if view.state.phase == Phase::Waiting {
                self.waiting.insert(view.id());
            } else {
                self.waiting.remove(&view.id());
            }
        }
        Target::order(self.rule, self.waiting.iter().map(|&job| self.rank(&snapshot.view(job), snapshot)))
    }

    fn renumber(&mut self, rows: &Renumbering) {
        self.waiting = std::mem::take(&mut self.waiting).into_iter().filter_map(|job| rows.new_of(job)).collect();
    }
}

/// The policy of a rule.
pub fn build(score: BatchRule, params: &Params<'_>) -> Result<Box<dyn Policy>, PolicyError> {
    Ok(Box::new(ByBatchRule { rule: params.run_to_end()?, score, waiting: BTreeSet::new() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_those_of_the_papers() {
        let facts = Facts { run_seconds: 100.0, gpus: 4.0, submitted_second: 1000.0, waited_seconds: 50.0 };
        let expected = [400.0, 8.0 + 2610.0, 40.0 + 76_800.0, 400.0 + 20_580_000.0, 200.0 + 1_590_000.0, -0.5, -0.25];
        for ((name, rule), expected) in BatchRule::ALL.into_iter().zip(expected) {
            assert!((rule.score(facts) - expected).abs() < 1e-9 * expected.abs().max(1.0), "{name}: {}", rule.score(facts));
        }
    }

    #[test]
    fn a_job_at_the_first_moment_and_on_one_gpu_has_a_finite_score() {
        let facts = Facts { run_seconds: 1e-9, gpus: 1.0, submitted_second: 0.0, waited_seconds: 0.0 };
        assert!(BatchRule::ALL.into_iter().all(|(_, rule)| rule.score(facts).is_finite()));
    }
}
