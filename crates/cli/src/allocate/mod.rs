//! `rota alloc`: one allocation of time shares.

mod alloc;
mod inputs;

pub use alloc::run;
