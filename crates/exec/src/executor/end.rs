//! How a run ended: one type for every executor.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::ExitRecord;

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum RunEnd {
    /// The run's supervisor wrote down how it ended.
    Ended(Box<ExitRecord>),
    /// The run may have run, and nobody can say how it ended.
    Lost(LostCause),
    /// The run may have run, and nobody can say how it ended because its node was restarted.
    Rebooted,
    /// The run never started and never will: the caller died before a supervisor came, or the run was stopped before.
    NeverStarted,
    /// The run never started and never will: its node could not make a process for it. The text says why.
    NotLaunched(String),
}

impl RunEnd {
    /// Whether it is certain that no process of the run ever was.
    pub fn never_ran(&self) -> bool {
        matches!(self, Self::NeverStarted | Self::NotLaunched(_))
    }
}

/// Why nobody can say how a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LostCause {
    /// The run's supervisor was killed.
    SupervisorKilled,
    /// The run's directory was removed.
    DirectoryGone(#[serde(with = "super::os_path")] PathBuf),
    /// The run's directory belongs to another run, which had the same number in another database.
    AnotherRun(#[serde(with = "super::os_path")] PathBuf),
    /// The run's node is gone for good.
    NodeGone(String),
    /// The run's node is gone for good, and it is proved that no process of the run is left. The text says why.
    NodeEnded(String),
}

impl fmt::Display for LostCause {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SupervisorKilled => formatter.write_str("its supervisor was killed, so nobody knows how it ended"),
            Self::DirectoryGone(path) => {
                write!(formatter, "its directory `{}` was removed, so nobody knows how it ended", path.display())
            }
            Self::AnotherRun(path) => write!(
                formatter,
                "its directory `{}` belongs to another run of the same number, as after a database was put back; submit it again",
                path.display()
            ),
            Self::NodeGone(node) => write!(formatter, "node {node} is gone, so nobody knows how it ended"),
            Self::NodeEnded(why) => write!(formatter, "its node was taken away ({why})"),
        }
    }
}
