//! An evolution strategy over the numbers of a small scoring network.
//!
//! The search begins at known rules: those that do best on the validation episodes. From each of the best few a search of its own goes
//! on for a while ([`super::cma`]), and the one that came furthest gets the rest of the steps. All candidates of a generation play the
//! same episodes, and only the order of their costs counts, so neither a lucky episode nor one huge cost decides. The rules themselves
//! are among the checkpoints, so a model is never worse than the best of them on the validation episodes.

use super::cma::Cma;
use super::space::Space;
use super::{Best, Point, Settings, TRAINING_SEEDS, TrainError, Trained, mean_cost};
use crate::model::Model;
use crate::task::Task;
use rayon::prelude::*;
use rota_core::random::RandomStream;
use rota_nn::{Activation, Network};
use std::sync::Arc;

/// Candidates of a generation.
const CANDIDATES: usize = 16;
/// How far candidates lie from the beginning, for a linear score and for a network with hidden layers.
const SIGMA_LINEAR: f64 = 0.15;
const SIGMA_HIDDEN: f64 = 0.08;
/// Generations between two looks at the validation episodes.
const JUDGE_EVERY: u64 = 5;
/// The part of all steps that the searches from different rules share.
const EXPLORING: f64 = 0.5;

struct Search<'a> {
    task: &'a Task,
    settings: &'a Settings,
    episodes: u64,
    space: Space,
    like: Model,
    best: Best,
    steps: u64,
    generations: u64,
}

/// One search and the best that it found on the validation episodes.
struct Run {
    cma: Cma,
    best_cost: f64,
}

/// Trains a model. `episodes` is how many each candidate plays in a generation; `progress` sees every checkpoint.
pub fn train(task: &Task, settings: &Settings, episodes: u64, progress: &mut dyn FnMut(Point)) -> Result<Trained, TrainError> {
    let space = Space::measure(task, settings)?;
    let like = settings.model(task, "es", Network::zero(&settings.sizes(task.features().len()), Activation::Relu)?);
    let mut search =
        Search { task, settings, episodes: episodes.max(1), space, like, best: Best::new(settings), steps: 0, generations: 0 };
    let starts = search.starts(progress)?;
    let sigma = if settings.hidden.is_empty() { SIGMA_LINEAR } else { SIGMA_HIDDEN };
    let count = settings.restarts.clamp(1, starts.len().max(1));
    let mut runs = Vec::new();
    for (place, (cost, point)) in starts.into_iter().take(count).enumerate() {
        let mut run = Run { cma: Cma::new(point, sigma), best_cost: cost };
        let until = settings.steps as f64 * EXPLORING * (place + 1) as f64 / count as f64;
        search.go_on(&mut run, until as u64, progress)?;
        runs.push(run);
    }
    let furthest = runs.into_iter().reduce(|a, b| if b.best_cost < a.best_cost { b } else { a });
    if let Some(mut run) = furthest {
        search.go_on(&mut run, settings.steps, progress)?;
    }
    let Search { best, like, steps, .. } = search;
    Ok(best.finish(task, like, steps)?)
}

impl Search<'_> {
    /// Where searches may begin, the best first.
    fn starts(&mut self, progress: &mut dyn FnMut(Point)) -> Result<Vec<(f64, Vec<f64>)>, TrainError> {
        let mut points = Vec::new();
        if let Some(warm) = &self.settings.warm {
            let point = self.space.point(warm).ok_or_else(|| TrainError::OtherShape { sizes: warm.sizes().to_vec() })?;
            points.push(point);
        }
        points.extend(self.space.known(self.settings.seed).into_iter().map(|(_, point)| point));
        let mut starts = Vec::new();
        for point in points {
            starts.push((self.judge(&point, progress)?, point));
        }
        starts.sort_by(|a, b| a.0.total_cmp(&b.0));
        Ok(starts)
    }

    fn judge(&mut self, point: &[f64], progress: &mut dyn FnMut(Point)) -> Result<f64, TrainError> {
        let model = self.space.model(&self.like, point)?;
        let told = self.best.judge(self.task, &model, self.settings, self.steps)?;
        progress(told);
        Ok(told.validation_cost)
    }

    /// Goes on with a search until so many steps were taken in all.
    fn go_on(&mut self, run: &mut Run, until: u64, progress: &mut dyn FnMut(Point)) -> Result<(), TrainError> {
        let mut since = 0;
        while self.steps < until {
            self.generation(run)?;
            since += 1;
            if since % JUDGE_EVERY == 0 || self.steps >= until {
                let cost = self.judge(run.cma.mean(), progress)?;
                run.best_cost = run.best_cost.min(cost);
            }
        }
        Ok(())
    }

    fn generation(&mut self, run: &mut Run) -> Result<(), TrainError> {
        let Self { task, settings, episodes, space, like, .. } = self;
        let first = TRAINING_SEEDS + settings.seed.wrapping_mul(1 << 20) + self.generations * *episodes;
        let seeds = (first..first + *episodes).collect::<Vec<_>>();
        let mut stream = RandomStream::new(settings.seed, &format!("generation {}", self.generations));
        let candidates = run.cma.ask(CANDIDATES, &mut stream);
        let played = candidates.par_iter().map(|point| {
            let model = space.model(like, point)?;
            Ok::<_, TrainError>(mean_cost(task, &Arc::new(model), &seeds, settings)?)
        });
        let played = played.collect::<Result<Vec<_>, _>>()?;
        self.steps += played.iter().map(|(_, steps)| steps).sum::<u64>();
        self.generations += 1;
        run.cma.tell(&candidates, &played.into_iter().map(|(cost, _)| cost).collect::<Vec<_>>());
        Ok(())
    }
}
