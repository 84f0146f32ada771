//! What a run may use: memory, processors, devices, and the limits of its user's shell.

pub(crate) mod cgroup;
pub(crate) mod devices;
pub(crate) mod rlimits;
