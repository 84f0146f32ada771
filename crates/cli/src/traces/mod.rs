//! `rota trace` and `rota throughputs`: traces of jobs, and tables of their speeds.

mod run;
mod throughputs;
mod trace;

pub use throughputs::{run as run_throughputs, writer_of};
pub use trace::{run, write};
