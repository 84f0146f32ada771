//! What is believed of a job's length: the chance that it ends in each step, given that it gets there; and what follows from that.

use super::steps::{STEPS, by_step, end_seconds, start_seconds, step_of};
use serde::{Deserialize, Serialize};

/// Hazards this close to 1 are taken for a little less: nothing learned from finitely many jobs is certain.
const HAZARD_MAX: f64 = 0.999;
/// Below this a step is as good as free of ends, and the mean time in it is its length.
const RATE_MIN: f64 = 1e-9;

/// Chances of ending, step by step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Belief {
    /// For each step, minus the logarithm of the chance to get through it.
    #[serde(with = "by_step")]
    rates: [f64; STEPS],
}

/// Chance of getting through a stretch, and the mean time spent in it.
fn stretch(rate: f64, seconds: f64) -> (f64, f64) {
    let through = (-rate).exp();
    (through, if rate < RATE_MIN { seconds } else { seconds * (1.0 - through) / rate })
}

impl Belief {
    /// From the chance of ending in each step, given that the job reached it.
    pub fn new(hazards: &[f64; STEPS]) -> Self {
        Self { rates: hazards.map(|hazard| -(1.0 - hazard.clamp(0.0, HAZARD_MAX)).ln()) }
    }

    /// What lies ahead of a job that has run so long: rate and seconds of the rest of its step, then of each further step.
    fn ahead(&self, attained_seconds: f64) -> impl Iterator<Item = (f64, f64)> {
        let attained = if attained_seconds.is_finite() { attained_seconds.max(0.0) } else { 0.0 };
        let now = step_of(attained);
        (now..STEPS).map(move |step| {
            let length = end_seconds(step) - start_seconds(step);
            // A job past the last step has all of it before it once more.
            let left = if step == now && attained < end_seconds(step) { end_seconds(step) - attained } else { length };
            (self.rates[step] * left / length, left)
        })
    }

    /// The Gittins index at the beginning of each step: the best chance of ending per second spent, over all times to stop at.
    pub fn indices(&self) -> [f64; STEPS] {
        let stretches: [(f64, f64); STEPS] =
            std::array::from_fn(|step| stretch(self.rates[step], end_seconds(step) - start_seconds(step)));
        // From the last step back: what lies ahead is a row of spans, each up to a best time to stop, with falling chances per second.
        // A step takes in the spans behind it as long as they are better than itself, so each is taken in once.
        let mut ahead = [(0.0, 0.0, 0.0); STEPS];
        let (mut count, mut indices) = (0, [0.0; STEPS]);
        for (step, &(mut through, mut spent)) in stretches.iter().enumerate().rev() {
            let mut index = (1.0 - through) / spent;
            while count > 0 && ahead[count - 1].2 > index {
                count -= 1;
                spent += through * ahead[count].1;
                through *= ahead[count].0;
                index = (1.0 - through) / spent;
            }
            ahead[count] = (through, spent, index);
            count += 1;
            indices[step] = index;
        }
        indices
    }

    /// Seconds within which a job that has run so long ends with this chance; `None` if not even the last step makes it that likely.
    pub fn quantile(&self, attained_seconds: f64, chance: f64) -> Option<f64> {
        let wanted = -(1.0 - chance.clamp(0.0, HAZARD_MAX)).ln();
        let (mut rates, mut elapsed) = (0.0, 0.0);
        for (rate, seconds) in self.ahead(attained_seconds) {
            if rates + rate >= wanted {
                return Some(elapsed + if rate > 0.0 { seconds * (wanted - rates) / rate } else { 0.0 });
            }
            rates += rate;
            elapsed += seconds;
        }
        None
    }

    /// Mean seconds that a job still runs after so many; time past the last step is not counted.
    pub fn mean_remaining(&self, attained_seconds: f64) -> f64 {
        let (mut reached, mut spent) = (1.0, 0.0);
        for (rate, seconds) in self.ahead(attained_seconds) {
            let (through, mean) = stretch(rate, seconds);
            spent += reached * mean;
            reached *= through;
        }
        spent
    }
}

/// What is believed of a job that has not run yet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outlook {
    /// The Gittins index of the job.
    pub index: f64,
    /// Seconds within which the job ends with each of the chances asked for; `None` if not even the last step makes it that likely.
    pub within_seconds: [Option<f64>; 2],
    /// Mean seconds that the job runs; time past the last step is not counted.
    pub mean_seconds: f64,
}

impl Outlook {
    /// All of it in one pass over the steps, which is several times as fast as to ask a [`Belief`] for each.
    pub(super) fn new(hazards: &[f64; STEPS], chances: [f64; 2]) -> Self {
        let wanted = chances.map(|chance| -(1.0 - chance.clamp(0.0, HAZARD_MAX)).ln());
        let mut outlook = Self { index: 0.0, within_seconds: [None; 2], mean_seconds: 0.0 };
        let (mut reached, mut rates, mut elapsed) = (1.0, 0.0, 0.0);
        for (step, hazard) in hazards.iter().enumerate() {
            let seconds = end_seconds(step) - start_seconds(step);
            let hazard = hazard.clamp(0.0, HAZARD_MAX);
            let rate = -(1.0 - hazard).ln();
            let mean = if rate < RATE_MIN { seconds } else { seconds * hazard / rate };
            outlook.mean_seconds += reached * mean;
            reached *= 1.0 - hazard;
            outlook.index = outlook.index.max((1.0 - reached) / outlook.mean_seconds);
            for (wanted, within) in wanted.iter().zip(&mut outlook.within_seconds) {
                if within.is_none() && rates + rate >= *wanted {
                    *within = Some(elapsed + if rate > 0.0 { seconds * (wanted - rates) / rate } else { 0.0 });
                }
            }
            rates += rate;
            elapsed += seconds;
        }
        outlook
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_outlook_says_what_the_belief_says_of_a_job_that_has_not_run() {
        let ladders: [fn(usize) -> f64; 4] =
            [|_| 0.0, |step| step as f64 / 100.0, |step| if step == 0 { 0.9 } else { 0.1 }, |step| f64::from(step % 7 == 3)];
        for ladder in ladders {
            let hazards = std::array::from_fn(ladder);
            let (belief, outlook) = (Belief::new(&hazards), Outlook::new(&hazards, [0.5, 0.65]));
            let same = |one: f64, other: f64| (one - other).abs() <= 1e-9 * one.abs().max(other.abs());
            assert!(same(outlook.index, belief.indices()[0]), "{outlook:?} {}", belief.indices()[0]);
            assert!(same(outlook.mean_seconds, belief.mean_remaining(0.0)), "{outlook:?}");
            for (within, chance) in outlook.within_seconds.into_iter().zip([0.5, 0.65]) {
                let slow = belief.quantile(0.0, chance);
                assert_eq!(within.is_some(), slow.is_some());
                assert!(within.zip(slow).is_none_or(|(within, slow)| same(within, slow)), "{within:?} {slow:?}");
            }
        }
    }

    /// The index at the beginning of a step, by trying every time to stop at.
    fn index_by_trying(hazards: &[f64; STEPS], first: usize) -> f64 {
        let (mut reached, mut spent, mut best) = (1.0, 0.0, 0.0_f64);
        for (step, hazard) in hazards.iter().enumerate().skip(first) {
            let (through, mean) = stretch(-(1.0 - hazard).ln(), end_seconds(step) - start_seconds(step));
            spent += reached * mean;
            reached *= through;
            best = best.max((1.0 - reached) / spent);
        }
        best
    }

    proptest! {
        #[test]
        fn no_time_to_stop_at_is_better_than_the_index_says(
            drawn in prop::collection::vec(prop_oneof![Just(0.0), 0.0..0.05_f64, 0.0..HAZARD_MAX], STEPS),
        ) {
            let hazards: [f64; STEPS] = drawn.try_into().unwrap();
            let indices = Belief::new(&hazards).indices();
            for (step, index) in indices.into_iter().enumerate() {
                let tried = index_by_trying(&hazards, step);
                prop_assert!((index - tried).abs() <= 1e-9 * tried, "{step}: {index} {tried}");
            }
        }
    }

    #[test]
    fn a_constant_rate_forgets_how_long_a_job_ran() {
        // Ends at a constant rate of one in 1,000 s: the index is that rate, and the median 693 s, wherever the job is.
        let hazards = std::array::from_fn(|step| 1.0 - (-(end_seconds(step) - start_seconds(step)) / 1000.0).exp());
        let belief = Belief::new(&hazards);
        for step in [0, 5, 12] {
            assert!((belief.indices()[step] - 1e-3).abs() < 1e-9, "{step}: {}", belief.indices()[step]);
        }
        for attained in [0.0, 3.0, 250.0] {
            let median = belief.quantile(attained, 0.5).unwrap();
            assert!((median - 693.147).abs() < 0.01, "{attained}: {median}");
            assert!((belief.mean_remaining(attained) - 1000.0).abs() < 1.0);
        }
    }

    #[test]
    fn a_job_past_the_usual_length_is_believed_to_run_on() {
        // Nine of ten jobs end before 10 s, the others live long.
        let hazards = std::array::from_fn(|step| if step == 0 { 0.9 } else { 0.1 });
        let belief = Belief::new(&hazards);
        assert!(belief.quantile(0.0, 0.5).unwrap() < 10.0);
        let medians = [20.0, 200.0, 2000.0].map(|attained| belief.quantile(attained, 0.5).unwrap());
        assert!(medians[0] > 20.0 && medians[1] > 5.0 * medians[0] && medians[2] > 5.0 * medians[1], "{medians:?}");
        assert!(belief.indices()[0] > 5.0 * belief.indices()[1], "{:?}", &belief.indices()[..2]);
    }

    #[test]
    fn what_nobody_saw_end_has_no_quantile() {
        let belief = Belief::new(&[0.0; STEPS]);
        assert_eq!(belief.quantile(0.0, 0.5), None);
        assert!(belief.indices()[0].abs() < 1e-300);
        assert!(belief.mean_remaining(f64::NAN).is_finite() && belief.mean_remaining(1e12).is_finite());
    }
}
