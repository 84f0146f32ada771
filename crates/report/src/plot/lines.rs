//! A time against a load, one line a policy, with the spread over seeds as a band: what a sweep shows.

use super::WIDTH;
use crate::axis::{Scale, value_axis};
use crate::palette::SeriesLook;
use crate::svg::{AXIS, Anchor, Frame, GRID, INK, Style, Svg, compact};
use crate::units::{mark, time_unit};
use std::fmt::Write;

/// One line of a chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// The line's name in the legend.
    pub name: String,
    /// The line's points, by ascending x.
    pub points: Vec<LinePoint>,
}

/// A point: the mean over several seeds, and how far they lie apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinePoint {
    /// The load at this point.
    pub x: f64,
    /// Mean over the seeds, in seconds.
    pub mean: f64,
    /// Least of the seeds.
    pub least: f64,
    /// Most of the seeds.
    pub most: f64,
}

impl LinePoint {
    /// The point of these values at x.
    pub fn over(x: f64, values: &[f64]) -> Self {
        let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Self { x, mean, least, most }
    }
}

/// A chart of lines, with the words around it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LineChart {
    /// The title above the chart.
    pub title: String,
    /// The name of the x axis, with its unit.
    pub x_name: String,
    /// The name of the y axis; its unit is added.
    pub y_name: String,
    /// The lines, one for each policy.
    pub lines: Vec<Line>,
}

/// The chart as SVG text.
pub(crate) fn lines_chart(chart: &LineChart) -> String {
    let lines = &chart.lines;
    let mut svg = Svg::new(WIDTH);
    let is_one_seed = lines.iter().flat_map(|line| &line.points).all(|point| point.least.total_cmp(&point.most).is_eq());
    let y = svg.head(&chart.title, if is_one_seed { "one seed" } else { "mean over the seeds; the band spans the seeds" });
    let y = svg.line_legend(y, &lines.iter().map(|line| line.name.as_str()).collect::<Vec<_>>());
    let frame = Frame { x: 84.0, y: y + 26.0, width: WIDTH - 84.0 - 40.0, height: 420.0 };
    let points = || lines.iter().flat_map(|line| &line.points);
    if points().next().is_none() {
        svg.empty_state(frame, "no run completed a job");
        return svg.finish(frame.bottom() + 40.0);
    }
    let highest = points().map(|point| point.most).fold(0.0, f64::max);
    let unit = time_unit(highest);
    let vertical = value_axis(&mut svg, frame, highest / unit.seconds, mark);
    svg.text(24.0, frame.y - 8.0, Style::LABEL.coloured(INK), &format!("{} ({})", chart.y_name, unit.name));
    let horizontal = x_axis(&mut svg, frame, &chart.x_name, points().map(|point| point.x));
    let y_of = |seconds: f64| vertical.y(frame, seconds / unit.seconds);
    for (position, line) in lines.iter().enumerate() {
        draw(&mut svg, line, position, |x| horizontal.x(frame, x), y_of);
    }
    svg.finish(frame.bottom() + 54.0)
}

/// Marks at the loads there are, and a scale that leaves room beside the outermost.
fn x_axis(svg: &mut Svg, frame: Frame, name: &str, loads: impl Iterator<Item = f64>) -> Scale {
    let mut loads = loads.collect::<Vec<_>>();
    loads.sort_by(f64::total_cmp);
    loads.dedup();
    let (first, last) = (loads[0], loads[loads.len() - 1]);
    let margin = if last > first { (last - first) * 0.04 } else { 1.0 };
    let scale = Scale::Linear { from: first - margin, to: last + margin };
    let style = Style::LABEL.anchored(Anchor::Middle);
    let mut free_from = f64::NEG_INFINITY;
    for load in loads {
        let x = scale.x(frame, load);
        svg.line((x, frame.y), (x, frame.bottom()), GRID);
        let words = mark(load);
        if x - style.width(&words) / 2.0 > free_from {
            svg.text(x, frame.bottom() + 16.0, style, &words);
            free_from = x + style.width(&words) / 2.0 + 6.0;
        }
    }
    svg.line((frame.x, frame.bottom()), (frame.right(), frame.bottom()), AXIS);
    svg.text(frame.x + frame.width / 2.0, frame.bottom() + 34.0, style.coloured(INK), name);
    scale
}

fn draw(svg: &mut Svg, line: &Line, position: usize, x_of: impl Fn(f64) -> f64, y_of: impl Fn(f64) -> f64) {
    let at = |x: f64, y: f64| format!("{} {}", compact(x_of(x)), compact(y_of(y)));
    let look = SeriesLook::of(position);
    let there = line.points.iter().map(|point| at(point.x, point.most));
    let back = line.points.iter().rev().map(|point| at(point.x, point.least));
    let band = there.chain(back).collect::<Vec<_>>().join("L");
    if line.points.len() > 1 && look.is_strong {
        svg.path(&format!("M{band}Z"), &format!(r#"fill="{}" fill-opacity="0.12""#, look.colour));
    }
    let path = line.points.iter().map(|point| at(point.x, point.mean)).collect::<Vec<_>>().join("L");
    if !path.is_empty() {
        svg.path(&format!("M{path}"), &look.stroke(2.0));
    }
    let mut dots = String::new();
    for point in &line.points {
        let _ = write!(dots, "M{}m-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0 -7 0", at(point.x, point.mean));
    }
    let pale = if look.is_strong { "" } else { r#" fill-opacity="0.4""# };
    svg.path(&dots, &format!(r#"fill="{}"{pale}"#, look.colour));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_of_nothing_says_so_and_one_of_something_draws_every_line() {
        assert!(lines_chart(&LineChart::default()).contains("no run completed a job"));
        let line = |name: &str| Line {
            name: name.to_owned(),
            points: vec![LinePoint::over(1.0, &[10.0, 20.0]), LinePoint::over(2.0, &[30.0])],
        };
        let chart = LineChart {
            title: "title".to_owned(),
            x_name: "jobs per hour".to_owned(),
            y_name: "mean JCT".to_owned(),
            lines: vec![line("a<b"), line("c")],
        };
        let svg = lines_chart(&chart);
        assert!(svg.contains("a&lt;b") && svg.contains("jobs per hour") && svg.contains("mean JCT (s)"));
        // Two lines, and each of them once more in the legend.
        assert_eq!(svg.matches("stroke-width=\"2\"").count(), 4);
        assert!(resvg::usvg::Tree::from_str(&svg, &resvg::usvg::Options::default()).is_ok());
    }

    #[test]
    fn a_line_and_its_entry_in_the_legend_look_alike_and_six_are_strong() {
        let point = LinePoint::over(1.0, &[10.0]);
        let line = |number: usize| Line { name: format!("policy {number}"), points: vec![point] };
        let svg = lines_chart(&LineChart { lines: (0..14).map(line).collect(), ..LineChart::default() });
        for position in 0..14 {
            let look = SeriesLook::of(position).stroke(2.0);
            assert_eq!(svg.matches(look.as_str()).count(), 2, "policy {position}: {look}");
        }
        let strong = (0..14).filter(|&position| SeriesLook::of(position).is_strong).count();
        assert_eq!(strong, 6);
    }
}
