//! The alternatives to what happened: another policy, other GPUs, more jobs, quotas, sharing, power caps.

use super::clusters::{with_fewer, with_more};
use crate::args::{SharingWord, WhatIfArgs};
use crate::inputs::with_power_cap;
use anyhow::Context;
use rota_core::bind::BadJobs;
use rota_core::{Bound, Cluster, GpuTypeId, MilliGpu, ThroughputTable, Time, Workload};
use rota_gpu::PowerCap;
use std::sync::Arc;

/// Jobs that share a GPU by memory: at most so many on one.
const JOBS_PER_GPU: u16 = 4;
/// What is compared where nothing is asked for.
const USUAL_POLICIES: [&str; 4] = ["fcfs:backfill=easy", "sjf:estimates=history", "las", "lag-history"];
const USUAL_GROWTH: f64 = 1.2;

/// One change to what happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    Add(String),
    Remove(String),
    Arrivals(f64),
    Quota(u32),
    Sharing(SharingWord),
    PowerCap(PowerCap),
}

impl Change {
    /// The change in words.
    fn words(&self) -> String {
        match self {
            Self::Add(spec) => format!("+{spec}"),
            Self::Remove(spec) => format!("-{spec}"),
            Self::Arrivals(factor) => format!("arrivals x {factor}"),
            Self::Quota(gpus) => format!("quota of {gpus} GPUs a user"),
            Self::Sharing(SharingWord::On) => "GPUs shared by memory".to_owned(),
            Self::Sharing(SharingWord::Off) => "no GPU shared".to_owned(),
            Self::PowerCap(cap) => format!("power cap {cap}"),
        }
    }
}

/// A policy and changes, to be simulated.
#[derive(Clone, Debug, PartialEq)]
pub struct Alternative {
    pub name: String,
    pub policy: String,
    pub changes: Vec<Change>,
}

impl Alternative {
    /// What really happened, simulated.
    pub fn as_it_was(policy: &str) -> Self {
        Self { name: "as it was".to_owned(), policy: policy.to_owned(), changes: Vec::new() }
    }

    fn new(policy: &str, changes: Vec<Change>, ran: &str) -> Self {
        let mut parts = changes.iter().map(Change::words).collect::<Vec<_>>();
        if policy != ran || parts.is_empty() {
            parts.insert(0, policy.to_owned());
        }
        Self { name: parts.join(", "), policy: policy.to_owned(), changes }
    }

    /// GPUs that one user may have at once.
    pub fn quota(&self) -> Option<u32> {
        self.changes.iter().find_map(|change| if let Change::Quota(gpus) = change { Some(*gpus) } else { None })
    }

    /// How many times as fast jobs come.
    pub fn arrivals_factor(&self) -> f64 {
        self.changes.iter().map(|change| if let Change::Arrivals(factor) = change { *factor } else { 1.0 }).product()
    }
}

/// The alternatives that were asked for; the usual ones if none were.
pub fn alternatives(args: &WhatIfArgs, ran: &str, cluster: &Cluster) -> Vec<Alternative> {
    let mut changes = args.add.iter().cloned().map(Change::Add).collect::<Vec<_>>();
    changes.extend(args.remove.iter().cloned().map(Change::Remove));
    changes.extend(args.arrivals.iter().copied().map(Change::Arrivals));
    changes.extend(args.quota.iter().copied().map(Change::Quota));
    changes.extend(args.sharing.iter().copied().map(Change::Sharing));
    changes.extend(args.power_cap.iter().cloned().map(Change::PowerCap));
    if changes.is_empty() && args.policies.is_empty() {
        return usual(ran, cluster);
    }
    if args.together {
        let mut policies = args.policies.clone();
        if policies.is_empty() {
            policies.push(ran.to_owned());
        }
        return policies.iter().map(|policy| Alternative::new(policy, changes.clone(), ran)).collect();
    }
    let policies = args.policies.iter().map(|policy| Alternative::new(policy, Vec::new(), ran));
    policies.chain(changes.into_iter().map(|change| Alternative::new(ran, vec![change], ran))).collect()
}

/// The usual policies, a quarter more and fewer GPUs of the most frequent type, and a fifth more jobs.
fn usual(ran: &str, cluster: &Cluster) -> Vec<Alternative> {
    let policies = USUAL_POLICIES.iter().filter(|policy| **policy != ran);
    let mut found = policies.map(|policy| Alternative::new(policy, Vec::new(), ran)).collect::<Vec<_>>();
    let of = |index: usize| cluster.gpus.iter().filter(|gpu| gpu.gpu_type == GpuTypeId::from_index(index)).count();
    let most = cluster.types.iter().enumerate().map(|(index, kind)| (of(index), kind)).max_by_key(|(count, _)| *count);
    if let Some((count, kind)) = most {
        let quarter = count.div_ceil(4);
        found.push(Alternative::new(ran, vec![Change::Add(format!("{}:{quarter}", kind.name))], ran));
        if quarter < cluster.gpus.len() {
            found.push(Alternative::new(ran, vec![Change::Remove(format!("{}:{quarter}", kind.name))], ran));
        }
    }
    found.push(Alternative::new(ran, vec![Change::Arrivals(USUAL_GROWTH)], ran));
    found
}

/// The jobs and GPUs of the past, to be changed.
pub struct Past {
    pub workload: Workload,
    pub cluster: Cluster,
    pub table: ThroughputTable,
    /// Memory that jobs were seen to take, by row.
    pub peaks_mib: Vec<Option<u32>>,
    pub gpus_per_node: u32,
}

/// An alternative's jobs on its GPUs, and what a reader must know of how they were made.
pub fn bind(past: &Past, alternative: &Alternative) -> anyhow::Result<(Arc<Bound>, Vec<String>)> {
    let mut workload = past.workload.clone();
    let mut cluster = past.cluster.clone();
    let (mut notes, mut cap) = (Vec::new(), PowerCap::None);
    for change in &alternative.changes {
        match change {
            Change::Add(spec) => cluster = with_more(&cluster, spec, past.gpus_per_node).context("--add")?,
            Change::Remove(spec) => cluster = with_fewer(&cluster, spec).context("--remove")?,
            Change::Arrivals(factor) => {
                for job in &mut workload.jobs {
                    job.arrival = Time((job.arrival.0 as f64 / factor).round() as u64);
                }
            }
            Change::Sharing(SharingWord::Off) => {
                workload.jobs.iter_mut().for_each(|job| (job.share, job.memory_mib) = (MilliGpu::WHOLE, 0));
            }
            Change::Sharing(SharingWord::On) => notes.push(share(&mut workload, past)?),
            Change::PowerCap(given) => cap = given.clone(),
            // The simulated world holds jobs.
            Change::Quota(_) => {}
        }
    }
    let jobs = workload.jobs.len();
    let bound = Bound::new(workload, cluster, &past.table, BadJobs::Skip)?;
    if bound.jobs.is_empty() {
        anyhow::bail!("{}: no job fits these GPUs", alternative.name);
    }
    if bound.jobs.len() < jobs {
        notes.push(format!("{}: {} jobs fit none of its GPUs and are left out", alternative.name, jobs - bound.jobs.len()));
    }
    let (bound, capped) = with_power_cap(Arc::new(bound), &cap)?;
    notes.extend(capped);
    Ok((bound, notes))
}

/// Lets every job share its GPUs whose need of memory is known.
fn share(workload: &mut Workload, past: &Past) -> anyhow::Result<String> {
    let mut sharing = 0;
    for (job, peak) in workload.jobs.iter_mut().zip(&past.peaks_mib) {
        let memory_mib = if job.memory_mib > 0 { Some(job.memory_mib) } else { *peak };
        if let Some(memory_mib) = memory_mib.filter(|_| job.share == MilliGpu::WHOLE) {
            (job.share, job.memory_mib) = (MilliGpu(MilliGpu::WHOLE.0 / JOBS_PER_GPU), memory_mib);
            sharing += 1;
        }
    }
    if sharing == 0 {
        anyhow::bail!("--sharing on: of no job that had its GPUs to itself is it known how much memory it needs");
    }
    Ok(format!(
        "GPUs shared by memory: {sharing} jobs share, at most {JOBS_PER_GPU} on a GPU, each as fast as alone unless its speed beside others was measured"
    ))
}
