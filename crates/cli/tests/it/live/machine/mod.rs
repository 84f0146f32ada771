//! The machine: GPUs, jobs that share them, the doctor.

mod doctor;
pub mod gpus;
mod measure;
mod mixed;
mod mps;
mod sharing;
