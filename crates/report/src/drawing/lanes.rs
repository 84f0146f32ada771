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
    // How high the bars of each GPU reach; a whole GPU at least.
    let mut tops = vec![1000; bound.cluster.gpus.len()];
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
            tops[gpu.index()] = tops[gpu.index()].max(offset_milli + share_milli);
            neighbours.push((bar.end, offset_milli, share_milli));
            placed.push(Placed { bar: index, gpu, offset_milli, share_milli });
        }
    }
    // The free part of a GPU may be in pieces that are too small for a bar; then the lanes of that GPU are drawn thinner.
    for one in &mut placed {
        let top = tops[one.gpu.index()];
        one.offset_milli = one.offset_milli * 1000 / top;
        one.share_milli = one.share_milli * 1000 / top;
    }
    placed
}
