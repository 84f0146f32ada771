//! A task: an environment, the episodes to learn from and the episodes to be judged by, played by a model or by a rule.

use crate::environment::batch::{self, Batch, BatchTrace, Choosing, Sequences};
use crate::environment::classroom_compat::{self, ClassroomCompat};
use crate::environment::queue::{self, Cost, Play};
use crate::environment::{BadChoice, Environment, Outcome, best_legal};
use crate::features;
use crate::model::{Model, Ranges, Use};
use crate::simulated::{Day, Episodes, Scenario, ScenarioError};
use rota_core::random::RandomStream;
use rota_nn::Workspace;
use std::str::FromStr;
use std::sync::{Arc, Mutex};

/// Waiting jobs that are seen where the simulator's queue is taken step by step.
const STEP_ROWS: usize = 128;

/// What is to be made small (or large, for the reward).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Objective {
    /// The sum of rewards.
    Reward,
    /// Mean waiting time.
    Wait,
    /// The time of the last end.
    Makespan,
    /// Mean completion time.
    Jct,
    /// Mean bounded slowdown.
    Bsld,
    /// Energy of GPUs while jobs hold them.
    Energy,
}

impl Objective {
    /// The words that name one.
    pub const WORDS: [&'static str; 6] = ["reward", "wait", "makespan", "jct", "bsld", "energy"];

    /// The number to be made small.
    pub fn cost(self, outcome: &Outcome) -> f64 {
        match self {
            Self::Reward => -outcome.reward,
            Self::Wait => outcome.wait_mean_s,
            Self::Makespan => outcome.makespan_s,
            Self::Jct => outcome.jct_mean_s,
            Self::Bsld => outcome.bsld_mean,
            Self::Energy => outcome.energy_kwh.unwrap_or(0.0),
        }
    }

    /// What single steps of the simulator's queue are punished for.
    fn of_steps(self) -> Cost {
        match self {
            Self::Reward | Self::Wait => Cost::Wait,
            Self::Makespan => Cost::Makespan,
            Self::Jct => Cost::Jct,
            Self::Bsld => Cost::Bsld,
            Self::Energy => Cost::Energy,
        }
    }

    /// The word that names it.
    pub fn word(self) -> &'static str {
        Self::WORDS[self as usize]
    }
}

impl FromStr for Objective {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let all = [Self::Reward, Self::Wait, Self::Makespan, Self::Jct, Self::Bsld, Self::Energy];
        let found = Self::WORDS.iter().position(|word| *word == text).map(|place| all[place]);
        found.ok_or_else(|| format!("`{text}` is not one of {}", Self::WORDS.join(", ")))
    }
}

/// Something to learn.
#[derive(Clone)]
pub enum Task {
    /// The teaching project's environment as it is.
    ClassroomCompat {
        /// The number of GPUs.
        gpus: usize,
    },
    /// `RLScheduler`'s protocol on a trace.
    Batch {
        /// The trace that episodes are cut from.
        trace: Arc<BatchTrace>,
        /// How choices are used.
        choosing: Choosing,
    },
    /// A scenario of Rota's own simulator.
    Simulated(Box<Scenario>),
}

/// An episode that cannot be played.
#[derive(Debug, thiserror::Error)]
pub enum TaskError {
    /// No rule of that name here.
    #[error("unknown rule `{given}`; known here are {known}")]
    UnknownRule {
        /// What was written.
        given: String,
        /// The names of all environments.
        known: String,
    },
    /// A choice was not legal.
    #[error(transparent)]
    Choice(#[from] BadChoice),
    /// The scenario cannot be simulated.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
}

impl Task {
    /// The features of a row.
    pub fn features(&self) -> &'static [&'static str] {
        match self {
            Self::ClassroomCompat { .. } => &classroom_compat::FEATURES,
            Self::Batch { .. } | Self::Simulated(_) => &features::NAMES,
        }
    }

    /// How a model trained here is used in a queue, unless it is said otherwise.
    pub fn used(&self) -> Use {
        let pass = !matches!(self, Self::Batch { .. });
        Use { pass, estimates: true, ..Use::default() }
    }

    /// The features of a row, where the task is taken step by step.
    pub fn step_features(&self) -> &'static [&'static str] {
        match self {
            Self::Simulated(scenario) => queue::features_of(scenario),
            Self::ClassroomCompat { .. } | Self::Batch { .. } => self.features(),
        }
    }

    /// The environment that is taken step by step. In the simulator's queue the best job that fits is started at once, as the policy `learned`
    /// does it.
    pub fn environment(
        &self,
        episodes: Episodes,
        objective: Objective,
        estimates: bool,
    ) -> Result<Box<dyn Environment>, TaskError> {
        match self {
            Self::ClassroomCompat { gpus } => Ok(Box::new(ClassroomCompat::new(*gpus))),
            Self::Batch { trace, choosing } => {
                let sequences = if episodes == Episodes::Judging { Sequences::Published } else { Sequences::Drawn };
                Ok(Box::new(Batch::new(Arc::clone(trace), *choosing, sequences)))
            }
            Self::Simulated(scenario) => {
                let play = Play { cost: objective.of_steps(), jobs_seen: STEP_ROWS, estimates, may_wait: false };
                Ok(queue::environment(scenario, episodes, play)?)
            }
        }
    }

    /// The same where rewards do not matter.
    fn plain(&self, episodes: Episodes) -> Result<Box<dyn Environment>, TaskError> {
        self.environment(episodes, Objective::Reward, true)
    }

    /// Plays an episode by the highest score. Gives the number of steps too (of jobs, where the simulator plays).
    pub fn play_model(&self, model: &Arc<Model>, seed: u64, episodes: Episodes) -> Result<(Outcome, u64), TaskError> {
        self.play_noting(model, seed, episodes, None)
    }

    /// The same, noting the range of every feature that the model sees.
    pub fn play_noting(
        &self,
        model: &Arc<Model>,
        seed: u64,
        episodes: Episodes,
        ranges: Option<&Arc<Mutex<Ranges>>>,
    ) -> Result<(Outcome, u64), TaskError> {
        if let Self::Simulated(scenario) = self {
            let outcome = scenario.play_model(model, seed, episodes, ranges)?;
            return Ok((outcome, scenario.bound(seed, episodes)?.jobs.len() as u64));
        }
        if let (Self::Batch { trace, choosing }, None) = (self, ranges) {
            let sequences = if episodes == Episodes::Judging { Sequences::Published } else { Sequences::Drawn };
            if let Some(played) = batch::play_linear(trace, *choosing, sequences, seed, &model.network) {
                return Ok(played);
            }
        }
        let mut environment = self.plain(episodes)?;
        let mut workspace = Workspace::default();
        environment.reset(seed);
        let mut steps = 0;
        loop {
            let view = environment.view();
            if let Some(ranges) = ranges.and_then(|ranges| ranges.lock().ok()).as_mut() {
                ranges.note(view.rows);
            }
            let choice = best_legal(model.scores(view.rows, &mut workspace), view.legal);
            steps += 1;
            if environment.step(choice)?.done {
                return Ok((environment.outcome(), steps));
            }
        }
    }

    /// Plays an episode of the simulator by a model, day by day; `None` where the simulator does not play.
    pub fn model_by_day(&self, model: &Arc<Model>, seed: u64) -> Result<Option<(Outcome, Vec<Day>)>, TaskError> {
        let Self::Simulated(scenario) = self else { return Ok(None) };
        Ok(Some(scenario.play_model_by_day(model, seed, Episodes::Judging, None)?))
    }

    /// Plays an episode of the simulator by a policy, day by day; `None` where the simulator does not play.
    pub fn rule_by_day(&self, rule: &str, seed: u64) -> Result<Option<(Outcome, Vec<Day>)>, TaskError> {
        let Self::Simulated(scenario) = self else { return Ok(None) };
        Ok(Some(scenario.play_policy_by_day(rule, seed, Episodes::Judging)?))
    }

    /// Plays an episode by a rule: one of the environment's, or a policy of the registry where the simulator plays.
    pub fn play_rule(&self, rule: &str, seed: u64, episodes: Episodes) -> Result<Outcome, TaskError> {
        if let Self::Simulated(scenario) = self {
            return Ok(scenario.play_policy(rule, seed, episodes)?);
        }
        let mut environment = self.plain(episodes)?;
        let rules = environment.rules();
        let number = rules.iter().position(|known| *known == rule);
        let number = number.ok_or_else(|| TaskError::UnknownRule { given: rule.to_owned(), known: rules.join(", ") })?;
        let mut stream = RandomStream::new(seed, "rule");
        environment.reset(seed);
        loop {
            let choice = environment.choice_of(number, &mut stream);
            if environment.step(choice)?.done {
                return Ok(environment.outcome());
            }
        }
    }
}
