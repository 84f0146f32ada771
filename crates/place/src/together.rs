//! Keeping gangs on one node: a gang that would be spread, and slowed by it, gets a node to itself if single-GPU jobs can move aside.

use crate::draft::Draft;
use rota_core::{GpuId, GpuTypeId, JobId, NodeId};
use std::collections::BTreeMap;

/// For how long a place is assumed to last when a move is weighed: what is won in that time must be more than the restarts cost.
const WORTH_SECONDS: f64 = 600.0;

/// Single-GPU jobs that stay on their type, by type and node: they can move to any idle GPU of it.
pub struct Movable(BTreeMap<(GpuTypeId, NodeId), Vec<(JobId, GpuId)>>);

impl Movable {
    /// Of these jobs, all of which run.
    pub fn of(draft: &Draft<'_>, staying: impl Iterator<Item = JobId>) -> Self {
        let snapshot = draft.snapshot;
        let mut movable: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for job in staying {
            let state = &snapshot.states[job.index()];
            let shape = snapshot.bound.shape(job);
            if let ([gpu], true, None) = (
                state.gpus.as_slice(),
                shape.is_exclusive() && shape.nodes_max == 0 && shape.only.is_none() && snapshot.may_stop(job),
                state.partner,
            ) {
                let place = &snapshot.bound.cluster.gpus[gpu.index()];
                movable.entry((place.gpu_type, place.node)).or_default().push((job, *gpu));
            }
        }
        Self(movable)
    }

    /// Stops as many of them as a gang needs to be whole on one node, if that is worth it; says who they are. Nobody moves where the
    /// gang is whole anyway, or where those who would move had no place to go.
    pub fn make_room(&mut self, draft: &mut Draft<'_>, gang: JobId, gpu_type: GpuTypeId) -> Vec<JobId> {
        let bound = draft.snapshot.bound;
        let size = bound.shape(gang).gpus;
        let idle = draft.pool.idle_of(gpu_type);
        if slowed_part(draft, gang, gpu_type) <= 0.0 || idle < size || draft.pool.has_node_for(size, gpu_type) {
            return Vec::new();
        }
        let needs = |jobs: &[(JobId, GpuId)]| {
            let idle_here = draft.pool.block_idle(jobs.first()?.1);
            let moved = size - idle_here;
            (moved as usize <= jobs.len() && idle - idle_here >= moved).then_some(moved)
        };
        let of_type = self.0.range((gpu_type, NodeId(0))..=(gpu_type, NodeId(u32::MAX)));
        let Some((moved, node)) = of_type.filter_map(|(&(_, node), jobs)| Some((needs(jobs)?, node))).min() else {
            return Vec::new();
        };
        let restarted = moved + if draft.snapshot.states[gang.index()].starts > 0 { size } else { 0 };
        if draft.snapshot.restart_cost_of(gang).seconds() * f64::from(restarted) >= gain_seconds(draft, gang, gpu_type) {
            return Vec::new();
        }
        let jobs = self.0.get_mut(&(gpu_type, node));
        let moving = jobs.map(|jobs| jobs.split_off(jobs.len() - moved as usize)).unwrap_or_default();
        moving.into_iter().map(|(job, _)| job).inspect(|&job| draft.stop(job)).collect()
    }
}

/// GPU time that a gang gains in the time a place lasts by being whole.
fn gain_seconds(draft: &Draft<'_>, gang: JobId, gpu_type: GpuTypeId) -> f64 {
    WORTH_SECONDS * slowed_part(draft, gang, gpu_type) * f64::from(draft.snapshot.bound.shape(gang).gpus)
}

/// The part of its speed that a gang loses when it is spread over nodes.
fn slowed_part(draft: &Draft<'_>, gang: JobId, gpu_type: GpuTypeId) -> f64 {
    let parts = draft.snapshot.bound.class(gang).spread_part.as_ref();
    parts.map_or(0.0, |parts| 1.0 - parts[gpu_type.index()])
}

/// Whether a running gang is spread over nodes and would win by a restart on one.
pub fn is_worth_gathering(draft: &Draft<'_>, gang: JobId, gpu_type: GpuTypeId) -> bool {
    let snapshot = draft.snapshot;
    let gpus = &snapshot.states[gang.index()].gpus;
    let node = |gpu: &GpuId| snapshot.bound.cluster.gpus[gpu.index()].node;
    let is_spread = gpus.iter().any(|gpu| node(gpu) != node(&gpus[0]));
    snapshot.may_stop(gang)
        && is_spread
        && snapshot.restart_cost_of(gang).seconds() * gpus.len() as f64
            <= gain_seconds(draft, gang, gpu_type) * (1.0 - f64::EPSILON)
}
