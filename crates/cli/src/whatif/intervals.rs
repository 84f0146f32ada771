//! How sure a difference is: the days of the past are drawn again and again, and the difference is taken each time.
//!
//! Jobs of one day wait for each other, so single jobs say less than they seem to; days are nearly independent.

use rota_core::random::RandomStream;
use serde::Serialize;

const DRAWS: usize = 2000;
const DAY_SECONDS: f64 = 86_400.0;
const HOUR_SECONDS: f64 = 3600.0;
/// With fewer pieces of time in which jobs came, nothing can be said.
const PIECES_MIN: usize = 5;

/// A mean difference over all jobs, in seconds, with its 95 % interval where there is enough time to draw from; nothing without jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[expect(clippy::struct_field_names, reason = "scripts read these names; the unit is last")]
pub struct Difference {
    pub mean_s: Option<f64>,
    pub low_s: Option<f64>,
    pub high_s: Option<f64>,
}

/// What a past is cut into: days, or hours where jobs came on too few days, counted from the first arrival.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pieces {
    Days { from_s: f64 },
    Hours { from_s: f64 },
    TooFew,
}

impl Pieces {
    /// What a past with jobs that arrived at these seconds is cut into.
    pub fn of(arrivals_s: &[f64]) -> Self {
        let from_s = arrivals_s.iter().copied().fold(f64::INFINITY, f64::min);
        let has_enough = |length: f64| {
            let mut pieces = arrivals_s.iter().map(|arrival| ((arrival - from_s) / length) as u64).collect::<Vec<_>>();
            pieces.sort_unstable();
            pieces.dedup();
            pieces.len() >= PIECES_MIN
        };
        if has_enough(DAY_SECONDS) {
            Self::Days { from_s }
        } else if has_enough(HOUR_SECONDS) {
            Self::Hours { from_s }
        } else {
            Self::TooFew
        }
    }

    /// How the intervals were made, for people.
    pub fn words(self) -> &'static str {
        match self {
            Self::Days { .. } => "intervals hold 95 % of the means when the days of the past are drawn again",
            Self::Hours { .. } => {
                "jobs came on fewer than five days: intervals hold 95 % of the means when the hours are drawn again, and are too narrow"
            }
            Self::TooFew => "the past is too short for intervals: jobs came in fewer than five hours",
        }
    }
}

/// The mean of differences, one a job, with the job's arrival in seconds.
pub fn difference(jobs: &[(f64, f64)], pieces: Pieces, seed: u64) -> Difference {
    let (from_s, length) = match pieces {
        Pieces::Days { from_s } => (from_s, DAY_SECONDS),
        Pieces::Hours { from_s } => (from_s, HOUR_SECONDS),
        Pieces::TooFew => (0.0, f64::INFINITY),
    };
    let mut sums: Vec<(f64, f64)> = Vec::new();
    for (arrival_s, value) in jobs {
        let piece = ((arrival_s - from_s) / length) as usize;
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
    if sums.len() < PIECES_MIN {
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
        let sure = difference(&jobs, Pieces::of(&jobs.iter().map(|(arrival, _)| *arrival).collect::<Vec<_>>()), 0);
        assert!((sure.mean_s.unwrap() + 60.99).abs() < 1e-9, "{sure:?}");
        assert!(sure.high_s.unwrap() < -60.0 && sure.low_s.unwrap() > -62.0, "{sure:?}");
    }

    #[test]
    fn one_bad_day_makes_it_unsure() {
        let jobs = (0..100).map(|job| (f64::from(job) * 8640.0, if job < 10 { 1000.0 } else { -50.0 })).collect::<Vec<_>>();
        let unsure = difference(&jobs, Pieces::Days { from_s: 0.0 }, 0);
        assert!(unsure.low_s.unwrap() < 0.0 && unsure.high_s.unwrap() > 0.0, "{unsure:?}");
    }

    #[test]
    fn a_short_past_has_no_interval() {
        assert_eq!(Pieces::of(&[0.0, 3600.0]), Pieces::TooFew);
        assert_eq!(Pieces::of(&[]), Pieces::TooFew);
        assert_eq!(
            difference(&[(0.0, 5.0), (10.0, 7.0)], Pieces::TooFew, 0),
            Difference { mean_s: Some(6.0), low_s: None, high_s: None }
        );
        assert_eq!(difference(&[], Pieces::Days { from_s: 0.0 }, 0), Difference::default(), "without jobs there is no mean");
    }

    #[test]
    fn time_before_the_first_job_and_time_without_jobs_do_not_count() {
        let hourly = |from_s: f64| (0..6).map(|hour| from_s + 3600.0 * f64::from(hour)).collect::<Vec<_>>();
        let jobs = |from_s: f64| hourly(from_s).into_iter().map(|arrival| (arrival, -arrival % 7.0)).collect::<Vec<_>>();
        assert_eq!(Pieces::of(&hourly(5e6)), Pieces::Hours { from_s: 5e6 });
        let late = difference(&jobs(7e6), Pieces::of(&hourly(7e6)), 0);
        assert!(late.low_s.is_some(), "{late:?}");
        // Nine jobs within two hours on either side of a year.
        let apart = (0..9).map(|job| f64::from(job) * 600.0 + if job < 5 { 0.0 } else { 3e7 }).collect::<Vec<_>>();
        assert_eq!(Pieces::of(&apart), Pieces::TooFew);
    }
}
