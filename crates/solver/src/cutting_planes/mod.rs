//! The parts that the price methods share: one row against prices, a pass over all rows, cutting planes over prices, and the mixture
//! that turns prices back into an allocation.

pub(crate) mod climb;
pub mod envelope;
pub(crate) mod master;
pub(crate) mod mix;
pub(crate) mod sweep;
