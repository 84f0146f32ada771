//! What has become of a run directory, for a daemon that was away: never a guess.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use thiserror::Error;

use crate::local::launch::Supervisor;
use crate::local::processes::identity::boot_id;
use crate::local::run_directory::record::{self, ExitRecord};
use crate::local::run_directory::run_dir::{RunDir, VOID};
use crate::local::run_directory::taken::{self, Taken, Torn};

/// A supervisor that has the lock writes `supervisor.json` or ends within this time, unless the disk hangs.
const TAKING_MAX: Duration = Duration::from_secs(10);

const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// What has become of a run directory.
#[derive(Debug)]
pub enum Adopted {
    /// Its supervisor is alive.
    Running(Supervisor),
    /// The job has ended, with nothing left of it.
    Ended(ExitRecord),
    /// The job was not started and never will be from this directory, which is void from now on: it is safe to start it
    /// from another.
    NeverStarted,
    /// The job may have run, and its supervisor is gone without a record.
    Lost(LostReason),
}

/// Why a record is missing.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LostReason {
    /// The supervisor was killed; [`kill_leftovers`](crate::kill_leftovers) ends what is left of the job.
    SupervisorKilled,
    /// The machine was restarted; nothing is left of the job.
    Rebooted,
}

/// Why it cannot be told what has become of a run directory.
#[derive(Debug, Error)]
pub enum AdoptError {
    /// There is no such directory: it was never made, or somebody has removed it.
    #[error("there is no run directory `{}`", path.display())]
    Missing {
        /// The run directory.
        path: PathBuf,
    },
    /// The directory, or `/proc`, cannot be read or written.
    #[error("cannot look into the run directory `{}`", path.display())]
    Unreadable {
        /// The run directory.
        path: PathBuf,
        /// What went wrong.
        source: io::Error,
    },
    /// Somebody holds the directory's lock without getting any further, as on a disk that hangs. To be tried again.
    #[error("the run directory `{}` is held by a process that does not go on", path.display())]
    Busy {
        /// The run directory.
        path: PathBuf,
    },
}

/// Tells what has become of a run directory. Where no supervisor has taken it, it is made void, so that one that comes
/// late starts nothing.
pub fn adopt(dir: &Path) -> Result<Adopted, AdoptError> {
    let path = || dir.to_owned();
    let unreadable = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound => AdoptError::Missing { path: path() },
        _ => AdoptError::Unreadable { path: path(), source },
    };
    let run_dir = RunDir::open(dir).map_err(unreadable)?;
    let since = Instant::now();
    loop {
        if let Some(known) = look(&run_dir).map_err(unreadable)? {
            return Ok(known);
        }
        // No supervisor yet. Whoever has the lock decides whether there will be one.
        if let Some(_lock) = run_dir.try_lock().map_err(unreadable)? {
            if let Some(known) = look(&run_dir).map_err(unreadable)? {
                return Ok(known);
            }
            return match run_dir.publish(VOID, b"") {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(unreadable(error)),
                _ => Ok(Adopted::NeverStarted),
            };
        }
        if since.elapsed() > TAKING_MAX {
            return Err(AdoptError::Busy { path: path() });
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

/// What the files say; `None` if no supervisor has taken the directory.
fn look(dir: &RunDir) -> io::Result<Option<Adopted>> {
    if let Some(record) = record::read(dir)? {
        return Ok(Some(Adopted::Ended(record)));
    }
    match taken::read(dir)? {
        None => Ok(None),
        Some(taken) => follow(dir, taken).map(Some),
    }
}

fn follow(dir: &RunDir, taken: Result<Taken, Torn>) -> io::Result<Adopted> {
    // On the boot it was written the file appears whole: a torn one has been through a power loss.
    let Ok(Taken { supervisor, .. }) = taken else { return Ok(Adopted::Lost(LostReason::Rebooted)) };
    if let Some(pidfd) = supervisor.open()? {
        return Ok(Adopted::Running(Supervisor::new(supervisor, pidfd)));
    }
    // It may have written the record and ended since we looked.
    Ok(match record::read(dir)? {
        Some(record) => Adopted::Ended(record),
        None if supervisor.boot_id == boot_id()? => Adopted::Lost(LostReason::SupervisorKilled),
        None => Adopted::Lost(LostReason::Rebooted),
    })
}
