//! The built binary, end to end: what it prints, what it writes, what it refuses, and its report in a real browser.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails, and simulated times are exact")]

mod adapt;
mod alloc;
mod bad_input;
mod browser;
mod gavel;
mod golden;
mod learn;
mod live;
mod parity;
mod rota;
mod sim;
mod sweep;
mod throughputs;
mod top;
mod whatif;
