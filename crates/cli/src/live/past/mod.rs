//! Commands about the past: `history export`, `report` and `throughputs live`.

mod facts;
mod history;
mod settings;
pub mod speeds;

pub use history::{history, replay, replay_up_to_now, report};
pub use settings::{as_set, given_out, settings_of};
