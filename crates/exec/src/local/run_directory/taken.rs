//! `supervisor.json`: that a supervisor has taken the run directory, and how to find the job's processes.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::local::processes::identity::Identity;
use crate::local::run_directory::bytes;
use crate::local::run_directory::run_dir::{RunDir, SUPERVISOR, unseal};

/// What a supervisor says about itself before it starts the job.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Taken {
    /// The job's number.
    pub job: u64,
    /// Which attempt of the job this is.
    pub attempt: u32,
    /// The process of the supervisor.
    pub supervisor: Identity,
    /// The job's main process, which is the leader of its session and process group; `None` if none could be made.
    pub process: Option<Identity>,
    /// The job's own cgroup, if it has one.
    #[serde(with = "bytes::path_option")]
    pub cgroup: Option<PathBuf>,
    /// The value of [`MARK`](crate::MARK) in the environment of the job's processes.
    #[serde(with = "bytes::path")]
    pub mark: PathBuf,
    /// The pipe behind the job's standard output, by its inode.
    pub log_pipe: u64,
    /// The audit session that the supervisor and every process of the job are in, if the kernel has given one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audit_session: Option<u32>,
    /// What a person should know, such as limits that are not enforced.
    pub notes: Vec<String>,
}

/// What the supervisor of a run directory says about itself, or `None` if none has taken it.
pub fn taken(dir: &Path) -> io::Result<Option<Taken>> {
    match read(&RunDir::open(dir)?)? {
        Some(Ok(taken)) => Ok(Some(taken)),
        Some(Err(Torn)) => Err(io::Error::new(io::ErrorKind::InvalidData, format!("{SUPERVISOR} is torn"))),
        None => Ok(None),
    }
}

/// The file is there, but not whole: its name reached the disk before a power loss, its contents did not.
#[derive(Debug)]
pub(crate) struct Torn;

pub(crate) fn read(dir: &RunDir) -> io::Result<Option<Result<Taken, Torn>>> {
    Ok(dir.read(SUPERVISOR)?.map(|contents| unseal(&contents).ok_or(Torn)))
}
