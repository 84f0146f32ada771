//! Commands about the past: `history export`, `report` and `throughputs live`.

mod history;
pub mod speeds;

pub use history::{history, replay, report};
