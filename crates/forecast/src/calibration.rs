//! Forecasts are corrected by how earlier ones turned out.
//!
//! What is believed of lengths is never quite right: users come in bursts, and jobs of one burst are alike. So the three times of a
//! forecast are too near to each other, or all too early. How far true starts lay from the middle, measured by the distance of the outer
//! two, says by how much. Waits are compared by their logarithms, because an hour is much for a job that waits for ten minutes and
//! little for one that waits for a day. Long waits turn out otherwise than short ones, and this week otherwise than last week: a forecast
//! is corrected by those of about as long a wait most, and by recent ones most.

use crate::accuracy::median;
use rota_core::{Span, Time};
use std::collections::VecDeque;

/// At most this many forecasts count: the latest ones.
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
/// The part of the way by which the outer two times are drawn together where too few starts lay outside, before it is steered. The latest
/// forecasts are of one or two busy days: they are not enough to be that sure of the next.
const NARROWING: f64 = 0.5;
/// The part of the starts that are to lie between the outer two times, and how much one start changes the narrowing.
const INSIDE: f64 = 0.8;
const STEP: f64 = 0.02;
/// The outer two times are moved apart to twice their distance from the middle at most.
const NARROWING_MIN: f64 = -1.0;
/// The least distance between the outer two times, as a logarithm.
const SPREAD_MIN: f64 = 0.05;

/// With fewer jobs that started nothing is said of how forecasts turned out.
const TURNED_OUT_MIN: usize = 20;

/// How earlier forecasts turned out.
#[derive(Clone, Debug)]
pub struct Calibration {
    places: VecDeque<Place>,
    /// Of the latest starts, whether each lay between the outer two times that were said, and the seconds from the middle one.
    turned_out: VecDeque<(bool, f64)>,
    /// How far the outer two times are drawn together. Every start that lay between them makes it more, every other one less, so that it
    /// rests where as many lie between them as were said to. Below 0 they are moved apart by this part of their distance from the middle.
    narrowing: f64,
    /// A state that chooses which of many forecasts are dropped.
    choice: u64,
}

impl Default for Calibration {
    fn default() -> Self {
        Self { places: VecDeque::new(), turned_out: VecDeque::new(), narrowing: NARROWING, choice: 0 }
    }
}

/// What was said of a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Said {
    /// When it was said.
    pub made_at: Time,
    /// The three times as they were drawn.
    pub drawn: [Time; 3],
    /// The same, corrected: what people were told.
    pub corrected: [Time; 3],
}

/// How what was said turned out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TurnedOut {
    /// The latest jobs that started after a start had been said.
    pub jobs: usize,
    /// The part of them that started between the outer two times.
    pub coverage_p10_p90: f64,
    /// The median of the seconds between the middle time and the true start.
    pub error_median_s: f64,
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
    /// A job started of which this had been said.
    pub fn learn(&mut self, said: &Said, start: Time) {
        let Said { made_at, drawn, corrected: [low, middle, high] } = *said;
        let is_inside = low <= start && start <= high;
        self.turned_out.push_back((is_inside, (middle.seconds() - start.seconds()).abs()));
        if self.turned_out.len() > KEPT_MAX {
            self.turned_out.pop_front();
        }
        if self.places.len() >= KEPT_MIN {
            let inside = if is_inside { 1.0 } else { 0.0 };
            self.narrowing = (self.narrowing + STEP * (inside - INSIDE)).clamp(NARROWING_MIN, 1.0);
        }
        let waits = Waits::of(made_at, drawn);
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

    /// How what was said of the latest starts turned out; `None` where too few jobs have started.
    pub fn turned_out(&self) -> Option<TurnedOut> {
        let jobs = self.turned_out.len();
        let inside = self.turned_out.iter().filter(|(is_inside, _)| *is_inside).count();
        let error_median_s = median(self.turned_out.iter().map(|(_, error)| *error).collect())?;
        (jobs >= TURNED_OUT_MIN).then(|| TurnedOut { jobs, coverage_p10_p90: inside as f64 / jobs as f64, error_median_s })
    }

    /// What is said where these times were drawn.
    pub fn said(&self, made_at: Time, drawn: [Time; 3]) -> Said {
        Said { made_at, drawn, corrected: self.corrected(made_at, drawn) }
    }

    fn corrected(&self, made_at: Time, quantiles: [Time; 3]) -> [Time; 3] {
        if self.places.len() < KEPT_MIN {
            return quantiles;
        }
        let waits = Waits::of(made_at, quantiles);
        let [low, middle, high] = self.quantiles(made_at, waits.middle);
        let narrowing = self.narrowing.max(0.0);
        let narrowed = |learned: f64, own: f64| narrowing * learned + (1.0 - narrowing) * (own + middle);
        let widened = |place: f64| middle + (place - middle) * (1.0 + narrowing - self.narrowing);
        let low = widened(low.min(narrowed(low, waits.outer[0])));
        let high = widened(high.max(narrowed(high, waits.outer[1])));
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

    fn learn(calibration: &mut Calibration, made_at: Time, drawn: [Time; 3], start: Time) {
        let said = calibration.said(made_at, drawn);
        calibration.learn(&said, start);
    }

    #[test]
    fn nothing_is_corrected_before_enough_is_known() {
        let mut calibration = Calibration::default();
        let said = [at(100.0), at(200.0), at(300.0)];
        (0..TURNED_OUT_MIN - 1).for_each(|_| learn(&mut calibration, at(0.0), said, at(900.0)));
        assert_eq!(calibration.turned_out(), None);
        (TURNED_OUT_MIN..KEPT_MIN).for_each(|_| learn(&mut calibration, at(0.0), said, at(900.0)));
        assert_eq!(calibration.corrected(at(0.0), said), said);
    }

    #[test]
    fn times_that_were_too_wide_are_drawn_together_until_as_many_starts_lie_between_them_as_were_said_to() {
        let mut calibration = Calibration::default();
        let mut stream = RandomStream::new(2, "too wide");
        let drawn = [at(900.0), at(3600.0), at(14_400.0)];
        let mut start = || at(3600.0 * (0.2 * stream.normal()).exp());
        (0..KEPT_MIN).for_each(|_| learn(&mut calibration, at(0.0), drawn, start()));
        let [low, _, high] = calibration.corrected(at(0.0), drawn).map(Time::seconds);
        // By half at first: the starts lie between 2,750 and 4,650, the times were drawn between 900 and 14,400.
        assert!((1400.0..2000.0).contains(&low) && (7000.0..9000.0).contains(&high), "{low} {high}");
        (0..KEPT_MAX).for_each(|_| learn(&mut calibration, at(0.0), drawn, start()));
        let inside = (0..1000).filter(|_| {
            let (said, start) = (calibration.said(at(0.0), drawn), start());
            calibration.learn(&said, start);
            said.corrected[0] <= start && start <= said.corrected[2]
        });
        let inside = inside.count();
        let turned_out = calibration.turned_out().unwrap();
        assert_eq!(turned_out.jobs, KEPT_MAX);
        assert!((turned_out.coverage_p10_p90 - 0.001 * inside as f64).abs() < 0.06, "{turned_out:?}");
        // The middle deviation of what was drawn: 0.67 of a fifth.
        assert!((350.0..650.0).contains(&turned_out.error_median_s), "{turned_out:?}");
        assert!((750..870).contains(&inside), "{inside} of 1000 inside");
    }

    #[test]
    fn times_between_which_too_few_starts_lie_are_moved_apart() {
        let mut calibration = Calibration::default();
        let mut stream = RandomStream::new(5, "days that differ");
        let mut inside = 0;
        // The jobs of one day are all early or all late, and start after the last of them has come: other days say little about them.
        for day in 0..80 {
            let factor = stream.normal().exp();
            let jobs = (0..10).map(|number| 86_400.0 * f64::from(day) + 60.0 * f64::from(number)).collect::<Vec<_>>();
            let drawn = |now: f64| [at(now + 3000.0), at(now + 3600.0), at(now + 4200.0)];
            let told = jobs.iter().map(|now| (calibration.said(at(*now), drawn(*now)), at(now + 3600.0 * factor)));
            for (said, start) in told.collect::<Vec<_>>() {
                inside += usize::from(day >= 20 && said.corrected[0] <= start && start <= said.corrected[2]);
                calibration.learn(&said, start);
            }
        }
        assert!((420..540).contains(&inside), "{inside} of 600 inside");
    }

    #[test]
    fn long_waits_are_corrected_by_long_waits_and_short_ones_by_short_ones() {
        let mut calibration = Calibration::default();
        let said = |middle: f64| [at(0.8 * middle), at(middle), at(1.25 * middle)];
        for _ in 0..100 {
            learn(&mut calibration, at(0.0), said(600.0), at(600.0));
            learn(&mut calibration, at(0.0), said(86_400.0), at(2.0 * 86_400.0));
        }
        let middle = |wait: f64| calibration.corrected(at(0.0), said(wait))[1].seconds();
        assert!((middle(600.0) - 600.0).abs() < 1.0, "{}", middle(600.0));
        assert!((middle(86_400.0) / 86_400.0 - 2.0).abs() < 0.01, "{}", middle(86_400.0));
    }

    #[test]
    fn what_happened_lately_counts_most() {
        let mut calibration = Calibration::default();
        let day = 86_400.0;
        let mut learn_at = |now: f64, factor: f64| {
            learn(&mut calibration, at(now), [at(now + 900.0), at(now + 1000.0), at(now + 1100.0)], at(now + 1000.0 * factor));
        };
        (0..100).for_each(|_| learn_at(0.0, 1.0));
        (0..60).for_each(|_| learn_at(8.0 * day, 3.0));
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
            (0..10).for_each(|_| {
                learn(&mut calibration, at(now), [at(now + 50.0), at(now + 100.0), at(now + 200.0)], at(now + 100.0));
            });
        }
        let busy = |number: u32| 2.0 * day + f64::from(number);
        for number in 0..300 {
            let now = busy(number);
            learn(&mut calibration, at(now), [at(now + 50.0), at(now + 100.0), at(now + 200.0)], at(now + 5000.0));
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
            learn(&mut calibration, at(0.0), said, start);
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
