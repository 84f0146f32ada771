//! Copies of the database: a backup that is consistent while the daemon runs, and its way back.
//!
//! A restored database may be older than the run directories beside it. Where a job would run a second time for that reason, or an
//! unknown run is under way, the queue is left drained for a person to decide.

use crate::clock::{rfc3339, wall_ns};
use crate::server::{ServeError, take_state_dir};
use crate::store::{StoreError, check as check_store};
use crate::upkeep::check::{Checked, check};
use rusqlite::{Connection, OpenFlags};
use serde::Serialize;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Why a copy could not be made or taken back.
#[derive(Debug, thiserror::Error)]
pub enum UpkeepError {
    /// There is no database.
    #[error("there is no database in {0}: no daemon has run there; `--state` names another state directory")]
    NoDatabase(PathBuf),
    /// The backup would replace a file.
    #[error("{0} is there already: name another file, or remove it first")]
    Exists(PathBuf),
    /// The file is not a backup of Rota's.
    #[error("{path} is not a database of Rota's: {problem}")]
    NotABackup {
        /// The file that was given.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// A file could not be read or written.
    #[error("{path}: {source}")]
    File {
        /// The path of that file.
        path: PathBuf,
        /// What went wrong.
        source: io::Error,
    },
    /// The database could not be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The state directory: a daemon runs on it, or it is another user's.
    #[error(transparent)]
    StateDir(Box<ServeError>),
}

/// A backup that was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Backup {
    /// The path of the backup.
    pub file: PathBuf,
    /// The size of the copy.
    pub bytes: u64,
    /// Jobs in it.
    pub jobs: u64,
}

/// A database that was put back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Restored {
    /// Where the database before it is kept, if there was one.
    pub kept: Option<PathBuf>,
    /// Whether the queue was left drained.
    pub drained: bool,
    /// The state directory as it is now.
    pub checked: Checked,
}

fn of_file(path: &Path) -> impl FnOnce(io::Error) -> UpkeepError {
    let path = path.to_owned();
    move |source| UpkeepError::File { path, source }
}

/// Writes a copy of the database of a state directory, beside a daemon that runs or without one.
pub fn backup(state_dir: &Path, file: &Path) -> Result<Backup, UpkeepError> {
    let database = state_dir.join("rota.db");
    if !database.exists() {
        return Err(UpkeepError::NoDatabase(state_dir.to_owned()));
    }
    if file.exists() {
        return Err(UpkeepError::Exists(file.to_owned()));
    }
    let partial = beside(file, "partial");
    let copied = copy_database(&database, &partial).and_then(|()| check_store(&partial).map_err(UpkeepError::from));
    let published = copied.and_then(|jobs| {
        let bytes = sync(&partial)?;
        // A file that has come meanwhile is not replaced.
        std::fs::hard_link(&partial, file).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => UpkeepError::Exists(file.to_owned()),
            _ => UpkeepError::File { path: file.to_owned(), source: error },
        })?;
        Ok(Backup { file: file.to_owned(), bytes, jobs })
    });
    _ = std::fs::remove_file(&partial);
    let backup = published?;
    sync_folder(file)?;
    Ok(backup)
}

/// A copy of one moment. Writers go on meanwhile.
fn copy_database(database: &Path, partial: &Path) -> Result<(), UpkeepError> {
    _ = std::fs::remove_file(partial);
    // It holds environments, and with them secrets.
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(partial).map_err(of_file(partial))?;
    let wrap = |source| UpkeepError::Store(StoreError::Sqlite { path: database.to_owned(), source });
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(database, flags).map_err(wrap)?;
    connection.busy_timeout(std::time::Duration::from_mins(1)).map_err(wrap)?;
    let name = partial.to_str().ok_or_else(|| UpkeepError::File {
        path: partial.to_owned(),
        source: io::Error::new(io::ErrorKind::InvalidInput, "the name of a backup must be UTF-8"),
    })?;
    connection.execute("VACUUM INTO ?1", [name]).map_err(wrap)?;
    Ok(())
}

/// Puts a backup in the place of the database of a state directory, on which no daemon may run.
pub fn restore(state_dir: &Path, file: &Path) -> Result<Restored, UpkeepError> {
    if !file.exists() {
        return Err(of_file(file)(io::Error::from(io::ErrorKind::NotFound)));
    }
    let uid = rustix::process::geteuid().as_raw();
    let _lock = take_state_dir(state_dir, uid).map_err(|error| UpkeepError::StateDir(Box::new(error)))?;
    check_store(file).map_err(|error| UpkeepError::NotABackup { path: file.to_owned(), problem: error.to_string() })?;
    let database = state_dir.join("rota.db");
    let new = state_dir.join("rota.db.new");
    _ = std::fs::remove_file(&new);
    copy_database(file, &new)?;
    sync(&new)?;
    let kept = keep_old(&database)?;
    std::fs::rename(&new, &database).map_err(of_file(&database))?;
    sync_folder(&database)?;
    let checked = check(state_dir)?;
    let drained = checked.has_problems();
    if drained {
        drain(&database)?;
    }
    // The lock is ours, and no daemon's.
    Ok(Restored { kept, drained, checked: Checked { daemon_runs: false, ..checked } })
}

/// Keeps the database under another name, with what has not been written into it yet. The first name stays until it is replaced, so
/// that an interrupted restore does not leave an empty queue.
fn keep_old(database: &Path) -> Result<Option<PathBuf>, UpkeepError> {
    if !database.exists() {
        return Ok(None);
    }
    let moment = rfc3339(wall_ns()).replace(':', "-");
    let kept = beside(database, &format!("before-{moment}"));
    std::fs::hard_link(database, &kept).map_err(of_file(&kept))?;
    for part in ["-wal", "-shm"] {
        let name = |path: &Path| PathBuf::from(format!("{}{part}", path.display()));
        match std::fs::rename(name(database), name(&kept)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(of_file(&name(database))(error)),
            _ => {}
        }
    }
    Ok(Some(kept))
}

/// Leaves the queue drained. The scheduler is made anew from the jobs' records, because its image knows nothing of that.
fn drain(database: &Path) -> Result<(), UpkeepError> {
    let change = || -> rusqlite::Result<()> {
        let mut connection = Connection::open(database)?;
        let transaction = connection.transaction()?;
        transaction.execute("DELETE FROM images", [])?;
        let sql = "INSERT INTO meta VALUES ('draining', 'yes') ON CONFLICT(key) DO UPDATE SET value = 'yes'";
        transaction.execute(sql, [])?;
        transaction.commit()
    };
    change().map_err(|source| StoreError::Sqlite { path: database.to_owned(), source }.into())
}

fn beside(file: &Path, word: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(format!(".{word}"));
    PathBuf::from(name)
}

/// Waits until a file is on the disk, and gives its size.
fn sync(path: &Path) -> Result<u64, UpkeepError> {
    let size = || -> io::Result<u64> {
        let file = File::open(path)?;
        file.sync_all()?;
        Ok(file.metadata()?.len())
    };
    size().map_err(of_file(path))
}

fn sync_folder(file: &Path) -> Result<(), UpkeepError> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(of_file(folder))
}
