//! Makespan: the earliest moment by which all jobs can be done, found by halving, and any shares that keep it.

use super::program::{Ending, Program, reference_terms, speed_terms};
use super::shares::isolated;
use super::{GavelPolicy, Shares, View};
use crate::GavelError;
use crate::name::Awareness;

/// Where the search begins.
const SECONDS_FIRST: (f64, f64) = (100.0, 1e6);
/// The search ends when the two ends are this near to each other.
const RATIO_MAX: f64 = 1.05;
/// No search goes beyond this.
const SECONDS_MAX: f64 = 1e15;

/// The policy, which remembers nothing but its last objective.
pub(crate) struct Makespan {
    awareness: Awareness,
    objective: Option<f64>,
}

impl Makespan {
    pub fn new(awareness: Awareness) -> Self {
        Self { awareness, objective: None }
    }
}

/// Shares with which all jobs are done in time.
fn shares_within(view: &View<'_>, terms: &[Vec<(usize, f64)>], seconds: f64) -> Option<Shares> {
    let mut program = Program::new(view);
    for (job, terms) in view.jobs.iter().zip(terms) {
        program.at_most(terms.iter().map(|&(column, speed)| (column, -speed)), -(job.steps_left / seconds));
    }
    let solved = program.solve();
    (solved.ending == Ending::Optimal).then(|| solved.shares(view))
}

impl GavelPolicy for Makespan {
    fn allocate(&mut self, view: &View<'_>) -> Result<Shares, GavelError> {
        if view.jobs.is_empty() {
            return Ok(Shares::new());
        }
        let terms = if self.awareness == Awareness::Agnostic { reference_terms(view) } else { speed_terms(view) };
        let (mut low, mut high) = SECONDS_FIRST;
        loop {
            let mut best = None;
            let highest = high;
            while RATIO_MAX * low < high {
                let middle = f64::midpoint(low, high);
                if let Some(shares) = shares_within(view, &terms, middle) {
                    best = Some(shares);
                    high = middle;
                } else {
                    low = middle;
                }
            }
            if let Some(shares) = best {
                self.objective = Some(high);
                return Ok(shares);
            }
            (low, high) = (highest, highest * 10.0);
            if high > SECONDS_MAX {
                return Ok(isolated(view));
            }
        }
    }

    fn objective(&self) -> Option<f64> {
        self.objective
    }
}
