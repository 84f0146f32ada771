//! The store: what is kept on the disk. [`database`] writes and reads the `SQLite` file, [`journal`] is what happened, as typed events,
//! [`record`] is a job as it is kept there, a fold over them,
//! [`archives`] are the connections that only read.

pub mod archives;
pub mod database;
pub mod journal;
pub mod record;

pub use database::{Archive, EVENT_COLUMNS, Past, Store, StoreError, StoredEvent, Writer, check, read_event};
pub use journal::Stamp;
