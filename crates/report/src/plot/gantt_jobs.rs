//! The schedule by job: one row a job in order of arrival, pale while it waits and solid while it runs.

use super::{WIDTH, setting};
use crate::axis::{Scale, time_axis};
use crate::palette::{FAILED, JobColours, WAITING};
use crate::record::{JobStatus, Run};
use crate::svg::{Anchor, Frame, Style, Svg};
use crate::units::plural;
use rota_core::{Bound, JobId};

/// More rows than this would be thinner than a hair; every n-th job is shown instead.
const ROWS_MAX: usize = 300;
/// Bars a picture may hold: jobs that are preempted often have many.
const BARS_MAX: usize = 12_000;

pub(crate) fn gantt_by_job(policy: &str, run: &Run, bound: &Bound) -> String {
    let mut svg = Svg::new(WIDTH);
    let title = format!("Schedule by job: {policy}");
    let Some(timeline) = run.timeline.as_ref().filter(|_| run.until > run.from) else {
        let y = svg.head(&title, &setting(run, bound));
        let reason = if run.timeline.is_some() { "no job ran" } else { "no timeline was recorded in this run" };
        svg.empty_state(Frame { x: 24.0, y, width: WIDTH - 48.0, height: 160.0 }, reason);
        return svg.finish(y + 184.0);
    };
    let per_job = timeline.bars.len().div_ceil(bound.jobs.len().max(1)).max(1);
    let stride = bound.jobs.len().div_ceil((BARS_MAX / per_job).clamp(20, ROWS_MAX)).max(1);
    let rows = bound.jobs.len().div_ceil(stride);
    let row_height = (560.0 / rows.max(1) as f64).clamp(2.5, 22.0);
    let colours = JobColours::of(bound);
    let sampled = match stride {
        1 => "in order of arrival".to_owned(),
        _ => format!("every {stride}th shown, in order of arrival ({})", plural(rows, "job")),
    };
    let y = svg.head(&title, &format!("{}; {sampled}", setting(run, bound)));
    let mut entries = vec![(WAITING.to_owned(), "waiting".to_owned())];
    entries.extend_from_slice(colours.legend());
    if run.jobs.iter().any(|record| matches!(record.status, JobStatus::Failed(_))) {
        entries.push((FAILED.to_owned(), "failed".to_owned()));
    }
    let y = svg.legend(y, &entries) + 4.0;
    let frame = Frame { x: 120.0, y, width: WIDTH - 152.0, height: row_height * rows as f64 };
    let scale = Scale::Linear { from: run.from.seconds(), to: run.until.seconds() };
    time_axis(&mut svg, frame, scale, "time");
    let gap = if row_height > 6.0 { 2.0 } else { 0.4 };
    let row_frame = |row: usize, from: f64, until: f64| {
        let x = scale.x(frame, from);
        let width = (scale.x(frame, until) - x).max(0.8);
        Frame { x, y: frame.y + row_height * row as f64, width, height: row_height - gap }
    };
    for row in 0..rows {
        draw_stay(&mut svg, run, bound, JobId::from_index(row * stride), row_frame, row, row_height);
    }
    for bar in timeline.bars.iter().filter(|bar| bar.job.index() % stride == 0) {
        let colour = JobColours::colour(colours.index(bound, bar.job));
        svg.rect(row_frame(bar.job.index() / stride, bar.start.seconds(), bar.end.seconds()), colour);
    }
    for row in 0..rows {
        let record = &run.jobs[row * stride];
        if let (JobStatus::Failed(_), Some(end)) = (record.status, record.end) {
            let at = row_frame(row, end.seconds(), end.seconds());
            svg.rect(Frame { x: at.x - 1.5, width: 3.0, ..at }, FAILED);
        }
    }
    svg.finish(frame.bottom() + 54.0)
}

/// The pale bar from arrival to end, and the job's name at the left.
fn draw_stay(
    svg: &mut Svg,
    run: &Run,
    bound: &Bound,
    job: JobId,
    row_frame: impl Fn(usize, f64, f64) -> Frame,
    row: usize,
    row_height: f64,
) {
    let record = &run.jobs[job.index()];
    let arrival = bound.job(job).arrival.seconds();
    let style = Style::LABEL.sized((row_height - 1.0).clamp(8.0, 11.0)).anchored(Anchor::End);
    if row_height >= 9.0 {
        let y = row_frame(row, arrival, arrival).y + row_height / 2.0 + style.size * 0.33;
        svg.text(112.0, y, style, &style.fitted(&bound.job(job).display_id(), 90.0));
    }
    if record.status != JobStatus::Pending {
        svg.rect(row_frame(row, arrival, record.end.unwrap_or(run.until).seconds()), WAITING);
    }
}
