//! REINFORCE as the study runs it: one episode, one step of Adam, the same reward for all three decisions, no baseline. A transfer starts
//! from another policy and may explore by a temperature that decays with every episode.

use crate::adapt::choose::game::Game;
use crate::adapt::choose::policy::{Decision, PolicyNetwork};
use crate::adapt::record::table::{DECISIONS, Triple};
use rota_core::random::RandomStream;
use rota_nn::{Adam, softmax};

/// The study's step size for a policy.
pub const RATE: f64 = 1e-4;
const RATE_DECAY: f64 = 0.99;
const RATE_PERIOD: u64 = 500;
const RATE_LEAST: f64 = 1e-9;
const TEMPERATURE_DECAY: f64 = 0.9;

/// A policy that learns from episodes.
pub struct Learner {
    /// The network of the policy.
    pub network: PolicyNetwork,
    adam: Adam,
    temperature: f64,
    rate: f64,
    episodes: u64,
    gradient: Vec<f32>,
    decisions: [Decision; DECISIONS],
}

/// What an episode was.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Episode {
    /// The three actions of the episode.
    pub triple: Triple,
    /// The mean of -log p · r over the decisions.
    pub objective: f64,
}

impl Learner {
    /// A learner from this policy. A temperature above 1 explores at first.
    pub fn new(network: PolicyNetwork, rate: f64, temperature: f64) -> Self {
        let count = network.parameters().len();
        let (adam, gradient) = (Adam::new(count), vec![0.0; count]);
        Self { network, adam, temperature, rate, episodes: 0, gradient, decisions: Default::default() }
    }

    /// Plays one episode and learns from it. `rewards` has the reward of every triple in their order.
    pub fn play(&mut self, game: &Game, rewards: &[f64], stream: &mut RandomStream) -> Episode {
        let actions = self.network.actions();
        let mut triple = [0; DECISIONS];
        let mut chances: [Vec<f32>; DECISIONS] = Default::default();
        for step in 0..DECISIONS {
            let decision = &mut self.decisions[step];
            self.network.decide(game.state(&triple[..step]), decision);
            chances[step] = flattened(&decision.probabilities, self.temperature);
            triple[step] = sample(&chances[step], stream.unit());
        }
        let place = triple.iter().fold(0, |place, action| place * actions + action);
        let reward = rewards[place];
        self.gradient.fill(0.0);
        let mut objective = 0.0;
        for step in 0..DECISIONS {
            let (action, share) = (triple[step], (reward / DECISIONS as f64) as f32);
            objective -= f64::from(chances[step][action].max(f32::MIN_POSITIVE)).ln() * f64::from(share);
            let decision = &mut self.decisions[step];
            let mut slopes = chances[step].iter().map(|chance| share * chance).collect::<Vec<_>>();
            slopes[action] -= share;
            if self.temperature > 1.0 {
                slopes = through_softmax(&slopes, &decision.probabilities, self.temperature);
            }
            self.network.learn(decision, &slopes, &mut self.gradient);
        }
        let decays = (self.episodes / RATE_PERIOD).min(100_000) as i32;
        let rate = (self.rate * RATE_DECAY.powi(decays)).max(RATE_LEAST);
        self.adam.step(self.network.parameters_mut(), &self.gradient, rate as f32);
        self.episodes += 1;
        self.temperature = (self.temperature * TEMPERATURE_DECAY).max(1.0);
        Episode { triple, objective }
    }
}

/// The probabilities made flatter by a second softmax over them, which is what the study does above temperature 1.
fn flattened(probabilities: &[f32], temperature: f64) -> Vec<f32> {
    let mut chances = probabilities.to_vec();
    if temperature > 1.0 {
        for chance in &mut chances {
            *chance /= temperature as f32;
        }
        softmax(&mut chances);
    }
    chances
}

/// Slopes by the first softmax's scores, given those by the second one's.
fn through_softmax(slopes: &[f32], probabilities: &[f32], temperature: f64) -> Vec<f32> {
    let scaled = slopes.iter().map(|slope| slope / temperature as f32);
    let mean = scaled.clone().zip(probabilities).map(|(slope, chance)| slope * chance).sum::<f32>();
    scaled.zip(probabilities).map(|(slope, chance)| chance * (slope - mean)).collect()
}

fn sample(chances: &[f32], draw: f64) -> usize {
    let mut sum = 0.0;
    for (action, chance) in chances.iter().enumerate() {
        sum += f64::from(*chance);
        if draw < sum {
            return action;
        }
    }
    chances.len() - 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapt::choose::vocabulary::Vocabulary;
    use crate::adapt::record::reward::standardised;
    use crate::adapt::record::table::tests::example;

    #[test]
    fn a_temperature_flattens_and_its_slopes_pass_both_softmaxes() {
        let scores = [2.0_f32, -1.0, 0.5, 0.0];
        let loss = |scores: &[f32]| {
            let mut probabilities = scores.to_vec();
            softmax(&mut probabilities);
            -f64::from(flattened(&probabilities, 3.0)[1]).ln()
        };
        let mut probabilities = scores.to_vec();
        softmax(&mut probabilities);
        let mut slopes = flattened(&probabilities, 3.0);
        assert!(slopes.iter().all(|chance| *chance <= 0.475));
        slopes[1] -= 1.0;
        let slopes = through_softmax(&slopes, &probabilities, 3.0);
        for place in 0..4 {
            let (mut above, mut below) = (scores, scores);
            above[place] += 1e-2;
            below[place] -= 1e-2;
            let numeric = (loss(&above) - loss(&below)) / 2e-2;
            assert!((numeric - f64::from(slopes[place])).abs() < 1e-3, "{place}: {numeric} against {}", slopes[place]);
        }
    }

    #[test]
    fn a_learner_finds_a_good_triple_of_an_easy_table() {
        let table = example();
        let game = Game::new(&table, &Vocabulary::Free(1)).unwrap();
        let accuracies = table.runs.iter().map(|run| run.accuracy).collect::<Vec<_>>();
        let rewards = standardised(&accuracies);
        let mut stream = RandomStream::new(1, "policy");
        let mut learner = Learner::new(PolicyNetwork::random(4, &mut stream), 1e-3, 1.0);
        let before = game.greedy(&learner.network).0;
        for _ in 0..1500 {
            learner.play(&game, &rewards, &mut stream);
        }
        let (triple, _) = game.greedy(&learner.network);
        assert!(table.rank(triple) <= 8, "{triple:?} has rank {}, at first {before:?}", table.rank(triple));
    }
}
