//! Optimisation kernels without scheduling words: rows, pools, values and prices.
//!
//! Always: no clock, no randomness, no panic on any input; an answer says what it claims.

pub mod error;
pub mod match_prices;

pub use error::SolveError;
