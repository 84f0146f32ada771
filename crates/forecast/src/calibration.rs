//! Forecasts are corrected by how earlier ones turned out.
//!
//! What is believed of lengths is never quite right: users come in bursts, and jobs of one burst are alike. So the three times of a
//! forecast are too near to each other, or all too early. How far true starts lay from the middle, measured by the distance of the outer
//! two, says by how much. Waits are compared by their logarithms, because an hour is much for a job that waits for ten minutes and
//! little for one that waits for a day. Long waits turn out otherwise than short ones, and this week otherwise than last week: a forecast
//! is corrected by those of about as long a wait most, and by recent ones most.

use rota_core::{Span, Time};
use std::collections::VecDeque;

/// So many forecasts count: the latest.
const KEPT_MAX: usize = 400;
/// Where more came within this time, some of them count, so that one busy hour does not speak for all.
const KEPT_FOR: Span = Span::from_whole_seconds(3 * 86_400);
/// Nothing is corrected before so many forecasts were compared with starts.
const KEPT_MIN: usize = 40;
/// How far off a forecast of another wait must be, as a logarithm, to count much less: by a factor of two or so.
const ALIKE_WITHIN: f64 = 0.7;
/// Forecasts of quite another wait count so much: where there are no others, they are better than none.
const OTHERS_COUNT: f64 = 0.02;
/// After this time a forecast counts half.
const HALF_AFTER: Span = Span::from_whole_seconds(2 * 86_400);
/// It is halved at most so often: after a long rest old forecasts are all there is.
const HALVINGS_MAX: f64 = 10.0;
/// Added to waits, so that a second more or less does not count for jobs that hardly wait.
const SOFTENING_SECONDS: f64 = 60.0;
/// The part by which the outer two times are drawn together where too few starts lay outside. The latest forecasts are of one or two
/// busy days: they are not enough to be that sure of the next.
const NARROWING: f64 = 0.5;
/// The least distance between the outer two times, as a logarithm.
const SPREAD_MIN: f64 = 0.05;

/// How earlier forecasts turned out.
#[derive(Clone, Debug, Default)]
pub struct Calibration {
    places: VecDeque<Place>,
    /// A state that chooses which of many forecasts are dropped.
    choice: u64,
}

/// Where a true start lay.
#[derive(Clone, Copy, Debug)]
struct Place {
    start: Time,
    /// The middle of the waits that were forecast, as a logarithm.
    middle: f64,
    /// The distance of the start from the middle, where the distance of the outer two times is 1.
    distance: f64,
}

/// The waits of a forecast as logarithms.
struct Waits {
    middle: f64,
    /// The distance of the outer two.
    spread: f64,
    /// The outer two, in distances from the middle.
    outer: [f64; 2],
}

impl Waits {
    fn of(made_at: Time, quantiles: [Time; 3]) -> Self {
        let [low, middle, high] = quantiles.map(|at| logarithm(made_at, at));
        let spread = (high - low).max(SPREAD_MIN);
        Self { middle, spread, outer: [(low - middle) / spread, (high - middle) / spread] }
    }
}

fn logarithm(made_at: Time, at: Time) -> f64 {
    (at.since(made_at).seconds() + SOFTENING_SECONDS).ln()
}

impl Calibration {
    /// A job started of which these times had been said (before they were corrected).
    pub fn learn(&mut self, made_at: Time, quantiles: [Time; 3], start: Time) {
        let waits = Waits::of(made_at, quantiles);
        let distance = (logarithm(made_at, start) - waits.middle) / waits.spread;
        self.places.push_back(Place { start, middle: waits.middle, distance });
        if self.places.len() > KEPT_MAX {
            let is_old = self.places.front().is_some_and(|first| start.since(first.start) > KEPT_FOR);
            // Knuth's generator: which forecast is dropped must not depend on how it turned out.
            self.choice = self.choice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let dropped = if is_old { 0 } else { (self.choice >> 33) as usize % self.places.len() };
            self.places.remove(dropped);
        }
    }

    /// The same times, corrected.
    pub fn corrected(&self, made_at: Time, quantiles: [Time; 3]) -> [Time; 3] {
        if self.places.len() < KEPT_MIN {
            return quantiles;
        }
        let waits = Waits::of(made_at, quantiles);
        let [low, middle, high] = self.quantiles(made_at, waits.middle);
        let narrowed = |learned: f64, own: f64| NARROWING * learned + (1.0 - NARROWING) * (own + middle);
        let low = low.min(narrowed(low, waits.outer[0]));
        let high = high.max(narrowed(high, waits.outer[1]));
        [low, middle, high].map(|place| {
            let wait = (waits.middle + place * waits.spread).exp() - SOFTENING_SECONDS;
            made_at + Span::from_seconds(wait.max(0.0)).unwrap_or(Span(u64::MAX / 4))
        })
    }

    /// The distances below which one, five and nine in ten starts lay, for forecasts of about this wait made about now.
    fn quantiles(&self, now: Time, middle: f64) -> [f64; 3] {
        let weighed = |place: &Place| {
            let apart = (place.middle - middle) / ALIKE_WITHIN;
            let age = (now.since(place.start).seconds() / HALF_AFTER.seconds()).min(HALVINGS_MAX);
            (place.distance, ((-0.5 * apart * apart).exp() + OTHERS_COUNT) * (-age).exp2())
        };
        let mut places = self.places.iter().map(weighed).collect::<Vec<_>>();
        places.sort_by(|one, other| one.0.total_cmp(&other.0));
        let total = places.iter().map(|(_, weight)| weight).sum::<f64>();
        [0.1, 0.5, 0.9].map(|chance| {
            let mut below = 0.0;
            let reached = places.iter().find(|(_, weight)| {
                below += weight;
                below >= chance * total
            });
            reached.or(places.last()).map_or(0.0, |(distance, _)| *distance)
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
    fn times_that_were_too_wide_are_drawn_together_by_half() {
        let mut calibration = Calibration::default();
        let said = [at(900.0), at(3600.0), at(14_400.0)];
        (0..KEPT_MAX).for_each(|_| calibration.learn(at(0.0), said, at(3600.0)));
        let [low, middle, high] = calibration.corrected(at(0.0), said).map(Time::seconds);
        assert!((middle - 3600.0).abs() < 1.0, "{middle}");
        assert!((1700.0..1900.0).contains(&low) && (6900.0..7400.0).contains(&high), "{low} {high}");
    }

    #[test]
    fn long_waits_are_corrected_by_long_waits_and_short_ones_by_short_ones() {
        let mut calibration = Calibration::default();
        let said = |middle: f64| [at(0.8 * middle), at(middle), at(1.25 * middle)];
        for _ in 0..100 {
            calibration.learn(at(0.0), said(600.0), at(600.0));
            calibration.learn(at(0.0), said(86_400.0), at(2.0 * 86_400.0));
        }
        let middle = |wait: f64| calibration.corrected(at(0.0), said(wait))[1].seconds();
        assert!((middle(600.0) - 600.0).abs() < 1.0, "{}", middle(600.0));
        assert!((middle(86_400.0) / 86_400.0 - 2.0).abs() < 0.01, "{}", middle(86_400.0));
    }

    #[test]
    fn what_happened_lately_counts_most() {
        let mut calibration = Calibration::default();
        let day = 86_400.0;
        let mut learn = |now: f64, factor: f64| {
            calibration.learn(at(now), [at(now + 900.0), at(now + 1000.0), at(now + 1100.0)], at(now + 1000.0 * factor));
        };
        (0..100).for_each(|_| learn(0.0, 1.0));
        (0..60).for_each(|_| learn(8.0 * day, 3.0));
        let now = 8.2 * day;
        let middle = calibration.corrected(at(now), [at(now + 900.0), at(now + 1000.0), at(now + 1100.0)])[1].seconds() - now;
        assert!((middle - 3000.0).abs() < 10.0, "{middle}");
    }

    #[test]
    fn one_busy_hour_does_not_speak_for_all() {
        let mut calibration = Calibration::default();
        let day = 86_400.0;
        for hour in 0..48 {
            let now = f64::from(hour) * 3600.0;
            (0..10).for_each(|_| calibration.learn(at(now), [at(now + 50.0), at(now + 100.0), at(now + 200.0)], at(now + 100.0)));
        }
        let busy = |number: u32| 2.0 * day + f64::from(number);
        for number in 0..300 {
            let now = busy(number);
            calibration.learn(at(now), [at(now + 50.0), at(now + 100.0), at(now + 200.0)], at(now + 5000.0));
        }
        assert_eq!(calibration.places.len(), KEPT_MAX);
        let usual = calibration.places.iter().filter(|place| place.distance.abs() < 1e-9).count();
        assert!((150..300).contains(&usual), "{usual} of the two days before are kept");
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
