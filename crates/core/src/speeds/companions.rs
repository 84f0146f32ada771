//! Who shares whole GPUs with whom: at most two gangs of one size, on exactly the same GPUs.
//!
//! Jobs that ask for part of a GPU share by that part and do not appear here.

use crate::{GpuId, JobId, Renumbering};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// The whole-GPU jobs on each GPU, and the pairs among them.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Companions {
    /// One job on each GPU; of a pair, either.
    on_gpu: Vec<Option<JobId>>,
    partner: HashMap<JobId, JobId>,
}

impl Companions {
    /// Nobody on any of so many GPUs.
    pub fn new(gpus: usize) -> Self {
        Self { on_gpu: vec![None; gpus], partner: HashMap::new() }
    }

    /// A job starts on its GPUs; the job that is already there, if any, is its partner from now on.
    pub fn start(&mut self, job: JobId, gpus: &[GpuId]) -> Option<JobId> {
        let host = gpus.first().and_then(|gpu| self.on_gpu[gpu.index()]);
        match host {
            Some(host) => {
                self.partner.insert(job, host);
                self.partner.insert(host, job);
            }
            None => {
                for gpu in gpus {
                    self.on_gpu[gpu.index()] = Some(job);
                }
            }
        }
        host
    }

    /// A job leaves its GPUs; the partner it leaves behind, if any, is alone from now on.
    pub fn leave(&mut self, job: JobId, gpus: &[GpuId]) -> Option<JobId> {
        // Nearly always nobody shares anything, and then nothing needs to be looked up.
        let left_behind = if self.partner.is_empty() { None } else { self.partner.remove(&job) };
        if let Some(partner) = left_behind {
            self.partner.remove(&partner);
        }
        for gpu in gpus {
            self.on_gpu[gpu.index()] = left_behind;
        }
        left_behind
    }

    /// Jobs have other numbers from now on.
    pub fn renumber(&mut self, rows: &Renumbering) {
        for job in self.on_gpu.iter_mut().flatten() {
            *job = rows.of(*job);
        }
        self.partner = std::mem::take(&mut self.partner).into_iter().map(|(a, b)| (rows.of(a), rows.of(b))).collect();
    }

    /// The job on the same GPUs.
    pub fn partner(&self, job: JobId) -> Option<JobId> {
        self.partner.get(&job).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_leaves_first_the_other_stays() {
        let gpus = [GpuId(1), GpuId(2)];
        for (first_to_leave, stays) in [(JobId(7), JobId(8)), (JobId(8), JobId(7))] {
            let mut companions = Companions::new(3);
            assert_eq!(companions.start(JobId(7), &gpus), None);
            assert_eq!(companions.start(JobId(8), &gpus), Some(JobId(7)));
            assert_eq!(companions.partner(JobId(7)), Some(JobId(8)));
            assert_eq!(companions.leave(first_to_leave, &gpus), Some(stays));
            assert_eq!(companions.partner(stays), None);
            assert_eq!(companions.start(JobId(9), &gpus), Some(stays));
            assert_eq!(companions.leave(stays, &gpus), Some(JobId(9)));
            assert_eq!(companions.leave(JobId(9), &gpus), None);
            assert_eq!(companions.start(JobId(7), &gpus), None);
        }
    }
}
