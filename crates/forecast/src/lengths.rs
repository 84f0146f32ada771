//! How long jobs are believed to run, from the jobs that ran before and from what their users say.
//!
//! Three things can be known of a job. Earlier jobs of its kind taught something: then lengths are drawn from that. Jobs with about its
//! estimate have not ended yet: then lengths are drawn widely around the estimate, corrected by how long jobs run against their estimates
//! here. Neither: then its length is unknown, and a forecast says so instead of inventing one.

use rota_policy::history::steps::{STEPS, end_seconds, step_of};
use rota_policy::history::{Belief, History, JobTraits, Lineage};
use std::collections::HashMap;

/// Jobs that must have ended before what they taught is believed of a job whose own kind is new.
const ENDED_MIN: u64 = 20;
/// Ended jobs of its own kind, or with about its estimate, that are enough by themselves.
const ALIKE_MIN: f64 = 3.0;
/// How long jobs run against their estimates: with each job that ends, all earlier ones count so many times as much as before.
const RATIO_KEPT: f64 = 0.99;
/// As if so many jobs had ended that ran just as long as estimated.
const RATIO_SHRINKAGE: f64 = 8.0;
/// No job counts for more than this factor, as a logarithm: one that failed at once says little.
const RATIO_MAX: f64 = 5.0;
/// The logarithmic error of an estimate while nothing is known of how good estimates are here.
const ESTIMATE_ERROR: f64 = 0.5;

/// A chance is found to so many binary digits.
const CHANCE_BITS: u32 = 10;

/// What is believed of the length of one job.
#[derive(Clone, Debug, PartialEq)]
pub enum LengthBelief {
    /// Earlier jobs taught it.
    Learned(Box<Belief>),
    /// Only the user's estimate is known: the job takes about so many seconds on its best GPU type.
    Estimated(f64),
    /// Nothing is known.
    Unknown,
}

/// One job as a forecast sees it: what is believed of its length, and the time limit that ends it, in seconds on its best GPU type.
#[derive(Clone, Debug, PartialEq)]
pub struct RunLength {
    /// What is believed.
    pub belief: LengthBelief,
    /// It does not run longer than this, if it has a limit.
    pub limit_seconds: Option<f64>,
}

impl RunLength {
    /// The total run time in seconds that the job does not exceed with this chance, given how long it has run; `None` if it is unknown.
    pub fn total(&self, attained_seconds: f64, chance: f64) -> Option<f64> {
        let total = match &self.belief {
            LengthBelief::Learned(belief) => {
                Some(attained_seconds + belief.quantile(attained_seconds, chance).unwrap_or_else(|| end_seconds(STEPS)))
            }
            LengthBelief::Estimated(seconds) => Some(around(*seconds, attained_seconds, chance)),
            LengthBelief::Unknown => None,
        };
        match (total, self.limit_seconds) {
            (Some(total), Some(limit)) => Some(total.min(limit.max(attained_seconds))),
            // A job of unknown length ends by its limit at the latest. When it ends before is not known.
            (total, _) => total,
        }
    }

    /// The chance that the job runs no longer than so many seconds, if earlier jobs taught anything about it.
    pub fn learned_chance(&self, seconds: f64) -> Option<f64> {
        let LengthBelief::Learned(belief) = &self.belief else { return None };
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..CHANCE_BITS {
            let middle = f64::midpoint(low, high);
            if belief.quantile(0.0, middle).is_some_and(|within| within <= seconds) { low = middle } else { high = middle }
        }
        Some(low)
    }

    /// Whether nothing is known of the job's length.
    pub fn is_unknown(&self) -> bool {
        self.belief == LengthBelief::Unknown
    }
}

/// A length around an estimate, above what the job has run already. The logistic distribution in the logarithm has a closed form, and a
/// job that outlives its estimate is believed to run on in proportion.
fn around(estimate: f64, attained: f64, chance: f64) -> f64 {
    // The scale that gives the logistic distribution the wanted standard deviation.
    let scale = ESTIMATE_ERROR * 3.0_f64.sqrt() / std::f64::consts::PI;
    let lived = if attained > 0.0 { 1.0 / (1.0 + (-((attained / estimate).ln() / scale)).exp()) } else { 0.0 };
    let at = (lived + chance.clamp(0.001, 0.999) * (1.0 - lived)).clamp(1e-6, 1.0 - 1e-6);
    (estimate * (scale * (at / (1.0 - at)).ln()).exp()).max(attained)
}

/// How long jobs run against their estimates.
#[derive(Clone, Copy, Debug, Default)]
struct AgainstEstimates {
    jobs: f64,
    /// The logarithms of run time over estimate.
    sum: f64,
}

impl AgainstEstimates {
    fn learn(&mut self, estimate_seconds: f64, ran_seconds: f64) {
        let ratio = (ran_seconds.max(0.001) / estimate_seconds).ln().clamp(-RATIO_MAX, RATIO_MAX);
        (self.jobs, self.sum) = (RATIO_KEPT * self.jobs + 1.0, RATIO_KEPT * self.sum + ratio);
    }

    /// How many times its estimate a job usually runs.
    fn factor(self) -> f64 {
        (self.sum / (self.jobs + RATIO_SHRINKAGE)).exp()
    }
}

/// What the site's jobs taught so far. It learns from jobs that run and from jobs that ended, each by its number.
#[derive(Clone, Debug, Default)]
pub struct Lengths {
    history: History,
    against_estimates: AgainstEstimates,
    running: HashMap<u64, (Lineage, usize)>,
}

impl Lengths {
    /// What was learned.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// A running job has run for so many seconds.
    pub fn ran(&mut self, number: u64, traits: &JobTraits, attained_seconds: f64) {
        let history = &mut self.history;
        let (lineage, reached) = self.running.entry(number).or_insert_with(|| (history.lineage(traits), 0));
        let next = step_of(attained_seconds) + 1;
        for step in *reached..next {
            history.reach(lineage, step);
        }
        *reached = (*reached).max(next);
    }

    /// A run ended by itself after so many seconds.
    pub fn ended(&mut self, number: u64, traits: &JobTraits, attained_seconds: f64) {
        self.ran(number, traits, attained_seconds);
        if let Some(estimate) = said(traits) {
            self.against_estimates.learn(estimate, attained_seconds);
        }
        if let Some((lineage, reached)) = self.running.remove(&number) {
            self.history.end(&lineage, step_of(attained_seconds).min(reached.saturating_sub(1)));
        }
    }

    /// A run was cut off by others: it taught how far it got, and no more.
    pub fn cut_off(&mut self, number: u64) {
        self.running.remove(&number);
    }

    /// What is believed of a job.
    pub fn belief(&self, traits: &JobTraits) -> LengthBelief {
        let lineage = self.history.known_lineage(traits);
        let is_taught = match said(traits) {
            // Jobs with another estimate, or none, share no class with it but that of all jobs.
            Some(_) => self.history.ended_with_estimate(&lineage) >= ALIKE_MIN,
            None => self.history.ended() >= ENDED_MIN || self.history.ended_alike(&lineage) >= ALIKE_MIN,
        };
        match said(traits) {
            _ if is_taught => LengthBelief::Learned(Box::new(self.history.belief(&lineage))),
            Some(seconds) => LengthBelief::Estimated(seconds * self.against_estimates.factor()),
            None => LengthBelief::Unknown,
        }
    }
}

/// The user's estimate, if there is one that says something.
fn said(traits: &JobTraits) -> Option<f64> {
    traits.estimate_seconds.filter(|seconds| *seconds > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rota_core::mark;

    fn traits(user: &str, estimate: Option<f64>) -> JobTraits {
        JobTraits { user: mark(user), gpus: 1, estimate_seconds: estimate, ..JobTraits::default() }
    }

    #[test]
    fn a_job_without_an_estimate_is_unknown_until_jobs_have_ended() {
        let mut lengths = Lengths::default();
        assert_eq!(lengths.belief(&traits("ada", None)), LengthBelief::Unknown);
        assert_eq!(lengths.belief(&traits("ada", Some(60.0))), LengthBelief::Estimated(60.0));
        for number in 0..3 {
            lengths.ended(number, &traits("ada", None), 100.0);
        }
        assert!(matches!(lengths.belief(&traits("ada", None)), LengthBelief::Learned(_)));
        assert_eq!(lengths.belief(&traits("bob", None)), LengthBelief::Unknown);
    }

    #[test]
    fn an_estimate_that_no_ended_job_had_is_taken_for_what_estimates_are_worth_here() {
        let mut lengths = Lengths::default();
        (0..100).for_each(|number| lengths.ended(number, &traits("ada", None), 1.0));
        assert_eq!(lengths.belief(&traits("bob", Some(36_000.0))), LengthBelief::Estimated(36_000.0));
        // Jobs run for half of their estimates.
        (100..600).for_each(|number| lengths.ended(number, &traits("ada", Some(60.0)), 30.0));
        let LengthBelief::Estimated(seconds) = lengths.belief(&traits("bob", Some(36_000.0))) else { panic!("not estimated") };
        assert!((18_000.0..19_500.0).contains(&seconds), "{seconds}");
        assert!(matches!(lengths.belief(&traits("bob", Some(60.0))), LengthBelief::Learned(_)));
        (600..603).for_each(|number| lengths.ended(number, &traits("cyd", Some(36_000.0)), 600.0));
        assert!(matches!(lengths.belief(&traits("bob", Some(36_000.0))), LengthBelief::Learned(_)));
    }

    #[test]
    fn a_job_that_outlives_its_estimate_is_not_nearly_done_for_ever() {
        let job = RunLength { belief: LengthBelief::Estimated(100.0), limit_seconds: None };
        let median = |attained| job.total(attained, 0.5).unwrap();
        assert!((median(0.0) - 100.0).abs() < 1e-9);
        assert!(median(400.0) - 400.0 > median(200.0) - 200.0, "{} {}", median(200.0), median(400.0));
        assert!(median(50.0) > 50.0 && median(1e7) >= 1e7);
    }

    #[test]
    fn nothing_runs_past_its_limit() {
        let job = RunLength { belief: LengthBelief::Estimated(100.0), limit_seconds: Some(120.0) };
        assert_eq!(job.total(0.0, 0.99), Some(120.0));
        assert_eq!(RunLength { belief: LengthBelief::Unknown, limit_seconds: Some(9.0) }.total(0.0, 0.5), None);
    }

    #[test]
    fn a_running_job_teaches_how_far_it_got() {
        let mut lengths = Lengths::default();
        (0..40).for_each(|number| lengths.ended(number, &traits("ada", None), 15.0));
        let before = lengths.belief(&traits("ada", None));
        for number in 100..140 {
            lengths.ran(number, &traits("ada", None), 5000.0);
            lengths.ran(number, &traits("ada", None), 5000.0);
        }
        let (before, after) = match (before, lengths.belief(&traits("ada", None))) {
            (LengthBelief::Learned(before), LengthBelief::Learned(after)) => (before, after),
            other => panic!("{other:?}"),
        };
        assert!(after.quantile(0.0, 0.6).unwrap() > before.quantile(0.0, 0.6).unwrap());
    }
}
