//! Finish-time fairness: the worst ratio of the time a job takes to the time it would take on its own part of the cluster.

use super::interior::TOLERANCE;
use super::program::{Ending, Program, reference_terms, speed_terms};
use super::shares::{isolated, isolated_row};
use super::{GavelPolicy, Shares, View};
use crate::GavelError;
use crate::name::Awareness;
use std::collections::HashMap;

/// What is remembered of a job between two allocations.
struct Past {
    /// Seconds that the work done so far would have taken on its own part.
    alone_seconds: f64,
    alone_speed: f64,
    steps_left: f64,
}

/// The policy with the past of the active jobs.
pub(crate) struct FinishTime {
    awareness: Awareness,
    past: HashMap<u32, Past>,
    /// How exactly shares are computed.
    pub tolerance: f64,
    objective: Option<f64>,
}

impl FinishTime {
    pub fn new(awareness: Awareness) -> Self {
        Self { awareness, past: HashMap::new(), tolerance: TOLERANCE, objective: None }
    }

    /// How long each job would take in all on its own part; notes the past for the next time.
    fn alone_seconds(&mut self, view: &View<'_>) -> Vec<f64> {
        let mut next = HashMap::with_capacity(view.jobs.len());
        let mut expected = Vec::with_capacity(view.jobs.len());
        for job in &view.jobs {
            let own = isolated_row(view.counts, view.jobs.len(), f64::from(job.gpus));
            let speed = |kind: usize| match (self.awareness, view.reference_type) {
                (Awareness::Agnostic, Some(reference)) => job.speeds[reference],
                _ => job.speeds[kind],
            };
            let alone_speed = own.iter().enumerate().map(|(kind, share)| speed(kind) * share).sum::<f64>();
            let steps_left = job.steps_left;
            let alone_seconds =
                self.past.get(&job.id).map_or(0.0, |past| past.alone_seconds + (past.steps_left - steps_left) / past.alone_speed);
            expected.push(alone_seconds + steps_left / alone_speed);
            next.insert(job.id, Past { alone_seconds, alone_speed, steps_left });
        }
        self.past = next;
        expected
    }
}

impl GavelPolicy for FinishTime {
    fn allocate(&mut self, view: &View<'_>) -> Result<Shares, GavelError> {
        let expected = self.alone_seconds(view);
        if view.jobs.is_empty() {
            return Ok(Shares::new());
        }
        let mut terms = if self.awareness == Awareness::Agnostic { reference_terms(view) } else { speed_terms(view) };
        if self.awareness == Awareness::Packed {
            for (terms, job) in terms.iter_mut().zip(&view.jobs) {
                for (_, speed) in terms {
                    *speed = f64::from(*speed as f32 / job.weight as f32);
                }
            }
        }
        let mut program = Program::new(view);
        program.tolerance = self.tolerance;
        let worst = program.add_column(1.0);
        for (position, job) in view.jobs.iter().enumerate() {
            let step_seconds = program.add_column(0.0);
            program.at_least_inverse(step_seconds, &terms[position]);
            let scale = 1.0 / expected[position];
            program.at_most([(step_seconds, job.steps_left * scale), (worst, -1.0)], -job.age_seconds * scale);
        }
        let solved = program.solve();
        if solved.ending == Ending::Failed {
            return Ok(isolated(view));
        }
        let ratio = |(position, job): (usize, &super::JobView<'_>)| {
            let speed = terms[position].iter().map(|&(column, speed)| speed * solved.share(column)).sum::<f64>();
            (job.age_seconds + job.steps_left / speed) / expected[position]
        };
        self.objective = view.jobs.iter().enumerate().map(ratio).reduce(f64::max);
        Ok(solved.shares(view))
    }

    fn objective(&self) -> Option<f64> {
        self.objective
    }
}
