//! Connections of every listener: the socket, the port, and the port for clients of watchmen.
//!
//! All of them share one room (`seats.rs`): so many connections in all, and so many from one user or address, so that no caller keeps
//! others out or takes the files that the scheduler needs. `listener.rs` accepts and refuses; `timeouts.rs` lets go of clients that
//! stand still; `tls.rs` reads the certificate.

mod listener;
mod seats;
mod timeouts;
mod tls;

pub use listener::{Listener, Source};
pub use seats::{Guest, Seats, connections_for, raise_files};
pub use tls::tls;
