//! The store: what is kept on the disk. [`database`] writes and reads the `SQLite` file, [`journal`] is what happened, as typed events,
//! [`record`] is a job as it is kept there, a fold over them, [`extras`] its GPUs beyond those it asked for,
//! [`archive`] is a connection that only reads, [`archives`] are several of them, [`schema`] has the tables,
//! [`groups`] are the jobs of one array, sweep or batch,
//! [`shared_texts`] the commands and environments that many jobs share, [`spec_text`] what a job asks for, as text.

mod access;
pub mod archive;
pub mod archives;
pub mod database;
mod error;
pub mod extras;
pub mod groups;
pub mod journal;
pub mod record;
mod schema;
pub(crate) mod shared_texts;
mod spec_text;

pub use access::Access;
pub use archive::{Archive, Past, check};
pub use database::{EVENT_COLUMNS, Store, StoredEvent, Writer, read_event};
pub use error::StoreError;
pub(crate) use error::{explain, is_full};
pub use journal::Stamp;
