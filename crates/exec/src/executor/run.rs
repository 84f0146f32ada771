//! A run: its key, its identity, and everything that is needed to start it.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::NodeName;
use crate::{ResourceLimits, RunAs};

/// One attempt of one job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RunKey {
    /// The job's number.
    pub job: u64,
    /// The attempt, counted from 1.
    pub attempt: u32,
}

impl fmt::Display for RunKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.job, self.attempt)
    }
}

/// What tells a run from every other, also from one of the same number in a database that was put back: random, and never given twice.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RunIdentity(String);

impl RunIdentity {
    /// An identity that was written down.
    pub fn from_text(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The identity to be written down.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The part of a run that is on one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The name of the node.
    pub node: NodeName,
    /// The UUIDs of the devices that the run has there; none for a run without GPUs.
    pub uuids: Vec<String>,
}

/// Everything that is needed to start a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunRequest {
    /// The job and the attempt that this run is.
    pub run: RunKey,
    /// The identity that [`Executor::prepare`](super::Executor::prepare) gave to the run.
    pub identity: RunIdentity,
    /// The nodes of the run, at least one.
    pub places: Vec<Place>,
    /// The UUIDs of devices that the run may be given later: it sees them from its start, behind its own.
    pub spare_uuids: Vec<String>,
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// The working directory.
    #[serde(with = "super::os_path")]
    pub cwd: PathBuf,
    /// The environment of the user who submitted the job.
    pub env: Vec<(OsString, OsString)>,
    /// Variables that replace those of `env`. The executor adds those that say which devices the run has.
    pub variables: Vec<(OsString, OsString)>,
    /// The user to run as, if it is another than the executor's own.
    pub run_as: Option<RunAs>,
    /// How much of the output is kept.
    pub log: LogSettings,
    /// What the run may use.
    pub limits: Limits,
    /// The limits of the shell that the job was submitted from. Each is at most the executor's own hard limit.
    pub resource_limits: ResourceLimits,
    /// How the run is told that it must save and leave.
    pub notice: Notice,
    /// How the run shares its GPU through MPS; `None` for a run that does not.
    pub mps: Option<MpsSettings>,
}

/// How a run is told that it must save and leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// The number of the signal it is sent; TERM unless the job has said otherwise.
    pub signal: i32,
    /// The processes that get the signal.
    pub reach: Reach,
    /// How long the run has between its notice and the end.
    pub grace: Duration,
}

impl Notice {
    /// The notice of a run that knows no other signal than the usual one.
    pub fn usual(grace: Duration) -> Self {
        Self { signal: libc::SIGTERM, reach: Reach::All, grace }
    }
}

/// The processes of a run that get a signal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reach {
    /// The process that was started, alone.
    Main,
    /// Every process of the run.
    #[default]
    All,
}

/// How much of a run's output is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogSettings {
    /// The size at which another file is begun; 0 for no limit.
    pub bytes_max: u64,
    /// How many files are kept, the current one included.
    pub files_max: u32,
}

/// What a run may use.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// How long the run may take.
    pub time: Option<Duration>,
    /// How long the run has between the request to end and the end.
    pub grace: Duration,
    /// Memory of the node for the whole run.
    pub memory_max_bytes: Option<u64>,
    /// Processors for the whole run, as 1.5.
    pub cpus_max: Option<f64>,
}

/// How a run shares its GPU through MPS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MpsSettings {
    /// The owner of the job: all runs that share a GPU belong to one user.
    pub uid: u32,
    /// The part of the GPU's threads that the run may use.
    pub threads_percent: Option<u8>,
    /// The memory of the GPU that the run may use.
    pub memory_mib: Option<u32>,
}

/// A run whose start was written down by an earlier caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownRun {
    /// The job and the attempt that this run is.
    pub run: RunKey,
    /// The identity written down with the start; `None` if the start is of a version without identities.
    pub identity: Option<RunIdentity>,
    /// The nodes and devices written down with the start.
    pub places: Vec<Place>,
    /// Whether the run shares its GPU through MPS.
    pub is_under_mps: bool,
}
