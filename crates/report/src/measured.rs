//! What was measured of real GPUs while jobs ran: use and power over time, one line a GPU.

use crate::axis::{Marks, Scale, time_axis_with, value_axis};
use crate::palette::{policy_colour, policy_dash};
use crate::plot::WIDTH;
use crate::svg::{Frame, Style, Svg, compact};
use crate::units::mark;
use std::fmt::Write;

/// What one GPU did over some seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading {
    /// The GPU, by its place in the list of GPUs.
    pub gpu: usize,
    /// The end of the time it stands for, in seconds.
    pub seconds: f64,
    /// The length of that time.
    pub span_seconds: f64,
    /// How busy the GPU was.
    pub utilisation_percent: Option<f64>,
    /// The mean power the GPU drew.
    pub power_watts: Option<f64>,
}

/// A panel: its heading, the values, and the top of its axis where that does not depend on them.
type Panel = (&'static str, fn(&Reading) -> Option<f64>, Option<f64>);

/// Readings of all GPUs, in order of time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured(Vec<Reading>);

impl Measured {
    /// Puts readings in order.
    pub fn new(readings: impl Iterator<Item = Reading>) -> Self {
        let mut readings = readings.collect::<Vec<_>>();
        readings.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
        Self(readings)
    }

    /// Energy of all GPUs over the time of the readings; `None` if no power was read.
    pub fn energy_joules(&self) -> Option<f64> {
        let drawn = self.0.iter().filter_map(|reading| Some(reading.power_watts? * reading.span_seconds));
        drawn.fold(None, |sum, joules| Some(sum.unwrap_or(0.0) + joules))
    }

    /// The picture, if there is anything to show.
    pub fn picture(&self, gpus: &[String]) -> Option<String> {
        let (first, last) = (self.0.first()?, self.0.last()?);
        let from = first.seconds - first.span_seconds;
        let scale = Scale::Linear { from: 0.0, to: (last.seconds - from).max(1.0) };
        let mut svg = Svg::new(WIDTH);
        let y = svg.head("Measured use and power of the GPUs", "means over the intervals of the recorder");
        let legend = gpus.iter().enumerate().map(|(position, name)| (policy_colour(position).to_owned(), name.clone()));
        let mut y = svg.legend(y, &legend.collect::<Vec<_>>());
        let panels: [Panel; 2] = [
            ("GPU busy (%)", |reading| reading.utilisation_percent, Some(100.0)),
            ("power (W)", |reading| reading.power_watts, None),
        ];
        for (number, (heading, value, top)) in panels.iter().enumerate() {
            let is_last = number + 1 == panels.len();
            let frame = Frame { x: 76.0, y: y + 28.0, width: WIDTH - 108.0, height: 170.0 };
            svg.text(24.0, y + 12.0, Style::HEADING, heading);
            time_axis_with(&mut svg, frame, scale, "time", if is_last { Marks::Shown } else { Marks::Hidden });
            let peak = self.0.iter().filter_map(value).fold(0.0, f64::max);
            let vertical = value_axis(&mut svg, frame, top.unwrap_or(peak.max(1.0)), mark);
            for gpu in 0..gpus.len() {
                let mut path = String::new();
                for reading in self.0.iter().filter(|reading| reading.gpu == gpu) {
                    let Some(value) = value(reading) else { continue };
                    let letter = if path.is_empty() { 'M' } else { 'L' };
                    let x = scale.x(frame, reading.seconds - reading.span_seconds / 2.0 - from);
                    let _ = write!(path, "{letter}{} {}", compact(x), compact(vertical.y(frame, value)));
                }
                let (colour, dash) = (policy_colour(gpu), policy_dash(gpu));
                svg.path(&path, &format!(r#"fill="none" stroke="{colour}" stroke-width="1.5" stroke-linejoin="round"{dash}"#));
            }
            y = frame.bottom() + if is_last { 54.0 } else { 34.0 };
        }
        Some(svg.finish(y))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn energy_is_power_over_time_and_every_gpu_has_a_line() {
        let reading =
            |gpu, seconds, power_watts| Reading { gpu, seconds, span_seconds: 5.0, utilisation_percent: Some(50.0), power_watts };
        let measured =
            Measured::new([reading(0, 10.0, Some(100.0)), reading(1, 5.0, Some(20.0)), reading(0, 5.0, None)].into_iter());
        assert_eq!(measured.energy_joules(), Some(600.0));
        let svg = measured.picture(&["GPU 0".to_owned(), "GPU 1".to_owned()]).unwrap();
        assert!(svg.contains("GPU 1") && svg.contains("power (W)"), "{svg}");
        assert_eq!(Measured::default().picture(&[]), None);
        assert_eq!(Measured::new([reading(0, 1.0, None)].into_iter()).energy_joules(), None);
    }
}
