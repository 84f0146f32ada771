//! The exact expected gradient of a table: every state is visited with its probability, so that nothing is sampled. It is the oracle that
//! sampled learning is compared with.

use crate::adapt::choose::game::Game;
use crate::adapt::choose::policy::{Decision, PolicyNetwork};
use crate::adapt::record::table::DECISIONS;
use rota_nn::Adam;

/// How the exact gradient is followed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExactSettings {
    /// The number of updates.
    pub updates: u64,
    /// Adam's step size.
    pub rate: f32,
    /// The weight of the entropy at the first update and at the last; it falls by the same factor with every update.
    pub entropy: (f64, f64),
}

impl ExactSettings {
    /// The usual settings for this many updates.
    pub fn new(updates: u64) -> Self {
        Self { updates, rate: 1e-3, entropy: (0.5, 0.01) }
    }
}

/// Follows the exact gradient of the expected reward.
pub fn learn_exactly(network: &mut PolicyNetwork, game: &Game, rewards: &[f64], settings: ExactSettings) {
    let mut adam = Adam::new(network.parameters().len());
    let mut gradient = vec![0.0; network.parameters().len()];
    let mut decisions = vec![Decision::default(); game.states().len()];
    let (first, last) = settings.entropy;
    let factor = (last / first).powf(1.0 / settings.updates.max(2) as f64);
    let mut entropy = first;
    for _ in 0..settings.updates {
        gradient.fill(0.0);
        for (state, decision) in game.states().iter().zip(&mut decisions) {
            network.decide(state, decision);
        }
        let chances = decisions.iter().map(|decision| decision.probabilities.clone()).collect::<Vec<_>>();
        for (decision, slopes) in decisions.iter_mut().zip(slopes(game, &chances, rewards, entropy)) {
            network.learn(decision, &slopes, &mut gradient);
        }
        adam.step(network.parameters_mut(), &gradient, settings.rate);
        entropy *= factor;
    }
}

/// The slopes of minus (expected reward + entropy) by the scores of each state.
fn slopes(game: &Game, chances: &[Vec<f32>], rewards: &[f64], entropy: f64) -> Vec<Vec<f32>> {
    let mut slopes = vec![Vec::new(); chances.len()];
    walk(game, chances, rewards, entropy, &mut Vec::new(), 1.0, &mut |state, reach, values, mean| {
        let slope = |(chance, value): (&f32, &f64)| (-reach * f64::from(*chance) * (value - mean)) as f32;
        slopes[state] = chances[state].iter().zip(values).map(slope).collect();
    });
    slopes
}

/// Walks the tree of decisions from a history on, and gives the value of the history: the reward to be expected, and so much of the
/// entropy of each decision. Tells each state with the probability of reaching it, the values of its actions, and their mean.
fn walk(
    game: &Game,
    chances: &[Vec<f32>],
    rewards: &[f64],
    entropy: f64,
    before: &mut Vec<usize>,
    reach: f64,
    tell: &mut impl FnMut(usize, f64, &[f64], f64),
) -> f64 {
    let state = game.place(before);
    let actions = chances[state].len();
    let mut values = Vec::with_capacity(actions);
    for action in 0..actions {
        let chance = f64::from(chances[state][action]);
        before.push(action);
        let value = if before.len() == DECISIONS {
            rewards[before.iter().fold(0, |place, action| place * actions + action)]
        } else {
            walk(game, chances, rewards, entropy, before, reach * chance, tell)
        };
        before.pop();
        values.push(value - entropy * chance.max(1e-30).ln());
    }
    let mean = values.iter().zip(&chances[state]).map(|(value, chance)| value * f64::from(*chance)).sum();
    tell(state, reach, &values, mean);
    mean
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapt::choose::vocabulary::Vocabulary;
    use crate::adapt::record::reward::standardised;
    use crate::adapt::record::table::tests::example;
    use rota_core::random::RandomStream;
    use rota_nn::softmax;

    #[test]
    fn slopes_equal_finite_differences_of_reward_and_entropy() {
        let table = example();
        let game = Game::new(&table, &Vocabulary::Free(1)).unwrap();
        let rewards = standardised(&table.runs.iter().map(|run| run.accuracy).collect::<Vec<_>>());
        let mut stream = RandomStream::new(2, "test");
        let scores = (0..21).map(|_| (0..4).map(|_| stream.normal() as f32).collect::<Vec<_>>()).collect::<Vec<_>>();
        let chances = |scores: &[Vec<f32>]| {
            let mut chances = scores.to_vec();
            for row in &mut chances {
                softmax(row);
            }
            chances
        };
        let entropy = 0.3;
        let found = slopes(&game, &chances(&scores), &rewards, entropy);
        for (state, action) in [(0, 0), (2, 3), (7, 1), (20, 2)] {
            let moved = |step: f32| {
                let mut moved = scores.clone();
                moved[state][action] += step;
                -walk(&game, &chances(&moved), &rewards, entropy, &mut Vec::new(), 1.0, &mut |_, _, _, _| {})
            };
            let numeric = (moved(1e-2) - moved(-1e-2)) / 2e-2;
            let slope = f64::from(found[state][action]);
            assert!((numeric - slope).abs() < 1e-4, "{state} {action}: {numeric} against {slope}");
        }
    }

    #[test]
    fn an_easy_table_is_solved_in_a_few_updates() {
        let table = example();
        let game = Game::new(&table, &Vocabulary::Free(1)).unwrap();
        let rewards = standardised(&table.runs.iter().map(|run| run.accuracy).collect::<Vec<_>>());
        let mut network = PolicyNetwork::random(4, &mut RandomStream::new(1, "policy"));
        learn_exactly(&mut network, &game, &rewards, ExactSettings::new(60));
        assert_eq!(game.greedy(&network).0, [0, 0, 0]);
    }
}
