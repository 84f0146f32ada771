//! The daemon's side of the start: writes down what to run and starts a supervisor for it.

use std::ffi::OsString;
use std::fs::DirBuilder;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Signal, pidfd_send_signal};
use thiserror::Error;

use crate::local::processes::identity::Identity;
use crate::local::run_directory::run_dir::{RunDir, SPEC, SUPERVISOR, VOID, seal};
use crate::local::run_directory::spec::RunSpec;
use crate::local::supervisor::nursery::Nursery;

/// How supervisors are started.
#[derive(Debug)]
pub struct Launcher {
    program: PathBuf,
    arguments: Vec<OsString>,
    files_max: Option<u64>,
    nursery: Option<Nursery>,
}

/// Why nothing was launched. After any of these [`adopt`](crate::adopt) still tells for certain whether the job has started.
#[derive(Debug, Error)]
pub enum LaunchError {
    /// The run directory cannot be made or written.
    #[error("cannot prepare the run directory `{}`", path.display())]
    Directory {
        /// The run directory.
        path: PathBuf,
        /// What went wrong.
        source: io::Error,
    },
    /// The run directory has been used: each attempt needs a new one.
    #[error("the run directory `{}` has been used before", path.display())]
    Used {
        /// The run directory.
        path: PathBuf,
    },
    /// The supervisor cannot be started.
    #[error("cannot start the supervisor `{}`", program.display())]
    Start {
        /// The supervisor's program.
        program: PathBuf,
        /// What went wrong.
        source: io::Error,
    },
}

impl Launcher {
    /// A launcher that has supervisors made by this program, as `/usr/bin/rota`, with these arguments, as `__supervise`:
    /// it must call [`nurse`](crate::nurse).
    pub fn new(program: PathBuf, arguments: Vec<OsString>) -> Self {
        Self { program, arguments, files_max: None, nursery: None }
    }

    /// The same launcher, whose supervisors and jobs may have so many files open, whatever this process may.
    #[must_use]
    pub fn with_files_max(self, files_max: Option<u64>) -> Self {
        Self { files_max, ..self }
    }

    /// Starts a supervisor for one attempt in a run directory of its own, which is made if it is not there.
    ///
    /// Returns as soon as the process exists. A supervisor that ends without having taken the directory has started
    /// nothing; so look at the directory with [`adopt`](crate::adopt) when its [`Supervisor::pidfd`] becomes readable.
    pub fn launch(&mut self, dir: &Path, spec: &RunSpec) -> Result<Supervisor, LaunchError> {
        let of_directory = |source| LaunchError::Directory { path: dir.to_owned(), source };
        let run_dir = match RunDir::open(dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // Others may pass through, so that the job's user can read the log.
                DirBuilder::new().recursive(true).mode(0o711).create(dir).and_then(|()| RunDir::open(dir))
            }
            opened => opened,
        };
        let run_dir = run_dir.map_err(of_directory)?;
        for name in [VOID, SUPERVISOR] {
            if run_dir.exists(name).map_err(of_directory)? {
                return Err(LaunchError::Used { path: dir.to_owned() });
            }
        }
        match seal(spec).and_then(|contents| run_dir.publish(SPEC, &contents)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(LaunchError::Used { path: dir.to_owned() }),
            published => published.map_err(of_directory)?,
        }
        let (identity, pidfd) = self.ask(dir).map_err(|source| LaunchError::Start { program: self.program.clone(), source })?;
        Ok(Supervisor { identity, pidfd })
    }

    /// One nursery makes all supervisors. One that has failed is replaced at the next launch and not sooner: whether it has
    /// made a supervisor for this directory nobody knows but [`adopt`](crate::adopt).
    fn ask(&mut self, dir: &Path) -> io::Result<(Identity, OwnedFd)> {
        let nursery = if let Some(nursery) = self.nursery.take() {
            nursery
        } else {
            let mut program = Command::new(&self.program);
            program.args(&self.arguments);
            Nursery::start(program, self.files_max)?
        };
        let born = nursery.ask(dir)?;
        self.nursery = Some(nursery);
        Ok(born)
    }
}

/// A supervisor, held by a handle that no other process can be mistaken for.
#[derive(Debug)]
pub struct Supervisor {
    identity: Identity,
    pidfd: OwnedFd,
}

impl Supervisor {
    pub(crate) fn new(identity: Identity, pidfd: OwnedFd) -> Self {
        Self { identity, pidfd }
    }

    /// Which process it is.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Readable when the supervisor has ended.
    pub fn pidfd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// Asks it to end the job: TERM to every process of it, KILL after the grace of its specification. Fails only if
    /// the supervisor has ended or is another user's.
    pub fn stop(&self) -> io::Result<()> {
        Ok(pidfd_send_signal(&self.pidfd, Signal::TERM)?)
    }

    /// Asks it to kill the job at once. The supervisor itself stays until it has recorded how the job ended.
    pub fn kill(&self) -> io::Result<()> {
        Ok(pidfd_send_signal(&self.pidfd, Signal::QUIT)?)
    }

    /// Asks it to give the job its notice, by the job's own signal.
    pub fn notify(&self) -> io::Result<()> {
        Ok(pidfd_send_signal(&self.pidfd, Signal::USR1)?)
    }

    /// Says that the job was told to leave by other means: the grace of its notice begins.
    pub fn begin_grace(&self) -> io::Result<()> {
        Ok(pidfd_send_signal(&self.pidfd, Signal::USR2)?)
    }

    /// Whether it has ended. Never waits.
    pub fn has_ended(&self) -> io::Result<bool> {
        crate::local::processes::identity::has_ended(&self.pidfd)
    }
}
