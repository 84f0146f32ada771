//! Commands about the past: `history export` and `report`.

mod history;

pub use history::{history, replay, report};
