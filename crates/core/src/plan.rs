//! A plan: what to stop and what to start, now. A value: it can be printed, compared, stored and checked.

use crate::{GpuList, JobId};

/// One job to start, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    /// The job.
    pub job: JobId,
    /// Its whole gang, in ascending order.
    pub gpus: GpuList,
}

/// Stops come first, so that starts may use the GPUs they free. A job in both lists is moved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Running jobs to preempt.
    pub stops: Vec<JobId>,
    /// Waiting (or just stopped) jobs to start.
    pub starts: Vec<Start>,
}

impl Plan {
    /// Nothing to do.
    pub fn is_empty(&self) -> bool {
        self.stops.is_empty() && self.starts.is_empty()
    }
}
