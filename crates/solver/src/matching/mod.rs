//! Whole rows given to columns: exact where rows are of one size, by prices where they are not.

pub mod assign;
pub mod match_prices;
pub mod transport;
