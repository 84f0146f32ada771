//! Recorded runs: tables, their noise, and what a run is worth.

pub mod noise;
pub mod reward;
pub mod table;
