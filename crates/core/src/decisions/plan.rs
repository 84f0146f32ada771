//! A plan: what to stop and what to start, now. A value: it can be printed, compared, stored and checked.

use crate::{GpuList, JobId, JobState, Time};

/// One job to start, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    /// The job that starts.
    pub job: JobId,
    /// Its whole gang, in ascending order.
    pub gpus: GpuList,
}

/// A start that a waiting job can count on: nobody who overtakes it may push it later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promise {
    /// The job that is promised its start.
    pub job: JobId,
    /// When it will be able to start, if running jobs take as long as they are believed to.
    pub start: Time,
}

/// Stops come first, so that starts may use the GPUs they free. A job in both lists is moved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Running jobs to preempt.
    pub stops: Vec<JobId>,
    /// Waiting (or just stopped) jobs to start.
    pub starts: Vec<Start>,
    /// Reservations made for jobs that do not fit yet. They bind backfill, not the world.
    pub promises: Vec<Promise>,
}

impl Plan {
    /// Nothing to do.
    pub fn is_empty(&self) -> bool {
        self.stops.is_empty() && self.starts.is_empty()
    }

    /// The jobs that must be gone before a start: those of the plan that are on its GPUs, and the job itself if it is moved.
    pub fn stops_before<'a>(&'a self, start: &'a Start, states: &'a [JobState]) -> impl Iterator<Item = JobId> + 'a {
        let is_on = |job: &JobId| states[job.index()].gpus.iter().any(|gpu| start.gpus.contains(gpu));
        self.stops.iter().copied().filter(move |job| *job == start.job || is_on(job))
    }
}
