//! Ways to count a run's time. A network trains alike whatever its time is said to cost; only the end of the run depends on it. So one
//! training serves every way of counting: each cuts it where its own budget ends.

use crate::adapt::network::architecture::{Architecture, StructureError};
use crate::adapt::record::table::{DECISIONS, Triple};
use crate::adapt::train::job::Cost;

/// What rounding may add up to over the batches of a run.
pub(super) const ROUNDING_S: f64 = 1e-9;

/// A way to count the time of runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Timing {
    /// The name of the scenario in the table.
    pub scenario: String,
    /// What epochs cost. The wall clock cannot be counted afterwards, and is not for sweeps.
    pub cost: Cost,
    /// The seconds of a run.
    pub budget_s: f64,
}

/// Where a budget cuts a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Cut {
    /// Scored epochs since the network may grow.
    pub epochs: usize,
    /// Seconds left before each decision.
    pub left_s: [f64; DECISIONS],
}

impl Timing {
    /// Where this budget cuts a run that may grow from `opened_s` on and does these actions, one before each of its next epochs.
    pub fn cut(&self, base: &Architecture, opened_s: f64, actions: &[usize]) -> Result<Cut, StructureError> {
        let mut elapsed_s = opened_s;
        let mut cut = Cut { epochs: 0, left_s: [0.0; DECISIONS] };
        let mut grown = base.clone();
        loop {
            if cut.epochs < actions.len().max(1) {
                grown = base.after(&actions[..actions.len().min(cut.epochs + 1)])?;
            }
            let left_s = self.budget_s - elapsed_s;
            // An epoch that does not fit is the last question: later decisions are made at the same moment.
            cut.left_s.iter_mut().skip(cut.epochs).for_each(|left| *left = left_s.max(0.0));
            let epoch_s = self.cost.epoch_s(base, &grown) + self.cost.scoring_s(base, &grown);
            if left_s < epoch_s - ROUNDING_S {
                return Ok(cut);
            }
            elapsed_s += epoch_s;
            cut.epochs += 1;
        }
    }
}

/// The epochs that the longest of several budgets lets a run have since its network may grow.
pub fn epochs_wanted(timings: &[Timing], base: &Architecture, opened_s: f64, actions: &[usize]) -> Result<usize, StructureError> {
    timings.iter().try_fold(0, |most, timing| Ok(most.max(timing.cut(base, opened_s, actions)?.epochs)))
}

/// The actions of a run, padded with "nothing".
pub fn padded(actions: &[usize], base: &Architecture) -> Triple {
    std::array::from_fn(|step| actions.get(step).copied().unwrap_or(base.blocks()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapt::network::architecture::{FinalRelu, InputShape, ModelKind};

    #[test]
    fn a_budget_cuts_a_run_by_what_its_network_costs() {
        let input = InputShape { channels: 1, height: 14, width: 14, classes: 10 };
        let base = Architecture::new(ModelKind::ConvNet2, input, FinalRelu::Dropped).unwrap();
        let timing = |cost, budget_s| Timing { scenario: "middle".to_owned(), cost, budget_s };
        let recorded = timing(Cost::Recorded, 117.6);
        assert_eq!(recorded.cut(&base, 45.0, &[3, 3, 3]).unwrap().epochs, 6);
        let grown = recorded.cut(&base, 45.0, &[0, 0, 0]).unwrap();
        assert_eq!(grown.epochs, 6);
        assert!((grown.left_s[0] - 72.6).abs() < 1e-9 && (grown.left_s[1] - (72.6 - 11.52)).abs() < 1e-9, "{grown:?}");
        // A first convolution more makes an epoch 8 times as long, and one more after it 15 times.
        let arithmetic = timing(Cost::Arithmetic, 45.0 + 24.0 * 11.25);
        assert_eq!(arithmetic.cut(&base, 45.0, &[3, 3, 3]).unwrap().epochs, 24);
        let grown = arithmetic.cut(&base, 45.0, &[0, 0, 0]).unwrap();
        assert_eq!(grown.epochs, 2);
        assert!(grown.left_s[2] < 20.0, "{grown:?}");
        assert_eq!(epochs_wanted(&[recorded, arithmetic], &base, 45.0, &[0, 0, 0]), Ok(6));
    }
}
