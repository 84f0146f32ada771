//! What has become of a run, by its directory: an end only where it is proved, else to be looked at again.

use std::io;
use std::path::Path;

use crate::executor::{LostCause, RunEnd, RunIdentity};
use crate::local::launch::Supervisor;
use crate::local::processes::leftovers::try_kill_leftovers;
use crate::local::run_directory::adopt::{AdoptError, Adopted, LostReason, adopt};
use crate::local::run_directory::run_dir::{RunDir, SPEC, unseal};
use crate::local::run_directory::spec::RunSpec;

/// What has become of a run.
pub(crate) enum Looked {
    /// The run's supervisor is alive.
    Alive(Supervisor),
    /// The run has ended.
    Ended(RunEnd),
    /// It cannot be told now, and the text says why.
    Later(String),
}

/// Looks into a run directory. Ends what is left of a run whose supervisor was killed: nobody may get its GPUs before.
/// With an identity, a directory of another run is not taken for that of this one.
pub(crate) fn look(dir: &Path, identity: Option<&RunIdentity>) -> Looked {
    match identity.map_or(Ok(true), |identity| is_of(dir, identity)) {
        Ok(true) => {}
        Ok(false) => return Looked::Ended(RunEnd::Lost(LostCause::AnotherRun(dir.to_owned()))),
        Err(error) => return Looked::Later(format!("{}: {error}", dir.display())),
    }
    let adopted = match adopt(dir) {
        Ok(adopted) => adopted,
        // A file system that is away takes all directories with it; one that was removed leaves its neighbours.
        Err(AdoptError::Missing { path }) if dir.parent().and_then(Path::parent).is_some_and(Path::is_dir) => {
            return Looked::Ended(RunEnd::Lost(LostCause::DirectoryGone(path)));
        }
        Err(error) => return Looked::Later(crate::local::chain(&error)),
    };
    match adopted {
        Adopted::Running(supervisor) => Looked::Alive(supervisor),
        Adopted::Ended(record) => Looked::Ended(RunEnd::Ended(Box::new(record))),
        Adopted::NeverStarted => Looked::Ended(RunEnd::NeverStarted),
        Adopted::Lost(LostReason::Rebooted) => Looked::Ended(RunEnd::Rebooted),
        Adopted::Lost(LostReason::SupervisorKilled) => match try_kill_leftovers(dir) {
            Ok(_) => Looked::Ended(RunEnd::Lost(LostCause::SupervisorKilled)),
            Err(error) => Looked::Later(format!("cannot see what is left of the run: {error}")),
        },
    }
}

/// Whether a run directory is of this very run. A directory without a whole specification is: nothing of another run is there.
fn is_of(dir: &Path, identity: &RunIdentity) -> io::Result<bool> {
    let dir = match RunDir::open(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        dir => dir?,
    };
    let spec = dir.read(SPEC)?.and_then(|contents| unseal::<RunSpec>(&contents));
    Ok(spec.is_none_or(|spec| spec.identity.as_ref() == Some(identity)))
}
