//! The live commands: all of them speak to a daemon, but for `up`, which is one.

pub mod args;
pub mod client;
pub mod complete;
pub mod daemon;
pub mod demo_place;
pub mod doctor;
pub mod exchange;
pub mod jobs;
pub mod machine;
pub mod past;
pub mod predict;
pub mod text;
pub mod top;
