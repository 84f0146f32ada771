//! Random numbers that are the same on every machine.

pub mod mersenne;
pub mod random;
