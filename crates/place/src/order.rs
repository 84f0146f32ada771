//! Filling in rank order without stopping anybody: strictly, greedily, or with a reservation for the head (EASY backfill).
//!
//! EASY's promise: the first job that does not fit gets the earliest start it can count on, and no job that overtakes it may push
//! that start later: it either ends before, or uses GPUs the head does not need then. GPUs in that reckoning are whole
//! ones, which is never too optimistic for shared GPUs either.
//!
//! A job that keeps to certain GPUs or nodes reserves the very GPUs it is going to use, and no others. The next job that does not fit
//! gets a reservation too, so that a job which waits for one GPU does not cost the jobs behind it theirs.

use crate::draft::Draft;
use crate::queue::{Queue, RankKey};
use crate::releases::releases;
use rota_core::{Backfill, GpuId, GpuList, GpuTypeId, JobId, Promise, ShapeId, Time, TypeSet};
use smallvec::SmallVec;
use std::collections::BTreeSet;

/// How many jobs that keep to certain GPUs or nodes may hold reservations at once.
const RESERVATIONS_MAX: usize = 16;

type Position = (RankKey, JobId, ShapeId);
/// The next candidate of each shape that fits; few, so that the first of them is found by looking at all.
type Front = SmallVec<[Position; 16]>;

/// Starts jobs in rank order. With [`Backfill::None`] a job that does not fit closes the GPUs it could use to all jobs behind it.
pub fn fill(queue: &mut Queue, draft: &mut Draft<'_>, backfill: Backfill) {
    let mut closed = TypeSet::EMPTY;
    let mut closed_gpus = BTreeSet::new();
    let mut avoided: Vec<GpuId> = Vec::new();
    let mut position = None;
    while !draft.pool.is_full()
        && let Some(head) = queue.next_head(position)
    {
        position = Some(head);
        let (_, job, shape) = head;
        let open = draft.types_of(job).iter().filter(|gpu_type| !closed.contains(**gpu_type));
        if open.copied().any(|gpu_type| draft.try_start_avoiding(job, gpu_type, &avoided)) {
            queue.withdraw(job, shape);
        } else if backfill == Backfill::None {
            let bound = draft.snapshot.bound;
            match bound.only(bound.shape(job)) {
                Some(only) => {
                    closed_gpus.extend(only.iter().copied());
                    avoided = closed_gpus.iter().copied().collect();
                }
                None => closed.insert_all(bound.shape(job).types),
            }
        }
    }
}

/// Starts jobs in rank order up to the first that does not fit, reserves for it, and backfills behind it.
pub fn fill_with_reservation(queue: &mut Queue, draft: &mut Draft<'_>, depth: usize) {
    let mut position = None;
    let mut reservations = Vec::new();
    while let Some(head) = queue.next_head(position) {
        position = Some(head);
        let (_, job, shape) = head;
        if start_beside(draft, job, &mut reservations) {
            queue.withdraw(job, shape);
        } else if let Some(reservation) = reserve(queue, draft, job, &reservations) {
            if reservations.is_empty() {
                // Only the first can count on its start: it may choose other GPUs in the next plan, and the others make way.
                draft.promise(Promise { job, start: reservation.start });
            }
            reservations.push(reservation);
            if !is_particular(draft, job) || reservations.len() >= RESERVATIONS_MAX {
                break;
            }
        }
        // A job that no release can make room for (its nodes are lost) reserves nothing and blocks nobody.
    }
    if !reservations.is_empty() {
        backfill_behind(queue, draft, &mut reservations, depth);
    }
}

/// GPUs set aside for a job that does not fit now.
struct Reservation {
    job: JobId,
    start: Time,
    keeps: Keeps,
}

enum Keeps {
    /// As many GPUs of a type as the job needs; `spare` are those free at the start that it does not need.
    Any { gpu_type: GpuTypeId, spare: u32 },
    /// The very GPUs that the job is going to use.
    These(GpuList),
}

impl Reservation {
    /// The GPUs it names.
    fn gpus(&self) -> &[GpuId] {
        match &self.keeps {
            Keeps::These(gpus) => gpus,
            Keeps::Any { .. } => &[],
        }
    }

    /// A job that outlasts the start takes so many GPUs of a type.
    fn draw_on(&mut self, on: GpuTypeId, gpus: u32) {
        match &mut self.keeps {
            Keeps::Any { gpu_type, spare } if *gpu_type == on => *spare -= gpus,
            _ => {}
        }
    }
}

/// Whether not every GPU of its types is as good as another for a job.
fn is_particular(draft: &Draft<'_>, job: JobId) -> bool {
    let shape = draft.snapshot.bound.shape(job);
    shape.nodes_max > 0 || shape.only.is_some()
}

/// The earliest start the job can count on.
fn reserve(queue: &Queue, draft: &mut Draft<'_>, job: JobId, earlier: &[Reservation]) -> Option<Reservation> {
    let shape = *draft.snapshot.bound.shape(job);
    if is_particular(draft, job) || !earlier.is_empty() {
        return reserve_these(queue, draft, job, earlier);
    }
    let mut free = (0..draft.snapshot.bound.cluster.types.len())
        .map(|index| draft.pool.idle_of(GpuTypeId::from_index(index)))
        .collect::<Vec<_>>();
    let mut found: Option<(Time, GpuTypeId, u32)> = None;
    for release in releases(queue, draft) {
        if found.is_some_and(|(start, ..)| release.at > start) {
            break;
        }
        let free = &mut free[release.gpu_type.index()];
        *free += release.gpus;
        let usable = shape.types.contains(release.gpu_type) && *free >= shape.gpus;
        match &mut found {
            Some((_, gpu_type, spare)) if *gpu_type == release.gpu_type => *spare = *free - shape.gpus,
            None if usable => found = Some((release.at, release.gpu_type, *free - shape.gpus)),
            _ => {}
        }
    }
    found.map(|(start, gpu_type, spare)| Reservation { job, start, keeps: Keeps::Any { gpu_type, spare } })
}

/// Where counting is not enough, jobs are taken off their GPUs one by one until the job fits beside earlier reservations.
fn reserve_these(queue: &Queue, draft: &mut Draft<'_>, job: JobId, earlier: &[Reservation]) -> Option<Reservation> {
    let kept = earlier.iter().flat_map(Reservation::gpus).copied().collect::<GpuList>();
    let ends = releases(queue, draft).map(|release| (release.at, release.job)).collect::<Vec<_>>();
    let mut lifted = Vec::new();
    let mut found = None;
    for (at, running) in ends {
        draft.lift(running);
        lifted.push(running);
        if let Some(gpus) = draft.gang_avoiding(job, &kept) {
            found = Some(Reservation { job, start: at, keeps: Keeps::These(gpus) });
            break;
        }
    }
    for running in lifted.into_iter().rev() {
        draft.put_back(running);
    }
    found
}

/// Lets later jobs pass those with reservations, in rank order, where they do not delay them. Looks at no more than `depth` jobs.
fn backfill_behind(queue: &mut Queue, draft: &mut Draft<'_>, reservations: &mut [Reservation], depth: usize) {
    if draft.pool.is_full() {
        return;
    }
    let is_reserved = |job: JobId| reservations.iter().any(|reservation| reservation.job == job);
    let mut front = Front::new();
    for &position in &queue.heads {
        let (key, job, shape) = position;
        if draft.fits(shape) {
            // A job with a reservation waits for its start; jobs like it may be shorter and pass.
            let next = || queue.next_of_shape(shape, (key, job)).map(|(key, job)| (key, job, shape));
            front.extend(if is_reserved(job) { next() } else { Some(position) });
        }
    }
    for _ in 0..depth {
        let Some(first) = (0..front.len()).min_by_key(|&position| front[position]) else { return };
        let (key, job, shape) = front[first];
        let next = queue.next_of_shape(shape, (key, job)).map(|(key, job)| (key, job, shape));
        let started = start_beside(draft, job, reservations);
        if started {
            queue.withdraw(job, shape);
        }
        match next {
            Some(next) if !started || draft.fits(shape) => front[first] = next,
            _ => drop(front.swap_remove(first)),
        }
    }
}

/// Starts a job where it delays no reservation.
fn start_beside(draft: &mut Draft<'_>, job: JobId, reservations: &mut [Reservation]) -> bool {
    if reservations.is_empty() {
        return draft.try_start(job, TypeSet::EMPTY).is_some();
    }
    let gpus = draft.snapshot.bound.job(job).gpus;
    'types: for &gpu_type in draft.types_of(job) {
        let end = draft.snapshot.now + draft.snapshot.believed_run(job, gpu_type);
        let mut closed = GpuList::new();
        for reservation in reservations.iter().filter(|reservation| end > reservation.start) {
            match &reservation.keeps {
                Keeps::Any { gpu_type: kept, spare } if *kept == gpu_type && gpus > *spare => continue 'types,
                Keeps::Any { .. } => {}
                Keeps::These(kept) => closed.extend_from_slice(kept),
            }
        }
        if draft.try_start_avoiding(job, gpu_type, &closed) {
            for reservation in reservations.iter_mut().filter(|reservation| end > reservation.start) {
                reservation.draw_on(gpu_type, gpus);
            }
            return true;
        }
    }
    false
}
