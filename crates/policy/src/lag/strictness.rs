//! How strongly lag counts where lengths are learned and GPUs are alike: as strongly as the jobs that ended make necessary.
//!
//! No constant serves every site. Where bursts of hundreds of like jobs come, the first of a burst end early, fewer jobs share the
//! cluster, and the last of the burst fall behind a private share: lag must count for much. Where jobs hardly wait, nobody falls behind,
//! and lag only keeps jobs from their turn that would end soon. So every job that ends behind makes lag count more, and every other one
//! makes it count a little less. At rest one job in 250 ends behind. Where many jobs end behind all the same, jobs of one user that are
//! alike must take turns, too ([`super::alike`]).

use serde::{Deserialize, Serialize};

/// A job ended behind if a private share would have done this many times its work until then.
const BEHIND: f64 = 1.1;
/// The share of jobs that may end behind.
const BUDGET: f64 = 0.004;
/// A job that ended behind raises the exponent by about this part.
const STEP: f64 = 0.05;
/// The first, smallest and largest exponent. The bounds let the exponent recover soon after a long good or bad time.
const FIRST: f64 = 1.5;
const LEAST: f64 = 0.5;
const LARGEST: f64 = 4.0;
/// Lag counts with the exponent that is steered up to here, and with the second beyond. While a job is little behind, its turn keeps it from
/// falling behind a private share. A job that is far behind has lost that already: counted in full, such long jobs would hold up many short
/// ones and still be late.
const LAG_FULL: f64 = 1.3;
const BEYOND: f64 = 0.25;

/// What the latest job counts for in the share of jobs that ended behind lately.
const LATEST: f64 = 1.0 / 256.0;
/// Jobs that are alike count together while less than this share ended behind lately.
const BEHIND_MAX: f64 = 0.01;

/// The exponent of lag, steered by the jobs that ended.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Strictness {
    exponent: f64,
    /// The share of jobs that ended behind lately.
    behind: f64,
}

impl Default for Strictness {
    fn default() -> Self {
        Self { exponent: FIRST, behind: 0.0 }
    }
}

impl Strictness {
    /// Takes in that a job ended: what it had done, and what a private share would have done for it, in seconds on its best GPU type.
    pub fn learn(&mut self, done_seconds: f64, due_seconds: f64) {
        let behind = if due_seconds > BEHIND * done_seconds { 1.0 } else { 0.0 };
        self.exponent = (self.exponent * (STEP * (behind - BUDGET)).exp()).clamp(LEAST, LARGEST);
        self.behind += LATEST * (behind - self.behind);
    }

    /// Whether jobs of one user that are alike count together: too few jobs ended behind lately for that to do harm.
    pub fn counts_together(self) -> bool {
        self.behind < BEHIND_MAX
    }

    /// What a lag counts for: in full while there is time to make up for it; beyond, it grows without bound, but slowly.
    pub fn eased(self, lag: f64) -> f64 {
        let near = lag.min(LAG_FULL).powf(self.exponent);
        if lag <= LAG_FULL { near } else { near * (lag / LAG_FULL).powf(BEYOND) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lag_counts_in_full_at_first_and_ever_more_slowly_and_without_bound_beyond() {
        let eased = |lag: f64| Strictness::default().eased(lag);
        assert!((eased(1.0) - 1.0).abs() < 1e-12 && eased(1.2) > 1.2);
        assert!((eased(LAG_FULL + 1e-9) - eased(LAG_FULL)).abs() < 1e-6 && eased(LAG_FULL + 1e-9) >= eased(LAG_FULL));
        assert!(eased(2.0) < 2.0 && eased(1e12) > 1e3);
    }

    #[test]
    fn jobs_that_end_behind_make_lag_count_more_and_others_less() {
        let mut strictness = Strictness::default();
        strictness.learn(100.0, 111.0);
        assert!(strictness.eased(1.2) > Strictness::default().eased(1.2));
        // A job that is ahead waits sooner for one that is not.
        assert!(strictness.eased(0.8) < Strictness::default().eased(0.8));
        let mut strictness = Strictness::default();
        strictness.learn(100.0, 109.0);
        assert!(strictness.eased(1.2) < Strictness::default().eased(1.2));
    }

    #[test]
    fn one_job_in_250_may_end_behind() {
        let mut strictness = Strictness::default();
        let ends = |strictness: &mut Strictness, not_behind: usize| {
            (0..not_behind).for_each(|_| strictness.learn(100.0, 90.0));
            strictness.learn(100.0, 200.0);
        };
        (0..50).for_each(|_| ends(&mut strictness, 249));
        assert!((strictness.exponent - FIRST).abs() < 1e-9, "{strictness:?}");
        (0..50).for_each(|_| ends(&mut strictness, 124));
        assert!(strictness.exponent > 1.2 * FIRST, "{strictness:?}");
        (0..50).for_each(|_| ends(&mut strictness, 499));
        assert!(strictness.exponent < FIRST, "{strictness:?}");
    }

    #[test]
    fn jobs_that_are_alike_count_together_while_few_end_behind() {
        let mut strictness = Strictness::default();
        strictness.learn(100.0, 200.0);
        assert!(strictness.counts_together(), "{strictness:?}");
        (0..3).for_each(|_| strictness.learn(100.0, 200.0));
        assert!(!strictness.counts_together(), "{strictness:?}");
        (0..200).for_each(|_| strictness.learn(100.0, 90.0));
        assert!(strictness.counts_together(), "{strictness:?}");
    }

    #[test]
    fn the_exponent_stays_within_bounds_and_comes_back() {
        let mut strictness = Strictness::default();
        (0..1000).for_each(|_| strictness.learn(1.0, 2.0));
        assert!((strictness.exponent - LARGEST).abs() < 1e-12);
        (0..100_000).for_each(|_| strictness.learn(1.0, 1.0));
        assert!((strictness.exponent - LEAST).abs() < 1e-12);
        (0..20).for_each(|_| strictness.learn(1.0, 2.0));
        assert!(strictness.exponent > 2.0 * LEAST);
    }
}
