//! A schedule as data, for the page that draws it itself.

use rota_core::Bound;
use rota_daemon::api::{ScheduleBar, ScheduleBars, ScheduleEnd};
use rota_report::{Bar, BarEnd, Run};

/// A page draws no more bars than these one by one.
const BARS_MAX: usize = 20_000;

/// The schedule of a run that has a timeline.
pub fn schedule_bars(run: &Run, bound: &Bound) -> ScheduleBars {
    let timeline = run.timeline.as_ref().filter(|timeline| timeline.bars.len() <= BARS_MAX);
    let bars = timeline.map(|timeline| {
        let bar = |bar: &Bar| {
            let job = bound.job(bar.job);
            ScheduleBar {
                job: job.display_id(),
                kind: bound.names.text(job.kind).to_owned(),
                user: bound.names.text(job.user).to_owned(),
                gpus: timeline.gpus(bar).iter().map(|gpu| gpu.0).collect(),
                start_s: bar.start.seconds(),
                end_s: bar.end.seconds(),
                end: end_of(bar.ending),
            }
        };
        timeline.bars.iter().map(bar).collect()
    });
    let gpus = bound.cluster.gpus.iter().map(|gpu| bound.cluster.types[gpu.gpu_type.index()].name.clone()).collect();
    ScheduleBars { gpus, from_s: run.from.seconds(), until_s: run.until.seconds(), bars }
}

fn end_of(end: BarEnd) -> ScheduleEnd {
    match end {
        BarEnd::Finished => ScheduleEnd::Finished,
        BarEnd::Preempted => ScheduleEnd::Preempted,
        BarEnd::Evicted => ScheduleEnd::Evicted,
        BarEnd::Failed => ScheduleEnd::Failed,
        BarEnd::Cut => ScheduleEnd::Cut,
    }
}
