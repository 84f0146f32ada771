//! Max-min fairness: the job that is worst off, against an even division of the cluster, is to be as well off as can be.

use super::program::{Ending, Program};
use super::shares::{isolated, proportional_row, speed_with};
use super::{GavelPolicy, Shares, View};
use crate::GavelError;
use crate::name::Awareness;

/// The policy, which remembers nothing but its last objective.
pub(crate) struct MaxMin {
    awareness: Awareness,
    objective: Option<f64>,
}

impl MaxMin {
    pub fn new(awareness: Awareness) -> Self {
        Self { awareness, objective: None }
    }

    /// What each share adds to the standing of each job. The order of operations and the precision are Gavel's.
    fn terms(&self, view: &View<'_>) -> Vec<Vec<(usize, f64)>> {
        let types = view.types();
        let even = proportional_row(view.counts, view.jobs.len());
        let standing = |(job, rows): (usize, &Vec<(usize, usize)>)| {
            let (weight, gpus) = (view.jobs[job].weight, f64::from(view.jobs[job].gpus));
            let ones = vec![1.0; types];
            let speeds = if self.awareness == Awareness::Agnostic { &ones } else { view.jobs[job].speeds };
            let even_speed = speed_with(speeds, &even);
            let value = |row: usize, place: usize, kind: usize| match self.awareness {
                Awareness::Agnostic | Awareness::Perf => speeds[kind] * ((1.0 / weight) * (1.0 / even_speed)) * gpus,
                Awareness::Packed => f64::from(view.speed(row, place, kind) as f32 / weight as f32) * gpus / even_speed,
            };
            let cells = |&(row, place): &(usize, usize)| {
                (0..types).map(|kind| (view.column(row, kind), value(row, place, kind))).collect::<Vec<_>>()
            };
            rows.iter().flat_map(cells).collect()
        };
        view.rows_of_jobs().iter().enumerate().map(standing).collect()
    }
}

impl GavelPolicy for MaxMin {
    fn allocate(&mut self, view: &View<'_>) -> Result<Shares, GavelError> {
        if view.jobs.is_empty() {
            return Ok(Shares::new());
        }
        let mut program = Program::new(view);
        let least = program.add_column(-1.0);
        for terms in self.terms(view) {
            let above = terms.into_iter().map(|(column, value)| (column, -value));
            program.at_most(std::iter::once((least, 1.0)).chain(above), 0.0);
        }
        let solved = program.solve();
        if solved.ending == Ending::Failed {
            return Ok(isolated(view));
        }
        self.objective = Some(-solved.cost);
        Ok(solved.shares(view))
    }

    fn objective(&self) -> Option<f64> {
        self.objective
    }
}
