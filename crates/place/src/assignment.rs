//! Following an assignment: jobs stop, move or start until each is on the GPU type the policy wants it on.

use crate::draft::Draft;
use rota_core::{GpuTypeId, JobId, Phase};

/// Carries out the wish in its order. Who is on its type stays; a job whose gang does not fit there now (in pieces, or for the nodes
/// it may be spread over) waits.
pub fn fill(draft: &mut Draft<'_>, wanted: &[(JobId, Option<GpuTypeId>)]) {
    let snapshot = draft.snapshot;
    let type_now = |job: JobId| {
        let state = &snapshot.states[job.index()];
        (state.phase == Phase::Running).then(|| snapshot.bound.cluster.gpus[state.gpus[0].index()].gpu_type)
    };
    for &(job, gpu_type) in wanted {
        if type_now(job).is_some_and(|now| gpu_type != Some(now)) {
            draft.stop(job);
        }
    }
    for &(job, gpu_type) in wanted {
        if let Some(gpu_type) = gpu_type.filter(|_| type_now(job) != gpu_type) {
            draft.try_start_on(job, gpu_type);
        }
    }
}
