//! Why the store cannot do what is asked, and what that means to a person.

use std::path::{Path, PathBuf};

/// Why the store cannot do what is asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The disk is full.
    #[error("the disk that holds {0} is full: free some space and try again; running jobs go on, and can be cancelled")]
    DiskFull(PathBuf),
    /// Not a database, or a damaged one.
    #[error("{path}: {problem}; nothing was changed. Move the file away to begin anew, or restore it from a backup")]
    Damaged {
        /// The database file.
        path: PathBuf,
        /// What `SQLite` says.
        problem: String,
    },
    /// Written by a newer Rota.
    #[error(
        "{path} was written by a newer Rota (schema {found}, this one knows {known}): use that Rota, or another state directory"
    )]
    Newer {
        /// The database file.
        path: PathBuf,
        /// The version of its tables.
        found: i64,
        /// The newest version that this Rota knows.
        known: i64,
    },
    /// The database refused for another reason.
    #[error("store {path}: {source}")]
    Sqlite {
        /// The database file.
        path: PathBuf,
        /// What `SQLite` says.
        source: rusqlite::Error,
    },
    /// A row that cannot be understood.
    #[error("store: job {job}: {problem}")]
    Row {
        /// The job of the row.
        job: u64,
        /// What is wrong.
        problem: String,
    },
}

/// Says what a fault of `SQLite` means to a person.
pub(crate) fn explain(path: &Path, source: rusqlite::Error) -> StoreError {
    use rusqlite::ErrorCode;
    match source.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreError::DiskFull(path.to_owned()),
        // A full disk shows as a failed write of the log, too.
        Some(ErrorCode::SystemIoFailure | ErrorCode::CannotOpen) if is_full(path) => StoreError::DiskFull(path.to_owned()),
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
            StoreError::Damaged { path: path.to_owned(), problem: source.to_string() }
        }
        _ => StoreError::Sqlite { path: path.to_owned(), source },
    }
}

/// Whether the disk that holds a file has next to no room left.
pub(crate) fn is_full(path: &Path) -> bool {
    rustix::fs::statvfs(path).is_ok_and(|disk| disk.f_bavail * disk.f_frsize < 1 << 20)
}
