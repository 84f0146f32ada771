//! Policies that weigh, at every decision, who is behind a fair share and where each job runs fastest.

mod alike;
pub(crate) mod matching;
mod per_shape;
pub(crate) mod strictness;
pub(crate) mod weight;
