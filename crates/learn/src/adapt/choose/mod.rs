//! Who decides which block to deepen: the forecast from tables, and policies learned on them.

pub mod decision;
pub mod exact;
pub mod forecast;
pub mod game;
pub mod policy;
pub mod policy_file;
pub mod reinforce;
pub mod vocabulary;
