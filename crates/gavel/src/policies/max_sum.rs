//! Most steps per second, or per dollar, summed over all jobs whatever their steps are worth; with deadlines if asked.

use super::program::{Ending, Program, speed_terms};
use super::shares::isolated;
use super::{GavelPolicy, Shares, View};
use crate::GavelError;
use crate::name::Worth;

/// The policy, which remembers nothing but its last objective.
pub(crate) struct MaxSum {
    worth: Worth,
    objective: Option<f64>,
}

impl MaxSum {
    pub fn new(worth: Worth) -> Self {
        Self { worth, objective: None }
    }

    fn program(&self, view: &View<'_>, terms: &[Vec<(usize, f64)>]) -> Program {
        let mut program = Program::new(view);
        let mut worths = vec![0.0; view.rows() * view.types()];
        for &(column, speed) in terms.iter().flatten() {
            let price = match (self.worth, view.prices) {
                (Worth::Cost | Worth::CostSlo, Some(prices)) => prices[column / view.rows()],
                _ => 1.0,
            };
            worths[column] += speed / price;
        }
        for (column, worth) in worths.into_iter().enumerate() {
            program.set_cost(column, -worth);
        }
        program
    }
}

impl GavelPolicy for MaxSum {
    fn allocate(&mut self, view: &View<'_>) -> Result<Shares, GavelError> {
        if view.jobs.is_empty() {
            return Ok(Shares::new());
        }
        let terms = speed_terms(view);
        let mut program = self.program(view, &terms);
        if self.worth == Worth::CostSlo {
            for (job, terms) in view.jobs.iter().zip(&terms) {
                // As Gavel has it, a deadline that is over asks for less than nothing.
                let needed = job.deadline_seconds.map_or(0.0, |deadline| job.steps_left / (deadline - view.now_seconds));
                if needed.is_finite() {
                    program.at_most(terms.iter().map(|&(column, speed)| (column, -speed)), -needed);
                }
            }
        }
        let mut solved = program.solve();
        if solved.ending == Ending::Failed && self.worth == Worth::CostSlo {
            solved = self.program(view, &terms).solve();
        }
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
