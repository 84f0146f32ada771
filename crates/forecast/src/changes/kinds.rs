//! What a job may ask for instead: the changes that are tried, and a request with one of them.

use super::{ChangeOptions, Subject};
use crate::starts::FOR_EVER;
use rota_core::{GpuId, JobId, MilliGpu, NewJob, Phase, Span};
use rota_engine::State;
use std::collections::{BTreeSet, HashSet};
use std::fmt;

/// Changes of one kind that are tried one after the other.
const STEPS_MAX: usize = 64;
/// Steps of priority that are tried beside the priorities of other jobs.
const PRIORITY_STEPS: [i32; 14] = [1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 48, 100, 1000];

/// What a job asks for instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// So many GPUs.
    Gpus(u32),
    /// A GPU type that it did not accept.
    GpuType(Box<str>),
    /// GPUs of several types together.
    AnyType,
    /// The same, where it named the types that it accepts.
    EveryType,
    /// Any GPU, where it named some.
    AnyGpu,
    /// So much memory on each GPU.
    MemoryMib(u32),
    /// A higher priority.
    Priority(i32),
}

impl fmt::Display for Change {
    /// The options of `rota submit` that ask for it.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gpus(gpus) => write!(formatter, "--gpus {gpus}"),
            Self::GpuType(name) => write!(formatter, "--gpu-type {name}"),
            Self::AnyType => write!(formatter, "--any-type"),
            Self::EveryType => write!(formatter, "--any-type without --gpu-type"),
            Self::AnyGpu => write!(formatter, "without --gpu-ids"),
            Self::MemoryMib(memory) => write!(formatter, "--memory {memory}"),
            Self::Priority(priority) => write!(formatter, "--priority {priority}"),
        }
    }
}

/// The request with a change. A gang of fewer GPUs is believed to run longer in proportion.
pub fn changed(request: &NewJob, change: &Change, options: &ChangeOptions<'_>) -> NewJob {
    let mut changed = request.clone();
    let job = &mut changed.job;
    match change {
        Change::Gpus(gpus) => {
            job.work = Span((job.work.0 as f64 * f64::from(job.gpus) / f64::from(*gpus)).min(FOR_EVER.0 as f64) as u64);
            job.gpus = *gpus;
        }
        Change::GpuType(name) => {
            changed.gpu_types = vec![name.clone()];
            (job.any_type, job.only) = (false, Box::default());
        }
        Change::AnyType => job.any_type = true,
        Change::EveryType => {
            job.any_type = true;
            changed.gpu_types.clone_from(&options.gpu_types);
        }
        // A job that names its GPUs takes them whatever their types are; one that does not has GPUs of one type.
        Change::AnyGpu => (job.only, job.any_type) = (Box::default(), false),
        Change::MemoryMib(memory) => {
            job.memory_mib = *memory;
            job.share = job.share.min(options.share_by_memory.unwrap_or(MilliGpu::WHOLE));
        }
        Change::Priority(priority) => job.priority = *priority,
    }
    changed
}

/// The changes that may help, each kind from small to large.
pub fn kinds(state: &State, subject: &Subject, request: &NewJob, options: &ChangeOptions<'_>) -> Vec<Vec<Change>> {
    let job = &request.job;
    let mut kinds = vec![sizes(state, job.gpus).map(Change::Gpus).collect::<Vec<_>>()];
    let (accepted, others) =
        options.gpu_types.iter().partition::<Vec<_>, _>(|name| request.gpu_types.is_empty() || request.gpu_types.contains(name));
    kinds.extend(others.iter().map(|name| vec![Change::GpuType((*name).clone())]));
    if job.gpus > 1 && !job.any_type && accepted.len() > 1 {
        kinds.push(vec![Change::AnyType]);
    }
    if job.gpus > 1 && !others.is_empty() && options.gpu_types.len() > 1 {
        kinds.push(vec![Change::EveryType]);
    }
    if !job.only.is_empty() {
        kinds.push(vec![Change::AnyGpu]);
    }
    if job.gpus == 1 && options.share_by_memory.is_some() {
        let (beside_jobs, idle) = memory_left(state);
        let levels = if job.memory_mib > 0 { &beside_jobs | &idle } else { beside_jobs };
        let needed = if job.memory_mib > 0 { job.memory_mib } else { u32::MAX };
        let smaller = levels.into_iter().rev().filter(|left| *left < needed);
        kinds.push(smaller.take(STEPS_MAX).map(Change::MemoryMib).collect());
    }
    kinds.push(priorities(state, subject, job.priority).map(Change::Priority).collect());
    kinds
}

/// The memory that is left on GPUs that jobs share, and that of GPUs that are idle, in MiB, without repeats.
fn memory_left(state: &State) -> (BTreeSet<u32>, BTreeSet<u32>) {
    let cluster = &state.bound.cluster;
    let mut taken = vec![Some(0_u32); cluster.gpus.len()];
    let mut is_idle = vec![true; cluster.gpus.len()];
    for (index, job) in state.jobs.iter().enumerate().filter(|(_, job)| job.phase.has_gpus()) {
        let shape = state.bound.shape(JobId::from_index(index));
        for gpu in &job.gpus {
            is_idle[gpu.index()] = false;
            let place = &mut taken[gpu.index()];
            *place =
                place.filter(|_| !shape.is_exclusive() && shape.memory_mib > 0).and_then(|sum| sum.checked_add(shape.memory_mib));
        }
    }
    let (mut beside_jobs, mut idle) = (BTreeSet::new(), BTreeSet::new());
    for (index, taken) in taken.iter().enumerate() {
        let memory_mib = cluster.type_of(GpuId::from_index(index)).memory_mib;
        let taken = taken.and_then(|taken| taken.checked_add(state.outside[index].memory_mib));
        if let Some(left) = taken.and_then(|taken| memory_mib.checked_sub(taken)).filter(|left| *left > 0) {
            if is_idle[index] {
                idle.insert(left)
            } else {
                beside_jobs.insert(left)
            };
        }
    }
    (beside_jobs, idle)
}

/// Smaller gangs, from large to small: at most [`STEPS_MAX`], and these no larger than the GPUs that are idle, where there are so many.
fn sizes(state: &State, gpus: u32) -> impl Iterator<Item = u32> + use<> {
    let all = gpus.saturating_sub(1);
    let largest = if all as usize > STEPS_MAX { idle_gpus(state).clamp(1, all) } else { all };
    (1..=largest).rev().take(STEPS_MAX)
}

fn idle_gpus(state: &State) -> u32 {
    let taken = state.jobs.iter().filter(|job| job.phase.has_gpus()).flat_map(|job| &job.gpus).collect::<HashSet<_>>();
    (state.bound.cluster.gpus.len() - taken.len()) as u32
}

/// Priorities above the job's own, from small to large: those that put it beside or before another job that waits or runs, and further
/// ones, because priority may grow with the time that others have waited.
fn priorities(state: &State, subject: &Subject, own: i32) -> impl Iterator<Item = i32> + use<> {
    let is_other = |row: &usize| !matches!(subject, Subject::Waiting(job) if job.index() == *row);
    let is_there = |phase: Phase| phase == Phase::Waiting || phase.has_gpus();
    let there = state.jobs.iter().enumerate().filter(|(_, other)| is_there(other.phase)).map(|(row, _)| row);
    let others = there.filter(is_other).map(|row| state.bound.job(JobId::from_index(row)).priority).collect::<BTreeSet<_>>();
    if others.is_empty() {
        return BTreeSet::new().into_iter();
    }
    let beside = others.into_iter().flat_map(|priority| [priority, priority.saturating_add(1)]);
    let above = PRIORITY_STEPS.iter().map(|step| own.saturating_add(*step));
    beside.chain(above).filter(|priority| *priority > own).collect::<BTreeSet<_>>().into_iter()
}
