//! Slurm beside Rota: `rota import sacct` (what Slurm did, as a trace) and the shadow (what a policy would do in its place).

mod fidelity;
mod import;
mod past;
mod shadow;

pub use import::run as import;
pub use shadow::run as shadow;
