//! Clients of watchmen, an older queue: processes that wait for GPUs by asking again and again. [`clients`] are their places in the
//! queue, [`connection`] finds the process at the other end of a connection, [`keeper`] holds connections open across a restart.
//! Their routes are in `http/routes/watchmen.rs`.

pub mod clients;
pub mod connection;
pub mod keeper;
