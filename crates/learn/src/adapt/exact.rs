//! The exact expected gradient of a table: every state is visited with its probability, so that nothing is sampled. It is the oracle that
//! sampled learning is compared with.

use super::game::Game;
use super::policy::{Decision, PolicyNetwork};
use super::table::DECISIONS;
use rota_nn::Adam;

/// The step size.
const RATE: f32 = 1e-3;
/// The weight of the entropy at the start; it falls to zero at the end.
const ENTROPY: f64 = 0.05;

/// Follows the exact gradient of the expected reward for a number of updates.
pub fn learn_exactly(network: &mut PolicyNetwork, game: &Game, rewards: &[f64], updates: u64) {
    let mut adam = Adam::new(network.parameters().len());
    let mut gradient = vec![0.0; network.parameters().len()];
    let mut decisions = vec![Decision::default(); game.states().len()];
    for update in 0..updates {
        gradient.fill(0.0);
        for (state, decision) in game.states().iter().zip(&mut decisions) {
            network.decide(state, decision);
        }
        let entropy = ENTROPY * (1.0 - update as f64 / updates as f64);
        let chances = decisions.iter().map(|decision| decision.probabilities.clone()).collect::<Vec<_>>();
        for (decision, slopes) in decisions.iter_mut().zip(slopes(game, &chances, rewards, entropy)) {
            network.learn(decision, &slopes, &mut gradient);
        }
        adam.step(network.parameters_mut(), &gradient, RATE);
    }
}

/// The expected reward of a policy.
pub fn expected_reward(chances: &[Vec<f32>], game: &Game, rewards: &[f64]) -> f64 {
    walk(game, chances, rewards, &mut Vec::new(), 1.0, &mut |_, _, _| {})
}

/// The slopes of minus (expected reward + entropy) by the scores of each state.
fn slopes(game: &Game, chances: &[Vec<f32>], rewards: &[f64], entropy: f64) -> Vec<Vec<f32>> {
    let mut slopes = vec![Vec::new(); chances.len()];
    walk(game, chances, rewards, &mut Vec::new(), 1.0, &mut |state, reach, values| {
        let own = chances[state].iter().map(|chance| f64::from(*chance)).collect::<Vec<_>>();
        let mean = own.iter().zip(values).map(|(chance, value)| chance * value).sum::<f64>();
        let logarithm = |chance: f64| chance.max(1e-30).ln();
        let disorder = -own.iter().map(|chance| chance * logarithm(*chance)).sum::<f64>();
        let slope = |(chance, value): (&f64, &f64)| {
            let gain = chance * (value - mean) - entropy * chance * (logarithm(*chance) + disorder);
            (-reach * gain) as f32
        };
        slopes[state] = own.iter().zip(values).map(slope).collect();
    });
    slopes
}

/// Walks the tree of decisions from a history on, tells each state with the probability of reaching it and the values of its actions, and
/// gives the value of the history.
fn walk(
    game: &Game,
    chances: &[Vec<f32>],
    rewards: &[f64],
    before: &mut Vec<usize>,
    reach: f64,
    tell: &mut impl FnMut(usize, f64, &[f64]),
) -> f64 {
    let state = game.place(before);
    let actions = chances[state].len();
    let mut values = Vec::with_capacity(actions);
    for action in 0..actions {
        before.push(action);
        values.push(if before.len() == DECISIONS {
            rewards[before.iter().fold(0, |place, action| place * actions + action)]
        } else {
            walk(game, chances, rewards, before, reach * f64::from(chances[state][action]), tell)
        });
        before.pop();
    }
    tell(state, reach, &values);
    values.iter().zip(&chances[state]).map(|(value, chance)| value * f64::from(*chance)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapt::reward::standardised;
    use crate::adapt::table::tests::example;
    use crate::adapt::vocabulary::Vocabulary;
    use rota_core::random::RandomStream;
    use rota_nn::softmax;

    #[test]
    fn slopes_equal_finite_differences_of_the_expected_reward() {
        let table = example();
        let game = Game::new(&table, &Vocabulary::Free(1)).unwrap();
        let rewards = standardised(&table.runs.iter().map(|run| run.accuracy).collect::<Vec<_>>());
        let mut stream = RandomStream::new(2, "test");
        let scores = (0..21).map(|_| (0..4).map(|_| stream.normal() as f32).collect::<Vec<_>>()).collect::<Vec<_>>();
        let chances = |scores: &[Vec<f32>]| {
            let mut chances = scores.to_vec();
            chances.iter_mut().for_each(|row| softmax(row));
            chances
        };
        let found = slopes(&game, &chances(&scores), &rewards, 0.0);
        for (state, action) in [(0, 0), (2, 3), (7, 1), (20, 2)] {
            let moved = |step: f32| {
                let mut moved = scores.clone();
                moved[state][action] += step;
                -expected_reward(&chances(&moved), &game, &rewards)
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
        learn_exactly(&mut network, &game, &rewards, 60);
        assert_eq!(game.greedy(&network).0, [0, 0, 0]);
    }
}
