//! What came of forecasts: each beside the true start, and the figures that sum them up. A figure of no forecasts is null, never zero.

use rota_core::Time;
use serde::Serialize;

/// One forecast and what happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The number of the job.
    pub number: u64,
    /// The moment of the forecast.
    pub made_at: Time,
    /// Whether the job had just arrived; otherwise it had waited for a while.
    pub is_first: bool,
    /// What was said, corrected by how earlier forecasts turned out; `None` where the start was not known.
    pub said: Option<[Time; 3]>,
    /// The same before it was corrected.
    pub drawn: Option<[Time; 3]>,
    /// The start if the job were the next one.
    pub if_next: Option<Time>,
    /// The start by backfilling with users' limits.
    pub by_limits: Option<Time>,
    /// The true start.
    pub start: Time,
}

/// How near some forecasts came. Errors are in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Accuracy {
    /// Forecasts that named a start.
    pub jobs: usize,
    /// Forecasts that said the start is not known yet.
    pub unknown: usize,
    /// The part of the starts between the tenth and the ninetieth percentile.
    pub coverage_p10_p90: Option<f64>,
    /// The median of the forecast minus the true start.
    pub bias_s: Option<f64>,
    /// The median of the absolute error of the middle forecast.
    pub error_median_s: Option<f64>,
    /// The median of the waits that were forecast.
    pub wait_median_s: Option<f64>,
    /// The same error of the start if the job were the next one.
    pub next_error_median_s: Option<f64>,
    /// The same error of one run forward by the users' limits.
    pub limits_error_median_s: Option<f64>,
}

/// The figures of a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Score {
    /// All forecasts.
    #[serde(flatten)]
    pub all: Accuracy,
    /// Those of jobs that had just arrived.
    pub at_submission: Accuracy,
    /// Those of jobs that had waited for a while.
    pub while_waiting: Accuracy,
}

impl Score {
    /// Sums up forecasts.
    pub fn of(outcomes: &[Outcome]) -> Self {
        Self {
            all: Accuracy::of(outcomes.iter()),
            at_submission: Accuracy::of(outcomes.iter().filter(|outcome| outcome.is_first)),
            while_waiting: Accuracy::of(outcomes.iter().filter(|outcome| !outcome.is_first)),
        }
    }
}

impl Accuracy {
    fn of<'a>(outcomes: impl Iterator<Item = &'a Outcome>) -> Self {
        let mut unknown = 0;
        let mut known = Vec::new();
        for outcome in outcomes {
            match outcome.said {
                Some(said) => known.push((outcome, said)),
                None => unknown += 1,
            }
        }
        let error = |said: Time, outcome: &Outcome| said.seconds() - outcome.start.seconds();
        let error_of = |said: &dyn Fn(&Outcome) -> Option<Time>| {
            median(known.iter().filter_map(|(outcome, _)| Some(error(said(outcome)?, outcome).abs())).collect())
        };
        let inside = known.iter().filter(|(outcome, [low, _, high])| *low <= outcome.start && outcome.start <= *high).count();
        Self {
            jobs: known.len(),
            unknown,
            coverage_p10_p90: (!known.is_empty()).then(|| inside as f64 / known.len() as f64),
            bias_s: median(known.iter().map(|(outcome, [_, middle, _])| error(*middle, outcome)).collect()),
            error_median_s: error_of(&|outcome| outcome.said.map(|[_, middle, _]| middle)),
            wait_median_s: median(known.iter().map(|(outcome, _)| -error(outcome.made_at, outcome)).collect()),
            next_error_median_s: error_of(&|outcome| outcome.if_next),
            limits_error_median_s: error_of(&|outcome| outcome.by_limits),
        }
    }
}

/// The middle value, or the mean of the middle two; `None` without values.
pub(crate) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let low = *values.get(values.len().checked_sub(1)? / 2)?;
    Some(f64::midpoint(low, values[values.len() / 2]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A forecast made at second 100, ten seconds to either side, and the true start.
    fn outcome(middle: Option<f64>, start: f64) -> Outcome {
        let at = |seconds: f64| Time((seconds * 1e9) as u64);
        let said = middle.map(|middle| [at(middle - 10.0), at(middle), at(middle + 10.0)]);
        Outcome {
            number: 1,
            made_at: at(100.0),
            is_first: start < 300.0,
            said,
            drawn: said,
            if_next: Some(at(100.0)),
            by_limits: None,
            start: at(start),
        }
    }

    #[test]
    fn medians_of_an_even_number_are_between_the_middle_two() {
        let score = Score::of(&[outcome(Some(204.0), 200.0), outcome(Some(260.0), 210.0), outcome(None, 220.0)]);
        let all = score.all;
        assert_eq!((all.jobs, all.unknown, all.coverage_p10_p90), (2, 1, Some(0.5)));
        assert_eq!((all.bias_s, all.error_median_s), (Some(27.0), Some(27.0)));
        assert_eq!((all.wait_median_s, all.next_error_median_s), (Some(105.0), Some(105.0)));
        assert_eq!(all.limits_error_median_s, None, "no user gave a limit");
        assert_eq!(median(vec![3.0, 1.0, 8.0]), Some(3.0));
    }

    #[test]
    fn a_figure_of_no_forecasts_is_null() {
        let score = Score::of(&[outcome(Some(204.0), 200.0)]);
        assert_eq!(score.while_waiting, Accuracy::default());
        assert_eq!((score.while_waiting.coverage_p10_p90, score.while_waiting.bias_s), (None, None));
        assert!(score.all.coverage_p10_p90.is_some() && score.all.bias_s.is_some());
    }

    #[test]
    fn figures_are_those_found_by_hand() {
        let score = Score::of(&[
            outcome(Some(200.0), 205.0),
            outcome(Some(250.0), 200.0),
            outcome(Some(390.0), 400.0),
            outcome(None, 500.0),
        ]);
        let all = score.all;
        assert_eq!((all.jobs, all.unknown, score.at_submission.jobs, score.while_waiting.jobs), (3, 1, 2, 1));
        assert!(all.coverage_p10_p90.is_some_and(|part| (part - 2.0 / 3.0).abs() < 1e-9));
        assert_eq!((all.bias_s, all.error_median_s), (Some(-5.0), Some(10.0)));
        assert_eq!((all.wait_median_s, all.next_error_median_s), (Some(105.0), Some(105.0)));
        assert_eq!(Score::of(&[]), Score::default());
    }
}
