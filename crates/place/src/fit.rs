//! Fit: which GPUs of one type a gang would get now, by the score in force; `None` if it does not fit.

use crate::bits::BitSet;
use crate::pool::{Pool, sorted};
use rota_core::random::RandomStream;
use rota_core::{Bound, GpuId, GpuList, GpuTypeId, Score, Shape, Span};
use smallvec::SmallVec;
use std::collections::HashMap;

/// How to choose among GPUs that would all do.
pub struct Chooser<'a> {
    /// What is preferred.
    pub score: Score,
    /// How long each GPU has worked.
    pub gpu_busy: &'a [Span],
    /// Draws for [`Score::Random`].
    pub stream: &'a mut RandomStream,
}

/// The gang that a job of this shape would get on this type. One that may span types gets GPUs of one type where it can.
pub fn find(pool: &Pool, bound: &Bound, shape: &Shape, gpu_type: GpuTypeId, chooser: &mut Chooser<'_>) -> Option<GpuList> {
    let alone = find_alone(pool, bound, shape, gpu_type, chooser);
    if !shape.is_mixed || alone.is_some() {
        return alone;
    }
    let others = || shape.types.iter().filter(|other| *other != gpu_type);
    others().find_map(|other| find_alone(pool, bound, shape, other, chooser)).or_else(|| {
        let mut eligible = eligible_gpus(pool, bound, shape, gpu_type);
        others().for_each(|other| eligible.extend(eligible_gpus(pool, bound, shape, other)));
        (eligible.len() >= shape.gpus as usize).then(|| first_of(&eligible, pool, shape)).flatten()
    })
}

/// The gang that a job would get on one type alone.
fn find_alone(pool: &Pool, bound: &Bound, shape: &Shape, gpu_type: GpuTypeId, chooser: &mut Chooser<'_>) -> Option<GpuList> {
    let (room, only) = (&pool.types[gpu_type.index()], bound.only(shape));
    if shape.is_exclusive() && room.idle < shape.gpus {
        return None;
    }
    let by_blocks = matches!(chooser.score, Score::Consolidate | Score::Spread | Score::BestFit | Score::WorstFit);
    if shape.is_exclusive() && by_blocks && only.is_none() {
        // Idle GPUs of one type are alike, so best fit is the fullest node and worst fit the emptiest.
        return match chooser.score {
            Score::Spread if shape.nodes_max == 0 => Some(spread(pool, shape.gpus, gpu_type)),
            Score::WorstFit => gather(pool, shape, gpu_type),
            _ => consolidate(pool, shape.gpus, gpu_type).or_else(|| gather(pool, shape, gpu_type)),
        };
    }
    let mut eligible = eligible_gpus(pool, bound, shape, gpu_type);
    if eligible.len() < shape.gpus as usize {
        return None;
    }
    prefer(&mut eligible, pool, chooser);
    if let Some(class) = shape.class {
        // Where speeds beside others are known, most should get done; the score decides among equals.
        let gain = |gpu: &GpuId| bound.pair_parts.gain(class, pool.classes_on(*gpu), gpu_type).unwrap_or(0.0);
        eligible.sort_by(|a, b| gain(b).total_cmp(&gain(a)));
    }
    first_of(&eligible, pool, shape)
}

/// Whether a job of this shape fits on this type at all.
pub fn fits(pool: &Pool, bound: &Bound, shape: &Shape, gpu_type: GpuTypeId) -> bool {
    let room = &pool.types[gpu_type.index()];
    if shape.is_exclusive() && shape.only.is_none() {
        return room.idle >= shape.gpus && (shape.nodes_max == 0 || gather(pool, shape, gpu_type).is_some());
    }
    let mut eligible = eligible_gpus(pool, bound, shape, gpu_type);
    if shape.is_mixed {
        let others = shape.types.iter().filter(|other| *other != gpu_type);
        others.for_each(|other| eligible.extend(eligible_gpus(pool, bound, shape, other)));
    }
    eligible.len() >= shape.gpus as usize && (shape.nodes_max == 0 || first_of(&eligible, pool, shape).is_some())
}

/// All on the node with the fewest idle GPUs that are enough.
fn consolidate(pool: &Pool, gpus: u32, gpu_type: GpuTypeId) -> Option<GpuList> {
    let by_idle = &pool.types[gpu_type.index()].by_idle;
    let block = by_idle.iter().skip(gpus as usize).find_map(BitSet::first)?;
    Some(pool.blocks[block as usize].idle_gpus().take(gpus as usize).collect())
}

/// From the emptiest nodes downwards, so that the gang touches as few nodes as possible; the last piece goes where it fits best.
fn gather(pool: &Pool, shape: &Shape, gpu_type: GpuTypeId) -> Option<GpuList> {
    let mut gang = GpuList::new();
    let mut used: SmallVec<[u32; 8]> = SmallVec::new();
    let by_idle = &pool.types[gpu_type.index()].by_idle;
    for emptiest in by_idle.iter().rev().flat_map(BitSet::iter) {
        if shape.nodes_max > 0 && used.len() >= shape.nodes_max as usize {
            return None;
        }
        let left = shape.gpus as usize - gang.len();
        let is_last = pool.blocks[emptiest as usize].idle as usize >= left;
        let snuggest = || by_idle[left..].iter().flat_map(BitSet::iter).find(|block| !used.contains(block));
        let block = if is_last && !used.is_empty() { snuggest()? } else { emptiest };
        gang.extend(pool.blocks[block as usize].idle_gpus().take(left));
        used.push(block);
        if gang.len() == shape.gpus as usize {
            return Some(sorted(gang));
        }
    }
    None
}

/// One GPU from each of the emptiest nodes, round and round.
fn spread(pool: &Pool, gpus: u32, gpu_type: GpuTypeId) -> GpuList {
    let emptiest = pool.types[gpu_type.index()].by_idle.iter().rev().flat_map(BitSet::iter).take(gpus as usize);
    let mut lanes = emptiest.map(|block| pool.blocks[block as usize].idle_gpus()).collect::<Vec<_>>();
    let mut gang = GpuList::new();
    while gang.len() < gpus as usize {
        for lane in &mut lanes {
            if gang.len() < gpus as usize
                && let Some(gpu) = lane.next()
            {
                gang.push(gpu);
            }
        }
    }
    sorted(gang)
}

/// Every GPU of the type with room, GPUs in use first and those with the least free memory before others.
fn eligible_gpus(pool: &Pool, bound: &Bound, shape: &Shape, gpu_type: GpuTypeId) -> Vec<GpuId> {
    let (room, only) = (&pool.types[gpu_type.index()], bound.only(shape));
    let idle = || room.by_idle.iter().flat_map(BitSet::iter).flat_map(|block| pool.blocks[block as usize].idle_gpus());
    let is_allowed = |gpu: &GpuId| only.is_none_or(|only| only.contains(gpu));
    if shape.is_exclusive() {
        return idle().filter(is_allowed).collect();
    }
    let enough_memory = room.partly_used.range((i64::from(shape.memory_mib), 0, GpuId(0))..);
    let has_room = |(_, share, gpu): &&(i64, i32, GpuId)| *share >= i32::from(shape.share.0) && pool.admits(*gpu, shape.group);
    let worth_it = |gpu: &GpuId| pool.gains_by(bound, shape, *gpu);
    let partly_used = enough_memory.filter(has_room).map(|(_, _, gpu)| *gpu).filter(worth_it);
    partly_used.chain(idle()).filter(is_allowed).collect()
}

/// Puts the preferred GPUs first.
fn prefer(eligible: &mut [GpuId], pool: &Pool, chooser: &mut Chooser<'_>) {
    match chooser.score {
        Score::Consolidate | Score::BestFit => {}
        Score::WorstFit => eligible.reverse(),
        Score::Spread => eligible.sort_by_key(|gpu| (pool.used_share(*gpu), std::cmp::Reverse(pool.block_idle(*gpu)), *gpu)),
        Score::LeastBusy => eligible.sort_by_key(|gpu| (pool.used_share(*gpu), chooser.gpu_busy[gpu.index()], *gpu)),
        Score::Random => {
            for last in (1..eligible.len()).rev() {
                eligible.swap(last, chooser.stream.below(last as u64 + 1) as usize);
            }
        }
    }
}

/// The first GPUs of a list that make a gang on as many nodes as the shape allows.
fn first_of(eligible: &[GpuId], pool: &Pool, shape: &Shape) -> Option<GpuList> {
    let gang = eligible.iter().take(shape.gpus as usize).copied().collect::<GpuList>();
    if shape.nodes_max == 0 {
        return Some(sorted(gang));
    }
    let mut per_node: HashMap<_, usize> = HashMap::new();
    for &gpu in eligible {
        *per_node.entry(pool.node_of(gpu)).or_default() += 1;
    }
    let mut nodes = per_node.into_iter().collect::<Vec<_>>();
    nodes.sort_by_key(|&(node, count)| (std::cmp::Reverse(count), node));
    nodes.truncate(shape.nodes_max as usize);
    let chosen = eligible.iter().filter(|gpu| nodes.iter().any(|(node, _)| *node == pool.node_of(**gpu)));
    let gang = chosen.take(shape.gpus as usize).copied().collect::<GpuList>();
    (gang.len() == shape.gpus as usize).then(|| sorted(gang))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rota_core::{Cluster, MilliGpu, Slice, TypeSet};

    /// Three nodes of four: node 0 has one GPU left, node 1 three, node 2 four.
    fn pool() -> Pool {
        let mut pool = Pool::new(&Cluster::from_spec("a:12", 4).unwrap());
        pool.take(&[GpuId(0), GpuId(1), GpuId(2), GpuId(4)], WHOLE);
        pool
    }

    const WHOLE: Slice = Slice { share: MilliGpu::WHOLE, memory_mib: 0, group: 0, class: None };

    fn shape(gpus: u32) -> Shape {
        let mut types = TypeSet::EMPTY;
        types.insert(GpuTypeId(0));
        Shape {
            gpus,
            share: MilliGpu::WHOLE,
            memory_mib: 0,
            group: 0,
            nodes_max: 0,
            types,
            speeds: 0,
            only: None,
            is_mixed: false,
            class: None,
        }
    }

    fn gang(pool: &Pool, shape: &Shape, score: Score) -> Option<Vec<u32>> {
        let busy = (0..12).map(|gpu| Span(u64::from(12_u32 - gpu))).collect::<Vec<_>>();
        let mut stream = RandomStream::new(0, "place");
        let mut chooser = Chooser { score, gpu_busy: &busy, stream: &mut stream };
        let bound = Bound::empty("test", Cluster::from_spec("a:12", 4).unwrap());
        find(pool, &bound, shape, GpuTypeId(0), &mut chooser).map(|gpus| gpus.iter().map(|gpu| gpu.0).collect())
    }

    #[test]
    fn each_score_chooses_as_it_says() {
        let pool = pool();
        assert_eq!(gang(&pool, &shape(1), Score::Consolidate), Some(vec![3]));
        assert_eq!(gang(&pool, &shape(2), Score::Consolidate), Some(vec![5, 6]));
        assert_eq!(gang(&pool, &shape(5), Score::Consolidate), Some(vec![3, 8, 9, 10, 11]));
        assert_eq!(gang(&pool, &shape(2), Score::Spread), Some(vec![5, 8]));
        assert_eq!(gang(&pool, &shape(1), Score::WorstFit), Some(vec![8]));
        assert_eq!(gang(&pool, &shape(2), Score::LeastBusy), Some(vec![10, 11]));
        assert_eq!(gang(&pool, &shape(9), Score::Consolidate), None);
    }

    #[test]
    fn every_score_finds_every_gang_that_fits() {
        let pool = pool();
        for &word in Score::WORDS {
            for gpus in 1..=8 {
                let found = gang(&pool, &shape(gpus), word.parse().unwrap()).unwrap_or_else(|| panic!("{word} {gpus}"));
                let mut distinct = found.clone();
                distinct.dedup();
                assert_eq!(distinct.len(), gpus as usize, "{word}: {found:?}");
                assert!(pool.has_room(&found.iter().map(|gpu| GpuId(*gpu)).collect::<Vec<_>>(), WHOLE));
            }
        }
    }

    #[test]
    fn gangs_keep_to_their_nodes() {
        let pool = pool();
        assert_eq!(gang(&pool, &Shape { nodes_max: 1, ..shape(4) }, Score::Consolidate), Some(vec![8, 9, 10, 11]));
        assert_eq!(gang(&pool, &Shape { nodes_max: 1, ..shape(5) }, Score::Consolidate), None);
        assert_eq!(gang(&pool, &Shape { nodes_max: 2, ..shape(7) }, Score::Random).map(|gpus| gpus.len()), Some(7));
        assert_eq!(gang(&pool, &Shape { nodes_max: 2, ..shape(8) }, Score::Random), None);
    }

    #[test]
    fn shared_gpus_are_packed_by_memory_or_spread() {
        let mut pool = Pool::new(&Cluster::from_spec("t4:3", 4).unwrap());
        pool.take(&[GpuId(0)], Slice { share: MilliGpu(300), memory_mib: 10_000, ..Slice::default() });
        pool.take(&[GpuId(1)], Slice { share: MilliGpu(300), memory_mib: 4_000, ..Slice::default() });
        let small = Shape { share: MilliGpu(500), memory_mib: 6_000, ..shape(1) };
        assert_eq!(gang(&pool, &small, Score::BestFit), Some(vec![0]));
        assert_eq!(gang(&pool, &Shape { memory_mib: 8_000, ..small }, Score::BestFit), Some(vec![1]));
        assert_eq!(gang(&pool, &Shape { share: MilliGpu(800), ..small }, Score::BestFit), Some(vec![2]));
        assert_eq!(gang(&pool, &small, Score::WorstFit), Some(vec![2]));
        assert_eq!(gang(&pool, &Shape { gpus: 3, ..small }, Score::BestFit), Some(vec![0, 1, 2]));
        assert_eq!(gang(&pool, &Shape { gpus: 3, memory_mib: 7_000, ..small }, Score::BestFit), None);
    }

    #[test]
    fn groups_do_not_share_a_gpu() {
        let mut pool = Pool::new(&Cluster::from_spec("a:2", 2).unwrap());
        let small = Slice { share: MilliGpu(100), memory_mib: 1_000, group: 7, class: None };
        pool.take(&[GpuId(0)], small);
        let of_group = |group: u32| Shape { share: MilliGpu(100), memory_mib: 1_000, group, ..shape(1) };
        assert_eq!(gang(&pool, &of_group(7), Score::BestFit), Some(vec![0]));
        assert_eq!(gang(&pool, &of_group(8), Score::BestFit), Some(vec![1]));
        assert_eq!(gang(&pool, &of_group(0), Score::BestFit), Some(vec![1]));
        assert!(!pool.has_room(&[GpuId(0)], Slice { group: 0, ..small }));
        // A GPU that everybody has left is everybody's again.
        pool.give(&[GpuId(0)], small);
        assert!(pool.has_room(&[GpuId(0)], Slice { group: 0, ..small }));
    }
}
