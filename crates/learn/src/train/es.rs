//! An evolution strategy: the parameters are moved towards random changes that did well and away from those that did badly.
//!
//! Changes come in pairs of opposites. All candidates of a generation play the same episodes, and only the order of their costs counts, so
//! neither a lucky episode nor one huge cost decides.

use super::{Best, Point, Settings, TRAINING_SEEDS, TrainError, Trained, mean_cost};
use crate::task::Task;
use rayon::prelude::*;
use rota_core::random::RandomStream;
use rota_nn::Adam;
use std::sync::Arc;

/// Pairs of candidates in a generation.
const PAIRS: usize = 12;
/// How far candidates lie from the parameters.
const SIGMA: f32 = 0.1;
/// How far one generation moves a parameter.
const RATE: f32 = 0.05;
/// Generations between two looks at the validation episodes.
const JUDGE_EVERY: usize = 5;

/// Trains a model. `episodes` is how many each candidate plays in a generation; `progress` sees every checkpoint.
pub fn train(task: &Task, settings: &Settings, episodes: u64, progress: &mut dyn FnMut(Point)) -> Result<Trained, TrainError> {
    let network = settings.network(task.features().len(), 0.1, "network")?;
    let mut model = settings.model(task, "es", network);
    let count = model.network.parameters().len();
    let mut adam = Adam::new(count);
    let mut best = Best::new(settings);
    let mut steps = 0;
    progress(best.judge(task, &model, settings.objective, 0)?);
    for generation in 0.. {
        let first = TRAINING_SEEDS + settings.seed.wrapping_mul(1 << 20) + generation as u64 * episodes;
        let seeds = (first..first + episodes.max(1)).collect::<Vec<_>>();
        let noise = noise(settings.seed, generation, count);
        let costs = (0..2 * PAIRS).into_par_iter().map(|candidate| {
            let sign = if candidate % 2 == 0 { SIGMA } else { -SIGMA };
            let mut changed = model.clone();
            let parameters = changed.network.parameters_mut().iter_mut();
            parameters.zip(&noise[candidate / 2]).for_each(|(parameter, noise)| *parameter += sign * noise);
            mean_cost(task, &Arc::new(changed), &seeds, settings.objective)
        });
        let costs = costs.collect::<Result<Vec<_>, _>>()?;
        steps += costs.iter().map(|(_, steps)| steps).sum::<u64>();
        let gradient = gradient(&costs.iter().map(|(cost, _)| *cost).collect::<Vec<_>>(), &noise, count);
        let left = 1.0 - (steps as f32 / settings.steps.max(1) as f32).min(1.0);
        adam.step(model.network.parameters_mut(), &gradient, RATE * (0.2 + 0.8 * left));
        let is_over = steps >= settings.steps;
        if is_over || generation % JUDGE_EVERY == JUDGE_EVERY - 1 {
            progress(best.judge(task, &model, settings.objective, steps)?);
        }
        if is_over {
            break;
        }
    }
    Ok(best.finish(task, model, steps)?)
}

fn noise(seed: u64, generation: usize, count: usize) -> Vec<Vec<f32>> {
    let mut stream = RandomStream::new(seed, &format!("noise of generation {generation}"));
    (0..PAIRS).map(|_| (0..count).map(|_| stream.normal() as f32).collect()).collect()
}

/// The direction in which costs grow, by the order of the costs alone.
fn gradient(costs: &[f64], noise: &[Vec<f32>], count: usize) -> Vec<f32> {
    let mut order = (0..costs.len()).collect::<Vec<_>>();
    order.sort_by(|a, b| costs[*a].total_cmp(&costs[*b]).then(a.cmp(b)));
    let mut utility = vec![0.0_f32; costs.len()];
    for (rank, &candidate) in order.iter().enumerate() {
        utility[candidate] = rank as f32 / (costs.len() - 1) as f32 - 0.5;
    }
    let mut gradient = vec![0.0; count];
    for (pair, noise) in noise.iter().enumerate() {
        let weight = (utility[2 * pair] - utility[2 * pair + 1]) / noise.len().max(1) as f32;
        gradient.iter_mut().zip(noise).for_each(|(gradient, noise)| *gradient += weight * noise);
    }
    gradient
}
