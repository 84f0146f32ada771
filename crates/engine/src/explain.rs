//! Why a job waits, as data: the simulator, the daemon and the page all tell people what the scheduler itself goes by.

use crate::State;
use rota_core::{GpuId, GpuList, JobId, JobList, MilliGpu, Phase};
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// The jobs on a GPU; mostly one.
pub type JobsThere = SmallVec<[JobId; 2]>;

/// Why a job that is not on GPUs waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitReason {
    /// The job is held: by its user, by a quota, or until it is tried again.
    Held,
    /// These jobs must end before it.
    Dependencies(JobsThere),
    /// The queue is drained, so nothing is started.
    Drained,
    /// These GPUs are promised to the job. It starts when the jobs that are still on them have left.
    Promised {
        /// The GPUs that the job will have.
        gpus: GpuList,
        /// The jobs that have not left yet.
        after: JobList,
    },
    /// Enough GPUs could take the job now. Jobs before it come first.
    Order {
        /// The GPUs that could take it.
        free: GpuList,
    },
    /// Too few of the GPUs that the job may use could take it now.
    Gpus {
        /// The GPUs that could take it.
        free: GpuList,
        /// Every other GPU that it may use, and why that one cannot take it.
        blocked: Vec<(GpuId, GpuBlocker)>,
    },
}

/// Why a GPU cannot take a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GpuBlocker {
    /// The GPU's node is lost.
    NodeLost,
    /// Others than the scheduler's jobs hold the GPU: strangers, or an administrator who drains it.
    Outside,
    /// Jobs are on the GPU and take all of it.
    Taken(JobsThere),
    /// Jobs are on the GPU and leave too little memory.
    Memory {
        /// The jobs on the GPU.
        jobs: JobsThere,
        /// Memory that is left.
        left_mib: u32,
    },
    /// Jobs of another group are on the GPU, with which this job cannot share.
    Group(JobsThere),
    /// There is room, but less would get done with this job beside those on the GPU.
    Slower(JobsThere),
}

impl State {
    /// Why a job waits, the reasons that have nothing to do with GPUs first; nothing for a job that does not wait.
    pub fn why_waiting(&self, job: JobId) -> Vec<WaitReason> {
        let state = &self.jobs[job.index()];
        if !matches!(state.phase, Phase::Waiting | Phase::Blocked) {
            return Vec::new();
        }
        let mut reasons = Vec::new();
        let awaited = self.bound.job(job).after.iter().map(|dependency| dependency.job);
        let awaited = awaited.filter(|other| !self.jobs[other.index()].phase.is_over()).collect::<JobsThere>();
        if state.blockers as usize > awaited.len() {
            reasons.push(WaitReason::Held);
        }
        if !awaited.is_empty() {
            reasons.push(WaitReason::Dependencies(awaited));
        }
        if self.is_drained {
            reasons.push(WaitReason::Drained);
        }
        if reasons.is_empty() {
            let promise = self.handovers.iter().find(|handover| handover.job == job);
            reasons.push(promise.map_or_else(
                || self.why_no_gpus(job),
                |promise| WaitReason::Promised { gpus: promise.gpus.clone(), after: promise.after.clone() },
            ));
        }
        reasons
    }

    /// What stands between a job that may start and its GPUs.
    fn why_no_gpus(&self, job: JobId) -> WaitReason {
        let shape = self.bound.shape(job);
        let only = self.bound.only(shape);
        let jobs_on = self.jobs_by_gpu();
        let (mut free, mut blocked) = (GpuList::new(), Vec::new());
        let mut free_of_type = BTreeMap::new();
        for (index, place) in self.bound.cluster.gpus.iter().enumerate() {
            let gpu = GpuId::from_index(index);
            if !shape.types.contains(place.gpu_type) || only.is_some_and(|only| !only.contains(&gpu)) {
                continue;
            }
            if let Some(cause) = self.gpu_blocker(job, gpu, &jobs_on[index]) {
                blocked.push((gpu, cause));
            } else {
                free.push(gpu);
                *free_of_type.entry(place.gpu_type).or_insert(0_u32) += 1;
            }
        }
        let together = shape.is_mixed && free.len() >= shape.gpus as usize;
        if together || free_of_type.values().any(|free| *free >= shape.gpus) {
            WaitReason::Order { free }
        } else {
            WaitReason::Gpus { free, blocked }
        }
    }

    /// Why a GPU, with these jobs on it, cannot take a job now; `None` if it can.
    fn gpu_blocker(&self, job: JobId, gpu: GpuId, jobs: &JobsThere) -> Option<GpuBlocker> {
        let shape = self.bound.shape(job);
        let cluster = &self.bound.cluster;
        if !self.nodes_up[cluster.gpus[gpu.index()].node.index()] {
            return Some(GpuBlocker::NodeLost);
        }
        let has_room = self.pool.has_room(&[gpu], shape.slice());
        if has_room && self.pool.gains_by(&self.bound, shape, gpu) {
            return None;
        }
        let outside = self.outside[gpu.index()];
        if jobs.is_empty() {
            return Some(GpuBlocker::Outside);
        }
        let jobs = jobs.clone();
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

    /// The jobs on each GPU.
    fn jobs_by_gpu(&self) -> Vec<JobsThere> {
        let mut jobs_on = vec![JobsThere::new(); self.bound.cluster.gpus.len()];
        for (index, state) in self.jobs.iter().enumerate().filter(|(_, state)| state.phase.has_gpus()) {
            state.gpus.iter().for_each(|gpu| jobs_on[gpu.index()].push(JobId::from_index(index)));
        }
        jobs_on
    }
}
