//! How well the simulator repeats what really happened: the recorded jobs under the policy that really ran, start by start.

use serde::Serialize;

/// Waits that differ by no more than this are the same: a daemon takes some milliseconds to start a job, and the simulator takes none.
const SAME_WAIT_SECONDS: f64 = 0.1;

/// How well the replay fits what happened. Waits are from arrival to the first start, in seconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fidelity {
    /// The policy that was replayed.
    pub policy: String,
    /// Jobs whose starts are known and were replayed.
    pub jobs: usize,
    /// The part of all pairs of jobs that started in the same order as in the replay; 1 if the order of all starts is the same.
    pub start_order: f64,
    /// The sum of all errors of waits, as a part of the sum of all waits; null if no job waited for more than a tenth of a second.
    pub error_of_waits: Option<f64>,
    /// The median of the absolute error of a job's wait.
    pub error_median_s: f64,
    /// The error that nine of ten jobs do not exceed.
    pub error_p90_s: f64,
    /// The mean of the replayed minus the recorded wait.
    pub bias_s: f64,
    /// The mean wait that was recorded.
    pub wait_mean_recorded_s: f64,
    /// The mean wait of the replay.
    pub wait_mean_replayed_s: f64,
    /// The largest distance between the two distributions of waits, 0 to 1. Waits that differ by a tenth of a second are the same.
    pub distribution_distance: f64,
}

/// One job: its arrival, and how long it waited for its first start, recorded and replayed; in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct JobWaits {
    pub arrival: f64,
    pub recorded: f64,
    pub replayed: f64,
}

/// Compares a replay with what happened; `None` where no start is known.
pub fn fidelity(policy: &str, jobs: &[JobWaits]) -> Option<Fidelity> {
    if jobs.is_empty() {
        return None;
    }
    let count = jobs.len() as f64;
    let mut errors = jobs.iter().map(|job| (job.replayed - job.recorded).abs()).collect::<Vec<_>>();
    errors.sort_by(f64::total_cmp);
    let recorded = jobs.iter().map(|job| job.recorded).sum::<f64>();
    let replayed = jobs.iter().map(|job| job.replayed).sum::<f64>();
    Some(Fidelity {
        policy: policy.to_owned(),
        jobs: jobs.len(),
        start_order: same_order(jobs),
        error_of_waits: jobs.iter().any(|job| job.recorded > SAME_WAIT_SECONDS).then(|| errors.iter().sum::<f64>() / recorded),
        error_median_s: median(&errors),
        error_p90_s: at(&errors, 0.9),
        bias_s: (replayed - recorded) / count,
        wait_mean_recorded_s: recorded / count,
        wait_mean_replayed_s: replayed / count,
        distribution_distance: distance(jobs),
    })
}

/// The middle value, or the mean of the middle two.
fn median(sorted: &[f64]) -> f64 {
    let (low, high) = ((sorted.len() - 1) / 2, sorted.len() / 2);
    f64::midpoint(sorted[low], sorted[high])
}

fn at(sorted: &[f64], fraction: f64) -> f64 {
    sorted[((sorted.len() - 1) as f64 * fraction).round() as usize]
}

/// The part of the pairs that are in the same order. Jobs that started at one moment in either are in no order there.
fn same_order(jobs: &[JobWaits]) -> f64 {
    // Times to the microsecond: sums of seconds differ by rounding.
    let micros = |seconds: f64| (seconds * 1e6).round() as i64;
    let mut starts =
        jobs.iter().map(|job| (micros(job.arrival + job.recorded), micros(job.arrival + job.replayed))).collect::<Vec<_>>();
    starts.sort_unstable();
    let pairs = jobs.len() as f64 * (jobs.len() as f64 - 1.0) / 2.0;
    if pairs == 0.0 {
        return 1.0;
    }
    let mut order = starts.iter().map(|(_, replayed)| *replayed).collect::<Vec<_>>();
    let swapped = swaps(&mut order);
    1.0 - swapped as f64 / pairs
}

/// Sorts, and counts the pairs that were in the wrong order.
fn swaps(values: &mut Vec<i64>) -> u64 {
    if values.len() < 2 {
        return 0;
    }
    let mut right = values.split_off(values.len() / 2);
    let mut count = swaps(values) + swaps(&mut right);
    let (left, mut merged) = (std::mem::take(values), Vec::with_capacity(right.len() * 2));
    let (mut left, mut right) = (left.into_iter().peekable(), right.into_iter().peekable());
    while let (Some(first), Some(second)) = (left.peek(), right.peek()) {
        if first <= second {
            merged.extend(left.next());
        } else {
            count += left.len() as u64;
            merged.extend(right.next());
        }
    }
    merged.extend(left);
    merged.extend(right);
    *values = merged;
    count
}

/// The largest difference between the parts of jobs that waited at most so long, where a wait may be a little longer in either.
fn distance(jobs: &[JobWaits]) -> f64 {
    let sorted = |of: fn(&JobWaits) -> f64| {
        let mut values = jobs.iter().map(of).collect::<Vec<_>>();
        values.sort_by(f64::total_cmp);
        values
    };
    let (recorded, replayed) = (sorted(|job| job.recorded), sorted(|job| job.replayed));
    // How many more jobs have waited at most so long here than there. It is largest at a wait of this list.
    let ahead = |here: &[f64], there: &[f64]| {
        let more = |(place, wait): (usize, &f64)| {
            (place + 1).saturating_sub(there.partition_point(|value| *value <= wait + SAME_WAIT_SECONDS))
        };
        here.iter().enumerate().map(more).max().unwrap_or(0)
    };
    ahead(&recorded, &replayed).max(ahead(&replayed, &recorded)) as f64 / jobs.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jobs(starts: &[(f64, f64)]) -> Vec<JobWaits> {
        let job = |(recorded, replayed): &(f64, f64)| JobWaits { arrival: 0.0, recorded: *recorded, replayed: *replayed };
        starts.iter().map(job).collect()
    }

    #[test]
    fn the_same_starts_are_a_perfect_replay() {
        let perfect = fidelity("fcfs", &jobs(&[(0.0, 0.0), (5.0, 5.0), (9.0, 9.0)])).unwrap();
        assert_eq!((perfect.start_order, perfect.error_of_waits, perfect.distribution_distance), (1.0, Some(0.0), 0.0));
    }

    #[test]
    fn one_swapped_pair_of_three_is_seen() {
        let swapped = fidelity("fcfs", &jobs(&[(1.0, 1.0), (2.0, 4.0), (3.0, 3.0)])).unwrap();
        assert!((swapped.start_order - 2.0 / 3.0).abs() < 1e-12, "{swapped:?}");
        assert_eq!(swapped.error_of_waits, Some(2.0 / 6.0));
        assert_eq!((swapped.bias_s, swapped.error_p90_s), (2.0 / 3.0, 2.0));
    }

    #[test]
    fn jobs_that_start_together_are_in_no_order() {
        let together = fidelity("fcfs", &jobs(&[(1.0, 1.0), (1.0, 2.0), (1.0, 0.5)]));
        assert_eq!(together.map(|found| found.start_order), Some(1.0));
    }

    #[test]
    fn nothing_recorded_is_no_fidelity() {
        assert_eq!(fidelity("fcfs", &[]), None);
        assert_eq!(fidelity("fcfs", &jobs(&[(0.0, 0.0)])).unwrap().error_of_waits, None);
    }

    #[test]
    fn the_milliseconds_that_a_daemon_takes_are_no_error() {
        let none_waits = fidelity("fcfs", &jobs(&[(0.0007, 0.0), (0.0006, 0.0), (0.0009, 0.0)])).unwrap();
        assert_eq!((none_waits.error_of_waits, none_waits.distribution_distance), (None, 0.0));
        let one_waits = fidelity("fcfs", &jobs(&[(0.0007, 0.0), (10.003, 10.0), (20.05, 20.0)])).unwrap();
        assert!(one_waits.distribution_distance.abs() < 1e-12, "{one_waits:?}");
    }

    #[test]
    fn the_median_of_an_even_number_of_errors_is_between_the_middle_two() {
        let errors = |errors: &[f64]| jobs(&errors.iter().map(|error| (10.0, 10.0 + error)).collect::<Vec<_>>());
        let median = |waits: Vec<JobWaits>| fidelity("fcfs", &waits).map(|found| found.error_median_s);
        assert_eq!(median(errors(&[1.0, 9.0, 2.0, 4.0])), Some(3.0));
        assert_eq!(median(errors(&[1.0, 9.0, 2.0])), Some(2.0));
    }

    #[test]
    fn distributions_are_compared_at_the_waits_of_both() {
        // The distance of the replay from the recording, and of the recording from the replay.
        let apart = |starts: &[(f64, f64)]| {
            let other_way = starts.iter().map(|(recorded, replayed)| (*replayed, *recorded)).collect::<Vec<_>>();
            (distance(&jobs(starts)), distance(&jobs(&other_way)))
        };
        assert_eq!(apart(&[(10.0, 5.0), (10.0, 5.0)]), (1.0, 1.0));
        assert_eq!(apart(&[(1.0, 1.0), (2.0, 5.0), (5.0, 2.0)]), (0.0, 0.0), "the same waits of other jobs");
        assert_eq!(apart(&[(1.0, 2.0), (3.0, 4.0), (5.0, 6.0), (7.0, 8.0)]), (0.25, 0.25));
        assert_eq!(apart(&[(0.0, 0.0), (0.0, 4.0), (0.0, 4.0), (9.0, 9.0)]), (0.5, 0.5));
    }
}
