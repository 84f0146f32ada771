//! The live commands: all of them speak to a daemon, but for `up`, which is one.

pub mod args;
pub mod batch;
mod batch_file;
pub mod client;
pub mod doctor;
pub mod history;
pub mod jobs;
pub mod machine;
pub mod notify;
pub mod record;
mod text;
pub mod tokens;
pub mod top;
pub mod up;
