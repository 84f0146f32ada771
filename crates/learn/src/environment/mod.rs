//! Environments: a state that is looked at as rows (one for each thing that can be chosen), and one choice at a time.
//!
//! What must hold: an illegal choice is refused and changes nothing; while an episode goes on at least one row is legal; the same seed and
//! the same choices give the same episode.

pub mod batch;
pub mod classroom;
pub mod classroom_compat;
mod gangs;
mod ledger;
pub mod queue;
mod sight;
pub mod vector;

use rota_core::random::RandomStream;

/// A choice that the mask forbids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("choice {choice} is not legal: there are {rows} rows, and the mask says which may be chosen")]
pub struct BadChoice {
    /// The row that was chosen.
    pub choice: usize,
    /// How many rows there are.
    pub rows: usize,
}

/// What came of a choice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// The reward of this step.
    pub reward: f64,
    /// Whether the episode is over.
    pub done: bool,
}

/// What a whole episode came to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Outcome {
    /// The sum of all rewards.
    pub reward: f64,
    /// Mean seconds that jobs waited.
    pub wait_mean_s: f64,
    /// Seconds from the beginning to the last end.
    pub makespan_s: f64,
    /// Mean bounded slowdown.
    pub bsld_mean: f64,
    /// Mean seconds from submission to completion.
    pub jct_mean_s: f64,
    /// Energy in kilowatt-hours of GPUs while jobs hold them, where it is known.
    pub energy_kwh: Option<f64>,
    /// Jobs that never ran.
    pub lost: u64,
}

/// The rows of a state.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// Features, row by row.
    pub rows: &'a [f32],
    /// Which rows may be chosen.
    pub legal: &'a [bool],
}

/// Something to learn in.
pub trait Environment: Send {
    /// The names of the features of a row, in order.
    fn features(&self) -> &'static [&'static str];

    /// Begins the episode of a seed.
    fn reset(&mut self, seed: u64);

    /// The state as rows.
    fn view(&self) -> View<'_>;

    /// Takes a row. An illegal choice changes nothing.
    fn step(&mut self, choice: usize) -> Result<Step, BadChoice>;

    /// The row that a rule would take. The rule is one of [`Self::rules`].
    fn choice_of(&self, rule: usize, stream: &mut RandomStream) -> usize;

    /// The rules that can be played, by name.
    fn rules(&self) -> Vec<&'static str>;

    /// What the episode came to so far.
    fn outcome(&self) -> Outcome;
}

/// The first legal row.
pub(crate) fn first_legal(legal: &[bool]) -> usize {
    legal.iter().position(|legal| *legal).unwrap_or(0)
}

/// Any legal row, each equally likely.
pub(crate) fn any_legal(legal: &[bool], stream: &mut RandomStream) -> usize {
    let count = legal.iter().map(|legal| usize::from(*legal)).sum::<usize>();
    let wanted = stream.below(count as u64) as usize;
    let mut legal = legal.iter().enumerate().filter(|(_, legal)| **legal);
    legal.nth(wanted).map_or(0, |(row, _)| row)
}

/// The legal row with the highest score; the first of equals. A score that is no number never wins.
pub fn best_legal(scores: &[f32], legal: &[bool]) -> usize {
    let mut best = first_legal(legal);
    for (row, (score, legal)) in scores.iter().zip(legal).enumerate() {
        if *legal && (*score > scores[best] || scores[best].is_nan()) {
            best = row;
        }
    }
    best
}
