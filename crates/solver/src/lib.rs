//! Optimisation kernels: rows that share pools, with prices, linear programs and assignment.
//!
//! The path: [`problem`] holds rows, pools and rates and merges what is identical; [`requirement`] says what each row asks for at a common
//! level; [`price`] finds the highest level, [`water`] fills level by level, [`max_sum`] maximises a sum under floors. All three rest on
//! the same parts: [`envelope`] (one row against prices), passes over rows, cutting planes over prices, and the mixture that turns prices
//! back into an allocation. [`lp`] is the general linear program behind a trait and the last resort of the others; [`packed`] builds on it
//! for rows that run in pairs, and [`nash`] maximises a product. [`assign`], [`transport`] and [`match_prices`] give whole rows to columns.
//!
//! Always: no clock, no randomness that differs between runs, no panic on any finite input; and an answer comes with a bound that proves how
//! good it is, or says that none is claimed.

pub mod assign;
pub mod envelope;
pub mod error;
pub mod lp;
pub mod match_prices;
pub mod max_sum;
pub mod nash;
pub mod packed;
pub mod price;
pub mod problem;
pub mod requirement;
pub mod top_up;
pub mod transport;
pub mod water;

mod backend;
mod climb;
mod master;
mod mix;
mod sweep;
mod thin;

pub use error::SolveError;
