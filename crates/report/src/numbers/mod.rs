//! A run in numbers: sums, curves, costs, fairness, and the names of the metrics.

pub(crate) mod billing;
pub(crate) mod fairness;
pub(crate) mod gauges;
pub(crate) mod metric;
pub(crate) mod sample;
pub(crate) mod series;
pub(crate) mod summary;
pub(crate) mod verdict;
