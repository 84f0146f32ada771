//! The alternatives to what happened: another policy, other GPUs, more jobs, quotas, sharing, power caps.

use super::clusters::{with_fewer, with_more};
use super::words::counted;
use crate::args::{SharingWord, WhatIfArgs};
use crate::inputs::with_power_cap;
use anyhow::{Context, bail};
use rota_core::bind::BadJobs;
use rota_core::{Bound, Cluster, GpuType, GpuTypeId, MilliGpu, Span, ThroughputTable, Time, Workload};
use rota_gpu::PowerCap;
use std::collections::HashSet;
use std::mem::discriminant;
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
            Self::Quota(gpus) => format!("quota of {} a user", counted(*gpus as usize, "GPU")),
            Self::Sharing(SharingWord::On) => "GPUs shared by memory".to_owned(),
            Self::Sharing(SharingWord::Off) => "no GPU shared".to_owned(),
            Self::PowerCap(cap) => format!("power cap {cap}"),
        }
    }

    /// The option of a change that can be made only once in one alternative.
    fn once(&self) -> Option<&'static str> {
        match self {
            Self::Add(_) | Self::Remove(_) | Self::Arrivals(_) => None,
            Self::Quota(_) => Some("--quota"),
            Self::Sharing(_) => Some("--sharing"),
            Self::PowerCap(_) => Some("--power-cap"),
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

/// Where alternatives come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The options of the command.
    Asked,
    /// What is compared where nothing is asked for.
    Usual,
}

/// The alternatives that were asked for; the usual ones if none were.
pub fn alternatives(args: &WhatIfArgs, ran: &str, cluster: &Cluster) -> anyhow::Result<(Vec<Alternative>, Source)> {
    let mut changes = args.add.iter().cloned().map(Change::Add).collect::<Vec<_>>();
    changes.extend(args.remove.iter().cloned().map(Change::Remove));
    changes.extend(args.arrivals.iter().copied().map(Change::Arrivals));
    changes.extend(args.quota.iter().copied().map(Change::Quota));
    changes.extend(args.sharing.iter().copied().map(Change::Sharing));
    changes.extend(args.power_cap.iter().cloned().map(Change::PowerCap));
    if args.together && changes.is_empty() {
        bail!("--together: give the changes to make at once, such as `--add a100:8 --arrivals 1.2 --together`");
    }
    if changes.is_empty() && args.policies.is_empty() {
        return Ok((usual(ran, cluster), Source::Usual));
    }
    if args.together {
        let is_again = |at: &usize| changes[..*at].iter().any(|other| discriminant(other) == discriminant(&changes[*at]));
        if let Some(option) = (0..changes.len()).filter(is_again).find_map(|at| changes[at].once()) {
            bail!("--together: {option} can be given only once; leave out --together to compare several");
        }
        let mut policies = args.policies.clone();
        if policies.is_empty() {
            policies.push(ran.to_owned());
        }
        let together = policies.iter().map(|policy| Alternative::new(policy, changes.clone(), ran));
        return Ok((together.collect(), Source::Asked));
    }
    let policies = args.policies.iter().map(|policy| Alternative::new(policy, Vec::new(), ran));
    let one_by_one = changes.into_iter().map(|change| Alternative::new(ran, vec![change], ran));
    Ok((policies.chain(one_by_one).collect(), Source::Asked))
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

/// An alternative's jobs on its GPUs.
pub struct Changed {
    pub bound: Arc<Bound>,
    /// The row of the past of each bound job.
    pub row_of: Vec<usize>,
    /// How the alternative was made.
    pub notes: Vec<String>,
    /// How many jobs are left out, and why; without the name of the alternative.
    pub left_out: Vec<String>,
}

/// The GPUs of an alternative, and what is assumed of types that no job ran on.
fn changed_cluster(past: &Past, alternative: &Alternative) -> anyhow::Result<(Cluster, Vec<String>)> {
    let mut cluster = past.cluster.clone();
    for change in &alternative.changes {
        match change {
            Change::Add(spec) => cluster = with_more(&cluster, spec, past.gpus_per_node).context("--add")?,
            Change::Remove(spec) => cluster = with_fewer(&cluster, spec).context("--remove")?,
            _ => {}
        }
    }
    let is_new = |kind: &&GpuType| past.cluster.type_named(&kind.name).is_none();
    let mut notes = Vec::new();
    for kind in cluster.types.iter().filter(is_new) {
        notes.extend(assumed_speed(past, kind).context("--add")?);
    }
    Ok((cluster, notes))
}

/// What is assumed of the speed of a GPU type that the cluster of the past does not have. A type that nothing is known of is refused.
fn assumed_speed(past: &Past, kind: &GpuType) -> anyhow::Result<Vec<String>> {
    let (name, workload) = (&kind.name, &past.workload);
    let has = past.cluster.types.iter().map(|own| own.name.as_str()).collect::<Vec<_>>().join(", ");
    let is_in_table = past.table.gpu_types().contains(name.as_str());
    let is_asked_for =
        workload.names.find(name).is_some_and(|name| workload.jobs.iter().any(|job| job.gpu_types.contains(&name)));
    if !kind.known && !is_in_table && !is_asked_for {
        bail!(
            "`{name}` is not a known GPU type: the cluster has {has}, no job asks for `{name}`, and no table of GPUs or speeds has it"
        );
    }
    let mut notes = Vec::new();
    if workload.jobs.iter().any(|job| job.steps <= 0.0) {
        let is_equal = |own: &GpuType| (own.speed - kind.speed).abs() < f64::EPSILON;
        let speed = if past.cluster.types.iter().all(is_equal) {
            format!("as fast there as on {has}")
        } else {
            format!("{} times as fast there as on the reference GPU", kind.speed)
        };
        notes.push(format!("no job of this past ran on {name}: jobs whose length is given as time are taken to be {speed}"));
    }
    if !is_in_table && workload.jobs.iter().any(|job| job.steps > 0.0) {
        notes.push(format!("the speed table has no {name}: jobs whose length is given in steps do not run there"));
    }
    Ok(notes)
}

/// Makes the changes of an alternative.
pub fn bind(past: &Past, alternative: &Alternative) -> anyhow::Result<Changed> {
    let mut workload = past.workload.clone();
    if alternative.quota().is_some() && !workload.jobs.iter().any(|job| job.user.is_some()) {
        bail!("--quota: no job of {} has a user, so that a quota for each user means nothing", workload.source);
    }
    let (cluster, mut notes) = changed_cluster(past, alternative)?;
    let (mut left_out, mut wide, mut cap) = (Vec::new(), HashSet::new(), PowerCap::None);
    for change in &alternative.changes {
        match change {
            Change::Arrivals(factor) => {
                for job in &mut workload.jobs {
                    let arrival = Time((job.arrival.0 as f64 / factor).round() as u64);
                    // A job that was due an hour after its arrival is still due an hour after it.
                    job.deadline = job.deadline.map(|deadline| arrival + deadline.since(job.arrival));
                    job.arrival = arrival;
                }
            }
            Change::Sharing(SharingWord::Off) => {
                workload.jobs.iter_mut().for_each(|job| (job.share, job.memory_mib) = (MilliGpu::WHOLE, 0));
            }
            Change::Sharing(SharingWord::On) => notes.push(share(&mut workload, past)?),
            Change::PowerCap(given) => cap = given.clone(),
            // The simulated world holds jobs while their user has as many GPUs as the quota.
            Change::Quota(gpus) => {
                wide = refuse_wide(&mut workload, *gpus);
                let nameless = workload.jobs.iter().filter(|job| !job.user.is_some()).count();
                if nameless > 0 {
                    let (jobs, are) = (counted(nameless, "job"), if nameless == 1 { "is" } else { "are" });
                    notes.push(format!("{}: {jobs} without a user {are} taken to be one user's", alternative.name));
                }
            }
            Change::Add(_) | Change::Remove(_) => {}
        }
    }
    let bound = Bound::new(workload, cluster, &past.table, BadJobs::Skip)?;
    let row_of = rows(past, &bound);
    if !wide.is_empty() {
        let (ask, are) = if wide.len() == 1 { ("asks", "is") } else { ("ask", "are") };
        let jobs = counted(wide.len(), "job");
        left_out.push(format!("{jobs} {ask} for more GPUs than the quota and {are} left out; the daemon refuses such a job"));
    }
    let unfit = bound.skipped.iter().filter(|error| !wide.contains(&(error.line, error.job.clone()))).collect::<Vec<_>>();
    if bound.jobs.is_empty() {
        let why = unfit.first().map_or_else(|| left_out.join("; "), ToString::to_string);
        bail!("{}: no job can run: {why}", alternative.name);
    }
    if let Some(first) = unfit.first() {
        let is = if unfit.len() == 1 { "is" } else { "are" };
        left_out.push(format!("{} cannot run and {is} left out; the first is {first}", counted(unfit.len(), "job")));
    }
    let (bound, capped) = with_power_cap(Arc::new(bound), &cap)?;
    notes.extend(capped);
    Ok(Changed { bound, row_of, notes, left_out })
}

/// The row of the past of each bound job. Jobs that do not fit are left out in between.
fn rows(past: &Past, bound: &Bound) -> Vec<usize> {
    let mut next = past.workload.jobs.iter().enumerate();
    let mut row_of = Vec::with_capacity(bound.jobs.len());
    for job in &bound.jobs {
        let is_same = |old: &rota_core::Job| (old.line, &old.label, old.gpus) == (job.line, &job.label, job.gpus);
        row_of.extend(next.by_ref().find(|(_, old)| is_same(old)).map(|(row, _)| row));
    }
    row_of
}

/// Takes the work from jobs that ask for more GPUs than a quota, so that they are left out with all jobs that wait for them. Gives the lines
/// and names of these jobs.
fn refuse_wide(workload: &mut Workload, quota: u32) -> HashSet<(u32, String)> {
    let mut wide = HashSet::new();
    for job in workload.jobs.iter_mut().filter(|job| job.gpus > quota) {
        (job.work, job.steps) = (Span::ZERO, 0.0);
        wide.insert((job.line, job.display_id()));
    }
    wide
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
        bail!("--sharing on: of no job that had its GPUs to itself is it known how much memory it needs");
    }
    Ok(format!(
        "GPUs shared by memory: {} can share, at most {JOBS_PER_GPU} on a GPU, each as fast as alone unless its speed beside others was measured",
        counted(sharing, "job")
    ))
}
