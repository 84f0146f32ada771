//! The live queue, end to end: each test has a daemon of its own on a folder of its own, and takes it away with everything it started.

mod daemon;
mod demo;
mod habits;
mod http;
mod machine;
mod notify;
mod queue;
mod unit;
mod watchers;
mod watchmen;

pub use daemon::{Daemon, Dice, PATIENCE, is_alive, is_root, kill, line_of, number_in, program, refused, remark, until};
