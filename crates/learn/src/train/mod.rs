//! Training: from a task and a seed to a model. The same seed gives the same model, bit for bit, on any number of threads.
//!
//! Three kinds of episodes are kept apart by their seeds: those that are learned from, those that the best checkpoint is chosen by, and
//! those that a model is judged by (`evaluate`), which training never sees.

mod cma;
pub mod es;
pub mod imitate;
pub mod power;
pub mod ppo;
pub mod q;
mod space;

use crate::model::{Header, Model, Ranges, Use, VERSION, rearranged};
use crate::simulated::Episodes;
use crate::task::{Objective, Task, TaskError};
use rayon::prelude::*;
use rota_core::random::RandomStream;
use rota_nn::{Activation, BadSizes, Network};
use std::sync::{Arc, Mutex};

/// The first seed of episodes that are learned from.
const TRAINING_SEEDS: u64 = 1 << 32;
/// The first seed of episodes that checkpoints are chosen by.
const VALIDATION_SEEDS: u64 = 1 << 33;

/// The first seed of episodes that the parameters of policies are chosen by.
pub const TUNING_SEEDS: u64 = 1 << 34;

/// What every algorithm is told.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The seed of everything random.
    pub seed: u64,
    /// Steps of the environment to learn from, at the least.
    pub steps: u64,
    /// What is to be made small.
    pub objective: Objective,
    /// How much the makespan counts beside it, for a second.
    pub makespan_weight: f64,
    /// Sizes of the hidden layers.
    pub hidden: Vec<usize>,
    /// Episodes that checkpoints are chosen by.
    pub validation_episodes: u64,
    /// How the model will be used.
    pub used: Use,
    /// The environment, as it was written.
    pub environment: String,
    /// The features that a score may use; all, where none are named.
    pub features: Vec<String>,
    /// Known rules that a search is begun from.
    pub restarts: usize,
    /// A network to begin with.
    pub warm: Option<Network>,
}

/// A point of a training curve.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Point {
    /// Steps of the environment so far.
    pub steps: u64,
    /// Mean cost on the validation episodes.
    pub validation_cost: f64,
}

/// What training gave.
#[derive(Clone, Debug)]
pub struct Trained {
    /// The checkpoint that did best on the validation episodes.
    pub model: Model,
    /// How training went.
    pub curve: Vec<Point>,
}

/// Training that cannot be done.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    /// An episode that cannot be played.
    #[error(transparent)]
    Task(#[from] TaskError),
    /// A network that cannot be made.
    #[error(transparent)]
    Sizes(#[from] BadSizes),
    /// No feature differs between jobs.
    #[error("there is nothing to learn from: no feature that may be used differs between jobs")]
    NothingToGoBy,
    /// The network to begin with does not go with the settings.
    #[error("the model to begin with has layers of {sizes:?}: train with the same --algo and --hidden as it was trained with")]
    OtherShape {
        /// The sizes of its layers.
        sizes: Vec<usize>,
    },
}

impl Settings {
    /// Whether a score may use a feature.
    fn allows(&self, feature: &str) -> bool {
        self.features.is_empty() || self.features.iter().any(|allowed| allowed == feature)
    }

    fn sizes(&self, features: usize) -> Vec<usize> {
        std::iter::once(features).chain(self.hidden.iter().copied()).chain(std::iter::once(1)).collect()
    }

    fn network(&self, features: usize, last_scale: f32, name: &str) -> Result<Network, BadSizes> {
        let mut stream = RandomStream::new(self.seed, name);
        Network::random(&self.sizes(features), Activation::Tanh, last_scale, &mut || stream.normal())
    }

    /// The network that policy gradients begin with: the one given, or one drawn by the seed. It takes the rows of single steps.
    fn first_network(&self, task: &Task) -> Result<Network, TrainError> {
        let features = task.step_features();
        let mut network = match &self.warm {
            None => self.network(features.len(), 0.1, "network")?,
            Some(warm) if warm.sizes() == self.sizes(task.features().len()) => rearranged(warm, task.features(), features)?,
            Some(warm) => return Err(TrainError::OtherShape { sizes: warm.sizes().to_vec() }),
        };
        self.silence(network.sizes()[1], features, network.parameters_mut());
        Ok(network)
    }

    /// Takes the weight (or the slope) from features that may not be used. `width` is that of the first layer.
    fn silence(&self, width: usize, features: &[&str], numbers: &mut [f32]) {
        for (place, _) in features.iter().enumerate().filter(|(_, name)| !self.allows(name)) {
            numbers[place * width..(place + 1) * width].fill(0.0);
        }
    }

    /// The model of a network that takes the rows of single steps.
    fn step_model(&self, task: &Task, algorithm: &str, network: &Network) -> Result<Model, BadSizes> {
        Ok(self.model(task, algorithm, rearranged(network, task.step_features(), task.features())?))
    }

    fn model(&self, task: &Task, algorithm: &str, network: Network) -> Model {
        let features = task.features();
        let header = Header {
            version: VERSION,
            environment: self.environment.clone(),
            objective: self.objective.word().to_owned(),
            algorithm: algorithm.to_owned(),
            seed: self.seed,
            steps: 0,
            used: self.used,
            features: features.iter().map(|name| (*name).to_owned()).collect(),
            low: vec![-1.0; features.len()],
            high: vec![1.0; features.len()],
            activation: network.activation(),
            power_limits: std::collections::BTreeMap::new(),
        };
        Model { header, network }
    }
}

/// Mean cost of a model on episodes with these seeds, played one after the other.
fn mean_cost(task: &Task, model: &Arc<Model>, seeds: &[u64], settings: &Settings) -> Result<(f64, u64), TaskError> {
    let mut sums = (0.0, 0);
    for &seed in seeds {
        let (outcome, steps) = task.play_model(model, seed, Episodes::Training)?;
        sums.0 += settings.objective.cost(&outcome) + settings.makespan_weight * outcome.makespan_s;
        sums.1 += steps;
    }
    Ok((sums.0 / seeds.len().max(1) as f64, sums.1))
}

/// The best checkpoint so far, by the validation episodes.
struct Best {
    model: Option<Model>,
    cost: f64,
    seeds: Vec<u64>,
    curve: Vec<Point>,
}

impl Best {
    fn new(settings: &Settings) -> Self {
        let seeds = (0..settings.validation_episodes.max(1)).map(|seed| VALIDATION_SEEDS + seed).collect();
        Self { model: None, cost: f64::INFINITY, seeds, curve: Vec::new() }
    }

    /// Judges a checkpoint. Gives its cost.
    fn judge(&mut self, task: &Task, model: &Model, settings: &Settings, steps: u64) -> Result<Point, TaskError> {
        let candidate = Arc::new(model.clone());
        let costs = self.seeds.par_iter().map(|seed| mean_cost(task, &candidate, &[*seed], settings));
        let costs = costs.collect::<Result<Vec<_>, _>>()?;
        let cost = costs.iter().map(|(cost, _)| cost).sum::<f64>() / costs.len() as f64;
        if cost < self.cost || self.model.is_none() {
            self.cost = cost;
            self.model = Some(model.clone());
        }
        let point = Point { steps, validation_cost: cost };
        self.curve.push(point);
        Ok(point)
    }

    /// The best checkpoint, with the ranges of features that it sees on the validation episodes.
    fn finish(self, task: &Task, last: Model, steps: u64) -> Result<Trained, TaskError> {
        let mut model = self.model.unwrap_or(last);
        model.header.steps = steps;
        let ranges = Arc::new(Mutex::new(Ranges::new(task.features().len())));
        let shared = Arc::new(model.clone());
        for seed in &self.seeds {
            task.play_noting(&shared, *seed, Episodes::Training, Some(&ranges))?;
        }
        if let Ok(ranges) = ranges.lock() {
            ranges.put_into(&mut model.header);
        }
        Ok(Trained { model, curve: self.curve })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(objective: Objective, steps: u64, seed: u64) -> Settings {
        Settings {
            seed,
            steps,
            objective,
            makespan_weight: 0.0,
            hidden: vec![8],
            validation_episodes: 16,
            used: Use { pass: true, estimates: true, ..Use::default() },
            environment: "test".to_owned(),
            features: Vec::new(),
            restarts: 2,
            warm: None,
        }
    }

    /// On one GPU with jobs of whole GPUs that all wait at the start, shortest first is the optimum of the mean waiting time.
    fn one_gpu() -> Task {
        use rota_core::{Cluster, Job, Span, ThroughputTable, Time, Workload};
        let mut workload = Workload::new("one GPU");
        for seconds in [40, 10, 70, 20, 90, 30, 5, 60, 80, 50] {
            workload.push(Job::new(Time::ZERO, Span::from_whole_seconds(seconds)));
        }
        workload.finish();
        let cluster = Cluster::from_spec("t4:1", 1).unwrap();
        let options = rota_sim::SimOptions::default();
        let table = ThroughputTable::default();
        Task::Simulated(Box::new(crate::simulated::Scenario::trace(workload, table, 10, cluster, options)))
    }

    #[test]
    fn the_evolution_strategy_finds_a_known_optimum() {
        let task = one_gpu();
        let trained = es::train(&task, &settings(Objective::Wait, 24_000, 3), 1, &mut |_| {}).unwrap();
        let (outcome, _) = task.play_model(&Arc::new(trained.model), 0, Episodes::Judging).unwrap();
        let best = task.play_rule("sjf", 0, Episodes::Judging).unwrap();
        assert!((outcome.wait_mean_s - best.wait_mean_s).abs() < 1e-9, "{} against {}", outcome.wait_mean_s, best.wait_mean_s);
    }

    #[test]
    fn ppo_learns_to_avoid_full_gpus_and_is_the_same_for_a_seed() {
        let task = Task::ClassroomCompat { gpus: 4 };
        let train = || ppo::train(&task, &settings(Objective::Reward, 30_000, 1), ppo::Variant::Ppo, &mut |_| {}).unwrap();
        let trained = train();
        let model = Arc::new(trained.model.clone());
        let rewards = (0..100).map(|seed| task.play_model(&model, seed, Episodes::Judging).unwrap().0.reward);
        let mean = rewards.sum::<f64>() / 100.0;
        // Any GPU at random scores 288, the least loaded 381.
        assert!(mean > 350.0, "{mean}");
        assert_eq!(train().model.to_bytes().unwrap(), trained.model.to_bytes().unwrap());
    }

    #[test]
    fn q_learning_learns_to_avoid_full_gpus() {
        let task = Task::ClassroomCompat { gpus: 4 };
        let trained = q::train(&task, &settings(Objective::Reward, 20_000, 1), &mut |_| {}).unwrap();
        let model = Arc::new(trained.model);
        let rewards = (0..100).map(|seed| task.play_model(&model, seed, Episodes::Judging).unwrap().0.reward);
        let mean = rewards.sum::<f64>() / 100.0;
        assert!(mean > 350.0, "{mean}");
    }

    #[test]
    fn a_network_is_taught_to_choose_as_a_policy_does() {
        let task = one_gpu();
        let mut settings = settings(Objective::Wait, 0, 1);
        let network = imitate::imitate(&task, &settings, "sjf", Activation::Relu).unwrap();
        settings.warm = Some(network.clone());
        let model = Arc::new(settings.model(&task, "none", network));
        let (outcome, _) = task.play_model(&model, 0, Episodes::Judging).unwrap();
        let best = task.play_rule("sjf", 0, Episodes::Judging).unwrap();
        assert!(outcome.wait_mean_s < 1.02 * best.wait_mean_s, "{} against {}", outcome.wait_mean_s, best.wait_mean_s);
        let compat = Task::ClassroomCompat { gpus: 4 };
        let network = imitate::imitate(&compat, &settings, "least-loaded", Activation::Tanh).unwrap();
        let model = Arc::new(settings.model(&compat, "none", network));
        let rewards = (0..100).map(|seed| compat.play_model(&model, seed, Episodes::Judging).unwrap().0.reward);
        let mean = rewards.sum::<f64>() / 100.0;
        assert!(mean > 360.0, "{mean}: the rule has 381, any GPU at random 288");
        let error = imitate::imitate(&compat, &settings, "fcfs", Activation::Tanh).unwrap_err().to_string();
        assert!(error.starts_with("unknown rule `fcfs`"), "{error}");
    }

    #[test]
    fn a_training_that_goes_on_from_a_model_is_never_worse_than_it() {
        let task = one_gpu();
        let mut settings = settings(Objective::Wait, 2000, 4);
        let first = es::train(&task, &settings, 1, &mut |_| {}).unwrap();
        settings.warm = Some(first.model.network.clone());
        let second = es::train(&task, &settings, 1, &mut |_| {}).unwrap();
        let cost = |trained: &Trained| trained.curve.iter().map(|point| point.validation_cost).fold(f64::INFINITY, f64::min);
        assert!(cost(&second) <= cost(&first));
        settings.hidden = vec![3];
        let error = es::train(&task, &settings, 1, &mut |_| {}).unwrap_err().to_string();
        assert!(error.contains("the same --algo and --hidden"), "{error}");
    }

    #[test]
    fn a_search_gives_the_same_file_for_a_seed_on_any_number_of_threads() {
        let settings = settings(Objective::Wait, 3000, 7);
        let train = || es::train(&one_gpu(), &settings, 1, &mut |_| {}).unwrap().model.to_bytes().unwrap();
        let on = |threads: usize| rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(train);
        let alone = on(1);
        assert_eq!(alone, on(1));
        assert_eq!(alone, on(2));
    }

    /// In the simulator's queue, taken step by step, policy gradients get nearer to the optimum than to the order of arrival. Q-learning, whose
    /// expectation is linear, gets a part of the way.
    #[test]
    fn the_simulators_queue_is_learned_step_by_step_too() {
        let task = one_gpu();
        let wait = |rule: &str| task.play_rule(rule, 0, Episodes::Judging).unwrap().wait_mean_s;
        let (best, arrival) = (wait("sjf"), wait("fcfs"));
        let settings = settings(Objective::Wait, 30_000, 2);
        for (trained, most) in [
            (ppo::train(&task, &settings, ppo::Variant::Ppo, &mut |_| {}).unwrap(), 0.5),
            (ppo::train(&task, &settings, ppo::Variant::Reinforce, &mut |_| {}).unwrap(), 0.5),
            (q::train(&task, &settings, &mut |_| {}).unwrap(), 1.0),
        ] {
            let algorithm = trained.model.header.algorithm.clone();
            let (outcome, _) = task.play_model(&Arc::new(trained.model), 0, Episodes::Judging).unwrap();
            let part = (outcome.wait_mean_s - best) / (arrival - best);
            assert!(part < most, "{algorithm}: {} against {best} and {arrival}", outcome.wait_mean_s);
        }
    }

    #[test]
    fn a_feature_that_may_not_be_used_gets_no_weight() {
        let task = one_gpu();
        let settings = Settings { features: vec!["log_estimate".to_owned()], ..settings(Objective::Wait, 2000, 1) };
        let trained = ppo::train(&task, &settings, ppo::Variant::Ppo, &mut |_| {}).unwrap();
        let used = (0..crate::features::COUNT).filter(|place| trained.model.uses(*place)).collect::<Vec<_>>();
        assert_eq!(used, [crate::features::place("log_estimate")]);
    }
}
