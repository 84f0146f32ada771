//! Filling by preemption: in rank order, a job that does not fit takes GPUs from running jobs with a worse rank, the worst first.
//!
//! Ranks must differ for that: between equals, who runs stays. Victims that turn out not to be needed run on untouched.

use crate::draft::Draft;
use crate::queue::{Queue, RankKey};
use rota_core::{GpuTypeId, JobId, Span, TypeSet};

/// Ranks that are moments are compared as the time left until then. Where two jobs differ by less, none is stopped for the other: a live start
/// is written down a moment after it was decided, so that a job which has just started seems to need longer than one of the same length.
const SAME_SECONDS: f64 = 0.01;

/// Starts jobs in rank order, making room where that needs only worse-ranked jobs to stop. What does not fit is passed.
pub fn fill(queue: &mut Queue, draft: &mut Draft<'_>, running_ranks_count_down: bool) {
    // Ranks of running jobs that are moments count as the time left until then.
    let offset = if running_ranks_count_down { draft.snapshot.now.seconds() } else { 0.0 };
    let mut position = None;
    while let Some(head) = queue.next_head(position) {
        position = Some(head);
        let (key, job, shape) = head;
        if draft.try_start(job, TypeSet::EMPTY).is_some() || make_room(queue, draft, job, key, offset) {
            queue.withdraw(job, shape);
        }
    }
}

fn make_room(queue: &mut Queue, draft: &mut Draft<'_>, job: JobId, key: RankKey, offset: f64) -> bool {
    draft.types_of(job).iter().any(|&gpu_type| make_room_on(queue, draft, job, gpu_type, key, offset))
}

fn make_room_on(queue: &mut Queue, draft: &mut Draft<'_>, job: JobId, gpu_type: GpuTypeId, key: RankKey, offset: f64) -> bool {
    let shape = draft.snapshot.bound.shape(job);
    let least = key.rank() + if offset > 0.0 { SAME_SECONDS } else { 0.0 };
    let worse = queue.running[gpu_type.index()].iter().rev().take_while(|(victim, _)| victim.rank() - offset > least);
    let mut victims = Vec::new();
    let some_stay =
        draft.snapshot.outside_changes > 0 || draft.snapshot.min_run > Span::ZERO || draft.snapshot.min_run_restarts.is_some();
    // Before anybody is touched: could the gang fit if every victim's GPUs fell free?
    let mut reachable = draft.pool.idle_of(gpu_type);
    for &(_, victim) in worse {
        // A job on a GPU that others hold, or whose node is lost, frees nothing; a job that has just started is let run.
        if some_stay && !draft.snapshot.may_stop(victim) {
            continue;
        }
        let enough = reachable >= shape.gpus;
        if enough && (shape.is_exclusive() && shape.nodes_max == 0 && shape.only.is_none()) && all_exclusive(draft, &victims) {
            break;
        }
        reachable += draft.snapshot.bound.job(victim).gpus;
        victims.push(victim);
    }
    if victims.is_empty() || (shape.is_exclusive() && reachable < shape.gpus) {
        return false;
    }
    let mut stopped = 0;
    while stopped < victims.len() && !draft.fits_on(shape, gpu_type) {
        draft.stop(victims[stopped]);
        stopped += 1;
    }
    let started = draft.try_start_on(job, gpu_type);
    // Best-ranked victims first: whoever's GPUs were not needed after all runs on.
    for &victim in victims[..stopped].iter().rev() {
        if !draft.let_run_on(victim) {
            let shape = draft.shape_id(victim);
            queue.enqueue(victim, shape);
        }
    }
    started
}

fn all_exclusive(draft: &Draft<'_>, jobs: &[JobId]) -> bool {
    jobs.iter().all(|&job| draft.snapshot.bound.shape(job).is_exclusive())
}
