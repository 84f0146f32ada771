//! Who may use the daemon: [`tokens`] for callers on the port, and the [`users`] of this machine.

pub mod tokens;
pub mod users;
