//! `rota doctor`: looks at everything a queue on this machine relies on, and says what to fix.
//!
//! Nothing is changed. What cannot be looked at with the caller's rights is said to be unknown, not to be well.

mod certificate;
mod daemon;
mod examine;
mod gpus;
mod state;
mod system;

pub use examine::{Examined, Finding, doctor};
