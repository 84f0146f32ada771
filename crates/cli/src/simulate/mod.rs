//! `rota sim`: policies on a workload, in Rota's simulator or in Gavel's.

mod explain;
pub mod gavel;
mod pareto;
mod schedule_bars;
mod served;
pub mod sim;

pub use sim::run;
