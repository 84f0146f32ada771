//! Upkeep of a state directory: copies of its database ([`copies`]), and whether it agrees with the run directories ([`check`]).

pub mod check;
pub mod copies;

pub use check::{Checked, Finding, Level, check};
pub use copies::{Backup, Restored, UpkeepError, backup, restore};
