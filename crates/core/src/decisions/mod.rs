//! What goes into a decision and what comes out of it: snapshot, target, plan, and the checker of plans.

pub mod check;
pub mod plan;
pub mod snapshot;
pub mod target;
