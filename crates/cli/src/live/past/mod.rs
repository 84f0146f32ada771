//! Commands about the past: `history export`, `report` and `throughputs live`.

mod facts;
mod history;
pub mod speeds;

pub use history::{history, replay, report};
