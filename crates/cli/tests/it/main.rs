//! The built binary, end to end: what it prints, what it writes, what it refuses, and its report in a real browser.
#![allow(missing_docs)]

mod bad_input;
mod browser;
mod golden;
mod rota;
mod sim;
mod sweep;
