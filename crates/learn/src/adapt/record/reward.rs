//! What a final accuracy is worth to a learner.

use crate::adapt::record::table::Table;

/// An accuracy without a reward.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error(
    "an accuracy of {0} has no reward: 100·tan(a·π/2) is for accuracies from 0 to below 1; without --compat the reward is \
     standardised and has no such limit"
)]
pub struct NoReward(pub f64);

/// The study's reward: 100·tan(a·π/2). It has a pole at 1.
pub fn tangent(accuracy: f64) -> Result<f64, NoReward> {
    if (0.0..1.0).contains(&accuracy) {
        Ok(100.0 * (accuracy * std::f64::consts::FRAC_PI_2).tan())
    } else {
        Err(NoReward(accuracy))
    }
}

/// The study's rewards of all triples of a table.
pub fn tangents(table: &Table) -> Result<Vec<f64>, NoReward> {
    table.runs.iter().map(|run| tangent(run.accuracy)).collect()
}

/// The accuracies of a table in standard deviations from their mean. A table whose runs are all equal gives zeros.
pub fn standardised(accuracies: &[f64]) -> Vec<f64> {
    let count = accuracies.len().max(1) as f64;
    let mean = accuracies.iter().sum::<f64>() / count;
    let variance = accuracies.iter().map(|accuracy| (accuracy - mean).powi(2)).sum::<f64>() / count;
    let width = if variance > 1e-18 { variance.sqrt() } else { 1.0 };
    accuracies.iter().map(|accuracy| (accuracy - mean) / width).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_studys_numbers_come_out_and_the_pole_is_refused() {
        for (accuracy, reward) in [(0.7194, 211.99), (0.60, 137.6), (0.37, 65.7), (0.9, 631.4)] {
            assert!((tangent(accuracy).unwrap() - reward).abs() < 0.05, "{accuracy}");
        }
        assert!(tangent(1.0).unwrap_err().to_string().contains("an accuracy of 1 has no reward"));
        assert_eq!(standardised(&[0.5, 0.5]), [0.0, 0.0]);
        assert_eq!(standardised(&[1.0, 3.0]), [-1.0, 1.0]);
    }
}
