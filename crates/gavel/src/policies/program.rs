//! The optimisation problems of the policies, given to an interior-point solver as they stand.
//!
//! Optimal shares are rarely unique, and which of them is returned decides when each job runs. An interior-point method returns
//! the middle of them, as the solver does that Gavel uses; so nothing is merged or removed beforehand that would move it.

use super::interior::{ConeProgram, SparseRow, Stop, TOLERANCE, solve};
use super::{Shares, View};

/// How a problem ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// Solved to full accuracy.
    Optimal,
    /// Solved less accurately.
    Inaccurate,
    /// Nothing of use came of it: infeasible, most often.
    Failed,
}

/// A problem with one column for the share of each row on each type, and further columns after them.
pub(super) struct Program {
    costs: Vec<f64>,
    /// Sums with their upper bounds.
    linear: Vec<(SparseRow, f64)>,
    /// Rows of second-order cones.
    conic: Vec<(SparseRow, f64)>,
    /// How exactly it is solved.
    pub tolerance: f64,
}

/// What came of a problem.
pub(super) struct Solved {
    pub ending: Ending,
    /// One value per column.
    pub values: Vec<f64>,
    /// The least cost.
    pub cost: f64,
}

impl Program {
    /// Shares that are possible: none is negative, no type has too few GPUs, no job is on more than all of its time.
    pub fn new(view: &View<'_>) -> Self {
        let (rows, types) = (view.rows(), view.types());
        let mut program = Self { costs: Vec::new(), linear: Vec::new(), conic: Vec::new(), tolerance: TOLERANCE };
        program.costs = vec![0.0; rows * types];
        for (row, kind) in (0..rows).flat_map(|row| (0..types).map(move |kind| (row, kind))) {
            program.at_most([(view.column(row, kind), -1.0)], 0.0);
        }
        for (kind, &count) in view.counts.iter().enumerate() {
            program.at_most((0..rows).map(|row| (view.column(row, kind), view.row_gpus(row))), count);
        }
        for rows in view.rows_of_jobs() {
            program.at_most(rows.iter().flat_map(|&(row, _)| (0..types).map(move |kind| (view.column(row, kind), 1.0))), 1.0);
        }
        program
    }

    /// Adds a column that may have any value, and returns its number.
    pub fn add_column(&mut self, cost: f64) -> usize {
        self.costs.push(cost);
        self.costs.len() - 1
    }

    /// Sets what a unit of a column costs.
    pub fn set_cost(&mut self, column: usize, cost: f64) {
        self.costs[column] = cost;
    }

    /// A sum that must not be above a bound.
    pub fn at_most(&mut self, terms: impl IntoIterator<Item = (usize, f64)>, bound: f64) {
        self.linear.push((sorted(terms), bound));
    }

    /// Makes `inverse` at least 1 / (sum of terms): the two span a cone with 2.
    pub fn at_least_inverse(&mut self, inverse: usize, terms: &[(usize, f64)]) {
        let negative = |sign: f64| terms.iter().map(|&(column, value)| (column, -value)).chain([(inverse, sign)]);
        self.conic.push((sorted(negative(-1.0)), 0.0));
        self.conic.push((sorted(negative(1.0)), 0.0));
        self.conic.push((SparseRow::new(), 2.0));
    }

    /// Finds the least cost.
    pub fn solve(self) -> Solved {
        let linear = self.linear.len();
        let (rows, bounds) = self.linear.into_iter().chain(self.conic).unzip();
        let (stop, values) = solve(ConeProgram { costs: self.costs.clone(), rows, bounds, linear, tolerance: self.tolerance });
        let ending = match stop {
            Stop::Optimal => Ending::Optimal,
            Stop::Inaccurate => Ending::Inaccurate,
            Stop::Infeasible | Stop::Unbounded | Stop::Failed => Ending::Failed,
        };
        let cost = self.costs.iter().zip(&values).map(|(cost, value)| cost * value).sum();
        Solved { ending, values, cost }
    }
}

/// A row with its columns ascending, without those that are zero.
fn sorted(terms: impl IntoIterator<Item = (usize, f64)>) -> SparseRow {
    let mut row = terms.into_iter().filter(|&(_, value)| value != 0.0).collect::<SparseRow>();
    row.sort_by_key(|&(column, _)| column);
    row
}

impl Solved {
    /// The shares among the values, each between 0 and 1.
    pub fn shares(&self, view: &View<'_>) -> Shares {
        let cells = (0..view.rows()).flat_map(|row| (0..view.types()).map(move |kind| (row, kind)));
        cells.map(|(row, kind)| self.share(view.column(row, kind))).collect()
    }

    /// One share, between 0 and 1.
    pub fn share(&self, column: usize) -> f64 {
        self.values[column].clamp(0.0, 1.0)
    }
}

/// The terms of each job's speed: its throughput in every row it is in, on every type.
pub(super) fn speed_terms(view: &View<'_>) -> Vec<Vec<(usize, f64)>> {
    let types = view.types();
    let cells = |&(row, place): &(usize, usize)| {
        (0..types).map(|kind| (view.column(row, kind), view.speed(row, place, kind))).collect::<Vec<_>>()
    };
    view.rows_of_jobs().iter().map(|rows| rows.iter().flat_map(cells).collect()).collect()
}

/// The terms of each job's speed if every type is taken to be like the reference.
pub(super) fn reference_terms(view: &View<'_>) -> Vec<Vec<(usize, f64)>> {
    let types = view.types();
    let speed = |job: usize| view.reference_type.map_or(0.0, |reference| view.jobs[job].speeds[reference]);
    (0..view.jobs.len()).map(|job| (0..types).map(|kind| (view.column(job, kind), speed(job))).collect()).collect()
}
