//! The daemon's side of the start: writes down what to run and starts a supervisor for it.

use std::ffi::OsString;
use std::fs::DirBuilder;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, pidfd_open, pidfd_send_signal, waitid};
use thiserror::Error;

use super::identity::Identity;
use super::run_dir::{RunDir, SPEC, SUPERVISOR, VOID, seal};
use super::spec::RunSpec;

/// How supervisors are started.
#[derive(Clone, Debug)]
pub struct Launcher {
    /// The program, as `/usr/bin/rota`.
    pub program: PathBuf,
    /// What comes before the run directory, as `__supervise`.
    pub arguments: Vec<OsString>,
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
    /// The supervisor was started, could not be watched and was killed.
    #[error("cannot watch the supervisor just started, so it was ended")]
    Watch {
        /// What went wrong.
        source: io::Error,
    },
}

impl Launcher {
    /// Starts a supervisor for one attempt in a run directory of its own, which is made if it is not there.
    ///
    /// Returns as soon as the process exists. A supervisor that ends without having taken the directory has started
    /// nothing; so look at the directory with [`adopt`](crate::adopt) when its [`Supervisor::pidfd`] becomes readable.
    pub fn launch(&self, dir: &Path, spec: &RunSpec) -> Result<Supervisor, LaunchError> {
        let of_directory = |source| LaunchError::Directory { path: dir.to_owned(), source };
        // Others may pass through, so that the job's user can read the log.
        DirBuilder::new().recursive(true).mode(0o711).create(dir).map_err(of_directory)?;
        let run_dir = RunDir::open(dir).map_err(of_directory)?;
        for name in [VOID, SUPERVISOR] {
            if run_dir.exists(name).map_err(of_directory)? {
                return Err(LaunchError::Used { path: dir.to_owned() });
            }
        }
        match seal(spec).and_then(|contents| run_dir.publish(SPEC, &contents)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(LaunchError::Used { path: dir.to_owned() }),
            published => published.map_err(of_directory)?,
        }
        // No closure to run before exec: so the standard library spawns without copying a large daemon's page tables.
        let child = Command::new(&self.program)
            .args(&self.arguments)
            .arg(dir)
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|source| LaunchError::Start { program: self.program.clone(), source })?;
        Supervisor::of_child(child).map_err(|source| LaunchError::Watch { source })
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

    /// A child is not reaped before we say so, so its pid is its own until then.
    fn of_child(mut child: Child) -> io::Result<Self> {
        let watch = || -> io::Result<Self> {
            let pid = child.id().try_into().ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidData)?;
            Ok(Self { pidfd: pidfd_open(pid, PidfdFlags::empty())?, identity: Identity::of(child.id())? })
        };
        watch().inspect_err(|_| {
            let _ = child.kill();
            let _ = child.wait();
        })
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

    /// Whether it has ended; takes its status if it is our child, so that no zombie stays. Never waits.
    pub fn reap(&mut self) -> io::Result<bool> {
        // Where it is not our child, whoever is its parent takes the status.
        let _ = waitid(WaitId::PidFd(self.pidfd.as_fd()), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
        super::identity::has_ended(&self.pidfd)
    }
}
