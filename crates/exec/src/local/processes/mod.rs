//! Processes of jobs: which process is meant, which ones belong to a job, and how to signal one without hitting another.

pub(crate) mod audit;
pub(crate) mod identity;
pub(crate) mod leftovers;
pub(crate) mod tree;
