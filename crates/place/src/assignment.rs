//! Following an assignment: jobs stop, move or start until each is on the GPU type the policy wants it on, beside the job it wants.

use crate::draft::Draft;
use crate::together::{Movable, is_worth_gathering};
use rota_core::{GpuTypeId, JobId, Preempt, Snapshot, TypeSet};
use std::cmp::Reverse;
use std::collections::HashMap;

/// A job that is to be started.
#[derive(Clone, Copy)]
struct Coming {
    job: JobId,
    gpu_type: GpuTypeId,
    /// It ran on that type all along and was only stopped to be brought together on one node.
    was_spread: bool,
}

/// Whether some gangs are slower when they are spread over nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spreading {
    /// A gang is as fast on several nodes as on one.
    #[default]
    Free,
    /// Some gangs are slower on several nodes.
    Slows,
}

/// Carries out the wish in its order. Who is on its type, with the partner it should have, stays; a job whose gang does not fit there
/// now (in pieces, or for the nodes it may be spread over) waits.
pub fn fill(
    draft: &mut Draft<'_>,
    wanted: &[(JobId, Option<GpuTypeId>)],
    pairs: &[(JobId, JobId)],
    preempt: Preempt,
    spreading: Spreading,
) {
    let snapshot = draft.snapshot;
    let on_type = |&(job, gpu_type): &(JobId, Option<GpuTypeId>)| gpu_type.is_some() && snapshot.type_now(job) == gpu_type;
    let mut stays = wanted.iter().map(on_type).collect::<Vec<_>>();
    let mut guests = settle_pairs(snapshot, wanted, pairs, &mut stays);
    let is_pinned = |job: JobId| snapshot.type_now(job).is_some() && !snapshot.may_stop(job);
    let is_promised = |job: JobId| snapshot.states[job.index()].is_promised;
    let mut some_pinned = false;
    for (&(job, _), stays) in wanted.iter().zip(&mut stays) {
        if is_pinned(job) || is_promised(job) {
            *stays = true;
            some_pinned |= is_pinned(job);
            guests.remove(&job);
        }
    }
    for (&(job, _), &stays) in wanted.iter().zip(&stays) {
        if !stays && snapshot.type_now(job).is_some() {
            draft.stop(job);
        }
    }
    let coming = wanted.iter().zip(&stays).filter_map(|(&(job, gpu_type), &stays)| {
        let gpu_type = gpu_type.filter(|_| !stays && !guests.contains_key(&job))?;
        Some(Coming { job, gpu_type, was_spread: false })
    });
    let coming = coming.collect::<Vec<_>>();
    let may_move = preempt != Preempt::Never && !snapshot.is_within_round();
    if may_move && spreading == Spreading::Slows {
        let staying = wanted.iter().zip(&stays).filter(|(_, stays)| **stays).map(|(&(job, _), _)| job).collect::<Vec<_>>();
        start_whole(draft, coming, &staying);
    } else {
        for start in coming {
            draft.try_start_on(start.job, start.gpu_type);
        }
    }
    for &(job, gpu_type) in wanted.iter().filter(|_| !guests.is_empty()) {
        if let (Some(&host), Some(gpu_type)) = (guests.get(&job), gpu_type) {
            draft.try_start_beside(job, host, gpu_type);
        }
    }
    // The policy may have counted on GPUs of jobs that cannot be stopped: who was meant to run takes what there is instead.
    for &(job, _) in wanted.iter().filter(|(_, gpu_type)| some_pinned && gpu_type.is_some()) {
        let runs = snapshot.type_now(job).is_some() || is_promised(job) || draft.starts().iter().any(|start| start.job == job);
        if !runs {
            draft.try_start(job, TypeSet::EMPTY);
        }
    }
}

/// Takes back who stays where partners part or come together, and says who joins whom: of two that come, the second joins the first;
/// of two of whom one is there, the other joins it.
fn settle_pairs(
    snapshot: Snapshot<'_>,
    wanted: &[(JobId, Option<GpuTypeId>)],
    pairs: &[(JobId, JobId)],
    stays: &mut [bool],
) -> HashMap<JobId, JobId> {
    let partner_now = |job: JobId| snapshot.states[job.index()].partner;
    if pairs.is_empty() && !wanted.iter().any(|&(job, _)| partner_now(job).is_some()) {
        return HashMap::new();
    }
    let position = wanted.iter().enumerate().map(|(position, &(job, _))| (job, position)).collect::<HashMap<_, _>>();
    let partners = pairs.iter().flat_map(|&(a, b)| [(a, b), (b, a)]).collect::<HashMap<_, _>>();
    // Of two who stay on the type but should not share any more, the later one moves.
    for &(job, _) in wanted {
        if let Some(now) = partner_now(job).filter(|now| *now < job && partners.get(&job) != Some(now))
            && position.get(&now).is_some_and(|&other| stays[other])
        {
            stays[position[&job]] = false;
        }
    }
    let mut guests = HashMap::new();
    for &(a, b) in pairs {
        let (Some(&at_a), Some(&at_b)) = (position.get(&a), position.get(&b)) else { continue };
        if stays[at_a] && stays[at_b] && partner_now(a) != Some(b) {
            stays[at_b] = false;
        }
        match (stays[at_a], stays[at_b]) {
            (true, true) => {}
            (false, true) => _ = guests.insert(a, b),
            (true | false, false) => _ = guests.insert(b, a),
        }
    }
    guests
}

/// Starts jobs, the widest first, each on one node as far as that can be had; gangs that run spread are gathered too.
fn start_whole(draft: &mut Draft<'_>, mut coming: Vec<Coming>, staying: &[JobId]) {
    let snapshot = draft.snapshot;
    let gpus = |job: JobId| snapshot.bound.shape(job).gpus;
    for &job in staying.iter().filter(|job| gpus(**job) > 1) {
        let Some(gpu_type) = snapshot.type_now(job).filter(|_| snapshot.states[job.index()].partner.is_none()) else { continue };
        if is_worth_gathering(draft, job, gpu_type) {
            draft.stop(job);
            coming.push(Coming { job, gpu_type, was_spread: true });
        }
    }
    coming.sort_by_key(|start| Reverse(gpus(start.job)));
    // Nobody has to move aside for single GPUs.
    let has_gangs = coming.first().is_some_and(|start| gpus(start.job) > 1);
    let mut movable = Movable::of(draft, staying.iter().copied().filter(|_| has_gangs));
    let mut moved = Vec::new();
    for Coming { job, gpu_type, was_spread } in coming {
        if gpus(job) > 1 {
            moved.extend(movable.make_room(draft, job, gpu_type).into_iter().map(|job| (job, gpu_type)));
            // A gang that ran spread and cannot be gathered after all had better not restart.
            if was_spread && !draft.has_node_for(job, gpu_type) && draft.let_run_on(job) {
                continue;
            }
        }
        draft.try_start_on(job, gpu_type);
    }
    for (job, gpu_type) in moved {
        draft.try_start_on(job, gpu_type);
    }
}
