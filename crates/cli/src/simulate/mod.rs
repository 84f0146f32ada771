//! `rota sim`: policies on a workload, in Rota's simulator or in Gavel's.

pub mod gavel;
mod served;
pub mod sim;

pub use sim::run;
