//! Releases: when GPUs fall free, if running jobs take as long as they are believed to.

use crate::draft::Draft;
use crate::queue::Queue;
use rota_core::{GpuId, GpuTypeId, JobId, Span, Time};
use std::collections::HashMap;
use std::iter::Peekable;

/// GPUs of one type that fall free at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Release {
    /// The moment at which the GPUs become free.
    pub at: Time,
    /// Of which type. A gang that spans types is told under the one that it has fewest of, with no more GPUs than those: what is
    /// counted on is never more than what falls free.
    pub gpu_type: GpuTypeId,
    /// The number of GPUs that become free.
    pub gpus: u32,
    /// The job that leaves them.
    pub job: JobId,
}

/// All releases in order of time: of running jobs and of those started in the draft. A shared GPU falls free with its last job.
pub fn releases<'a>(queue: &'a Queue, draft: &'a Draft<'_>) -> impl Iterator<Item = Release> + 'a {
    let snapshot = draft.snapshot;
    let mut soon = draft
        .starts()
        .iter()
        .map(|start| {
            let gpu_type = snapshot.bound.cluster.gpus[start.gpus[0].index()].gpu_type;
            (snapshot.now + snapshot.believed_run(start.job, gpu_type), start.job)
        })
        .collect::<Vec<_>>();
    // Jobs past their estimate come in another order than they stand in.
    let first_punctual = (snapshot.now + Span(1), JobId(0));
    soon.extend(queue.ends.range(..first_punctual).map(|&(end, job)| (Queue::believed_end(end, snapshot.now), job)));
    soon.sort_unstable();
    let mut left_on: HashMap<GpuId, u16> = HashMap::new();
    let punctual = queue.ends.range(first_punctual..).copied();
    merge(punctual.peekable(), soon.into_iter().peekable()).map(move |(at, job)| {
        let gpus = draft.gpus_of(job);
        let of_type = |gpu: &GpuId| snapshot.bound.cluster.gpus[gpu.index()].gpu_type;
        if snapshot.bound.shape(job).is_mixed && gpus.iter().any(|gpu| of_type(gpu) != of_type(&gpus[0])) {
            let count = |gpu: &GpuId| gpus.iter().filter(|other| of_type(other) == of_type(gpu)).count() as u32;
            let (gpus, gpu_type) = gpus.iter().map(|gpu| (count(gpu), of_type(gpu))).min().unwrap_or_default();
            return Release { at, gpu_type, gpus, job };
        }
        let freed = if snapshot.bound.shape(job).is_exclusive() {
            gpus.len() as u32
        } else {
            let is_last = |gpu: &&GpuId| {
                let left = left_on.entry(**gpu).or_insert_with(|| draft.pool.jobs_on(**gpu));
                *left -= 1;
                *left == 0
            };
            gpus.iter().filter(is_last).count() as u32
        };
        Release { at, gpu_type: snapshot.bound.cluster.gpus[gpus[0].index()].gpu_type, gpus: freed, job }
    })
}

fn merge(
    mut first: Peekable<impl Iterator<Item = (Time, JobId)>>,
    mut second: Peekable<impl Iterator<Item = (Time, JobId)>>,
) -> impl Iterator<Item = (Time, JobId)> {
    std::iter::from_fn(move || match (first.peek(), second.peek()) {
        (Some(a), Some(b)) if b < a => second.next(),
        (Some(_), _) => first.next(),
        (None, _) => second.next(),
    })
}
