//! Optimisation kernels: rows that share pools, with prices, linear programs and assignment.
//!
//! The path: [`problem`] holds rows, pools and rates and merges what is identical; [`requirement`] says what each row asks for at a common
//! level; [`price`] finds the highest level, [`water`] fills level by level, [`max_sum`] maximises a sum under floors. All three rest on
//! the same parts: [`envelope`] (one row against prices), passes over rows, cutting planes over prices, and the mixture that turns prices
//! back into an allocation. [`lp`] is the general linear program behind a trait and the last resort of the others; [`packed`] builds on it
//! for rows that run in pairs, and [`nash`] maximises a product. [`assign`], [`transport`] and [`match_prices`] give whole rows to columns.
//!
//! The rooms: `levels`, `cutting_planes` (what the price methods share), `programs`, `matching`. Their modules are known by their own names:
//! [`price`] is `levels/price.rs`.
//!
//! Always: no clock, no randomness that differs between runs, no panic on any finite input; and an answer comes with a bound that proves how
//! good it is, or says that none is claimed.

pub mod error;
pub mod problem;
pub mod requirement;

mod cutting_planes;
mod levels;
mod matching;
mod programs;

pub use cutting_planes::envelope;
use cutting_planes::{climb, master, mix, sweep};
pub use levels::{max_sum, price, top_up, water};
pub use matching::{assign, match_prices, transport};
use programs::{backend, thin};
pub use programs::{lp, nash, packed};

pub use error::SolveError;
