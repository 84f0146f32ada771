//! The ladder of run times on which durations are learned: 60 steps, the first of 10 seconds, each end 1.3 times as far as the last.

use std::sync::LazyLock;

/// How many steps there are.
pub const STEPS: usize = 60;
const FIRST_SECONDS: f64 = 10.0;
const FACTOR: f64 = 1.3;

/// Where each step ends, in seconds of run time. The last one ends after 611 days; a job that runs longer stays in it.
static ENDS: LazyLock<[f64; STEPS]> = LazyLock::new(|| {
    let mut ends = [FIRST_SECONDS; STEPS];
    for step in 1..STEPS {
        ends[step] = ends[step - 1] * FACTOR;
    }
    ends
});

/// Where a step begins.
pub fn start_seconds(step: usize) -> f64 {
    if step == 0 { 0.0 } else { ENDS[step.min(STEPS) - 1] }
}

/// Where a step ends.
pub fn end_seconds(step: usize) -> f64 {
    ENDS[step.min(STEPS - 1)]
}

/// The step that a job is in after so many seconds of run time.
pub fn step_of(seconds: f64) -> usize {
    // Most jobs that are asked for have not run yet.
    if seconds < FIRST_SECONDS { 0 } else { ENDS.partition_point(|end| *end <= seconds).min(STEPS - 1) }
}

/// One number for each step, written down as a list.
pub(super) mod by_step {
    use super::STEPS;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// Writes the numbers.
    pub fn serialize<S: Serializer>(numbers: &[f64; STEPS], serializer: S) -> Result<S::Ok, S::Error> {
        numbers.as_slice().serialize(serializer)
    }

    /// Reads as many numbers as there are steps.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<[f64; STEPS], D::Error> {
        let numbers = Vec::<f64>::deserialize(deserializer)?;
        numbers.try_into().map_err(|other: Vec<f64>| D::Error::invalid_length(other.len(), &"one number for each step"))
    }
}
