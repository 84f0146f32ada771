//! Forecasts are corrected by how earlier ones turned out.
//!
//! What is believed of lengths is never quite right: users come in bursts, and jobs of one burst are alike. So the three times of a
//! forecast are too near to each other, or all too early. How far true starts lay from the middle, measured by the distance of the outer
//! two, says by how much. Waits are compared by their logarithms, because an hour is much for a job that waits for ten minutes and
//! little for one that waits for a day.

use rota_core::{Span, Time};
use std::collections::VecDeque;

/// The latest so many forecasts count.
const KEPT_MAX: usize = 400;
/// Nothing is corrected before so many forecasts were compared with starts.
const KEPT_MIN: usize = 40;
/// Added to waits, so that a second more or less does not count for jobs that hardly wait.
const SOFTENING_SECONDS: f64 = 60.0;
/// The least distance between the outer two times, as a logarithm.
const SPREAD_MIN: f64 = 0.05;

/// How earlier forecasts turned out.
#[derive(Clone, Debug, Default)]
pub struct Calibration {
    /// True starts: their distance from the middle, where the distance of the outer two times is 1.
    places: VecDeque<f64>,
}

/// The waits of a forecast as logarithms: the middle, and the distance of the outer two.
fn shape(made_at: Time, quantiles: [Time; 3]) -> (f64, f64) {
    let [low, middle, high] = quantiles.map(|at| logarithm(made_at, at));
    (middle, (high - low).max(SPREAD_MIN))
}

fn logarithm(made_at: Time, at: Time) -> f64 {
    (at.since(made_at).seconds() + SOFTENING_SECONDS).ln()
}

impl Calibration {
    /// A job started of which these times had been said (before they were corrected).
    pub fn learn(&mut self, made_at: Time, quantiles: [Time; 3], start: Time) {
        let (middle, spread) = shape(made_at, quantiles);
        self.places.push_back((logarithm(made_at, start) - middle) / spread);
        if self.places.len() > KEPT_MAX {
            self.places.pop_front();
        }
    }

    /// The same times, corrected.
    pub fn corrected(&self, made_at: Time, quantiles: [Time; 3]) -> [Time; 3] {
        if self.places.len() < KEPT_MIN {
            return quantiles;
        }
        let (middle, spread) = shape(made_at, quantiles);
        let mut places = self.places.iter().copied().collect::<Vec<_>>();
        places.sort_by(f64::total_cmp);
        [0.1, 0.5, 0.9].map(|chance| {
            let place = places[((places.len() - 1) as f64 * chance).round() as usize];
            let wait = (middle + place * spread).exp() - SOFTENING_SECONDS;
            made_at + Span::from_seconds(wait.max(0.0)).unwrap_or(Span(u64::MAX / 4))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rota_core::random::RandomStream;

    fn at(seconds: f64) -> Time {
        Time::from_seconds(seconds).unwrap()
    }

    #[test]
    fn nothing_is_corrected_before_enough_is_known() {
        let mut calibration = Calibration::default();
        let said = [at(100.0), at(200.0), at(300.0)];
        (0..KEPT_MIN - 1).for_each(|_| calibration.learn(at(0.0), said, at(900.0)));
        assert_eq!(calibration.corrected(at(0.0), said), said);
    }

    #[test]
    fn times_that_were_early_and_too_sure_are_moved_and_widened() {
        let mut calibration = Calibration::default();
        let mut stream = RandomStream::new(1, "calibration");
        let draw = |stream: &mut RandomStream| {
            let middle = 3600.0 * (0.5 * stream.normal()).exp();
            // The truth is half as long again, and varies by a factor of two.
            ([at(0.9 * middle), at(middle), at(1.1 * middle)], at(1.5 * middle * (0.7 * stream.normal()).exp()))
        };
        for _ in 0..400 {
            let (said, start) = draw(&mut stream);
            calibration.learn(at(0.0), said, start);
        }
        let (mut inside, mut early) = (0, 0);
        for _ in 0..1000 {
            let (said, start) = draw(&mut stream);
            let [low, middle, high] = calibration.corrected(at(0.0), said);
            assert!(low <= middle && middle <= high);
            inside += usize::from(low <= start && start <= high);
            early += usize::from(start > middle);
        }
        assert!((720..880).contains(&inside), "{inside} of 1000 inside");
        assert!((420..580).contains(&early), "{early} of 1000 later than the middle");
    }
}
