//! How sure a difference is: the days of the past are drawn again and again, and the difference is taken each time.
//!
//! Jobs of one day wait for each other, so single jobs say less than they seem to; days are nearly independent.

use rota_core::random::RandomStream;
use serde::Serialize;

const DRAWS: usize = 2000;
const DAY_SECONDS: f64 = 86_400.0;
const HOUR_SECONDS: f64 = 3600.0;
/// With fewer pieces of time than this nothing can be said.
const PIECES_MIN: usize = 5;

/// A mean difference over all jobs, in seconds, with its 95 % interval where there is enough time to draw from; nothing without jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[expect(clippy::struct_field_names, reason = "scripts read these names; the unit is last")]
pub struct Difference {
    pub mean_s: Option<f64>,
    pub low_s: Option<f64>,
    pub high_s: Option<f64>,
}

/// What was drawn again, in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pieces {
    Days,
    Hours,
    TooFew,
}

impl Pieces {
    /// What a past of so many seconds is cut into.
    pub fn of(span_s: f64) -> Self {
        if span_s / DAY_SECONDS >= PIECES_MIN as f64 {
            Self::Days
        } else if span_s / HOUR_SECONDS >= PIECES_MIN as f64 {
            Self::Hours
        } else {
            Self::TooFew
        }
    }

    /// How the intervals were made, for people.
    pub fn words(self) -> &'static str {
        match self {
            Self::Days => "intervals hold 95 % of the means when the days of the past are drawn again",
            Self::Hours => {
                "the past is short: intervals hold 95 % of the means when its hours are drawn again, and are too narrow"
            }
            Self::TooFew => "the past is too short for intervals: it has less than five hours",
        }
    }
}

/// The mean of differences, one a job, with the job's arrival in seconds.
pub fn difference(jobs: &[(f64, f64)], pieces: Pieces, seed: u64) -> Difference {
    let length = match pieces {
        Pieces::Days => DAY_SECONDS,
        Pieces::Hours | Pieces::TooFew => HOUR_SECONDS,
    };
    let mut sums: Vec<(f64, f64)> = Vec::new();
    for (arrival_s, value) in jobs {
        let piece = (arrival_s / length) as usize;
        if sums.len() <= piece {
            sums.resize(piece + 1, (0.0, 0.0));
        }
        sums[piece].0 += value;
        sums[piece].1 += 1.0;
    }
    let mean = |sums: &mut dyn Iterator<Item = (f64, f64)>| {
        let (sum, count) = sums.fold((0.0, 0.0), |all, one| (all.0 + one.0, all.1 + one.1));
        sum / count
    };
    // Days without a job say nothing.
    sums.retain(|(_, count)| *count > 0.0);
    let mean_s = (!sums.is_empty()).then(|| mean(&mut sums.iter().copied()));
    if pieces == Pieces::TooFew || sums.len() < PIECES_MIN {
        return Difference { mean_s, low_s: None, high_s: None };
    }
    let mut stream = RandomStream::new(seed, "days drawn again");
    let mut drawn = (0..DRAWS)
        .map(|_| mean(&mut (0..sums.len()).map(|_| sums[stream.below(sums.len() as u64) as usize])))
        .collect::<Vec<_>>();
    drawn.sort_by(f64::total_cmp);
    let at = |fraction: f64| Some(drawn[((DRAWS - 1) as f64 * fraction).round() as usize]);
    Difference { mean_s, low_s: at(0.025), high_s: at(0.975) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_that_every_day_shows_is_sure() {
        let jobs = (0..100).map(|job| (f64::from(job) * 8640.0, -60.0 - f64::from(job % 3))).collect::<Vec<_>>();
        let sure = difference(&jobs, Pieces::of(864_000.0), 0);
        assert!((sure.mean_s.unwrap() + 60.99).abs() < 1e-9, "{sure:?}");
        assert!(sure.high_s.unwrap() < -60.0 && sure.low_s.unwrap() > -62.0, "{sure:?}");
    }

    #[test]
    fn one_bad_day_makes_it_unsure() {
        let jobs = (0..100).map(|job| (f64::from(job) * 8640.0, if job < 10 { 1000.0 } else { -50.0 })).collect::<Vec<_>>();
        let unsure = difference(&jobs, Pieces::Days, 0);
        assert!(unsure.low_s.unwrap() < 0.0 && unsure.high_s.unwrap() > 0.0, "{unsure:?}");
    }

    #[test]
    fn a_short_past_has_no_interval() {
        assert_eq!(Pieces::of(3600.0), Pieces::TooFew);
        assert_eq!(
            difference(&[(0.0, 5.0), (10.0, 7.0)], Pieces::TooFew, 0),
            Difference { mean_s: Some(6.0), low_s: None, high_s: None }
        );
        assert_eq!(difference(&[], Pieces::Days, 0), Difference::default(), "without jobs there is no mean");
    }
}
