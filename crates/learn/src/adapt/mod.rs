//! Growing a network while it trains: which block to deepen when a job is given more GPUs for the rest of its time.
//!
//! The path: a [`network`] is trained within a job's time ([`train`]); runs with every choice become tables ([`record`]); a
//! forecast or a learned policy decides from them ([`choose`]); [`judge`] compares ways of choosing.

pub mod choose;
pub mod judge;
pub mod network;
pub mod record;
pub mod train;
