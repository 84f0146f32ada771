//! Sub-lanes of shared GPUs: which part of a GPU's row each bar takes, so that bars of jobs that share it do not overlap.

use crate::record::Timeline;
use rota_core::{Bound, GpuId, Time};

/// One bar on one GPU, placed in its row.
pub(crate) struct Placed {
    /// Position of the bar in the timeline.
    pub bar: usize,
    pub gpu: GpuId,
    /// Lower edge and height in the row, in thousandths.
    pub offset_milli: u32,
    pub share_milli: u32,
}

/// Every bar on every GPU, in order of start. The lowest gap that is wide enough is taken, so whole-GPU jobs fill rows
/// and sharing ones stack.
pub(crate) fn place(timeline: &Timeline, bound: &Bound) -> Vec<Placed> {
    let mut order = (0..timeline.bars.len()).collect::<Vec<_>>();
    order.sort_by_key(|&index| (timeline.bars[index].start, timeline.bars[index].job));
    // Bars now on each GPU: until when, from where, how high.
    let mut present: Vec<Vec<(Time, u32, u32)>> = vec![Vec::new(); bound.cluster.gpus.len()];
    let mut placed = Vec::with_capacity(order.len());
    for index in order {
        let bar = &timeline.bars[index];
        let share_milli = u32::from(bound.job(bar.job).share.0);
        for &gpu in timeline.gpus(bar) {
            let neighbours = &mut present[gpu.index()];
            neighbours.retain(|&(end, _, _)| end > bar.start);
            neighbours.sort_unstable_by_key(|&(_, offset, _)| offset);
            let mut offset_milli = 0;
            for &(_, offset, height) in neighbours.iter() {
                if offset_milli + share_milli > offset {
                    offset_milli = offset_milli.max(offset + height);
                }
            }
            // The free part may be in pieces that are too small; then the bar covers part of a neighbour.
            offset_milli = offset_milli.min(1000_u32.saturating_sub(share_milli));
            neighbours.push((bar.end, offset_milli, share_milli));
            placed.push(Placed { bar: index, gpu, offset_milli, share_milli });
        }
    }
    placed
}
