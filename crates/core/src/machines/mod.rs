//! Nodes, GPUs and their types, and what a GPU costs.

pub mod cluster;
pub mod price;
