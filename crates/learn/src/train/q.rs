//! Q-learning, for teaching: the score of a row is what is expected to come of choosing it, rewards to come included.
//!
//! The expectation is a linear function of the row's features. After each step it is moved towards the reward that came plus the
//! (discounted) best expectation in the next state. Choices are the best so far, and now and then any legal one.

use super::{Best, Point, Settings, TRAINING_SEEDS, TrainError, Trained};
use crate::environment::{View, any_legal, best_legal};
use crate::model::rearranged;
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
    let features = task.step_features().len();
    let mut network = Network::linear(features);
    if let Some(warm) = &settings.warm {
        if *warm.sizes() != [task.features().len(), 1] {
            return Err(TrainError::OtherShape { sizes: warm.sizes().to_vec() });
        }
        network = rearranged(warm, task.features(), task.step_features())?;
    }
    let may_use = task.step_features().iter().map(|name| f32::from(u8::from(settings.allows(name)))).collect::<Vec<_>>();
    let mut environment = task.environment(Episodes::Training, settings.objective, settings.used.estimates)?;
    let mut stream = RandomStream::new(settings.seed, "choices");
    let mut workspace = Workspace::default();
    let mut model = settings.step_model(task, "q", &network)?;
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
        let inputs = row.iter().zip(&may_use).map(|(value, may_use)| value * may_use);
        for (weight, value) in network.parameters_mut().iter_mut().zip(inputs.chain([1.0])) {
            *weight += rate * value;
        }
        if step % JUDGE_EVERY == 0 || step == settings.steps {
            model = settings.step_model(task, "q", &network)?;
            progress(best.judge(task, &model, settings, step)?);
        }
    }
    Ok(best.finish(task, model, settings.steps)?)
}
