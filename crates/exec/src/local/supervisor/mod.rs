//! The supervisor of one run: where it comes from, how it starts the job, and what it does until nothing of the job is left.

pub(crate) mod child;
pub(crate) mod detach;
pub(crate) mod failure;
pub(crate) mod logs;
pub(crate) mod nursery;
pub(crate) mod rights;
pub(crate) mod signals;
pub(crate) mod supervise;
pub(crate) mod timer;
pub(crate) mod usage;
