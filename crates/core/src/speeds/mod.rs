//! How fast jobs run: alone, beside another job on the same GPUs, as given in a table and as measured.

pub mod companions;
pub mod measured;
pub mod pair_parts;
pub mod throughput;
