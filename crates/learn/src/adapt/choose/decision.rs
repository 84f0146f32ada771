//! Who answers a job's question which block to deepen.

use crate::adapt::choose::forecast::Forecaster;
use crate::adapt::choose::policy::{Decision, PolicyNetwork, PolicyState, time_encoding};
use crate::adapt::choose::vocabulary::Vocabulary;
use crate::adapt::record::table::Triple;
use crate::adapt::train::training::{Question, RunError};
use rota_core::random::RandomStream;

/// A decision maker.
pub enum DecisionMaker {
    /// The network never grows.
    Nothing,
    /// Any block or nothing, each with the same probability.
    Random(Box<RandomStream>),
    /// These actions in turn, then nothing.
    Fixed(Vec<usize>),
    /// The default: the triple with the best forecast when the job may grow.
    Forecast(Forecaster, Option<Triple>),
    /// A policy's most probable action.
    Policy(PolicyNetwork, Vocabulary),
}

impl DecisionMaker {
    /// The default decision maker with what it has learned.
    pub fn forecasting(forecaster: Forecaster) -> Self {
        Self::Forecast(forecaster, None)
    }

    /// The action for a question: the number of a block, or the number of blocks for "nothing".
    pub fn decide(&mut self, question: &Question<'_>) -> Result<usize, RunError> {
        let nothing = question.base.blocks();
        Ok(match self {
            Self::Nothing => nothing,
            Self::Random(stream) => stream.below(nothing as u64 + 1) as usize,
            Self::Fixed(actions) => actions.get(question.before.len()).copied().unwrap_or(nothing),
            Self::Forecast(forecaster, chosen) => {
                if question.before.is_empty() {
                    *chosen = Some(forecaster.triple(question.base, question.left_s / question.total_s));
                }
                chosen.and_then(|triple| triple.get(question.before.len()).copied()).unwrap_or(nothing)
            }
            Self::Policy(network, vocabulary) => {
                if network.actions() != nothing + 1 {
                    return Err(RunError::Actions { policy: network.actions(), model: nothing + 1 });
                }
                let rows = vocabulary.rows(question.now.leaves()).map_err(|error| RunError::Vocabulary(error.to_string()))?;
                let state = PolicyState { layers: rows, time: time_encoding(question.left_s, question.total_s) };
                let mut decision = Decision::default();
                network.decide(&state, &mut decision);
                decision.greedy()
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapt::network::architecture::{Architecture, FinalRelu, InputShape, ModelKind};

    #[test]
    fn each_kind_answers_in_its_own_way() {
        let base = Architecture::new(ModelKind::ConvNet2, InputShape::CIFAR, FinalRelu::Dropped).unwrap();
        let ask = |maker: &mut DecisionMaker, before: &[usize]| {
            maker.decide(&Question { base: &base, now: &base, before, left_s: 200.0, total_s: 400.0 })
        };
        assert_eq!(ask(&mut DecisionMaker::Nothing, &[]), Ok(3));
        let mut fixed = DecisionMaker::Fixed(vec![0, 1]);
        assert_eq!([ask(&mut fixed, &[]), ask(&mut fixed, &[0]), ask(&mut fixed, &[0, 1])], [Ok(0), Ok(1), Ok(3)]);
        let mut random = DecisionMaker::Random(Box::new(RandomStream::new(1, "random")));
        let seen = (0..100).map(|_| ask(&mut random, &[]).unwrap()).collect::<std::collections::BTreeSet<_>>();
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), [0, 1, 2, 3]);
        let network = PolicyNetwork::random(5, &mut RandomStream::new(1, "policy"));
        let error = ask(&mut DecisionMaker::Policy(network, Vocabulary::Free(1)), &[]).unwrap_err();
        assert_eq!(error.to_string(), "the policy chooses from 5 actions, but the model has 4");
    }
}
