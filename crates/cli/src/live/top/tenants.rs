//! The tenants of a GPU, jobs and strangers, and how much memory each has.

use super::words::{memory, plain};
use rota_daemon::api::Gpu;
use std::collections::BTreeMap;

/// A job or a stranger on a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tenant {
    /// The job; strangers have none.
    pub job: Option<u64>,
    /// `#17`, or `alice:4711` for a process that Rota did not start.
    pub label: String,
    /// The tenant's memory on this GPU, if it is known.
    pub memory_mib: Option<u64>,
}

impl Tenant {
    /// The tenant and its memory, in a few characters.
    pub fn short(&self) -> String {
        format!("{} {}", self.label, self.memory_mib.map_or_else(|| "?".to_owned(), memory))
    }
}

/// The tenants of a GPU: jobs first, each with all of its processes, then strangers, those with most memory first.
pub fn tenants(gpu: &Gpu) -> Vec<Tenant> {
    let mut by_job = gpu.jobs.iter().map(|job| (*job, None)).collect::<BTreeMap<u64, Option<u64>>>();
    let mut strangers = Vec::new();
    for process in &gpu.processes {
        if let Some(job) = process.job {
            let sum = by_job.entry(job).or_default();
            *sum = sum.map_or(process.memory_mib, |sum| Some(sum + process.memory_mib.unwrap_or(0)));
        } else {
            let user = plain(process.user.as_deref().unwrap_or("?"));
            strangers.push(Tenant { job: None, label: format!("{user}:{}", process.pid), memory_mib: process.memory_mib });
        }
    }
    strangers.sort_by_key(|stranger| std::cmp::Reverse(stranger.memory_mib));
    let jobs = by_job.into_iter().map(|(job, memory_mib)| Tenant { job: Some(job), label: format!("#{job}"), memory_mib });
    jobs.chain(strangers).collect()
}
