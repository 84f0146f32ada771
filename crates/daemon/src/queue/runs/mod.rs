//! Runs under way: what the executor and the jobs tell of them, and what their ends mean.
//!
//! [`endings`] says what the end of an attempt means for its job ([`gavel_ends`]: of a script with Gavel's iterator), [`executor_events`]
//! what else the executor tells, [`leases`] what jobs ask of their leases, [`extras`] which GPUs they are lent, [`speeds`] how fast they were.
//! [`leaving`] tells the jobs of a node that will be gone soon, [`run_times`] how long jobs ran.

pub mod endings;
pub mod executor_events;
pub mod extras;
pub mod gavel_ends;
pub mod leases;
pub mod leaving;
pub mod run_times;
pub mod speeds;
