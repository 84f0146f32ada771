//! A run of training: its images, its GPUs and time, its epochs; and sweeps over many runs.

pub mod images;
pub mod job;
pub mod sweep;
pub mod timing;
pub mod training;
