//! The policies: each turns the state of the active jobs into the share of time of every job and pair on every GPU type.

mod allox;
mod fifo;
mod finish_time;
mod gandiva;
mod interior;
mod makespan;
mod max_min;
mod max_sum;
mod program;
mod shares;
#[cfg(test)]
mod tests;
mod view;
mod water_filling;

pub(crate) use view::{JobView, PairView, View};

use crate::GavelError;
use crate::name::PolicyName;

/// Shares of time of rows (jobs, then pairs) on types: row after row.
pub(crate) type Shares = Vec<f64>;

/// A policy with what it remembers between two allocations.
pub(crate) trait GavelPolicy {
    /// The share of every row on every type.
    fn allocate(&mut self, view: &View<'_>) -> Result<Shares, GavelError>;

    /// The value of what was optimised in the last allocation, if something was.
    fn objective(&self) -> Option<f64> {
        None
    }
}

/// A policy at the beginning of a run.
pub(crate) fn build(name: PolicyName, seed: u64) -> Box<dyn GavelPolicy> {
    match name {
        PolicyName::Fifo(awareness) => fifo::build(awareness, seed),
        PolicyName::Isolated => Box::new(shares::Isolated),
        PolicyName::Proportional => Box::new(shares::Proportional),
        PolicyName::MaxMin(awareness) => Box::new(max_min::MaxMin::new(awareness)),
        PolicyName::WaterFilling(awareness) => Box::new(water_filling::WaterFilling::new(awareness)),
        PolicyName::FinishTime(awareness) => Box::new(finish_time::FinishTime::new(awareness)),
        PolicyName::Makespan(awareness) => Box::new(makespan::Makespan::new(awareness)),
        PolicyName::MaxSum(worth, _) => Box::new(max_sum::MaxSum::new(worth)),
        PolicyName::Allox { alpha } => Box::new(allox::Allox::new(alpha)),
        PolicyName::Gandiva => Box::new(gandiva::Gandiva::new(seed)),
    }
}
