//! What a sweep keeps of each run to draw distributions from: sorted values, no more than a picture can show.

use crate::fairness::fairness_ratios;
use crate::record::Run;
use crate::summary::RunMeta;
use rota_core::{Bound, JobId, Span};
use serde::{Deserialize, Serialize};

/// Values kept of each distribution.
const VALUES_MAX: usize = 500;
/// The part of the jobs that counts as short, by their run time; the division Gavel's figures have.
const SHORT_FRACTION: f64 = 0.8;

/// Sorted values of the jobs of a run, or as many of them at even distances.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Completion times of the shortest four fifths of the jobs.
    pub short_jct_s: Vec<f64>,
    /// Completion times of the other jobs.
    pub long_jct_s: Vec<f64>,
    /// Completion times over those of a fluid 1/n share.
    pub rho: Vec<f64>,
}

impl Sample {
    /// The sample of a run's window. Jobs are short or long by their run time alone on the fastest GPU type.
    pub fn of(run: &Run, bound: &Bound, meta: &RunMeta) -> Self {
        let window = meta.window_of(run.jobs.len());
        let mut jobs = window.clone().collect::<Vec<_>>();
        jobs.sort_by_key(|&index| bound.truth(JobId::from_index(index)).work);
        let short_count = (jobs.len() as f64 * SHORT_FRACTION).round() as usize;
        let (short, long) = jobs.split_at(short_count);
        let jct = |&index: &usize| run.jobs[index].jct(bound.jobs[index].arrival).map(Span::seconds);
        Self {
            short_jct_s: thinned(short.iter().filter_map(jct).collect()),
            long_jct_s: thinned(long.iter().filter_map(jct).collect()),
            rho: thinned(fairness_ratios(run, bound, window)),
        }
    }

    /// The samples of runs that differ only in their seed, as one.
    pub fn pooled(samples: &[Self]) -> Self {
        let pool = |of: fn(&Self) -> &Vec<f64>| {
            let mut values = samples.iter().flat_map(of).copied().collect::<Vec<_>>();
            values.sort_unstable_by(f64::total_cmp);
            values
        };
        Self { short_jct_s: pool(|one| &one.short_jct_s), long_jct_s: pool(|one| &one.long_jct_s), rho: pool(|one| &one.rho) }
    }
}

fn thinned(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_unstable_by(f64::total_cmp);
    if values.len() <= VALUES_MAX {
        return values;
    }
    let at = |position: usize| (position as f64 + 0.5) * values.len() as f64 / VALUES_MAX as f64;
    (0..VALUES_MAX).map(|position| values[(at(position) as usize).min(values.len() - 1)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinning_keeps_the_shape() {
        let even = thinned((0..10_000).rev().map(f64::from).collect());
        assert_eq!(even.len(), VALUES_MAX);
        assert!(even.is_sorted() && even[0] < 20.0 && even[VALUES_MAX - 1] > 9_980.0);
        assert!((even[VALUES_MAX / 2] - 5_000.0).abs() < 25.0);
        assert_eq!(thinned(vec![3.0, 1.0]), [1.0, 3.0]);
    }
}
