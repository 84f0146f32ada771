//! The pool: what is free on every GPU, indexed so that a gang is found without looking at the whole cluster.
//!
//! Invariants: `idle` of a block is the number of bits set in its mask; a block stands in `by_idle[idle]` of its type if its
//! node is up and it has an idle GPU, and nowhere otherwise; a GPU stands in `partly_used` if jobs are on it and it has share left.

use crate::bits::BitSet;
use rota_core::{Bound, ClassId, Cluster, GpuId, GpuList, GpuTypeId, MilliGpu, NodeId, Shape, Slice};
use serde::{Deserialize, Serialize};
use smallvec::{SmallVec, smallvec};
use std::collections::BTreeSet;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Room {
    /// Below zero where two whole-GPU jobs share it, or a stranger came after a job.
    share: i32,
    /// Below zero where a stranger took what a job was promised.
    memory_mib: i64,
    /// Jobs on it, and strangers as one more.
    jobs: u16,
    /// The group of the jobs on it; strangers have none.
    group: u32,
}

impl Room {
    fn admits(&self, group: u32) -> bool {
        self.jobs == 0 || self.group == group
    }
}

/// The GPUs of one type on one node.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Block {
    pub node: NodeId,
    gpu_type: GpuTypeId,
    first: u32,
    pub idle: u32,
    /// One bit per GPU, set if it is idle.
    mask: SmallVec<[u64; 1]>,
    up: bool,
}

impl Block {
    fn set_idle(&mut self, gpu: GpuId, idle: bool) {
        let bit = gpu.0 - self.first;
        let word = &mut self.mask[(bit / 64) as usize];
        if idle {
            *word |= 1 << (bit % 64);
            self.idle += 1;
        } else {
            *word &= !(1 << (bit % 64));
            self.idle -= 1;
        }
    }

    /// Its idle GPUs in ascending order.
    pub fn idle_gpus(&self) -> impl Iterator<Item = GpuId> {
        self.mask.iter().zip(0..).flat_map(move |(&word, position)| {
            let first = self.first + position * 64;
            let mut left = word;
            std::iter::from_fn(move || {
                let bit = left.trailing_zeros();
                (left != 0).then(|| {
                    left &= left - 1;
                    GpuId(first + bit)
                })
            })
        })
    }
}

/// Free room of one GPU type.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct TypeRoom {
    /// Idle GPUs on nodes that are up.
    pub idle: u32,
    /// Blocks by their number of idle GPUs.
    pub by_idle: Vec<BitSet>,
    /// GPUs in use with share left, by free memory, then free share.
    pub partly_used: BTreeSet<(i64, i32, GpuId)>,
}

/// Whether a GPU can be found by a search.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Listed {
    Yes,
    No,
}

/// What is free, everywhere.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Pool {
    rooms: Vec<Room>,
    block_of: Vec<u32>,
    pub(crate) blocks: Vec<Block>,
    pub(crate) types: Vec<TypeRoom>,
    memory_mib: Vec<u32>,
    /// The classes of the jobs on each GPU whose speeds beside others are known, in order.
    classes: Vec<SmallVec<[ClassId; 4]>>,
}

impl Pool {
    /// The pool of an empty cluster.
    pub fn new(cluster: &Cluster) -> Self {
        let mut pool = Self {
            rooms: Vec::with_capacity(cluster.gpus.len()),
            block_of: Vec::with_capacity(cluster.gpus.len()),
            blocks: Vec::new(),
            types: vec![TypeRoom::default(); cluster.types.len()],
            memory_mib: cluster.types.iter().map(|kind| kind.memory_mib).collect(),
            classes: vec![SmallVec::new(); cluster.gpus.len()],
        };
        for (index, gpu) in cluster.gpus.iter().enumerate() {
            let continues = pool.blocks.last().is_some_and(|block| block.node == gpu.node && block.gpu_type == gpu.gpu_type);
            if !continues {
                pool.blocks.push(Block {
                    node: gpu.node,
                    gpu_type: gpu.gpu_type,
                    first: index as u32,
                    idle: 0,
                    mask: smallvec![0],
                    up: true,
                });
            }
            let number = pool.blocks.len() - 1;
            let block = &mut pool.blocks[number];
            if (index as u32 - block.first) / 64 >= block.mask.len() as u32 {
                block.mask.push(0);
            }
            block.set_idle(GpuId::from_index(index), true);
            pool.block_of.push(number as u32);
            let memory_mib = i64::from(pool.memory_mib[gpu.gpu_type.index()]);
            pool.rooms.push(Room { share: i32::from(MilliGpu::WHOLE.0), memory_mib, jobs: 0, group: 0 });
        }
        for number in 0..pool.blocks.len() {
            pool.list(number as u32);
        }
        pool
    }

    /// Gives a job its slice of each GPU.
    pub fn take(&mut self, gpus: &[GpuId], slice: Slice) {
        self.each_block_run(gpus, |pool, gpu| {
            let before = pool.rooms[gpu.index()];
            let room = &mut pool.rooms[gpu.index()];
            room.share -= i32::from(slice.share.0);
            room.memory_mib -= i64::from(slice.memory_mib);
            room.jobs += 1;
            room.group = slice.group;
            pool.relist(gpu, before);
            if let Some(class) = slice.class {
                let there = &mut pool.classes[gpu.index()];
                there.insert(there.partition_point(|other| *other < class), class);
            }
        });
    }

    /// Takes a job's slice back from each GPU.
    pub fn give(&mut self, gpus: &[GpuId], slice: Slice) {
        self.each_block_run(gpus, |pool, gpu| {
            let before = pool.rooms[gpu.index()];
            let room = &mut pool.rooms[gpu.index()];
            room.share += i32::from(slice.share.0);
            room.memory_mib += i64::from(slice.memory_mib);
            room.jobs -= 1;
            if room.jobs == 0 {
                room.group = 0;
            }
            pool.relist(gpu, before);
            let there = &mut pool.classes[gpu.index()];
            if let Some(place) = slice.class.and_then(|class| there.iter().position(|other| *other == class)) {
                there.remove(place);
            }
        });
    }

    /// Whether all these GPUs have room for the slice.
    pub fn has_room(&self, gpus: &[GpuId], slice: Slice) -> bool {
        gpus.iter().all(|gpu| {
            let room = &self.rooms[gpu.index()];
            room.share >= i32::from(slice.share.0)
                && room.admits(slice.group)
                && room.memory_mib >= i64::from(slice.memory_mib)
                && self.blocks[self.block_of[gpu.index()] as usize].up
        })
    }

    /// Whether a second whole-GPU job has room beside the one on these GPUs.
    pub fn has_room_beside(&self, gpus: &[GpuId], memory_mib: u32) -> bool {
        gpus.iter().all(|gpu| {
            let room = &self.rooms[gpu.index()];
            let up = self.blocks[self.block_of[gpu.index()] as usize].up;
            room.jobs == 1 && room.share == 0 && room.memory_mib >= i64::from(memory_mib) && up
        })
    }

    /// Books what others than the scheduler's jobs hold of a GPU, in place of what they held before.
    pub fn set_outside(&mut self, gpu: GpuId, before: Slice, after: Slice) {
        self.each_block_run(&[gpu], |pool, gpu| {
            let old = pool.rooms[gpu.index()];
            let room = &mut pool.rooms[gpu.index()];
            room.share += i32::from(before.share.0) - i32::from(after.share.0);
            room.memory_mib += i64::from(before.memory_mib) - i64::from(after.memory_mib);
            room.jobs += u16::from(after.share.0 > 0);
            room.jobs -= u16::from(before.share.0 > 0);
            if room.jobs == 0 {
                room.group = 0;
            }
            pool.relist(gpu, old);
        });
    }

    /// Keeps GPUs out of every search until [`Pool::restore`]. Nothing may be taken or given on them in between, and each is named once.
    pub(crate) fn withhold(&mut self, gpus: &[GpuId]) {
        self.each_block_run(gpus, |pool, gpu| pool.set_listed(gpu, Listed::No));
    }

    /// Shows withheld GPUs again.
    pub(crate) fn restore(&mut self, gpus: &[GpuId]) {
        self.each_block_run(gpus, |pool, gpu| pool.set_listed(gpu, Listed::Yes));
    }

    fn set_listed(&mut self, gpu: GpuId, listed: Listed) {
        let room = self.rooms[gpu.index()];
        let block = &mut self.blocks[self.block_of[gpu.index()] as usize];
        let partly_used = &mut self.types[block.gpu_type.index()].partly_used;
        match (room.jobs, listed) {
            (0, _) => block.set_idle(gpu, listed == Listed::Yes),
            (_, Listed::Yes) if room.share > 0 => _ = partly_used.insert((room.memory_mib, room.share, gpu)),
            _ => _ = partly_used.remove(&(room.memory_mib, room.share, gpu)),
        }
    }

    /// Marks a node as lost or returned. Its jobs must be gone.
    pub fn set_node_up(&mut self, node: NodeId, up: bool) {
        for number in 0..self.blocks.len() as u32 {
            if self.blocks[number as usize].node == node && self.blocks[number as usize].up != up {
                self.unlist(number);
                self.blocks[number as usize].up = up;
                self.list(number);
            }
        }
    }

    /// Whether more gets done with a job of this shape on a GPU than without it, as far as speeds beside others are known.
    pub fn gains_by(&self, bound: &Bound, shape: &Shape, gpu: GpuId) -> bool {
        let gpu_type = self.blocks[self.block_of[gpu.index()] as usize].gpu_type;
        let gain = |class| bound.pair_parts.gain(class, self.classes_on(gpu), gpu_type);
        shape.class.is_none_or(|class| gain(class).is_some_and(|gain| gain > 0.0))
    }

    /// The classes of the jobs on a GPU whose speeds beside others are known.
    pub(crate) fn classes_on(&self, gpu: GpuId) -> &[ClassId] {
        &self.classes[gpu.index()]
    }

    /// Whether the jobs on a GPU, if any, are of this group.
    pub(crate) fn admits(&self, gpu: GpuId, group: u32) -> bool {
        self.rooms[gpu.index()].admits(group)
    }

    /// Idle GPUs of a type.
    pub fn idle_of(&self, gpu_type: GpuTypeId) -> u32 {
        self.types[gpu_type.index()].idle
    }

    /// Whether a node has so many idle GPUs of a type.
    pub(crate) fn has_node_for(&self, gpus: u32, gpu_type: GpuTypeId) -> bool {
        self.types[gpu_type.index()].by_idle.iter().skip(gpus as usize).any(|blocks| !blocks.is_empty())
    }

    /// Number of jobs on a GPU.
    pub fn jobs_on(&self, gpu: GpuId) -> u16 {
        self.rooms[gpu.index()].jobs
    }

    /// Whether the node of a GPU is up.
    pub(crate) fn is_up(&self, gpu: GpuId) -> bool {
        self.blocks[self.block_of[gpu.index()] as usize].up
    }

    /// Share in use on a GPU.
    pub(crate) fn used_share(&self, gpu: GpuId) -> i32 {
        i32::from(MilliGpu::WHOLE.0) - self.rooms[gpu.index()].share
    }

    /// Idle GPUs of the same type on the same node.
    pub(crate) fn block_idle(&self, gpu: GpuId) -> u32 {
        self.blocks[self.block_of[gpu.index()] as usize].idle
    }

    pub(crate) fn node_of(&self, gpu: GpuId) -> NodeId {
        self.blocks[self.block_of[gpu.index()] as usize].node
    }

    /// Whether anything at all is free.
    pub fn is_full(&self) -> bool {
        self.types.iter().all(|room| room.idle == 0 && room.partly_used.is_empty())
    }

    /// Applies a change GPU by GPU, touching the index of a block once for all of its GPUs.
    fn each_block_run(&mut self, gpus: &[GpuId], mut change: impl FnMut(&mut Self, GpuId)) {
        let mut position = 0;
        while position < gpus.len() {
            let block = self.block_of[gpus[position].index()];
            self.unlist(block);
            while position < gpus.len() && self.block_of[gpus[position].index()] == block {
                change(self, gpus[position]);
                position += 1;
            }
            self.list(block);
        }
    }

    fn relist(&mut self, gpu: GpuId, before: Room) {
        let after = self.rooms[gpu.index()];
        let block = &mut self.blocks[self.block_of[gpu.index()] as usize];
        if (before.jobs == 0) != (after.jobs == 0) {
            block.set_idle(gpu, after.jobs == 0);
        }
        let partly_used = &mut self.types[block.gpu_type.index()].partly_used;
        if before.jobs > 0 && before.share > 0 {
            partly_used.remove(&(before.memory_mib, before.share, gpu));
        }
        if after.jobs > 0 && after.share > 0 {
            partly_used.insert((after.memory_mib, after.share, gpu));
        }
    }

    fn unlist(&mut self, number: u32) {
        let block = &self.blocks[number as usize];
        if block.up && block.idle > 0 {
            let room = &mut self.types[block.gpu_type.index()];
            room.idle -= block.idle;
            room.by_idle[block.idle as usize].remove(number);
        }
    }

    fn list(&mut self, number: u32) {
        let block = &self.blocks[number as usize];
        if block.up && block.idle > 0 {
            let room = &mut self.types[block.gpu_type.index()];
            room.idle += block.idle;
            if room.by_idle.len() <= block.idle as usize {
                room.by_idle.resize(block.idle as usize + 1, BitSet::default());
            }
            room.by_idle[block.idle as usize].insert(number);
        }
    }
}

/// Adds GPUs to a gang in ascending order.
pub(crate) fn sorted(mut gpus: GpuList) -> GpuList {
    gpus.sort_unstable();
    gpus
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn recount(pool: &Pool, cluster: &Cluster) {
        for (index, room) in pool.types.iter().enumerate() {
            let of_type = |gpu: &usize| cluster.gpus[*gpu].gpu_type.index() == index;
            let up = |gpu: &usize| pool.blocks[pool.block_of[*gpu] as usize].up;
            let gpus = (0..cluster.gpus.len()).filter(of_type).filter(up).collect::<Vec<_>>();
            assert_eq!(room.idle as usize, gpus.iter().filter(|&&gpu| pool.rooms[gpu].jobs == 0).count());
            let listed = room.by_idle.iter().enumerate().flat_map(|(idle, blocks)| blocks.iter().map(move |block| (idle, block)));
            for (idle, block) in listed {
                assert_eq!(pool.blocks[block as usize].idle_gpus().count(), idle);
            }
        }
    }

    proptest! {
        #[test]
        fn indexes_agree_with_a_recount(operations in prop::collection::vec((0_u32..30, 1_u16..1001, 0_u32..5000, any::<bool>()), 1..60)) {
            let cluster = Cluster::from_spec("a:20,b:10", 7).unwrap();
            let mut pool = Pool::new(&cluster);
            let mut held = Vec::new();
            for (gpu, share, memory_mib, release) in operations {
                let slice = Slice { share: MilliGpu(share), memory_mib, ..Slice::default() };
                let gpus = [GpuId(gpu), GpuId((gpu + 1) % 30)];
                if release && !held.is_empty() {
                    let (gpus, slice): ([GpuId; 2], Slice) = held.swap_remove(gpu as usize % held.len());
                    pool.give(&gpus, slice);
                } else if pool.has_room(&gpus, slice) {
                    pool.take(&gpus, slice);
                    held.push((gpus, slice));
                }
                recount(&pool, &cluster);
            }
            for (gpus, slice) in held {
                pool.give(&gpus, slice);
            }
            prop_assert_eq!(pool.idle_of(GpuTypeId(0)) + pool.idle_of(GpuTypeId(1)), 30);
            recount(&pool, &cluster);
        }
    }

    #[test]
    fn a_lost_node_offers_nothing() {
        let mut pool = Pool::new(&Cluster::from_spec("a:130", 65).unwrap());
        pool.set_node_up(NodeId(0), false);
        assert_eq!(pool.idle_of(GpuTypeId(0)), 65);
        assert!(!pool.has_room(&[GpuId(0)], Slice { share: MilliGpu(1), ..Slice::default() }));
        pool.set_node_up(NodeId(0), true);
        assert_eq!(pool.idle_of(GpuTypeId(0)), 130);
    }
}
