//! Simulations that users run through the daemon.

pub mod simulations;
