//! Jobs: what users ask to run, what jobs have in common, and what it costs to start one again.

pub mod job;
pub mod restart;
pub mod shape;
pub mod workload;
