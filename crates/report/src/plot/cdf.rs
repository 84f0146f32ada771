//! How many jobs completed within, or waited at most, a given time: two cumulative distributions, one line a policy.

use super::{Named, WIDTH, policy_legend};
use crate::axis::{Scale, time_axis, value_axis};
use crate::palette::{SeriesLook, policy_colour};
use crate::record::JobOutcome;
use crate::svg::{Anchor, Frame, Style, Svg, compact};
use crate::units::{duration, mark, plural};
use rota_core::{Bound, Span, Time};
use std::fmt::Write;

/// Points of a line; more cannot be seen.
const POINTS_MAX: usize = 500;
/// From this ratio of the longest to a short time on, a linear axis would press most jobs against its left end.
const LOGARITHMIC_FROM: f64 = 60.0;

pub(crate) fn distributions(runs: &[Named<'_>], bound: &Bound) -> String {
    let mut svg = Svg::new(WIDTH);
    let title = match runs {
        [only] => format!("Completion and waiting times: {}", only.policy),
        _ => "Completion and waiting times".to_owned(),
    };
    let setting = format!("share of completed jobs; {} on {}", plural(bound.jobs.len(), "job"), bound.cluster.describe());
    let y = svg.head(&title, &setting);
    let y = svg.line_legend(y, &policy_legend(runs));
    let width = (WIDTH - 76.0 - 84.0 - 32.0) / 2.0;
    let left = Frame { x: 76.0, y: y + 24.0, width, height: 360.0 };
    let right = Frame { x: left.right() + 84.0, ..left };
    for (frame, heading, value) in [
        (left, "job completion time (arrival to completion)", JobOutcome::jct as fn(&JobOutcome, Time) -> Option<Span>),
        (right, "waiting time (no GPUs)", JobOutcome::wait),
    ] {
        svg.text(frame.x, y + 12.0, Style::HEADING, heading);
        let values = runs.iter().map(|named| sorted_seconds(named, bound, value)).collect::<Vec<_>>();
        draw(&mut svg, frame, &values);
    }
    svg.finish(left.bottom() + 54.0)
}

fn sorted_seconds(named: &Named<'_>, bound: &Bound, value: fn(&JobOutcome, Time) -> Option<Span>) -> Vec<f64> {
    let rows = named.run.jobs.iter().zip(&bound.jobs);
    let mut spans = rows.filter_map(|(record, job)| value(record, job.arrival)).collect::<Vec<_>>();
    spans.sort_unstable();
    spans.into_iter().map(Span::seconds).collect()
}

pub(super) fn draw(svg: &mut Svg, frame: Frame, values: &[Vec<f64>]) {
    let longest = values.iter().filter_map(|values| values.last()).copied().fold(0.0, f64::max);
    if values.iter().all(Vec::is_empty) {
        svg.empty_state(frame, "no job completed");
        return;
    }
    if longest == 0.0 {
        svg.empty_state(frame, "no job waited");
        return;
    }
    let scale = scale_for(values, longest);
    let vertical = value_axis(svg, frame, 100.0, |value| format!("{} %", mark(value)));
    time_axis(svg, frame, scale, if matches!(scale, Scale::Logarithmic { .. }) { "time, logarithmic" } else { "time" });
    for (position, values) in values.iter().enumerate().filter(|(_, values)| !values.is_empty()) {
        let path = steps(frame, scale, vertical, values);
        svg.path(&path, &SeriesLook::of(position).stroke(2.0));
    }
    if let [only] = values {
        for (fraction, name) in [(0.5, "median"), (0.9, "p90")] {
            let Some(value) = crate::summary::percentile(only, fraction) else { continue };
            let (x, y) = (scale.x(frame, value), vertical.y(frame, fraction * 100.0));
            let text = format!("{name} {}", duration(value));
            let fits_right = x + 12.0 + Style::LABEL.width(&text) < frame.right();
            let (anchor, shift) = if fits_right { (Anchor::Start, 9.0) } else { (Anchor::End, -9.0) };
            svg.path(
                &format!("M{} {}m-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0", compact(x), compact(y)),
                &format!(r#"fill="{}""#, policy_colour(0)),
            );
            svg.text(x + shift, y + 14.0, Style::LABEL.anchored(anchor).coloured(crate::svg::INK), &text);
        }
    }
}

fn scale_for(values: &[Vec<f64>], longest: f64) -> Scale {
    let short = |values: &Vec<f64>| {
        let positive = &values[values.partition_point(|&value| value <= 0.0)..];
        crate::summary::percentile(positive, 0.02)
    };
    let shortest = values.iter().filter_map(short).fold(longest, f64::min).max(longest / 1e7);
    if longest / shortest > LOGARITHMIC_FROM {
        Scale::Logarithmic { from: shortest, to: longest }
    } else {
        Scale::Linear { from: 0.0, to: longest }
    }
}

/// The line of a distribution: after the i-th of n sorted values it stands at i / n.
pub(super) fn steps(frame: Frame, scale: Scale, vertical: Scale, values: &[f64]) -> String {
    let stride = values.len().div_ceil(POINTS_MAX).max(1);
    let mut path = format!("M{} {}", compact(frame.x), compact(vertical.y(frame, 0.0)));
    let mut below = frame.x;
    let last = values.len() - 1;
    for index in (0..last).step_by(stride).chain([last]) {
        let x = scale.x(frame, values[index]).max(below);
        let y = vertical.y(frame, 100.0 * (index + 1) as f64 / values.len() as f64);
        let _ = write!(path, "H{}V{}", compact(x), compact(y));
        below = x;
    }
    let _ = write!(path, "H{}", compact(frame.right()));
    path
}
