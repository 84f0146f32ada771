//! What a scoring network is told about a job: a fixed list of numbers, each near the range -1 to 1, the same in every environment and
//! in the live queue. The list has a version; a model names the features it was trained with, in order.

/// Features of one job, in order. A model file names them, so that a later list can differ.
pub const NAMES: [&str; COUNT] = [
    "log_wait",
    "log_estimate",
    "has_estimate",
    "log_gpus",
    "share",
    "memory",
    "log_area",
    "log_attained",
    "priority",
    "log_slowdown",
    "fits_now",
    "free",
    "log_queue",
    "log_user_recent",
    "running",
    "log_remaining_area",
    "gang_fraction",
    "log_earliest_start",
];

/// How many features there are.
pub const COUNT: usize = 18;

/// The facts about a job that features are made from.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct JobFacts {
    /// Seconds since submission.
    pub wait_seconds: f64,
    /// The estimated run time in seconds, where there is an estimate.
    pub estimate_seconds: Option<f64>,
    /// The estimated time left in seconds, where there is an estimate.
    pub remaining_seconds: Option<f64>,
    /// The GPUs of the gang.
    pub gpus: f64,
    /// The share of each GPU, 0 to 1.
    pub share: f64,
    /// The part of a GPU's memory that the job needs, 0 to 1.
    pub memory: f64,
    /// GPU seconds received so far.
    pub attained_seconds: f64,
    /// The job's priority.
    pub priority: f64,
    /// Whether the job fits on what is free now.
    pub fits_now: bool,
    /// Whether the job is running.
    pub running: bool,
    /// Mean run time in seconds of the last jobs of the same user that ended.
    pub user_recent_seconds: Option<f64>,
    /// Seconds until enough GPUs are expected to be free.
    pub earliest_start_seconds: f64,
}

/// The facts about the cluster that every row shares.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ClusterFacts {
    /// The part of all GPUs that is free, 0 to 1.
    pub free: f64,
    /// The number of GPUs of the cluster.
    pub gpus: f64,
    /// The number of waiting jobs.
    pub waiting: usize,
}

/// The logarithm of one more than a number of seconds, over its value for a long time.
fn log(seconds: f64, scale: f64) -> f32 {
    (seconds.max(0.0).ln_1p() / scale) as f32
}

/// Writes the features of a job to the end of `rows`.
pub fn push_row(rows: &mut Vec<f32>, job: &JobFacts, cluster: &ClusterFacts) {
    let flag = |is: bool| f32::from(u8::from(is));
    let estimate = job.estimate_seconds.unwrap_or(0.0);
    let width = job.gpus * job.share;
    rows.extend_from_slice(&[
        log(job.wait_seconds, 10.0),
        log(estimate, 10.0),
        flag(job.estimate_seconds.is_some()),
        (job.gpus.max(1.0).ln() / 5.0) as f32,
        job.share as f32,
        job.memory as f32,
        log(estimate * width, 15.0),
        log(job.attained_seconds, 15.0),
        (job.priority.clamp(-100.0, 100.0) / 5.0) as f32,
        job.estimate_seconds.map_or(0.0, |estimate| log(job.wait_seconds / estimate.max(10.0), 5.0)),
        flag(job.fits_now),
        cluster.free as f32,
        log(cluster.waiting as f64, 6.0),
        job.user_recent_seconds.map_or(0.0, |seconds| log(seconds, 10.0)),
        flag(job.running),
        log(job.remaining_seconds.unwrap_or(0.0) * width, 15.0),
        (job.gpus / cluster.gpus.max(1.0)) as f32,
        log(job.earliest_start_seconds, 10.0),
    ]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_a_number_for_each_name_and_all_are_finite() {
        let mut rows = Vec::new();
        push_row(&mut rows, &JobFacts::default(), &ClusterFacts::default());
        let extreme = JobFacts {
            wait_seconds: 1e12,
            estimate_seconds: Some(f64::MAX),
            remaining_seconds: Some(1e300),
            gpus: 1e9,
            share: 1.0,
            ..JobFacts::default()
        };
        push_row(&mut rows, &extreme, &ClusterFacts { gpus: 0.0, ..ClusterFacts::default() });
        assert_eq!(rows.len(), 2 * NAMES.len());
        assert!(rows[..COUNT].iter().all(|value| value.is_finite()));
    }
}
