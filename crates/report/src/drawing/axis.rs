//! Axes: where a value goes on the page, and which marks a reader is given.

use crate::svg::{AXIS, Anchor, Frame, GRID, Style, Svg, compact};
use crate::units::{mark, nice_step, nice_time_step, time_unit};
use std::fmt::Write;

/// From values to a fraction of an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Scale {
    Linear { from: f64, to: f64 },
    Logarithmic { from: f64, to: f64 },
}

impl Scale {
    /// Position of a value between 0 and 1; outside values stay outside on a linear axis and at the rim of a logarithmic one.
    pub fn at(self, value: f64) -> f64 {
        match self {
            Self::Linear { from, to } => (value - from) / (to - from).max(f64::MIN_POSITIVE),
            Self::Logarithmic { from, to } => (value.max(from).ln() - from.ln()) / (to.ln() - from.ln()).max(f64::MIN_POSITIVE),
        }
    }

    pub fn x(self, frame: Frame, value: f64) -> f64 {
        frame.x + frame.width * self.at(value)
    }

    pub fn y(self, frame: Frame, value: f64) -> f64 {
        frame.bottom() - frame.height * self.at(value)
    }
}

/// Marks of a logarithmic time axis that people have words for.
const TIME_DECADES: [(f64, &str); 13] = [
    (1e-3, "1 ms"),
    (1e-2, "10 ms"),
    (0.1, "0.1 s"),
    (1.0, "1 s"),
    (10.0, "10 s"),
    (60.0, "1 min"),
    (600.0, "10 min"),
    (3600.0, "1 h"),
    (36_000.0, "10 h"),
    (86_400.0, "1 d"),
    (864_000.0, "10 d"),
    (8_640_000.0, "100 d"),
    (86_400_000.0, "1,000 d"),
];

/// The same, finer, for axes that span few decades.
const TIME_FINE: [(f64, &str); 23] = [
    (1.0, "1 s"),
    (2.0, "2 s"),
    (5.0, "5 s"),
    (10.0, "10 s"),
    (20.0, "20 s"),
    (30.0, "30 s"),
    (60.0, "1 min"),
    (120.0, "2 min"),
    (300.0, "5 min"),
    (600.0, "10 min"),
    (1200.0, "20 min"),
    (1800.0, "30 min"),
    (3600.0, "1 h"),
    (7200.0, "2 h"),
    (18_000.0, "5 h"),
    (36_000.0, "10 h"),
    (86_400.0, "1 d"),
    (172_800.0, "2 d"),
    (432_000.0, "5 d"),
    (864_000.0, "10 d"),
    (1_728_000.0, "20 d"),
    (4_320_000.0, "50 d"),
    (8_640_000.0, "100 d"),
];

/// Whether an axis carries its marks, or leaves them to the panel below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Marks {
    Shown,
    Hidden,
}

/// A time axis under a frame, with grid lines through it.
pub(crate) fn time_axis(svg: &mut Svg, frame: Frame, scale: Scale, name: &str) {
    time_axis_with(svg, frame, scale, name, Marks::Shown);
}

pub(crate) fn time_axis_with(svg: &mut Svg, frame: Frame, scale: Scale, name: &str, shown: Marks) {
    let style = Style::LABEL.anchored(Anchor::Middle);
    let mut marks: Vec<(f64, String)> = Vec::new();
    let title = match scale {
        Scale::Linear { from, to } => {
            let unit = time_unit(to - from);
            let step = nice_time_step(to - from, (frame.width / 90.0).max(2.0));
            let mut number = (from / step - 1e-9).ceil();
            while number * step <= to * (1.0 + 1e-9) {
                marks.push((number * step, mark(number * step / unit.seconds)));
                number += 1.0;
            }
            format!("{name} ({})", unit.name)
        }
        Scale::Logarithmic { from, to } => {
            let known = if to / from < 300.0 && from >= 1.0 { &TIME_FINE[..] } else { &TIME_DECADES[..] };
            let inside = known.iter().filter(|(seconds, _)| (from * 0.999..=to * 1.001).contains(seconds));
            marks.extend(inside.map(|&(seconds, words)| (seconds, words.to_owned())));
            name.to_owned()
        }
    };
    let mut grid = String::new();
    let mut free_from = f64::NEG_INFINITY;
    for (value, words) in marks {
        let x = scale.x(frame, value);
        let _ = write!(grid, "M{} {}V{}", compact(x), compact(frame.y), compact(frame.bottom()));
        let half = style.width(&words) / 2.0;
        if shown == Marks::Shown && x - half > free_from {
            svg.text(x, frame.bottom() + 16.0, style, &words);
            free_from = x + half + 6.0;
        }
    }
    svg.path(&grid, &format!(r#"stroke="{GRID}" fill="none""#));
    svg.line((frame.x, frame.bottom()), (frame.right(), frame.bottom()), AXIS);
    if shown == Marks::Shown {
        svg.text(frame.x + frame.width / 2.0, frame.bottom() + 34.0, style, &title);
    }
}

/// Horizontal grid lines with their values at the left; `form` writes a value.
pub(crate) fn value_axis(svg: &mut Svg, frame: Frame, to: f64, form: impl Fn(f64) -> String) -> Scale {
    let step = nice_step(to, 5.0);
    let top = (to / step - 1e-9).ceil() * step;
    let scale = Scale::Linear { from: 0.0, to: top };
    let style = Style::LABEL.anchored(Anchor::End);
    let mut grid = String::new();
    for number in 0..=(top / step).round() as u32 {
        let value = f64::from(number) * step;
        let y = scale.y(frame, value);
        let _ = write!(grid, "M{} {}H{}", compact(frame.x), compact(y), compact(frame.right()));
        svg.text(frame.x - 8.0, y + 4.0, style, &form(value));
    }
    svg.path(&grid, &format!(r#"stroke="{GRID}" fill="none""#));
    scale
}
