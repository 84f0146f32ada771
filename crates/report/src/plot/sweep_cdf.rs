//! Distributions, one line a policy: completion times of short and of long jobs at one load of a sweep, finish-time fairness, and waits.

use super::WIDTH;
use super::cdf::{draw, steps};
use crate::axis::{Scale, value_axis};
use crate::palette::SeriesLook;
use crate::sample::Sample;
use crate::svg::{AXIS, Anchor, Frame, GRID, INK, Style, Svg};
use crate::units::mark;

/// A policy's line in the distributions of a sweep.
#[derive(Clone, Debug, PartialEq)]
pub struct Distribution {
    /// The distribution's name in the legend.
    pub name: String,
    /// The values that are distributed.
    pub sample: Sample,
}

/// Completion times, short jobs on the left and long ones on the right.
pub(crate) fn jct_distributions(title: &str, lines: &[Distribution]) -> String {
    let (mut svg, y) =
        begin(title, "share of completed jobs; short: the four fifths with the least run time alone", &names(lines));
    let width = (WIDTH - 76.0 - 84.0 - 32.0) / 2.0;
    let left = Frame { x: 76.0, y: y + 24.0, width, height: 360.0 };
    let right = Frame { x: left.right() + 84.0, ..left };
    let short = lines.iter().map(|line| line.sample.short_jct_s.clone()).collect::<Vec<_>>();
    let long = lines.iter().map(|line| line.sample.long_jct_s.clone()).collect::<Vec<_>>();
    for (frame, heading, values) in [(left, "short jobs", short), (right, "long jobs", long)] {
        svg.text(frame.x, y + 12.0, Style::HEADING, heading);
        draw(&mut svg, frame, &values);
    }
    svg.finish(left.bottom() + 54.0)
}

/// Finish-time fairness: right of 1 are the jobs that a fluid 1/n share would have served better.
pub(crate) fn fairness_distribution(title: &str, lines: &[Distribution]) -> String {
    let (mut svg, y) =
        begin(title, "share of completed jobs; above 1, a fluid 1/n share of the cluster would have been faster", &names(lines));
    let frame = Frame { x: 84.0, y: y + 16.0, width: WIDTH - 84.0 - 40.0, height: 400.0 };
    let values = || lines.iter().flat_map(|line| &line.sample.rho).copied().filter(|rho| *rho > 0.0);
    let (Some(least), Some(most)) = (values().reduce(f64::min), values().reduce(f64::max)) else {
        svg.empty_state(frame, "no job completed");
        return svg.finish(frame.bottom() + 40.0);
    };
    let scale = Scale::Logarithmic { from: least.min(0.5), to: most.max(2.0) };
    let vertical = value_axis(&mut svg, frame, 100.0, |value| format!("{} %", mark(value)));
    ratio_axis(&mut svg, frame, scale, least.min(0.5), most.max(2.0));
    for (position, line) in lines.iter().enumerate().filter(|(_, line)| !line.sample.rho.is_empty()) {
        let path = steps(frame, scale, vertical, &line.sample.rho);
        svg.path(&path, &SeriesLook::of(position).stroke(2.0));
    }
    svg.finish(frame.bottom() + 54.0)
}

/// The part of the jobs that waited at most so long, one line for each list of waits in seconds, from short to long.
pub fn wait_distributions(title: &str, setting: &str, names: &[&str], sorted_waits_s: &[Vec<f64>]) -> String {
    let (mut svg, y) = begin(title, setting, names);
    let frame = Frame { x: 84.0, y: y + 16.0, width: WIDTH - 84.0 - 40.0, height: 400.0 };
    draw(&mut svg, frame, sorted_waits_s);
    svg.finish(frame.bottom() + 54.0)
}

fn begin(title: &str, setting: &str, names: &[&str]) -> (Svg, f64) {
    let mut svg = Svg::new(WIDTH);
    let y = svg.head(title, setting);
    let y = svg.line_legend(y, names);
    (svg, y)
}

fn names(lines: &[Distribution]) -> Vec<&str> {
    lines.iter().map(|line| line.name.as_str()).collect()
}

/// Marks at 1, 2 and 5 times the powers of ten, with a stronger line at 1.
fn ratio_axis(svg: &mut Svg, frame: Frame, scale: Scale, from: f64, to: f64) {
    let style = Style::LABEL.anchored(Anchor::Middle);
    let mut free_from = f64::NEG_INFINITY;
    for power in -6..=9 {
        for factor in [1.0, 2.0, 5.0] {
            let value = factor * 10_f64.powi(power);
            if !(from..=to).contains(&value) {
                continue;
            }
            let x = scale.x(frame, value);
            let is_one = power == 0 && factor < 2.0;
            svg.line((x, frame.y), (x, frame.bottom()), if is_one { INK } else { GRID });
            let words = mark(value);
            if x - style.width(&words) / 2.0 > free_from {
                svg.text(x, frame.bottom() + 16.0, style, &words);
                free_from = x + style.width(&words) / 2.0 + 6.0;
            }
        }
    }
    svg.line((frame.x, frame.bottom()), (frame.right(), frame.bottom()), AXIS);
    svg.text(frame.x + frame.width / 2.0, frame.bottom() + 34.0, style.coloured(INK), "rho, logarithmic");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distributions_are_drawn_and_empty_ones_say_so() {
        let line = |name: &str, rho: &[f64]| Distribution {
            name: name.to_owned(),
            sample: Sample { short_jct_s: vec![1.0, 60.0], long_jct_s: vec![3600.0], rho: rho.to_vec() },
        };
        let lines = [line("a<b", &[0.3, 1.0, 4.0]), line("c", &[0.9])];
        for svg in [jct_distributions("title", &lines), fairness_distribution("title", &lines)] {
            assert!(svg.contains("a&lt;b") && svg.contains("stroke-width=\"2\""));
            assert!(resvg::usvg::Tree::from_str(&svg, &resvg::usvg::Options::default()).is_ok());
        }
        let waits = wait_distributions("waits", "setting", &["d<e"], &[vec![0.0, 9.0, 86_400.0]]);
        assert!(waits.contains("d&lt;e") && waits.contains(">time (h)<"), "{waits}");
        assert!(wait_distributions("waits", "setting", &["d"], &[vec![0.0]]).contains("no job waited"));
        let nothing = [Distribution { name: "a".to_owned(), sample: Sample::default() }];
        assert!(fairness_distribution("t", &nothing).contains("no job completed"));
        assert!(jct_distributions("t", &nothing).contains("no job completed"));
    }
}
