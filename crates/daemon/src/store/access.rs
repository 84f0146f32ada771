//! How connections to the store are opened.
//!
//! `SQLite` keeps an index of its log in a file that other processes may map, and that file needs room on the disk. On a full disk the
//! index is kept in the daemon's memory instead: everything can be read, and written again when there is room, but other processes cannot
//! look into the store until the daemon is started anew.

use rusqlite::{Connection, OpenFlags};
use std::path::Path;

/// How connections to the store are opened. All of one process must agree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// Other processes may read the store.
    #[default]
    Shared,
    /// The store is this process's alone. It takes no room to open it.
    Alone,
}

impl Access {
    /// Opens a connection.
    pub fn open(self, path: &Path, flags: OpenFlags) -> rusqlite::Result<Connection> {
        match self {
            Self::Shared => Connection::open_with_flags(path, flags),
            Self::Alone => Connection::open_with_flags_and_vfs(path, flags, c"unix-excl"),
        }
    }
}
