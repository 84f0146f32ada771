//! Q-learning, for teaching: the score of a row is what is expected to come of choosing it, rewards to come included.
//!
//! The expectation is a linear function of the row's features. After each step it is moved towards the reward that came plus the
//! (discounted) best expectation in the next state. Choices are the best so far, and now and then any legal one.

use super::{Best, Point, Settings, TRAINING_SEEDS, TrainError, Trained};
use crate::environment::{View, best_legal};
use crate::simulated::Episodes;
use crate::task::{Task, TaskError};
use rota_core::random::RandomStream;
use rota_nn::{Network, Workspace};

const RATE: f32 = 0.01;
const DISCOUNT: f32 = 0.95;
/// The chance of any legal choice at the beginning; it falls to a tenth of this.
const CURIOSITY: f64 = 0.3;
/// How fast the usual size of rewards is followed.
const SCALE_RATE: f32 = 0.001;
/// Steps between two looks at the validation episodes.
const JUDGE_EVERY: u64 = 5000;

/// Trains a linear model. `progress` sees every checkpoint.
pub fn train(task: &Task, settings: &Settings, progress: &mut dyn FnMut(Point)) -> Result<Trained, TrainError> {
    let features = task.features().len();
    let mut network = Network::linear(features);
    if let Some(warm) = &settings.warm {
        if warm.sizes() != network.sizes() {
            return Err(TrainError::OtherShape { sizes: warm.sizes().to_vec() });
        }
        network = warm.clone();
    }
    let mut environment = task.environment(Episodes::Training).ok_or(TaskError::NoSteps)?;
    let mut stream = RandomStream::new(settings.seed, "choices");
    let mut workspace = Workspace::default();
    let mut model = settings.model(task, "q", network.clone());
    let mut best = Best::new(settings);
    progress(best.judge(task, &model, settings, 0)?);
    let mut seed = TRAINING_SEEDS + settings.seed.wrapping_mul(1 << 20);
    environment.reset(seed);
    let mut usual = 1.0_f32;
    for step in 1..=settings.steps {
        let View { rows, legal } = environment.view();
        let left = 1.0 - step as f64 / settings.steps as f64;
        let scores = network.forward(rows, &mut workspace);
        let choice = if stream.unit() < CURIOSITY * (0.1 + 0.9 * left) {
            any_legal(legal, &mut stream)
        } else {
            best_legal(scores, legal)
        };
        let expected = scores[choice];
        let row = rows[choice * features..(choice + 1) * features].to_vec();
        let came = environment.step(choice).map_err(TaskError::from)?;
        usual += SCALE_RATE * ((came.reward.abs() as f32).max(1e-3) - usual);
        let mut worth = came.reward as f32 / usual;
        if came.done {
            seed += 1;
            environment.reset(seed);
        } else {
            let View { rows, legal } = environment.view();
            let scores = network.forward(rows, &mut workspace);
            worth += DISCOUNT * scores[best_legal(scores, legal)];
        }
        let surprise = (worth - expected).clamp(-10.0, 10.0);
        let rate = RATE * (0.1 + 0.9 * left as f32) * surprise;
        for (weight, value) in network.parameters_mut().iter_mut().zip(row.iter().chain(&[1.0])) {
            *weight += rate * value;
        }
        if step % JUDGE_EVERY == 0 || step == settings.steps {
            model.network = network.clone();
            progress(best.judge(task, &model, settings, step)?);
        }
    }
    Ok(best.finish(task, model, settings.steps)?)
}

fn any_legal(legal: &[bool], stream: &mut RandomStream) -> usize {
    let count = legal.iter().filter(|legal| **legal).count().max(1) as u64;
    let wanted = stream.below(count) as usize;
    legal.iter().enumerate().filter(|(_, legal)| **legal).nth(wanted).map_or(0, |(row, _)| row)
}
