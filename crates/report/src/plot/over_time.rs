//! Utilisation, power and the queue over time: three panels on one time axis, one line a policy.

use super::{Named, WIDTH, policy_legend};
use crate::axis::{Marks, Scale, time_axis_with, value_axis};
use crate::palette::SeriesLook;
use crate::series::{Series, series};
use crate::svg::{Frame, Style, Svg, compact};
use crate::units::{duration, mark, plural};
use rota_core::Bound;
use std::fmt::Write;

/// A panel: its heading, the values, what they are multiplied with, and how an axis value is written.
struct Panel {
    heading: &'static str,
    values: fn(&Series) -> &[f32],
    factor: f64,
    form: fn(f64) -> String,
}

pub(crate) fn utilisation_over_time(runs: &[Named<'_>], bound: &Bound) -> String {
    // Many noisy lines in one panel are told apart only when each is calm.
    let slices_max = if runs.len() > 1 { 260 } else { 900 };
    let curves = runs.iter().map(|named| series(named.run, bound, slices_max)).collect::<Vec<_>>();
    let from = runs.iter().map(|named| named.run.from.seconds()).reduce(f64::min).unwrap_or(0.0);
    let to = runs.iter().map(|named| named.run.until.seconds()).reduce(f64::max).unwrap_or(0.0);
    let scale = Scale::Linear { from, to };
    let mut svg = Svg::new(WIDTH);
    let title = match runs {
        [only] => format!("Utilisation, power and queue: {}", only.policy),
        _ => "Utilisation, power and queue".to_owned(),
    };
    let averaged = curves.iter().flatten().find(|curve| curve.averaged);
    let smoothing = averaged.map(|curve| format!("; means over {}", duration(curve.seconds[1] - curve.seconds[0])));
    let setting = format!("{} on {}{}", plural(bound.jobs.len(), "job"), bound.cluster.describe(), smoothing.unwrap_or_default());
    let y = svg.head(&title, &setting);
    let mut y = svg.line_legend(y, &policy_legend(runs));
    if curves.iter().all(Option::is_none) {
        svg.empty_state(Frame { x: 24.0, y, width: WIDTH - 48.0, height: 160.0 }, "no timeline was recorded in this run");
        return svg.finish(y + 184.0);
    }
    let peak_watts = curves.iter().flatten().flat_map(|curve| &curve.watts).fold(0.0_f32, |a, &b| a.max(b));
    let power = if peak_watts >= 1000.0 { ("power (kW)", 1e-3) } else { ("power (W)", 1.0) };
    let panels = [
        Panel {
            heading: "GPUs allocated",
            values: |curve| &curve.utilisation,
            factor: 100.0,
            form: |value| format!("{} %", mark(value)),
        },
        Panel { heading: power.0, values: |curve| &curve.watts, factor: power.1, form: mark },
        Panel { heading: "jobs waiting", values: |curve| &curve.waiting, factor: 1.0, form: mark },
    ];
    for (number, panel) in panels.iter().enumerate() {
        let frame = Frame { x: 76.0, y: y + 28.0, width: WIDTH - 108.0, height: 170.0 };
        svg.text(24.0, y + 12.0, Style::HEADING, panel.heading);
        let is_last = number + 1 == panels.len();
        time_axis_with(&mut svg, frame, scale, "time", if is_last { Marks::Shown } else { Marks::Hidden });
        draw_panel(&mut svg, frame, scale, panel, &curves);
        y = frame.bottom() + if is_last { 54.0 } else { 34.0 };
    }
    svg.finish(y)
}

fn draw_panel(svg: &mut Svg, frame: Frame, scale: Scale, panel: &Panel, curves: &[Option<Series>]) {
    let values = |curve: &Series| (panel.values)(curve).iter().map(|&value| f64::from(value) * panel.factor).collect::<Vec<_>>();
    let peak = curves.iter().flatten().flat_map(values).fold(0.0, f64::max);
    let top = if panel.heading == "GPUs allocated" { 100.0 } else { peak.max(1e-9) };
    let vertical = value_axis(svg, frame, if peak == 0.0 && top < 1.0 { 1.0 } else { top }, panel.form);
    for (position, curve) in curves.iter().enumerate() {
        let Some(curve) = curve else { continue };
        let line = curve_path(frame, scale, vertical, curve, &values(curve));
        let look = SeriesLook::of(position);
        if curves.len() == 1 {
            let (start, end) = (scale.x(frame, curve.seconds[0]), scale.x(frame, *curve.seconds.last().unwrap_or(&0.0)));
            let area = format!("{line}L{} {}H{}z", compact(end), compact(frame.bottom()), compact(start));
            svg.path(&area, &format!(r#"fill="{}" fill-opacity="0.14""#, look.colour));
        }
        svg.path(&line, &look.stroke(1.5));
    }
}

/// Exact series are steps; means over slices are joined at the middles of the slices.
fn curve_path(frame: Frame, scale: Scale, vertical: Scale, curve: &Series, values: &[f64]) -> String {
    let mut path = String::new();
    for (index, &value) in values.iter().enumerate() {
        let (from, until) = (curve.seconds[index], curve.seconds[index + 1]);
        let y = compact(vertical.y(frame, value));
        let letter = if index == 0 { 'M' } else { 'L' };
        if curve.averaged {
            let is_edge = index == 0 || index + 1 == values.len();
            let at = if is_edge { [from, until][usize::from(index > 0)] } else { f64::midpoint(from, until) };
            let _ = write!(path, "{letter}{} {y}", compact(scale.x(frame, at)));
        } else {
            let _ = write!(path, "{letter}{} {y}H{}", compact(scale.x(frame, from)), compact(scale.x(frame, until)));
        }
    }
    path
}
