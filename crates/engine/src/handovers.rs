//! GPUs that are promised to jobs while others are still leaving them.

use crate::State;
use rota_core::{GpuList, JobId, JobList, Phase, Start};
use serde::{Deserialize, Serialize};

/// GPUs that go to a job as soon as the jobs before it have left them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handover {
    /// The job that will start.
    pub job: JobId,
    /// The GPUs that the job will have.
    pub gpus: GpuList,
    /// The jobs that have not left yet.
    pub after: JobList,
}

impl State {
    /// GPUs are kept for a job, beside those who are still on them.
    pub(crate) fn promise(&mut self, job: JobId, gpus: &GpuList, after: &JobList) {
        self.pool.take(gpus, self.slice(job));
        self.jobs[job.index()].is_promised = true;
        let leaving = after.iter().copied().filter(|other| self.jobs[other.index()].phase.has_gpus());
        self.handovers.push(Handover { job, gpus: gpus.clone(), after: leaving.collect() });
    }

    /// Gives promised GPUs up.
    pub(crate) fn break_promises(&mut self, is_broken: impl Fn(&Handover) -> bool) {
        if self.handovers.is_empty() {
            return;
        }
        for handover in std::mem::take(&mut self.handovers) {
            if is_broken(&handover) {
                self.pool.give(&handover.gpus, self.slice(handover.job));
                self.jobs[handover.job.index()].is_promised = false;
                // It stands among the waiting again, where it stood.
                self.repaced.push(handover.job);
            } else {
                self.handovers.push(handover);
            }
        }
    }

    /// Jobs whose promised GPUs have all been left. The world starts them.
    pub fn ready_handovers(&self) -> Vec<Start> {
        let is_ready = |handover: &&Handover| {
            handover.after.is_empty() && self.jobs[handover.job.index()].phase == Phase::Waiting && !self.is_drained
        };
        let ready = self.handovers.iter().filter(is_ready);
        ready.map(|handover| Start { job: handover.job, gpus: handover.gpus.clone() }).collect()
    }
}
