//! The pictures: each is a function from runs to SVG text.

pub(crate) mod cdf;
pub(crate) mod comparison;
pub(crate) mod gantt_gpus;
pub(crate) mod gantt_jobs;
pub(crate) mod lines;
pub(crate) mod over_time;
pub(crate) mod points;
pub(crate) mod sweep_cdf;

use crate::record::Run;
use crate::units::{duration, plural};
use rota_core::Bound;

/// Width of every picture.
pub(crate) const WIDTH: f64 = 1200.0;

/// A run as the pictures that compare runs need it.
pub(crate) struct Named<'a> {
    pub policy: &'a str,
    pub run: &'a Run,
}

/// The workload and cluster in a line.
fn setting(run: &Run, bound: &Bound) -> String {
    let jobs = plural(bound.jobs.len(), "job");
    format!("{jobs} on {}, {} from first arrival to last end", bound.cluster.describe(), duration(run.makespan().seconds()))
}

/// The names in the legend of policies compared; none for a single one.
fn policy_legend<'a>(runs: &[Named<'a>]) -> Vec<&'a str> {
    if runs.len() > 1 { runs.iter().map(|named| named.policy).collect() } else { Vec::new() }
}
