//! What a scoring network is told about a job: a fixed list of numbers, each near the range -1 to 1, the same in every environment and
//! in the live queue. A model file names its features, so that a file with fewer of them is still understood.

use rota_policy::{BatchRule, Facts};

/// Features of one job, in order.
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
    "log_remaining",
    "log_attained_time",
    "log_estimate_index",
    "log_history_index",
    "log_history_median",
    "log_history_likely",
    "log_history_mean",
    "f1",
    "f2",
    "f3",
    "f4",
    "log_log_gpus",
    "alignment",
];

/// How many features there are.
pub const COUNT: usize = 31;

/// Features that change while a job waits and nothing happens to it. A model without weight on them needs to score a job only when
/// something happened to that job.
pub const RESTLESS: [&str; 7] = ["log_wait", "log_slowdown", "fits_now", "free", "log_queue", "log_earliest_start", "alignment"];

/// Features that come from what earlier jobs taught ([`rota_policy::history`]).
pub const FROM_HISTORY: [&str; 4] = ["log_history_index", "log_history_median", "log_history_likely", "log_history_mean"];

/// The place of a feature in a row.
pub const fn place(name: &str) -> usize {
    let mut place = 0;
    while place < COUNT {
        if same(NAMES[place], name) {
            return place;
        }
        place += 1;
    }
    COUNT
}

const fn same(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    if one.len() != other.len() {
        return false;
    }
    let mut byte = 0;
    while byte < one.len() {
        if one[byte] != other[byte] {
            return false;
        }
        byte += 1;
    }
    true
}

pub(crate) const WAIT: usize = place("log_wait");
pub(crate) const SLOWDOWN: usize = place("log_slowdown");
pub(crate) const FITS: usize = place("fits_now");
pub(crate) const FREE: usize = place("free");
pub(crate) const QUEUE: usize = place("log_queue");
pub(crate) const EARLIEST: usize = place("log_earliest_start");
pub(crate) const ALIGNMENT: usize = place("alignment");
const USER_RECENT: usize = place("log_user_recent");
const HISTORY_INDEX: usize = place("log_history_index");
const HISTORY_MEDIAN: usize = place("log_history_median");
const HISTORY_LIKELY: usize = place("log_history_likely");
const HISTORY_MEAN: usize = place("log_history_mean");

/// What earlier jobs taught about a job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Taught {
    /// The Gittins index: the best chance of ending per second.
    pub index: f64,
    /// The seconds left that are as likely too many as too few.
    pub median_seconds: f64,
    /// The seconds left that the job does not exceed with a chance of 65 %.
    pub likely_seconds: f64,
    /// The mean of the seconds left.
    pub mean_seconds: f64,
}

/// The facts about a job that features are made from.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct JobFacts {
    /// Seconds since submission.
    pub wait_seconds: f64,
    /// The second of submission, counted from the beginning of the trace.
    pub submitted_second: f64,
    /// The estimated run time in seconds, where there is an estimate.
    pub estimate_seconds: Option<f64>,
    /// The estimated time left in seconds, where there is an estimate.
    pub remaining_seconds: Option<f64>,
    /// The Gittins index of a job with that estimate, where there is one.
    pub estimate_index: Option<f64>,
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
    /// How well the job's demand goes with the GPU that suits it best: share × free share + memory × free memory, 0 if none fits.
    pub alignment: f64,
    /// Whether the job is running.
    pub running: bool,
    /// Mean run time in seconds of the last jobs of the same user that ended.
    pub user_recent_seconds: Option<f64>,
    /// What earlier jobs taught.
    pub taught: Option<Taught>,
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
pub(crate) fn log(seconds: f64, scale: f64) -> f32 {
    // `ln` is several times as fast as `ln_1p`, which is needed only where one more makes small numbers coarse.
    let logarithm = if seconds >= 0.5 { (1.0 + seconds).ln() } else { seconds.max(0.0).ln_1p() };
    (logarithm / scale) as f32
}

/// A Gittins index on a logarithmic scale.
fn index(index: f64) -> f32 {
    (index.max(1e-12).ln() / 20.0) as f32
}

/// A batch rule's score on a logarithmic scale, which keeps the order of jobs.
fn rule(rule: BatchRule, facts: Facts) -> f32 {
    let score = rule.score(facts);
    (score.signum() * score.abs().ln_1p() / 10.0) as f32
}

/// Writes the features of a job to the end of `rows`.
pub fn push_row(rows: &mut Vec<f32>, job: &JobFacts, cluster: &ClusterFacts) {
    let flag = |is: bool| f32::from(u8::from(is));
    let estimate = job.estimate_seconds.unwrap_or(0.0);
    let width = job.gpus * job.share;
    let taught = |seconds: fn(&Taught) -> f64| job.taught.as_ref().map_or(0.0, |taught| log(seconds(taught), 10.0));
    let facts = Facts {
        run_seconds: estimate.max(1.0),
        gpus: width,
        submitted_second: job.submitted_second,
        waited_seconds: job.wait_seconds,
    };
    let first = rows.len();
    rows.extend_from_slice(&[
        0.0,
        log(estimate, 10.0),
        flag(job.estimate_seconds.is_some()),
        (job.gpus.max(1.0).ln() / 5.0) as f32,
        job.share as f32,
        job.memory as f32,
        log(estimate * width, 15.0),
        log(job.attained_seconds, 15.0),
        (job.priority.clamp(-100.0, 100.0) / 5.0) as f32,
        0.0,
        0.0,
        0.0,
        0.0,
        job.user_recent_seconds.map_or(0.0, |seconds| log(seconds, 10.0)),
        flag(job.running),
        log(job.remaining_seconds.unwrap_or(0.0) * width, 15.0),
        (job.gpus / cluster.gpus.max(1.0)) as f32,
        0.0,
        log(job.remaining_seconds.unwrap_or(0.0), 10.0),
        log(job.attained_seconds / width.max(1e-3), 10.0),
        job.estimate_index.map_or(0.0, index),
        job.taught.map_or(0.0, |taught| index(taught.index)),
        taught(|taught| taught.median_seconds),
        taught(|taught| taught.likely_seconds),
        taught(|taught| taught.mean_seconds),
        rule(BatchRule::F1, facts),
        rule(BatchRule::F2, facts),
        rule(BatchRule::F3, facts),
        rule(BatchRule::F4, facts),
        (width.log2().max(0.1).ln() / 3.0) as f32,
        0.0,
    ]);
    renew(&mut rows[first..], job, cluster);
}

/// Writes what earlier jobs taught about a job, and about its user, into its row; the others stay as they are.
pub(crate) fn renew_taught(row: &mut [f32; COUNT], taught: &Taught, user_recent_seconds: Option<f64>) {
    row[USER_RECENT] = user_recent_seconds.map_or(0.0, |seconds| log(seconds, 10.0));
    row[HISTORY_INDEX] = index(taught.index);
    row[HISTORY_MEDIAN] = log(taught.median_seconds, 10.0);
    row[HISTORY_LIKELY] = log(taught.likely_seconds, 10.0);
    row[HISTORY_MEAN] = log(taught.mean_seconds, 10.0);
}

/// Writes the [`RESTLESS`] features of a job into its row; the others stay as they are.
pub fn renew(row: &mut [f32], job: &JobFacts, cluster: &ClusterFacts) {
    row[WAIT] = log(job.wait_seconds, 10.0);
    row[SLOWDOWN] = job.estimate_seconds.map_or(0.0, |estimate| log(job.wait_seconds / estimate.max(10.0), 5.0));
    row[FITS] = f32::from(u8::from(job.fits_now));
    row[FREE] = cluster.free as f32;
    row[QUEUE] = log(cluster.waiting as f64, 6.0);
    row[EARLIEST] = log(job.earliest_start_seconds, 10.0);
    row[ALIGNMENT] = job.alignment as f32;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_a_number_for_each_name_and_all_are_finite() {
        let mut rows = Vec::new();
        push_row(&mut rows, &JobFacts::default(), &ClusterFacts::default());
        let taught = Taught { index: 0.0, median_seconds: 1e300, likely_seconds: 0.0, mean_seconds: f64::MAX };
        let extreme = JobFacts {
            wait_seconds: 1e12,
            estimate_seconds: Some(f64::MAX),
            remaining_seconds: Some(1e300),
            taught: Some(taught),
            gpus: 1e9,
            share: 1.0,
            ..JobFacts::default()
        };
        push_row(&mut rows, &extreme, &ClusterFacts { gpus: 0.0, ..ClusterFacts::default() });
        assert_eq!(rows.len(), 2 * NAMES.len());
        assert!(rows[..COUNT].iter().all(|value| value.is_finite()));
    }

    #[test]
    fn every_name_has_one_place() {
        for (wanted, name) in NAMES.iter().enumerate() {
            assert_eq!(place(name), wanted);
        }
        assert!(RESTLESS.iter().chain(&FROM_HISTORY).all(|name| place(name) < COUNT));
        assert_eq!(place("colour"), COUNT);
    }

    #[test]
    fn a_row_that_is_renewed_equals_a_new_one() {
        let cluster = ClusterFacts { free: 0.5, gpus: 8.0, waiting: 3 };
        let earlier =
            JobFacts { estimate_seconds: Some(300.0), gpus: 2.0, share: 1.0, submitted_second: 7.0, ..JobFacts::default() };
        let later = JobFacts { wait_seconds: 900.0, fits_now: true, earliest_start_seconds: 5.0, alignment: 0.3, ..earlier };
        let (mut renewed, mut fresh) = (Vec::new(), Vec::new());
        push_row(&mut renewed, &earlier, &ClusterFacts { gpus: 8.0, ..ClusterFacts::default() });
        renew(&mut renewed, &later, &cluster);
        push_row(&mut fresh, &later, &cluster);
        assert_eq!(renewed, fresh);
    }
}
