//! Why a GPU cannot take a job, as data: whoever tells people why a job waits goes by what the scheduler itself goes by.

use crate::State;
use rota_core::{GpuId, JobId, MilliGpu};
use smallvec::SmallVec;

/// The jobs on a GPU; mostly one.
pub type JobsThere = SmallVec<[JobId; 2]>;

/// Why a GPU cannot take a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GpuBlocker {
    /// Its node is lost.
    NodeLost,
    /// Others than the scheduler's jobs hold it: strangers, or an administrator who drains it.
    Outside,
    /// Jobs are on it and take all of it.
    Taken(JobsThere),
    /// Jobs are on it and leave too little memory.
    Memory {
        /// The jobs on it.
        jobs: JobsThere,
        /// Memory that is left.
        left_mib: u32,
    },
    /// Jobs of another group are on it, with which this one cannot share.
    Group(JobsThere),
    /// There is room, but less would get done with this job beside those on it.
    Slower(JobsThere),
}

impl State {
    /// Why a GPU cannot take a job now; `None` if it can.
    pub fn gpu_blocker(&self, job: JobId, gpu: GpuId) -> Option<GpuBlocker> {
        let shape = self.bound.shape(job);
        let cluster = &self.bound.cluster;
        if !self.nodes_up[cluster.gpus[gpu.index()].node.index()] {
            return Some(GpuBlocker::NodeLost);
        }
        let has_room = self.pool.has_room(&[gpu], shape.slice());
        if has_room && self.pool.gains_by(&self.bound, shape, gpu) {
            return None;
        }
        let jobs = self.jobs_on_gpu(gpu);
        let outside = self.outside[gpu.index()];
        if jobs.is_empty() {
            return Some(GpuBlocker::Outside);
        }
        if !shape.is_exclusive() && jobs.iter().any(|other| self.bound.shape(*other).group != shape.group) {
            return Some(GpuBlocker::Group(jobs));
        }
        if has_room {
            return Some(GpuBlocker::Slower(jobs));
        }
        let is_shared = jobs.iter().all(|other| self.bound.shape(*other).share < MilliGpu::WHOLE);
        if is_shared && !shape.is_exclusive() {
            let given = jobs.iter().map(|other| self.bound.shape(*other).memory_mib).sum::<u32>();
            let left_mib = cluster.type_of(gpu).memory_mib.saturating_sub(given.saturating_add(outside.memory_mib));
            return Some(GpuBlocker::Memory { jobs, left_mib });
        }
        Some(GpuBlocker::Taken(jobs))
    }

    fn jobs_on_gpu(&self, gpu: GpuId) -> JobsThere {
        let on_it = self.jobs.iter().enumerate().filter(|(_, state)| state.phase.has_gpus() && state.gpus.contains(&gpu));
        on_it.map(|(index, _)| JobId::from_index(index)).collect()
    }
}
