//! Policy gradients over rows: PPO (with a critic, clipped ratios and several passes), and REINFORCE as its plain ancestor.
//!
//! A choice is drawn from the softmax of the scores of the legal rows. Illegal rows have probability zero before and after every update, so
//! a mask is never broken. The critic looks at the mean of the rows.

use super::{Best, Point, Settings, TRAINING_SEEDS, TrainError, Trained};
use crate::environment::{Environment, View};
use crate::simulated::Episodes;
use crate::task::{Task, TaskError};
use rota_core::random::RandomStream;
use rota_nn::{Activation, Adam, Network, Workspace};

/// Environments that are stepped in turn.
const ENVIRONMENTS: usize = 16;
/// Steps that each takes between two updates.
const HORIZON: usize = 64;
const PASSES: usize = 4;
const MINIBATCH: usize = 256;
const RATE: f32 = 3e-3;
const DISCOUNT: f64 = 0.99;
const TRACE_DECAY: f64 = 0.95;
const CLIP: f32 = 0.2;
const ENTROPY: f32 = 0.01;
const GRADIENT_NORM_MAX: f32 = 0.5;
/// Updates between two looks at the validation episodes.
const JUDGE_EVERY: usize = 4;

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// Proximal policy optimisation.
    Ppo,
    /// Returns against their mean, one pass, no critic.
    Reinforce,
}

impl Variant {
    fn word(self) -> &'static str {
        match self {
            Self::Ppo => "ppo",
            Self::Reinforce => "reinforce",
        }
    }
}

/// One step that was taken.
struct Sample {
    /// The rows, as a range of all rows of the rollout, counted in rows.
    rows: std::ops::Range<usize>,
    choice: usize,
    log_probability: f32,
    value: f64,
    reward: f64,
    done: bool,
    advantage: f32,
    wanted_value: f32,
}

/// Everything between two updates.
#[derive(Default)]
struct Rollout {
    rows: Vec<f32>,
    legal: Vec<bool>,
    /// The mean of the rows of each step.
    means: Vec<f32>,
    samples: Vec<Sample>,
}

/// The probabilities of the rows: a softmax over the legal ones.
pub fn probabilities(scores: &[f32], legal: &[bool]) -> Vec<f32> {
    let top = scores.iter().zip(legal).filter(|(_, legal)| **legal).map(|(score, _)| *score).fold(f32::NEG_INFINITY, f32::max);
    let raw = |(score, legal): (&f32, &bool)| if *legal { (score - top).exp() } else { 0.0 };
    let mut probabilities = scores.iter().zip(legal).map(raw).collect::<Vec<_>>();
    let sum = probabilities.iter().sum::<f32>();
    for probability in &mut probabilities {
        *probability /= sum;
    }
    probabilities
}

/// Draws a row by its probability. Never an illegal one.
pub fn draw(probabilities: &[f32], legal: &[bool], stream: &mut RandomStream) -> usize {
    let mut left = stream.unit() as f32;
    let mut last = crate::environment::first_legal(legal);
    for (row, probability) in probabilities.iter().enumerate().filter(|(row, _)| legal[*row]) {
        last = row;
        left -= probability;
        if left < 0.0 {
            break;
        }
    }
    last
}

struct Learner {
    variant: Variant,
    score: Network,
    critic: Network,
    score_adam: Adam,
    critic_adam: Adam,
    workspace: Workspace,
    stream: RandomStream,
    /// What rewards are divided by.
    reward_scale: f64,
}

/// Trains a model. `progress` sees every checkpoint.
pub fn train(task: &Task, settings: &Settings, variant: Variant, progress: &mut dyn FnMut(Point)) -> Result<Trained, TrainError> {
    let names = task.step_features();
    let features = names.len();
    let score = settings.first_network(task)?;
    let mut stream = RandomStream::new(settings.seed, "critic");
    let sizes = settings.sizes(features);
    let critic = Network::random(&sizes, Activation::Tanh, 1.0, &mut || stream.normal())?;
    let mut learner = Learner {
        variant,
        score_adam: Adam::new(score.parameters().len()),
        critic_adam: Adam::new(critic.parameters().len()),
        score,
        critic,
        workspace: Workspace::default(),
        stream: RandomStream::new(settings.seed, "choices"),
        reward_scale: 1.0,
    };
    let mut environments = Vec::new();
    let mut next_seed = TRAINING_SEEDS + settings.seed.wrapping_mul(1 << 20);
    for _ in 0..ENVIRONMENTS {
        let mut environment = task.environment(Episodes::Training, settings.objective, settings.used.estimates)?;
        environment.reset(next_seed);
        next_seed += 1;
        environments.push(environment);
    }
    let mut best = Best::new(settings);
    let mut model = settings.step_model(task, variant.word(), &learner.score)?;
    progress(best.judge(task, &model, settings, 0)?);
    let (mut steps, mut update) = (0, 0);
    while steps < settings.steps {
        let horizon = HORIZON.min((settings.steps - steps).div_ceil(ENVIRONMENTS as u64) as usize);
        let mut rollout = learner.collect(&mut environments, &mut next_seed, horizon, features)?;
        steps += rollout.samples.len() as u64;
        learner.reckon(&mut rollout, horizon, update == 0);
        let left = 1.0 - steps as f32 / settings.steps as f32;
        learner.update(&rollout, features, RATE * (0.1 + 0.9 * left.max(0.0)));
        settings.silence(learner.score.sizes()[1], names, learner.score.parameters_mut());
        update += 1;
        if update % JUDGE_EVERY == 0 || steps >= settings.steps {
            model = settings.step_model(task, variant.word(), &learner.score)?;
            progress(best.judge(task, &model, settings, steps)?);
        }
    }
    Ok(best.finish(task, model, steps)?)
}

impl Learner {
    /// Takes steps in every environment. The samples of one environment lie together.
    fn collect(
        &mut self,
        environments: &mut [Box<dyn Environment>],
        next_seed: &mut u64,
        horizon: usize,
        features: usize,
    ) -> Result<Rollout, TaskError> {
        let mut rollout = Rollout::default();
        for environment in environments {
            for _ in 0..horizon {
                let View { rows, legal } = environment.view();
                let scores = self.score.forward(rows, &mut self.workspace);
                let chances = probabilities(scores, legal);
                let choice = draw(&chances, legal, &mut self.stream);
                let first = rollout.legal.len();
                rollout.rows.extend_from_slice(rows);
                rollout.legal.extend_from_slice(legal);
                let mean = rollout.means.len();
                push_mean(&mut rollout.means, rows, features);
                let value = match self.variant {
                    Variant::Ppo => f64::from(self.critic.forward(&rollout.means[mean..], &mut self.workspace)[0]),
                    Variant::Reinforce => 0.0,
                };
                let step = environment.step(choice)?;
                rollout.samples.push(Sample {
                    rows: first..rollout.legal.len(),
                    choice,
                    log_probability: chances[choice].max(1e-30).ln(),
                    value,
                    reward: step.reward,
                    done: step.done,
                    advantage: 0.0,
                    wanted_value: 0.0,
                });
                if step.done {
                    environment.reset(*next_seed);
                    *next_seed += 1;
                }
            }
        }
        Ok(rollout)
    }

    /// Finds what each step was worth beyond what was expected.
    fn reckon(&mut self, rollout: &mut Rollout, horizon: usize, is_first: bool) {
        let samples = &mut rollout.samples;
        let decay = if self.variant == Variant::Ppo { TRACE_DECAY } else { 1.0 };
        let mut returns = Vec::with_capacity(samples.len());
        for stretch in samples.chunks(horizon.max(1)) {
            let mut sum = 0.0;
            for sample in stretch.iter().rev() {
                sum = sample.reward + if sample.done { 0.0 } else { DISCOUNT * sum };
                returns.push(sum);
            }
        }
        let spread = deviation(&returns).max(1e-6);
        self.reward_scale = if is_first { spread } else { 0.95 * self.reward_scale + 0.05 * spread };
        for stretch in samples.chunks_mut(horizon.max(1)) {
            let (mut advantage, mut next_value) = (0.0, None);
            for sample in stretch.iter_mut().rev() {
                // What lies beyond the last step is taken to be worth what the last state was thought to be worth.
                let after = if sample.done { 0.0 } else { next_value.unwrap_or(sample.value) };
                let surprise = sample.reward / self.reward_scale + DISCOUNT * after - sample.value;
                advantage = surprise + if sample.done { 0.0 } else { DISCOUNT * decay * advantage };
                sample.advantage = advantage as f32;
                sample.wanted_value = (advantage + sample.value) as f32;
                next_value = Some(sample.value);
            }
        }
        let all = samples.iter().map(|sample| f64::from(sample.advantage)).collect::<Vec<_>>();
        let mean = (all.iter().sum::<f64>() / all.len().max(1) as f64) as f32;
        let spread = deviation(&all).max(1e-6) as f32;
        for sample in samples {
            sample.advantage = (sample.advantage - mean) / spread;
        }
    }

    fn update(&mut self, rollout: &Rollout, features: usize, rate: f32) {
        let mut order = (0..rollout.samples.len()).collect::<Vec<_>>();
        let passes = if self.variant == Variant::Ppo { PASSES } else { 1 };
        for _ in 0..passes {
            for place in (1..order.len()).rev() {
                order.swap(place, self.stream.below(place as u64 + 1) as usize);
            }
            for minibatch in order.chunks(MINIBATCH) {
                self.update_score(rollout, minibatch, features, rate);
                if self.variant == Variant::Ppo {
                    self.update_critic(rollout, minibatch, features, rate);
                }
            }
        }
    }

    fn update_score(&mut self, rollout: &Rollout, minibatch: &[usize], features: usize, rate: f32) {
        let mut rows = Vec::new();
        for &place in minibatch {
            let sample = &rollout.samples[place];
            rows.extend_from_slice(&rollout.rows[sample.rows.start * features..sample.rows.end * features]);
        }
        let scores = self.score.forward(&rows, &mut self.workspace).to_vec();
        let mut slopes = Vec::with_capacity(scores.len());
        let mut first = 0;
        for &place in minibatch {
            let sample = &rollout.samples[place];
            let count = sample.rows.len();
            let legal = &rollout.legal[sample.rows.clone()];
            push_slopes(&mut slopes, &scores[first..first + count], legal, sample, self.variant, minibatch.len() as f32);
            first += count;
        }
        let mut gradient = vec![0.0; self.score.parameters().len()];
        self.score.backward(&mut self.workspace, &slopes, &mut gradient);
        clip(&mut gradient);
        self.score_adam.step(self.score.parameters_mut(), &gradient, rate);
    }

    fn update_critic(&mut self, rollout: &Rollout, minibatch: &[usize], features: usize, rate: f32) {
        let means = minibatch.iter().flat_map(|&place| &rollout.means[place * features..(place + 1) * features]);
        let means = means.copied().collect::<Vec<_>>();
        let values = self.critic.forward(&means, &mut self.workspace);
        let wanted = minibatch.iter().map(|&place| rollout.samples[place].wanted_value);
        let slopes = values.iter().zip(wanted).map(|(value, wanted)| (value - wanted) / minibatch.len() as f32);
        let slopes = slopes.collect::<Vec<_>>();
        let mut gradient = vec![0.0; self.critic.parameters().len()];
        self.critic.backward(&mut self.workspace, &slopes, &mut gradient);
        clip(&mut gradient);
        self.critic_adam.step(self.critic.parameters_mut(), &gradient, rate);
    }
}

/// The slopes of the loss (clipped gain and entropy, both negative) by the scores of one step's rows.
fn push_slopes(slopes: &mut Vec<f32>, scores: &[f32], legal: &[bool], sample: &Sample, variant: Variant, count: f32) {
    let chances = probabilities(scores, legal);
    let ratio = (chances[sample.choice].max(1e-30).ln() - sample.log_probability).exp();
    let is_clipped = variant == Variant::Ppo && if sample.advantage > 0.0 { ratio > 1.0 + CLIP } else { ratio < 1.0 - CLIP };
    let weight = match (is_clipped, variant) {
        (true, _) => 0.0,
        (false, Variant::Ppo) => sample.advantage * ratio,
        (false, Variant::Reinforce) => sample.advantage,
    };
    let log = |chance: f32| chance.max(1e-30).ln();
    let entropy = -chances.iter().map(|chance| chance * log(*chance)).sum::<f32>();
    for (row, chance) in chances.iter().enumerate() {
        let chosen = f32::from(u8::from(row == sample.choice));
        let gain = weight * (chosen - chance);
        let spread = -chance * (log(*chance) + entropy);
        slopes.push(if legal[row] { -(gain + ENTROPY * spread) / count } else { 0.0 });
    }
}

fn push_mean(means: &mut Vec<f32>, rows: &[f32], features: usize) {
    let start = means.len();
    means.resize(start + features, 0.0);
    let count = (rows.len() / features).max(1) as f32;
    for row in rows.chunks_exact(features) {
        means[start..].iter_mut().zip(row).for_each(|(mean, value)| *mean += value / count);
    }
}

fn deviation(values: &[f64]) -> f64 {
    let count = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / count;
    (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count).sqrt()
}

fn clip(gradient: &mut [f32]) {
    let norm = gradient.iter().map(|slope| slope * slope).sum::<f32>().sqrt();
    if norm > GRADIENT_NORM_MAX {
        for slope in gradient {
            *slope *= GRADIENT_NORM_MAX / norm;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_mask_is_never_broken(
            rows in prop::collection::vec((-50.0_f32..50.0, any::<bool>()), 1..40),
            sure in any::<prop::sample::Index>(),
            seed in any::<u64>(),
        ) {
            let (scores, mut legal): (Vec<_>, Vec<_>) = rows.into_iter().unzip();
            let sure = sure.index(legal.len());
            legal[sure] = true;
            let chances = probabilities(&scores, &legal);
            prop_assert!((chances.iter().sum::<f32>() - 1.0).abs() < 1e-4);
            prop_assert!(chances.iter().zip(&legal).all(|(chance, legal)| *legal || *chance == 0.0));
            let mut stream = RandomStream::new(seed, "draw");
            for _ in 0..20 {
                prop_assert!(legal[draw(&chances, &legal, &mut stream)]);
            }
            prop_assert!(legal[crate::environment::best_legal(&scores, &legal)]);
        }
    }

    /// The slopes by the scores, against finite differences of the loss itself.
    #[test]
    fn slopes_of_the_loss_equal_finite_differences() {
        let legal = [true, false, true, true];
        let sample = Sample {
            rows: 0..4,
            choice: 2,
            log_probability: -1.2,
            value: 0.0,
            reward: 0.0,
            done: false,
            advantage: 0.7,
            wanted_value: 0.0,
        };
        let loss = |scores: &[f32]| {
            let chances = probabilities(scores, &legal);
            let ratio = (chances[2].ln() - sample.log_probability).exp();
            let gain = (ratio * sample.advantage).min(ratio.clamp(1.0 - CLIP, 1.0 + CLIP) * sample.advantage);
            let entropy = -chances.iter().filter(|chance| **chance > 0.0).map(|chance| chance * chance.ln()).sum::<f32>();
            f64::from(-(gain + ENTROPY * entropy))
        };
        let scores = [0.3_f32, 2.0, 0.1, -0.4];
        let mut slopes = Vec::new();
        push_slopes(&mut slopes, &scores, &legal, &sample, Variant::Ppo, 1.0);
        for row in 0..4 {
            let moved = |by: f32| {
                let mut scores = scores;
                scores[row] += by;
                loss(&scores)
            };
            let numeric = (moved(1e-2) - moved(-1e-2)) / 2e-2;
            assert!((numeric - f64::from(slopes[row])).abs() < 2e-3, "{row}: {numeric} against {}", slopes[row]);
        }
    }
}
