//! Curves over time from the bars of a schedule: how many GPUs were allocated, what they drew, how many jobs waited.
//!
//! A short schedule gives its exact steps. A long one is averaged over equal slices of time, by adding each bar to
//! the slices at its two ends and to a difference array between them, so the cost does not depend on its length.

use crate::record::Run;
use rota_core::{Bound, Time};

/// Values that hold from one moment to the next.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Series {
    /// Borders of the slices, one more than there are values.
    pub seconds: Vec<f64>,
    /// Share of the GPUs that was allocated.
    pub utilisation: Vec<f32>,
    /// Power of all GPUs.
    pub watts: Vec<f32>,
    /// Jobs that had arrived and had no GPUs.
    pub waiting: Vec<f32>,
    /// Whether the values are means over slices rather than exact steps.
    pub averaged: bool,
}

/// Sums of rectangles over slices of time.
pub(crate) struct Slices<'a> {
    borders: &'a [f64],
    inside: Vec<f64>,
    change: Vec<f64>,
}

impl<'a> Slices<'a> {
    pub fn new(borders: &'a [f64]) -> Self {
        Self { borders, inside: vec![0.0; borders.len()], change: vec![0.0; borders.len() + 1] }
    }

    /// Adds `height` from one moment to another.
    pub fn add(&mut self, from: f64, until: f64, height: f64) {
        let (Some(&start), Some(&end)) = (self.borders.first(), self.borders.last()) else {
            return;
        };
        let (from, until) = (from.max(start), until.min(end));
        if from >= until {
            return;
        }
        let first = self.slice_of(from);
        let last = self.slice_of(until);
        if first == last {
            self.inside[first] += (until - from) * height;
        } else {
            self.inside[first] += (self.borders[first + 1] - from) * height;
            self.inside[last] += (until - self.borders[last]) * height;
            self.change[first + 1] += height;
            self.change[last] -= height;
        }
    }

    /// Mean height of each slice.
    pub fn means(&self) -> Vec<f64> {
        let mut level = 0.0;
        let widths = self.borders.windows(2).map(|pair| pair[1] - pair[0]);
        let sums = widths.enumerate().map(|(index, width)| {
            level += self.change[index];
            // Heights that cancel leave dust behind; a curve must not dip below zero for it.
            ((self.inside[index] / width) + level).max(0.0)
        });
        sums.collect()
    }

    fn slice_of(&self, seconds: f64) -> usize {
        let last = self.borders.len().saturating_sub(2);
        // Equal slices are guessed and corrected; steps of unequal width are searched.
        let width = (self.borders[last + 1] - self.borders[0]) / (last + 1) as f64;
        let guess = (((seconds - self.borders[0]) / width) as usize).min(last);
        if self.borders[guess] <= seconds && seconds <= self.borders[guess + 1] {
            return guess;
        }
        self.borders.partition_point(|&border| border <= seconds).saturating_sub(1).min(last)
    }
}

/// `count` equal slices of the time of a run.
pub(crate) fn equal_borders(from: Time, until: Time, count: usize) -> Vec<f64> {
    let (from, until) = (from.seconds(), until.seconds());
    (0..=count).map(|index| from + (until - from) * index as f64 / count as f64).collect()
}

/// The curves of a run in at most `slices_max` slices; `None` without a timeline or without any time.
pub(crate) fn series(run: &Run, bound: &Bound, slices_max: usize) -> Option<Series> {
    let timeline = run.timeline.as_ref()?;
    if run.until <= run.from {
        return None;
    }
    let arrivals = bound.jobs.iter().map(|job| job.arrival);
    let mut moments = Vec::new();
    let averaged = 2 * timeline.bars.len() + bound.jobs.len() > 2 * slices_max;
    if !averaged {
        moments.extend(timeline.bars.iter().flat_map(|bar| [bar.start, bar.end]).chain(arrivals));
        moments.extend([run.from, run.until]);
        moments.retain(|moment| (run.from..=run.until).contains(moment));
        moments.sort_unstable();
        moments.dedup();
    }
    let averaged = averaged || moments.len() > slices_max;
    let seconds =
        if averaged { equal_borders(run.from, run.until, slices_max) } else { moments.into_iter().map(Time::seconds).collect() };
    Some(fill(run, bound, seconds, averaged))
}

fn fill(run: &Run, bound: &Bound, seconds: Vec<f64>, averaged: bool) -> Series {
    let gpus = bound.cluster.gpus.len() as f64;
    let idle_watts = bound.cluster.gpus.iter().map(|gpu| bound.cluster.types[gpu.gpu_type.index()].idle_watts).sum::<f64>();
    let mut allocated = Slices::new(&seconds);
    let mut dynamic_watts = Slices::new(&seconds);
    let mut waiting = Slices::new(&seconds);
    for (record, job) in run.jobs.iter().zip(&bound.jobs) {
        if record.status != crate::record::JobStatus::Pending {
            waiting.add(job.arrival.seconds(), record.end.unwrap_or(run.until).seconds(), 1.0);
        }
    }
    if let Some(timeline) = &run.timeline {
        for bar in &timeline.bars {
            let job = bound.job(bar.job);
            let gang = timeline.gpus(bar);
            let (from, until, share) = (bar.start.seconds(), bar.end.seconds(), job.share.fraction());
            let watts = gang.iter().map(|&gpu| bound.cluster.type_of(gpu)).map(|kind| kind.full_watts - kind.idle_watts);
            allocated.add(from, until, share * gang.len() as f64 / gpus);
            dynamic_watts.add(from, until, share * job.utilisation * watts.sum::<f64>());
            waiting.add(from, until, -1.0);
        }
    }
    let narrow = |values: Vec<f64>, base: f64| values.into_iter().map(|value| (value + base) as f32).collect();
    let utilisation = narrow(allocated.means(), 0.0);
    let watts = narrow(dynamic_watts.means(), idle_watts);
    let waiting = narrow(waiting.means(), 0.0);
    Series { seconds, utilisation, watts, waiting, averaged }
}
