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
    /// The job ends before this moment as likely as not.
    pub end_p50: Option<String>,
    /// The jobs whose ends it waits for most often; where the start is not known, the jobs of unknown length.
    pub depends_on: Vec<u64>,
    /// Why the start is not known, in words.
    pub note: Option<String>,
}

/// What is expected of the whole queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Predictions {
    /// The moment from which the queue was run forward; null before the first time.
    pub made_at: Option<String>,
    /// Ended jobs that the lengths were learned from.
    pub learned_from: u64,
    /// Why nothing is expected, where that is so.
    pub note: Option<String>,
    /// The waiting jobs, in the order in which they are expected to start.
    pub jobs: Vec<Prediction>,
}
