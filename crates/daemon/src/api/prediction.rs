//! When waiting jobs are expected to start.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// When a waiting job is expected to start and to end. Times are null where they depend on jobs whose length is not known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Prediction {
    /// The job's number.
    pub id: u64,
    /// The job's place among the waiting jobs, from 1, by when they are expected to start.
    pub position: u32,
    /// The job starts before this moment with a chance of one in ten.
    pub start_p10: Option<String>,
    /// The job starts before this moment as likely as not.
    pub start_p50: Option<String>,
    /// The job starts before this moment with a chance of nine in ten.
    pub start_p90: Option<String>,
    /// The job ends before this moment with a chance of one in ten.
    pub end_p10: Option<String>,
    /// The job ends before this moment as likely as not.
    pub end_p50: Option<String>,
    /// The job ends before this moment with a chance of nine in ten.
    pub end_p90: Option<String>,
    /// The jobs whose ends it waits for most often; where the start is not known, the jobs of unknown length.
    pub depends_on: Vec<u64>,
    /// Why the start is not known, in words.
    pub note: Option<String>,
}

impl Prediction {
    /// The same at a later moment: what has not happened by then is still to come. Times are of one form, so that their texts are in
    /// their order.
    #[must_use]
    pub fn at(&self, now: &str) -> Self {
        let no_earlier = |time: &Option<String>| time.as_deref().map(|time| time.max(now).to_owned());
        Self {
            start_p10: no_earlier(&self.start_p10),
            start_p50: no_earlier(&self.start_p50),
            start_p90: no_earlier(&self.start_p90),
            end_p10: no_earlier(&self.end_p10),
            end_p50: no_earlier(&self.end_p50),
            end_p90: no_earlier(&self.end_p90),
            ..self.clone()
        }
    }
}

/// How the starts that were predicted of the latest jobs turned out. Of each job its first prediction counts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EarlierPredictions {
    /// Jobs that started after a start had been predicted, 400 at most.
    pub jobs: usize,
    /// The part of them that started between `start_p10` and `start_p90`; 0.8 would be right.
    pub coverage_p10_p90: f64,
    /// The median of the seconds between `start_p50` and the start.
    pub error_median_s: f64,
}

/// What is expected of the whole queue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Predictions {
    /// The moment from which the queue was run forward; null before the first time.
    pub made_at: Option<String>,
    /// Ended jobs that the lengths were learned from.
    pub learned_from: u64,
    /// How the starts that were predicted earlier turned out; null until twenty such jobs have started since the daemon began.
    pub earlier: Option<EarlierPredictions>,
    /// Why nothing is expected, where that is so.
    pub note: Option<String>,
    /// The waiting jobs, in the order in which they are expected to start.
    pub jobs: Vec<Prediction>,
}
