//! Where a workload meets a cluster: each job gets its row, its shape and its speeds.

pub mod bind;
pub mod binder;
