//! A calendar: from when until when which part of each GPU is taken, for placements in the future that depend on which GPUs are free.
//!
//! Invariant: the bookings of one GPU stand in order of time, and at no moment do running and promised jobs take more than it has.

use crate::draft::Draft;
use crate::queue::Queue;
use crate::releases::releases;
use rota_core::{GpuId, GpuList, GpuTypeId, JobId, MilliGpu, NodeId, Slice, Span, Time};
use std::collections::HashMap;

/// What is taken of a GPU, from when until when.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Booking {
    from: Time,
    until: Time,
    share: i32,
    memory_mib: i64,
    group: u32,
}

impl Booking {
    fn new(from: Time, until: Time, slice: Slice) -> Self {
        let (share, memory_mib) = (i32::from(slice.share.0), i64::from(slice.memory_mib));
        Self { from, until, share, memory_mib, group: slice.group }
    }

    /// The whole GPU, for good.
    fn for_good(from: Time) -> Self {
        let slice = Slice { share: MilliGpu::WHOLE, ..Slice::default() };
        Self::new(from, Time::FAR_FUTURE, slice)
    }
}

/// When each GPU is taken.
pub struct Calendar {
    taken: Vec<Vec<Booking>>,
    memory_mib: Vec<i64>,
}

impl Calendar {
    /// The calendar of running jobs and of those started in the draft.
    pub fn now(queue: &Queue, draft: &Draft<'_>) -> Self {
        let snapshot = draft.snapshot;
        let cluster = &snapshot.bound.cluster;
        let mut taken = vec![Vec::new(); cluster.gpus.len()];
        for release in releases(queue, draft) {
            let booking = Booking::new(snapshot.now, release.at, snapshot.bound.shape(release.job).slice());
            for gpu in draft.gpus_of(release.job) {
                taken[gpu.index()].push(booking);
            }
        }
        for (index, bookings) in taken.iter_mut().enumerate() {
            let gpu = GpuId::from_index(index);
            // What others than the scheduler's jobs hold does not fall free at a known moment.
            if usize::from(draft.pool.jobs_on(gpu)) > bookings.len() || !draft.pool.is_up(gpu) {
                *bookings = vec![Booking::for_good(snapshot.now)];
            }
            bookings.retain(|booking| booking.until > snapshot.now);
            bookings.sort_unstable();
        }
        let memory_mib = cluster.gpus.iter().map(|gpu| i64::from(cluster.types[gpu.gpu_type.index()].memory_mib)).collect();
        Self { taken, memory_mib }
    }

    /// The first moment from `earliest` on at which GPUs of a type are free for a job for so long, and which they are.
    pub fn gang(&self, draft: &Draft<'_>, job: JobId, gpu_type: GpuTypeId, run: Span, earliest: Time) -> Option<(Time, GpuList)> {
        let usable = usable_gpus(draft, job, gpu_type);
        let mut moments = vec![earliest];
        let bookings = usable.iter().flat_map(|gpu| &self.taken[gpu.index()]);
        moments.extend(bookings.map(|booking| booking.until).filter(|end| *end > earliest));
        moments.sort_unstable();
        moments.dedup();
        let of_moment = |start: Time| Some((start, self.gang_at(draft, job, &usable, start, start + run)?));
        moments.into_iter().filter(|start| *start < Time::FAR_FUTURE).find_map(of_moment)
    }

    /// The GPUs that a job would have from `start` until `end`.
    fn gang_at(&self, draft: &Draft<'_>, job: JobId, usable: &[GpuId], start: Time, end: Time) -> Option<GpuList> {
        let shape = draft.snapshot.bound.shape(job);
        let wanted = Booking::new(start, end, shape.slice());
        let mut free = usable.iter().copied().filter(|gpu| self.has_room(*gpu, wanted)).collect::<Vec<_>>();
        if free.len() < shape.gpus as usize {
            return None;
        }
        // Shared GPUs are filled up, and GPUs that are taken again soon are used up first.
        free.sort_by_key(|gpu| (std::cmp::Reverse(self.share_taken(*gpu, start)), self.taken_next(*gpu, end), *gpu));
        if shape.nodes_max > 0 {
            let nodes = widest_nodes(draft, &free, shape.nodes_max as usize);
            free.retain(|gpu| nodes.contains(&draft.pool.node_of(*gpu)));
        }
        let gang = free.into_iter().take(shape.gpus as usize).collect::<GpuList>();
        (gang.len() == shape.gpus as usize).then(|| crate::pool::sorted(gang))
    }

    /// Whether a job's GPUs have room for it from `start` until `end`.
    pub fn have_room(&self, gpus: &[GpuId], slice: Slice, start: Time, end: Time) -> bool {
        gpus.iter().all(|gpu| self.has_room(*gpu, Booking::new(start, end, slice)))
    }

    /// Whether a GPU has room for one more booking, at every moment of it.
    fn has_room(&self, gpu: GpuId, wanted: Booking) -> bool {
        let bookings = self.taken[gpu.index()].iter().take_while(|booking| booking.from < wanted.until);
        let beside = || bookings.clone().filter(|booking| booking.until > wanted.from);
        let memory_mib = self.memory_mib[gpu.index()];
        let fits_at = |moment: Time| {
            let there = beside().filter(|booking| booking.from <= moment && moment < booking.until);
            let (share, memory) = there.fold((wanted.share, wanted.memory_mib), |(share, memory), booking| {
                (share + booking.share, memory + booking.memory_mib)
            });
            share <= i32::from(MilliGpu::WHOLE.0) && memory <= memory_mib
        };
        // What is taken grows only where a booking begins.
        beside().all(|booking| booking.group == wanted.group)
            && (beside().next().is_none() || beside().map(|booking| booking.from.max(wanted.from)).all(fits_at))
    }

    /// The share that is taken of a GPU at a moment.
    fn share_taken(&self, gpu: GpuId, moment: Time) -> i32 {
        let there = self.taken[gpu.index()].iter().filter(|booking| booking.from <= moment && moment < booking.until);
        there.map(|booking| booking.share).sum()
    }

    fn taken_next(&self, gpu: GpuId, after: Time) -> Time {
        let taken = &self.taken[gpu.index()];
        taken.get(taken.partition_point(|booking| booking.from < after)).map_or(Time::FAR_FUTURE, |booking| booking.from)
    }

    /// Notes what a job takes of GPUs from `start` until `end`.
    pub fn take(&mut self, gpus: &[GpuId], slice: Slice, start: Time, end: Time) {
        let booking = Booking::new(start, end, slice);
        for gpu in gpus {
            let taken = &mut self.taken[gpu.index()];
            taken.insert(taken.partition_point(|other| *other < booking), booking);
        }
    }

    /// Takes that note back.
    pub fn give(&mut self, gpus: &[GpuId], slice: Slice, start: Time, end: Time) {
        let booking = Booking::new(start, end, slice);
        for gpu in gpus {
            let taken = &mut self.taken[gpu.index()];
            if let Some(position) = taken.iter().position(|other| *other == booking) {
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
