//! Shares by count alone: what a job would have if the cluster were divided among all, which other policies measure against.

use super::{GavelPolicy, Shares, View};
use crate::GavelError;

/// Each job gets the GPU types in the proportion of the cluster's GPUs; a normaliser rather than an allocation.
pub(crate) struct Proportional;

/// Each job gets a part of the cluster for itself.
pub(crate) struct Isolated;

/// Shares on each type, the same for every job. Not a function of the number of jobs but for rounding.
pub(super) fn proportional_row(counts: &[f64], jobs: usize) -> Vec<f64> {
    let row = counts.iter().map(|count| count / jobs as f64).collect::<Vec<_>>();
    let sum = row.iter().sum::<f64>();
    row.into_iter().map(|share| share / sum).collect()
}

/// Shares of one job if the cluster is divided evenly among `parts`, at most all of its time.
pub(super) fn isolated_row(counts: &[f64], parts: usize, gpus: f64) -> Vec<f64> {
    let row = counts.iter().map(|count| count / parts as f64 / gpus).collect::<Vec<_>>();
    let sum = row.iter().sum::<f64>().max(1.0);
    row.into_iter().map(|share| share / sum).collect()
}

/// Steps per second with these shares.
pub(super) fn speed_with(speeds: &[f64], shares: &[f64]) -> f64 {
    speeds.iter().zip(shares).map(|(speed, share)| speed * share).sum()
}

/// The isolated shares of all jobs; pairs get none.
pub(super) fn isolated(view: &View<'_>) -> Shares {
    let mut shares = Vec::with_capacity(view.rows() * view.types());
    for job in &view.jobs {
        shares.extend(isolated_row(view.counts, view.jobs.len(), f64::from(job.gpus)));
    }
    shares.resize(view.rows() * view.types(), 0.0);
    shares
}

impl GavelPolicy for Isolated {
    fn allocate(&mut self, view: &View<'_>) -> Result<Shares, GavelError> {
        Ok(isolated(view))
    }
}

impl GavelPolicy for Proportional {
    fn allocate(&mut self, view: &View<'_>) -> Result<Shares, GavelError> {
        Ok(proportional_row(view.counts, view.jobs.len()).repeat(view.jobs.len()))
    }
}
