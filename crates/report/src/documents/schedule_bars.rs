//! The schedule as data, for pages that draw it themselves.

use crate::record::{BarEnd, Run};
use rota_core::Bound;
use serde::Serialize;

/// More bars than these are a picture rather than a list.
const BARS_MAX: usize = 20_000;

/// Who was on which GPU, in seconds since time zero of the run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ScheduleBars {
    /// The type of each GPU, in order.
    pub gpus: Vec<String>,
    /// The first moment of the run.
    pub from_s: f64,
    /// The last moment of the run.
    pub until_s: f64,
    /// The bars, in order of their ends; null where they are too many to be drawn one by one.
    pub bars: Option<Vec<ScheduleBar>>,
}

/// One stay of a job on GPUs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ScheduleBar {
    /// The job, as the trace names it.
    pub job: String,
    /// The job's type, or nothing.
    pub kind: String,
    /// The job's user, or nothing.
    pub user: String,
    /// The GPUs, by their place.
    pub gpus: Vec<u32>,
    /// The start of the stay.
    pub start_s: f64,
    /// The end of the stay.
    pub end_s: f64,
    /// `finished`, `preempted`, `evicted`, `failed`, or `cut` where the run ended first.
    pub end: &'static str,
}

/// The schedule of a run that has a timeline.
pub fn schedule_bars(run: &Run, bound: &Bound) -> ScheduleBars {
    let timeline = run.timeline.as_ref().filter(|timeline| timeline.bars.len() <= BARS_MAX);
    let bars = timeline.map(|timeline| {
        let bar = |bar: &crate::record::Bar| {
            let job = bound.job(bar.job);
            ScheduleBar {
                job: job.display_id(),
                kind: bound.names.text(job.kind).to_owned(),
                user: bound.names.text(job.user).to_owned(),
                gpus: timeline.gpus(bar).iter().map(|gpu| gpu.0).collect(),
                start_s: bar.start.seconds(),
                end_s: bar.end.seconds(),
                end: word(bar.ending),
            }
        };
        timeline.bars.iter().map(bar).collect()
    });
    let gpus = bound.cluster.gpus.iter().map(|gpu| bound.cluster.types[gpu.gpu_type.index()].name.clone()).collect();
    ScheduleBars { gpus, from_s: run.from.seconds(), until_s: run.until.seconds(), bars }
}

fn word(end: BarEnd) -> &'static str {
    match end {
        BarEnd::Finished => "finished",
        BarEnd::Preempted => "preempted",
        BarEnd::Evicted => "evicted",
        BarEnd::Failed => "failed",
        BarEnd::Cut => "cut",
    }
}
