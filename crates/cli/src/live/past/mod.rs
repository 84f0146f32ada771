//! Commands about the past: `history export`, `report` and `throughputs live`.

mod facts;
mod history;
mod settings;
pub mod speeds;

pub use history::{history, replay, report};
pub use settings::{as_set, settings_of};
