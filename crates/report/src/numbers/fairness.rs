//! Finish-time fairness: how long a job took against how long it would have taken as a fluid 1/n of the cluster.
//!
//! The fluid world has the same number n(t) of active jobs as the real run had, and gives each of them the n-th part
//! of every GPU type. A job of gang size s (times its share) then progresses at
//! `sum_j speed_j N_j / max(n s, sum_j N_j)`, over the types j it may use: the rate depends on the job only through
//! its class. So the work a class would have done by each change of n is summed up once, and every job of the class
//! finds its end in that sum by bisection.

use crate::record::{JobStatus, Run};
use rota_core::{Bound, GpuTypeId, JobId, Shape};
use std::collections::HashMap;
use std::ops::Range;

/// The number of active jobs as a step function: `active[i]` from `seconds[i]` to `seconds[i + 1]`.
struct Load {
    seconds: Vec<f64>,
    active: Vec<u32>,
}

impl Load {
    fn of(run: &Run, bound: &Bound) -> Self {
        let pending = |index: usize| run.jobs[index].status == JobStatus::Pending;
        let arrivals = bound.jobs.iter().filter(|job| !pending(job.id.index())).map(|job| job.arrival).collect::<Vec<_>>();
        let submitted = run.jobs.iter().filter(|record| record.status != JobStatus::Pending);
        let mut ends = submitted.map(|record| record.end.unwrap_or(run.until)).collect::<Vec<_>>();
        ends.sort_unstable();
        let mut load = Self { seconds: Vec::with_capacity(2 * ends.len()), active: Vec::with_capacity(2 * ends.len()) };
        let (mut arrived, mut ended) = (0, 0);
        while ended < ends.len() {
            let now = arrivals.get(arrived).map_or(ends[ended], |&arrival| arrival.min(ends[ended]));
            while arrivals.get(arrived) == Some(&now) {
                arrived += 1;
            }
            while ends.get(ended) == Some(&now) {
                ended += 1;
            }
            load.seconds.push(now.seconds());
            load.active.push(arrived.saturating_sub(ended).max(1) as u32);
        }
        load
    }
}

/// What the fluid rate of a job depends on.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Class {
    gpus: u32,
    share_milli: u16,
    types: rota_core::TypeSet,
    speeds: u32,
}

impl Class {
    fn of(shape: &Shape) -> Self {
        Self { gpus: shape.gpus, share_milli: shape.share.0, types: shape.types, speeds: shape.speeds }
    }

    /// Work per second as (numerator, size, GPUs): `numerator / max(n * size, GPUs)`.
    fn rate(self, bound: &Bound, counts: &[f64]) -> (f64, f64, f64) {
        let speeds = &bound.speeds[self.speeds as usize];
        let size = f64::from(self.gpus) * f64::from(self.share_milli) / 1000.0;
        let work = self.types.iter().map(|kind| speeds[kind.index()] * counts[kind.index()]).sum();
        let gpus = self.types.iter().map(|kind| counts[kind.index()]).sum();
        (work, size, gpus)
    }
}

/// The completed jobs of `window` by class.
fn by_class(run: &Run, bound: &Bound, window: Range<usize>) -> Vec<(Class, Vec<JobId>)> {
    let mut classes: Vec<(Class, Vec<JobId>)> = Vec::new();
    let mut positions = HashMap::new();
    let class_of_shape = bound.shapes.iter().map(|shape| {
        let class = Class::of(shape);
        *positions.entry(class).or_insert_with(|| {
            classes.push((class, Vec::new()));
            classes.len() - 1
        })
    });
    let class_of_shape = class_of_shape.collect::<Vec<_>>();
    for index in window {
        if run.jobs[index].status == JobStatus::Completed {
            classes[class_of_shape[bound.shape_of[index].index()]].1.push(JobId::from_index(index));
        }
    }
    classes
}

/// The ratio rho of every completed job of `window`, in no particular order: above 1 the job would have been better
/// off with its fluid share.
pub fn fairness_ratios(run: &Run, bound: &Bound, window: Range<usize>) -> Vec<f64> {
    fairness_seconds(run, bound, window).into_iter().map(|(jct, fluid)| jct / fluid).collect()
}

/// For every completed job of `window` its completion time, and the one that it would have had with its fluid share.
pub(crate) fn fairness_seconds(run: &Run, bound: &Bound, window: Range<usize>) -> Vec<(f64, f64)> {
    let load = Load::of(run, bound);
    let counts = (0..bound.cluster.types.len()).map(|index| bound.cluster.count_of(GpuTypeId::from_index(index)) as f64);
    let counts = counts.collect::<Vec<_>>();
    let mut times = Vec::with_capacity(window.len());
    let mut done_seconds = Vec::with_capacity(load.seconds.len());
    for (class, jobs) in by_class(run, bound, window) {
        if jobs.is_empty() {
            continue;
        }
        let (work, size, gpus) = class.rate(bound, &counts);
        let rate = |active: u32| work / (f64::from(active) * size).max(gpus);
        done_seconds.clear();
        let mut done = 0.0;
        for (position, &active) in load.active.iter().enumerate() {
            done_seconds.push(done);
            let next = load.seconds.get(position + 1).copied().unwrap_or(load.seconds[position]);
            done += (next - load.seconds[position]) * rate(active);
        }
        // Jobs of a class come in order of arrival, so each search goes on from the last.
        let mut arrived = 0;
        for id in jobs {
            let job = bound.job(id);
            let arrival_seconds = job.arrival.seconds();
            arrived += gallop(&load.seconds[arrived..], arrival_seconds);
            let goal = done_seconds[arrived] + bound.truth(job.id).work.seconds();
            // Last change of n before the work is done. After the last end of the run n is 1.
            let last = arrived + gallop(&done_seconds[arrived..], goal).saturating_sub(1);
            let fluid_end = load.seconds[last] + (goal - done_seconds[last]) / rate(load.active[last]);
            if let Some(jct) = run.jobs[id.index()].jct(job.arrival) {
                times.push((jct.seconds(), fluid_end - arrival_seconds));
            }
        }
    }
    times
}

/// How many leading values are below `goal`. Most jobs are short against a run, so the search starts near the front.
fn gallop(sorted: &[f64], goal: f64) -> usize {
    if sorted.first().is_none_or(|&first| first >= goal) {
        return 0;
    }
    let mut reach = 1;
    while reach < sorted.len() && sorted[reach] < goal {
        reach *= 2;
    }
    let from = reach / 2;
    from + sorted[from..sorted.len().min(reach + 1)].partition_point(|&value| value < goal)
}
