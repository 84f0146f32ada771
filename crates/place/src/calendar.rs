//! A calendar: from when until when each GPU is taken, for placements in the future that depend on which GPUs are free.
//!
//! Invariant: the stretches of one GPU stand in order of time, and those of running and promised jobs do not overlap.

use crate::draft::Draft;
use crate::queue::Queue;
use crate::releases::releases;
use rota_core::{GpuId, GpuList, GpuTypeId, JobId, NodeId, Span, Time};
use std::collections::HashMap;

/// When each GPU is taken.
pub struct Calendar(Vec<Vec<(Time, Time)>>);

impl Calendar {
    /// The calendar of running jobs and of those started in the draft.
    pub fn now(queue: &Queue, draft: &Draft<'_>) -> Self {
        let snapshot = draft.snapshot;
        let count = snapshot.bound.cluster.gpus.len();
        let mut ends = vec![(0_u16, snapshot.now); count];
        for release in releases(queue, draft) {
            for gpu in draft.gpus_of(release.job) {
                let (jobs, end) = &mut ends[gpu.index()];
                *jobs += 1;
                *end = release.at.max(*end);
            }
        }
        let taken = ends.into_iter().enumerate().map(|(index, (jobs, end))| {
            let gpu = GpuId::from_index(index);
            // What others than the scheduler's jobs hold does not fall free at a known moment.
            let is_known = draft.pool.jobs_on(gpu) <= jobs && draft.pool.is_up(gpu);
            let end = if is_known { end } else { Time::FAR_FUTURE };
            if end > snapshot.now { vec![(snapshot.now, end)] } else { Vec::new() }
        });
        Self(taken.collect())
    }

    /// The first moment from `earliest` on at which GPUs of a type are free for a job for so long, and which they are.
    pub fn gang(&self, draft: &Draft<'_>, job: JobId, gpu_type: GpuTypeId, run: Span, earliest: Time) -> Option<(Time, GpuList)> {
        let usable = usable_gpus(draft, job, gpu_type);
        let mut moments = vec![earliest];
        moments.extend(usable.iter().flat_map(|gpu| &self.0[gpu.index()]).map(|&(_, end)| end).filter(|end| *end > earliest));
        moments.sort_unstable();
        moments.dedup();
        let of_moment = |start: Time| Some((start, self.gang_at(draft, job, &usable, start, start + run)?));
        moments.into_iter().filter(|start| *start < Time::FAR_FUTURE).find_map(of_moment)
    }

    /// The GPUs that a job would have from `start` until `end`.
    fn gang_at(&self, draft: &Draft<'_>, job: JobId, usable: &[GpuId], start: Time, end: Time) -> Option<GpuList> {
        let shape = draft.snapshot.bound.shape(job);
        let mut free = usable.iter().copied().filter(|gpu| self.is_free(*gpu, start, end)).collect::<Vec<_>>();
        if free.len() < shape.gpus as usize {
            return None;
        }
        // GPUs that are taken again soon are used up first.
        free.sort_by_key(|gpu| (self.taken_next(*gpu, end), *gpu));
        if shape.nodes_max > 0 {
            let nodes = widest_nodes(draft, &free, shape.nodes_max as usize);
            free.retain(|gpu| nodes.contains(&draft.pool.node_of(*gpu)));
        }
        let gang = free.into_iter().take(shape.gpus as usize).collect::<GpuList>();
        (gang.len() == shape.gpus as usize).then(|| crate::pool::sorted(gang))
    }

    /// Whether nothing takes the GPU from `start` until `end`.
    pub fn is_free(&self, gpu: GpuId, start: Time, end: Time) -> bool {
        let taken = &self.0[gpu.index()];
        let next = taken.partition_point(|&(_, until)| until <= start);
        taken.get(next).is_none_or(|&(from, _)| from >= end)
    }

    fn taken_next(&self, gpu: GpuId, after: Time) -> Time {
        let taken = &self.0[gpu.index()];
        taken.get(taken.partition_point(|&(from, _)| from < after)).map_or(Time::FAR_FUTURE, |&(from, _)| from)
    }

    /// Notes that GPUs are taken from `start` until `end`.
    pub fn take(&mut self, gpus: &[GpuId], start: Time, end: Time) {
        for gpu in gpus {
            let taken = &mut self.0[gpu.index()];
            taken.insert(taken.partition_point(|stretch| *stretch < (start, end)), (start, end));
        }
    }

    /// Takes that note back.
    pub fn give(&mut self, gpus: &[GpuId], start: Time, end: Time) {
        for gpu in gpus {
            let taken = &mut self.0[gpu.index()];
            if let Some(position) = taken.iter().position(|stretch| *stretch == (start, end)) {
                taken.remove(position);
            }
        }
    }
}

/// The GPUs of a type that a job may use.
fn usable_gpus(draft: &Draft<'_>, job: JobId, gpu_type: GpuTypeId) -> Vec<GpuId> {
    let bound = draft.snapshot.bound;
    let shape = bound.shape(job);
    let is_of_type = |gpu: &GpuId| {
        let found = bound.cluster.gpus[gpu.index()].gpu_type;
        found == gpu_type || (shape.is_mixed && shape.types.contains(found))
    };
    match bound.only(shape) {
        Some(only) => only.iter().copied().filter(is_of_type).collect(),
        None => (0..bound.cluster.gpus.len()).map(GpuId::from_index).filter(is_of_type).collect(),
    }
}

/// The nodes with most of these GPUs.
fn widest_nodes(draft: &Draft<'_>, gpus: &[GpuId], count: usize) -> Vec<NodeId> {
    let mut per_node: HashMap<NodeId, usize> = HashMap::new();
    for gpu in gpus {
        *per_node.entry(draft.pool.node_of(*gpu)).or_default() += 1;
    }
    let mut nodes = per_node.into_iter().map(|(node, gpus)| (std::cmp::Reverse(gpus), node)).collect::<Vec<_>>();
    nodes.sort_unstable();
    nodes.into_iter().take(count).map(|(_, node)| node).collect()
}
