//! Imitation: a network is taught to choose as a rule or a policy does. It is where another algorithm may begin.
//!
//! The rule plays training episodes. Of every decision the rows and the row that it chose are kept; the network then learns to give that
//! row the highest score (a softmax over the rows, by gradient descent).

use super::ppo::probabilities;
use super::{Settings, TRAINING_SEEDS, TrainError};
use crate::simulated::{Episodes, Scenario, ScenarioError};
use crate::task::{Objective, Task, TaskError};
use rota_core::random::RandomStream;
use rota_nn::{Activation, Adam, Network, Workspace};

/// Decisions that are kept.
const DECISIONS_MAX: usize = 4000;
/// Episodes that are played for them, at the most.
const EPISODES_MAX: u64 = 64;
const UPDATES: usize = 1500;
const MINIBATCH: usize = 32;
const RATE: f32 = 0.02;

/// What was to be chosen from, and what was chosen.
pub(crate) struct Decision {
    /// Features, row by row.
    pub rows: Vec<f32>,
    /// The row that the rule chose.
    pub choice: usize,
}

/// A network that chooses as the rule does, as far as its shape allows.
pub fn imitate(task: &Task, settings: &Settings, rule: &str, activation: Activation) -> Result<Network, TrainError> {
    let decisions = decisions(task, settings, rule)?;
    let features = task.features().len();
    let mut stream = RandomStream::new(settings.seed, "imitation");
    let sizes = settings.sizes(features);
    let mut network = Network::random(&sizes, activation, 0.1, &mut || stream.normal())?;
    let width = sizes[1];
    let silence = |numbers: &mut [f32]| settings.silence(width, task.features(), numbers);
    silence(network.parameters_mut());
    if decisions.is_empty() {
        return Ok(network);
    }
    let mut adam = Adam::new(network.parameters().len());
    let mut workspace = Workspace::default();
    for update in 0..UPDATES {
        let mut gradient = vec![0.0; network.parameters().len()];
        for _ in 0..MINIBATCH {
            let decision = &decisions[stream.below(decisions.len() as u64) as usize];
            let scores = network.forward(&decision.rows, &mut workspace);
            let legal = vec![true; scores.len()];
            let mut slopes = probabilities(scores, &legal);
            slopes[decision.choice] -= 1.0;
            for slope in &mut slopes {
                *slope /= MINIBATCH as f32;
            }
            network.backward(&mut workspace, &slopes, &mut gradient);
        }
        silence(&mut gradient);
        let left = 1.0 - update as f32 / UPDATES as f32;
        adam.step(network.parameters_mut(), &gradient, RATE * (0.05 + 0.95 * left));
    }
    Ok(network)
}

fn decisions(task: &Task, settings: &Settings, rule: &str) -> Result<Vec<Decision>, TrainError> {
    let mut decisions = Vec::new();
    let first = TRAINING_SEEDS + settings.seed.wrapping_mul(1 << 20);
    for seed in first..first + EPISODES_MAX {
        if decisions.len() >= DECISIONS_MAX {
            break;
        }
        match task {
            Task::Simulated(scenario) => simulated(scenario, settings, rule, seed, &mut decisions)?,
            _ => stepped(task, rule, seed, &mut decisions)?,
        }
    }
    Ok(decisions)
}

/// Plays an episode by a rule of the environment.
fn stepped(task: &Task, rule: &str, seed: u64, decisions: &mut Vec<Decision>) -> Result<(), TaskError> {
    let mut environment = task.environment(Episodes::Training, Objective::Reward, true)?;
    let rules = environment.rules();
    let number = rules.iter().position(|known| *known == rule);
    let number = number.ok_or_else(|| TaskError::UnknownRule { given: rule.to_owned(), known: rules.join(", ") })?;
    let mut stream = RandomStream::new(seed, "rule");
    environment.reset(seed);
    loop {
        let choice = environment.choice_of(number, &mut stream);
        let view = environment.view();
        // A rule may see further than a network: what the network cannot choose teaches it nothing.
        if view.legal.len() > 1 && choice < view.legal.len() && decisions.len() < DECISIONS_MAX {
            decisions.push(Decision { rows: view.rows.to_vec(), choice });
        }
        if environment.step(choice)?.done {
            return Ok(());
        }
    }
}

/// Lets a policy of the registry play an episode of the simulator.
fn simulated(
    scenario: &Scenario,
    settings: &Settings,
    policy: &str,
    seed: u64,
    decisions: &mut Vec<Decision>,
) -> Result<(), TrainError> {
    let observed = scenario.observe(policy, seed, settings.used, DECISIONS_MAX - decisions.len());
    decisions.extend(observed.map_err(|error: ScenarioError| TaskError::from(error))?);
    Ok(())
}
