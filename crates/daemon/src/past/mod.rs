//! The past, read from the store: runs of jobs on GPUs ([`runs`]), and what pictures and tables are made of: [`curves`], [`heatmap`],
//! [`usage`], [`history`]. [`replay`] turns the past into a trace that the simulator can run.

pub mod curves;
pub mod heatmap;
pub mod history;
pub mod replay;
pub mod runs;
pub mod usage;
