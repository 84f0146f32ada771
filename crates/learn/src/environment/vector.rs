//! Many environments side by side: their observations, masks, rewards and ends lie in one array each, which every step writes anew in
//! place. So a program in another language looks at the arrays without copying them.
//!
//! What must hold: the arrays never move; a step with an illegal choice anywhere changes nothing at all; rows beyond those of an
//! environment are zero and illegal.

use super::{BadChoice, Environment, Outcome};

/// The figures of an episode that [`Vector::outcomes`] has, in order.
pub const OUTCOME_NAMES: [&str; 7] = ["reward", "wait_mean_s", "makespan_s", "bsld_mean", "jct_mean_s", "energy_kwh", "lost"];

/// What becomes of an environment whose episode has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtEnd {
    /// The next episode begins at once; the last observation of the old one is kept in [`Vector::last_observations`].
    BeginNext,
    /// It stands until it is reset.
    Stand,
}

/// A step that was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StepError {
    /// There is not one choice for each environment.
    #[error("{given} actions for {environments} environments")]
    Count {
        /// Actions that were given.
        given: usize,
        /// Environments there are.
        environments: usize,
    },
    /// A choice that is not legal.
    #[error("environment {environment}: action {choice} is not legal; its mask says which are")]
    Choice {
        /// The environment's place among the others.
        environment: usize,
        /// What was chosen.
        choice: i64,
    },
    /// The episode is over.
    #[error("environment {environment}: its episode is over; reset it")]
    Over {
        /// The environment's place among the others.
        environment: usize,
    },
}

/// The environments and their arrays.
pub struct Vector {
    environments: Vec<Box<dyn Environment>>,
    rows: usize,
    features: usize,
    at_end: AtEnd,
    next_seeds: Vec<u64>,
    is_over: Vec<bool>,
    /// Rows of each environment that were shown last; those behind are zero.
    shown: Vec<usize>,
    /// Environments × rows × features.
    pub observations: Box<[f32]>,
    /// Environments × rows: 1 where a row may be chosen.
    pub legal: Box<[u8]>,
    /// The reward of the last step of each environment.
    pub rewards: Box<[f32]>,
    /// Whether the last step ended the episode.
    pub terminated: Box<[u8]>,
    /// The last observation of the episode that ended last, as [`Self::observations`].
    pub last_observations: Box<[f32]>,
    /// The figures of the episode that ended last, in the order of [`OUTCOME_NAMES`].
    pub outcomes: Box<[f64]>,
}

impl Vector {
    /// Arrays for these environments, `rows` of each. Episodes have the seeds `seed`, `seed` + 1 and so on, in turn.
    pub fn new(environments: Vec<Box<dyn Environment>>, rows: usize, at_end: AtEnd, seed: u64) -> Self {
        let count = environments.len();
        let features = environments.first().map_or(0, |environment| environment.features().len());
        let mut vector = Self {
            rows,
            features,
            at_end,
            next_seeds: vec![0; count],
            is_over: vec![false; count],
            shown: vec![0; count],
            observations: vec![0.0; count * rows * features].into(),
            legal: vec![0; count * rows].into(),
            rewards: vec![0.0; count].into(),
            terminated: vec![0; count].into(),
            last_observations: vec![0.0; count * rows * features].into(),
            outcomes: vec![0.0; count * OUTCOME_NAMES.len()].into(),
            environments,
        };
        vector.reset(seed);
        vector
    }

    /// How many environments there are.
    pub fn len(&self) -> usize {
        self.environments.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.environments.is_empty()
    }

    /// Rows of each environment.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Names of the features of a row.
    pub fn features(&self) -> &'static [&'static str] {
        self.environments.first().map_or(&[], |environment| environment.features())
    }

    /// Begins all episodes anew.
    pub fn reset(&mut self, seed: u64) {
        for place in 0..self.len() {
            self.next_seeds[place] = seed.wrapping_add(place as u64);
            self.begin_next(place);
        }
        self.rewards.fill(0.0);
        self.terminated.fill(0);
    }

    /// Takes one step everywhere. An illegal choice is told and nothing is changed.
    pub fn step(&mut self, choices: &[i64]) -> Result<(), StepError> {
        if choices.len() != self.len() {
            return Err(StepError::Count { given: choices.len(), environments: self.len() });
        }
        for (environment, &choice) in choices.iter().enumerate() {
            if self.is_over[environment] {
                return Err(StepError::Over { environment });
            }
            let row = usize::try_from(choice).ok().filter(|row| *row < self.rows);
            if row.is_none_or(|row| self.legal[environment * self.rows + row] == 0) {
                return Err(StepError::Choice { environment, choice });
            }
        }
        for (place, &choice) in choices.iter().enumerate() {
            let step = self.environments[place].step(choice as usize);
            let step = step.map_err(|BadChoice { .. }| StepError::Choice { environment: place, choice })?;
            self.rewards[place] = step.reward as f32;
            self.terminated[place] = u8::from(step.done);
            if step.done {
                self.end(place);
            } else {
                self.show(place);
            }
        }
        Ok(())
    }

    fn end(&mut self, place: usize) {
        self.show(place);
        let size = self.rows * self.features;
        let shown = place * size..(place + 1) * size;
        self.last_observations[shown.clone()].copy_from_slice(&self.observations[shown]);
        let figures = figures(&self.environments[place].outcome());
        self.outcomes[place * figures.len()..(place + 1) * figures.len()].copy_from_slice(&figures);
        match self.at_end {
            AtEnd::BeginNext => self.begin_next(place),
            AtEnd::Stand => self.is_over[place] = true,
        }
    }

    fn begin_next(&mut self, place: usize) {
        self.environments[place].reset(self.next_seeds[place]);
        self.next_seeds[place] = self.next_seeds[place].wrapping_add(self.len() as u64);
        self.is_over[place] = false;
        self.show(place);
    }

    /// Writes what an environment shows into the arrays.
    fn show(&mut self, place: usize) {
        let view = self.environments[place].view();
        let shown = view.legal.len().min(self.rows);
        let before = std::mem::replace(&mut self.shown[place], shown).max(shown);
        let first = place * self.rows * self.features;
        let observation = &mut self.observations[first..first + before * self.features];
        let (rows, behind) = observation.split_at_mut(shown * self.features);
        rows.copy_from_slice(&view.rows[..rows.len()]);
        behind.fill(0.0);
        let legal = &mut self.legal[place * self.rows..place * self.rows + before];
        let (here, behind) = legal.split_at_mut(shown);
        here.iter_mut().zip(view.legal).for_each(|(here, legal)| *here = u8::from(*legal));
        behind.fill(0);
    }
}

fn figures(outcome: &Outcome) -> [f64; OUTCOME_NAMES.len()] {
    [
        outcome.reward,
        outcome.wait_mean_s,
        outcome.makespan_s,
        outcome.bsld_mean,
        outcome.jct_mean_s,
        outcome.energy_kwh.unwrap_or(f64::NAN),
        outcome.lost as f64,
    ]
}
