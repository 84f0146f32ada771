//! Points and lines over a plain axis: what was learned when, and how choices compare from case to case.

use super::WIDTH;
use crate::axis::Scale;
use crate::palette::policy_colour;
use crate::svg::{AXIS, Anchor, Frame, GRID, INK, Style, Svg, compact};
use crate::units::{mark, nice_step};
use std::fmt::Write;

/// How a series is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// Small pale dots.
    Dots,
    /// A line through the points.
    Line,
    /// A plus at each point.
    Plus,
    /// A cross at each point.
    Cross,
    /// A triangle at each point.
    Triangle,
}

/// Points that belong together.
#[derive(Clone, Debug, PartialEq)]
pub struct PointSeries {
    /// The name in the legend.
    pub name: String,
    /// The points: x and y.
    pub points: Vec<(f64, f64)>,
    /// How they are drawn.
    pub look: Look,
    /// The colour, by its place in the palette.
    pub colour: usize,
}

/// An arrow: where it begins, where it points, and its name.
pub type Arrow = ((f64, f64), (f64, f64), String);

/// A chart of points.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PointChart {
    /// The title above the chart.
    pub title: String,
    /// What is shown, in a line.
    pub subtitle: String,
    /// The name of the x axis.
    pub x_name: String,
    /// The name of the y axis.
    pub y_name: String,
    /// The ends of the y axis; those of the points where nothing is said.
    pub y_range: Option<(f64, f64)>,
    /// Names of the x values 0, 1, …; a plain number axis where there are none.
    pub cases: Vec<String>,
    /// The series, drawn in this order.
    pub series: Vec<PointSeries>,
    /// A dashed line at this height, with its name.
    pub level: Option<(f64, String)>,
    /// An arrow between two points, with its name.
    pub arrow: Option<Arrow>,
}

/// The chart as SVG text.
pub fn point_chart(chart: &PointChart) -> String {
    let mut svg = Svg::new(WIDTH);
    let y = svg.head(&chart.title, &chart.subtitle);
    let entry = |series: &PointSeries| (policy_colour(series.colour).to_owned(), series.name.clone());
    let y = svg.legend(y, &chart.series.iter().map(entry).collect::<Vec<_>>());
    let frame = Frame { x: 84.0, y: y + 16.0, width: WIDTH - 84.0 - 40.0, height: 420.0 };
    let points = || chart.series.iter().flat_map(|series| series.points.iter().copied());
    if points().next().is_none() {
        svg.empty_state(frame, "there is nothing to show");
        return svg.finish(frame.bottom() + 40.0);
    }
    let ends = |value: fn((f64, f64)) -> f64| {
        let values = || points().map(value);
        (values().fold(f64::INFINITY, f64::min), values().fold(f64::NEG_INFINITY, f64::max))
    };
    let horizontal = match chart.cases.len() {
        0 => plain_axis(&mut svg, frame, ends(|point| point.0)),
        count => case_axis(&mut svg, frame, &chart.cases, count),
    };
    let vertical = height_axis(&mut svg, frame, chart.y_range.unwrap_or_else(|| ends(|point| point.1)));
    svg.text(frame.x - 60.0, frame.y - 6.0, Style::LABEL, &chart.y_name);
    svg.text(
        frame.x + frame.width / 2.0,
        frame.bottom() + 34.0,
        Style::LABEL.anchored(Anchor::Middle).coloured(INK),
        &chart.x_name,
    );
    let place = |(x, y): (f64, f64)| (horizontal.x(frame, x), vertical.y(frame, y).clamp(frame.y, frame.bottom()));
    if let Some((level, name)) = &chart.level {
        let (_, y) = place((0.0, *level));
        let (from, to) = (compact(frame.x), compact(frame.right()));
        svg.path(&format!("M{from} {}H{to}", compact(y)), r##"stroke="#1f2933" stroke-dasharray="6 4" fill="none""##);
        svg.text(frame.right() - 4.0, y - 5.0, Style::LABEL.anchored(Anchor::End).coloured(INK), name);
    }
    for series in &chart.series {
        draw(&mut svg, series, place);
    }
    if let Some((from, to, name)) = &chart.arrow {
        arrow(&mut svg, place(*from), place(*to), name);
    }
    svg.finish(frame.bottom() + 54.0)
}

/// A number axis whose marks are round numbers.
fn plain_axis(svg: &mut Svg, frame: Frame, (from, to): (f64, f64)) -> Scale {
    let scale = Scale::Linear { from, to: if to > from { to } else { from + 1.0 } };
    let step = nice_step((to - from).max(1e-9), 8.0);
    let style = Style::LABEL.anchored(Anchor::Middle);
    let first = (from / step).ceil() as i64;
    let last = (to / step).floor() as i64;
    for number in first..=last {
        let value = number as f64 * step;
        let x = scale.x(frame, value);
        svg.line((x, frame.y), (x, frame.bottom()), GRID);
        svg.text(x, frame.bottom() + 16.0, style, &mark(value));
    }
    svg.line((frame.x, frame.bottom()), (frame.right(), frame.bottom()), AXIS);
    scale
}

/// An axis of named cases.
fn case_axis(svg: &mut Svg, frame: Frame, cases: &[String], count: usize) -> Scale {
    let scale = Scale::Linear { from: -0.5, to: count as f64 - 0.5 };
    let style = Style::LABEL.anchored(Anchor::Middle).coloured(INK);
    for (number, case) in cases.iter().enumerate() {
        svg.text(scale.x(frame, number as f64), frame.bottom() + 16.0, style, case);
    }
    svg.line((frame.x, frame.bottom()), (frame.right(), frame.bottom()), AXIS);
    scale
}

fn height_axis(svg: &mut Svg, frame: Frame, (from, to): (f64, f64)) -> Scale {
    let to = if to > from { to } else { from + 1.0 };
    let scale = Scale::Linear { from, to };
    let step = nice_step(to - from, 6.0);
    let style = Style::LABEL.anchored(Anchor::End);
    for number in (from / step - 1e-9).ceil() as i64..=(to / step + 1e-9).floor() as i64 {
        let value = number as f64 * step;
        let y = scale.y(frame, value);
        svg.line((frame.x, y), (frame.right(), y), GRID);
        svg.text(frame.x - 8.0, y + 4.0, style, &mark(value));
    }
    scale
}

fn draw(svg: &mut Svg, series: &PointSeries, place: impl Fn((f64, f64)) -> (f64, f64)) {
    let colour = policy_colour(series.colour);
    let at = series.points.iter().map(|point| place(*point)).map(|(x, y)| (compact(x), compact(y)));
    let mut data = String::new();
    for (number, (x, y)) in at.enumerate() {
        let _ = match series.look {
            Look::Line => write!(data, "{}{x} {y}", if number == 0 { "M" } else { "L" }),
            Look::Dots => write!(data, "M{x} {y}h0"),
            Look::Plus => write!(data, "M{x} {y}m-7 0h14m-7 -7v14"),
            Look::Cross => write!(data, "M{x} {y}m-6 -6l12 12m0 -12l-12 12"),
            Look::Triangle => write!(data, "M{x} {y}m0 -7l7 12h-14z"),
        };
    }
    let stroke = match series.look {
        Look::Line => r#"stroke-width="2" stroke-linejoin="round""#,
        Look::Dots => r#"stroke-width="2.5" stroke-linecap="round" stroke-opacity="0.25""#,
        Look::Plus | Look::Cross | Look::Triangle => r#"stroke-width="2.5""#,
    };
    svg.path(&data, &format!(r#"fill="none" stroke="{colour}" {stroke}"#));
}

fn arrow(svg: &mut Svg, from: (f64, f64), to: (f64, f64), name: &str) {
    svg.line(from, to, INK);
    let (x, y) = (compact(to.0), compact(to.1));
    let turn = if to.1 > from.1 { "-9" } else { "9" };
    svg.path(&format!("M{x} {y}l-5 {turn}h10z"), &format!(r#"fill="{INK}""#));
    svg.text(from.0 + 10.0, f64::midpoint(from.1, to.1), Style::LABEL.coloured(INK), name);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_look_is_drawn_and_nothing_says_so() {
        assert!(point_chart(&PointChart::default()).contains("there is nothing to show"));
        let looks = [Look::Dots, Look::Line, Look::Plus, Look::Cross, Look::Triangle];
        let series = looks.iter().enumerate().map(|(colour, look)| PointSeries {
            name: format!("{look:?} <{colour}>"),
            points: vec![(0.0, 0.2), (1.0, 0.7)],
            look: *look,
            colour,
        });
        let chart = PointChart {
            title: "title".to_owned(),
            cases: vec!["early".to_owned(), "late".to_owned()],
            series: series.collect(),
            level: Some((0.5, "nothing".to_owned())),
            arrow: Some(((0.0, 0.2), (0.0, 0.7), "jumpstart".to_owned())),
            ..PointChart::default()
        };
        let svg = point_chart(&chart);
        assert!(svg.contains("Dots &lt;0&gt;") && svg.contains("jumpstart") && svg.contains("early"));
        assert!(resvg::usvg::Tree::from_str(&svg, &resvg::usvg::Options::default()).is_ok());
    }
}
