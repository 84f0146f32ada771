//! Rows that share pools by prices: the highest common level, water filling, sums under floors, and what is left over.

pub mod max_sum;
pub mod price;
pub mod top_up;
pub mod water;
