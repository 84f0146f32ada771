//! Filling in rank order without stopping anybody: strictly, greedily, or with a reservation for the head (EASY backfill).
//!
//! EASY's promise: the first job that does not fit gets the earliest start it can count on, and nobody who overtakes it may push
//! that start later, because he either ends before it or uses GPUs the head does not need then. GPUs in that reckoning are whole
//! ones, which is never too optimistic for shared GPUs either.

use crate::draft::Draft;
use crate::queue::{Queue, RankKey};
use crate::releases::releases;
use rota_core::{Backfill, GpuTypeId, JobId, Promise, ShapeId, Time, TypeSet};
use smallvec::SmallVec;

type Position = (RankKey, JobId, ShapeId);
/// The next candidate of each shape that fits; few, so that the first of them is found by looking at all.
type Front = SmallVec<[Position; 16]>;

/// Starts jobs in rank order. With [`Backfill::None`] a job that does not fit closes its GPU types to everybody behind it.
pub fn fill(queue: &mut Queue, draft: &mut Draft<'_>, backfill: Backfill) {
    let mut closed = TypeSet::EMPTY;
    let mut position = None;
    while !draft.pool.is_full()
        && let Some(head) = queue.next_head(position)
    {
        position = Some(head);
        let (_, job, shape) = head;
        if draft.try_start(job, closed).is_some() {
            queue.withdraw(job, shape);
        } else if backfill == Backfill::None {
            closed.insert_all(draft.snapshot.bound.shape(job).types);
        }
    }
}

/// Starts jobs in rank order up to the first that does not fit, reserves for it, and backfills behind it.
pub fn fill_with_reservation(queue: &mut Queue, draft: &mut Draft<'_>, depth: usize) {
    let mut position = None;
    while let Some(head) = queue.next_head(position) {
        position = Some(head);
        let (_, job, shape) = head;
        if draft.try_start(job, TypeSet::EMPTY).is_some() {
            queue.withdraw(job, shape);
        } else if let Some(mut reservation) = reserve(queue, draft, job) {
            draft.promise(Promise { job, start: reservation.start });
            backfill_behind(queue, draft, head, &mut reservation, depth);
            return;
        }
        // A job that no release can make room for (its nodes are lost) reserves nothing and blocks nobody.
    }
}

/// GPUs set aside for the head of the queue.
struct Reservation {
    start: Time,
    gpu_type: GpuTypeId,
    /// GPUs free at the start that the head does not need.
    spare: u32,
}

/// The earliest start the job can count on.
fn reserve(queue: &Queue, draft: &mut Draft<'_>, job: JobId) -> Option<Reservation> {
    let shape = *draft.snapshot.bound.shape(job);
    if shape.nodes_max > 0 || shape.only.is_some() {
        return reserve_on_nodes(queue, draft, job);
    }
    let mut free = (0..draft.snapshot.bound.cluster.types.len())
        .map(|index| draft.pool.idle_of(GpuTypeId::from_index(index)))
        .collect::<Vec<_>>();
    let mut found: Option<Reservation> = None;
    for release in releases(queue, draft) {
        if found.as_ref().is_some_and(|reservation| release.at > reservation.start) {
            break;
        }
        let free = &mut free[release.gpu_type.index()];
        *free += release.gpus;
        let usable = shape.types.contains(release.gpu_type) && *free >= shape.gpus;
        match &mut found {
            Some(reservation) if reservation.gpu_type == release.gpu_type => reservation.spare = *free - shape.gpus,
            None if usable => {
                found = Some(Reservation { start: release.at, gpu_type: release.gpu_type, spare: *free - shape.gpus });
            }
            _ => {}
        }
    }
    found
}

/// For a gang that must stay within a number of nodes or keeps to certain GPUs, counting is not enough: running jobs are taken away one by one until it fits.
fn reserve_on_nodes(queue: &Queue, draft: &mut Draft<'_>, job: JobId) -> Option<Reservation> {
    let shape = draft.shape_id(job);
    let ends = releases(queue, draft).map(|release| (release.at, release.job)).collect::<Vec<_>>();
    let mut freed = Vec::new();
    let mut found = None;
    for (at, running) in ends {
        if draft.starts().iter().any(|start| start.job == running) {
            continue;
        }
        draft.stop(running);
        freed.push(running);
        if draft.fits(shape) {
            let gpu_type = draft.snapshot.bound.cluster.gpus[draft.snapshot.states[running.index()].gpus[0].index()].gpu_type;
            found = Some(Reservation { start: at, gpu_type, spare: 0 });
            break;
        }
    }
    for running in freed.into_iter().rev() {
        draft.let_run_on(running);
    }
    found
}

/// Lets later jobs pass the head, in rank order, where they do not delay it. Looks at no more than `depth` of them.
fn backfill_behind(queue: &mut Queue, draft: &mut Draft<'_>, head: Position, reservation: &mut Reservation, depth: usize) {
    if draft.pool.is_full() {
        return;
    }
    // The head's own shape does not fit, so neither it nor later jobs like it are in front.
    let mut front = queue.heads.iter().copied().filter(|position| *position != head && draft.fits(position.2)).collect::<Front>();
    for _ in 0..depth {
        let Some(first) = (0..front.len()).min_by_key(|&position| front[position]) else { return };
        let (key, job, shape) = front[first];
        let next = queue.next_of_shape(shape, (key, job)).map(|(key, job)| (key, job, shape));
        let started = start_beside(draft, job, reservation);
        if started {
            queue.withdraw(job, shape);
        }
        match next {
            Some(next) if !started || draft.fits(shape) => front[first] = next,
            _ => drop(front.swap_remove(first)),
        }
    }
}

fn start_beside(draft: &mut Draft<'_>, job: JobId, reservation: &mut Reservation) -> bool {
    let gpus = draft.snapshot.bound.job(job).gpus;
    for &gpu_type in draft.types_of(job) {
        let end = draft.snapshot.now + draft.snapshot.longest_run(job, gpu_type);
        let outlasts = gpu_type == reservation.gpu_type && end > reservation.start;
        if outlasts && gpus > reservation.spare {
            continue;
        }
        if draft.try_start_on(job, gpu_type) {
            if outlasts {
                reservation.spare -= gpus;
            }
            return true;
        }
    }
    false
}
