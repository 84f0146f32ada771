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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Recorder, RecorderOptions};
    use rota_core::bind::BadJobs;
    use rota_core::{Cluster, End, Event, EventKind, GpuList, Job, JobId, MilliGpu, Span, ThroughputTable, Workload};

    /// A schedule of jobs that share one GPU and leave holes of all sizes.
    fn packed(seed: u64) -> (Bound, Timeline) {
        let mut state = seed;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let mut workload = Workload::new("packed");
        let mut events = Vec::new();
        let mut present: Vec<(u64, JobId, u64)> = Vec::new();
        for second in 0..200_u64 {
            present.retain(|&(end, job, _)| {
                if end <= second {
                    events.push(Event { time_ns: Time(second * 1_000_000_000), kind: EventKind::ended(job, End::Finished) });
                }
                end > second
            });
            let share = 50 + random(600);
            let used = present.iter().map(|(_, _, share)| share).sum::<u64>();
            if used + share > 1000 {
                continue;
            }
            let job = JobId::from_index(workload.jobs.len());
            let length = 1 + random(30);
            let time_ns = Time(second * 1_000_000_000);
            workload.push(Job { share: MilliGpu(share as u16), ..Job::new(time_ns, Span::from_whole_seconds(length)) });
            events.push(Event { time_ns, kind: EventKind::Submitted { job } });
            events.push(Event { time_ns, kind: EventKind::started(job, GpuList::from_iter([GpuId(0)])) });
            present.push((second + length, job, share));
        }
        workload.finish();
        let cluster = Cluster::from_spec("t4:1", 8).unwrap();
        let bound = Bound::new(workload, cluster, &ThroughputTable::new("none"), BadJobs::Refuse).unwrap();
        let mut recorder = Recorder::new(&bound, RecorderOptions { timeline: true, restart_cost: Span::ZERO });
        for event in &events {
            recorder.observe(event);
        }
        let timeline = recorder.finish(Time(230_000_000_000)).timeline.unwrap();
        (bound, timeline)
    }

    #[test]
    fn no_two_bars_of_a_gpu_overlap_and_none_leaves_its_row() {
        for seed in 0..50 {
            let (bound, timeline) = packed(seed);
            let placed = place(&timeline, &bound);
            for (position, one) in placed.iter().enumerate() {
                assert!(one.offset_milli + one.share_milli <= 1000, "seed {seed}");
                for other in &placed[..position] {
                    let (a, b) = (&timeline.bars[one.bar], &timeline.bars[other.bar]);
                    let in_time = a.start < b.end && b.start < a.end;
                    let in_row = one.offset_milli < other.offset_milli + other.share_milli
                        && other.offset_milli < one.offset_milli + one.share_milli;
                    assert!(!(in_time && in_row), "seed {seed}: jobs {:?} and {:?}", a.job, b.job);
                }
            }
        }
    }
}
