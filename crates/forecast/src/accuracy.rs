//! What came of forecasts: each beside the true start, and the figures that sum them up.

use rota_core::Time;

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
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Accuracy {
    /// Forecasts that named a start.
    pub jobs: usize,
    /// Forecasts that said the start is not known yet.
    pub unknown: usize,
    /// The part of the starts between the tenth and the ninetieth percentile.
    pub coverage_p10_p90: f64,
    /// The median of what was said minus what happened.
    pub bias_s: f64,
    /// The median of the absolute error of the middle forecast.
    pub error_median_s: f64,
    /// The median of the waits that were forecast.
    pub wait_median_s: f64,
    /// The same error of the start if the job were the next one.
    pub next_error_median_s: f64,
    /// The same error of one run forward by the users' limits.
    pub limits_error_median_s: f64,
}

/// The figures of a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
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
        let error = |said: Time, outcome: &Outcome| seconds(said) - seconds(outcome.start);
        let median_of = |said: &dyn Fn(&Outcome) -> Option<Time>| {
            median(known.iter().filter_map(|(outcome, _)| Some(error(said(outcome)?, outcome).abs())).collect())
        };
        let inside = known.iter().filter(|(outcome, [low, _, high])| *low <= outcome.start && outcome.start <= *high).count();
        Self {
            jobs: known.len(),
            unknown,
            coverage_p10_p90: inside as f64 / known.len().max(1) as f64,
            bias_s: median(known.iter().map(|(outcome, [_, middle, _])| error(*middle, outcome)).collect()),
            error_median_s: median_of(&|outcome| outcome.said.map(|[_, middle, _]| middle)),
            wait_median_s: median(known.iter().map(|(outcome, _)| seconds(outcome.start) - seconds(outcome.made_at)).collect()),
            next_error_median_s: median_of(&|outcome| outcome.if_next),
            limits_error_median_s: median_of(&|outcome| outcome.by_limits),
        }
    }
}

fn seconds(time: Time) -> f64 {
    time.0 as f64 / 1e9
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn figures_are_those_found_by_hand() {
        let score = Score::of(&[
            outcome(Some(200.0), 205.0),
            outcome(Some(250.0), 200.0),
            outcome(Some(390.0), 400.0),
            outcome(None, 500.0),
        ]);
        let all = score.all;
        assert_eq!((all.jobs, all.unknown, score.at_submission.jobs, score.while_waiting.jobs), (3, 1, 2, 1));
        assert!((all.coverage_p10_p90 - 2.0 / 3.0).abs() < 1e-9);
        assert!((all.bias_s + 5.0).abs() < 1e-9 && (all.error_median_s - 10.0).abs() < 1e-9, "{all:?}");
        assert!((all.wait_median_s - 105.0).abs() < 1e-9 && (all.next_error_median_s - 105.0).abs() < 1e-9, "{all:?}");
        assert_eq!(Score::of(&[]), Score::default());
    }
}
