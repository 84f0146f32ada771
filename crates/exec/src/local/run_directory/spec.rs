//! What to run: everything a supervisor has to know, because it inherits nothing.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::executor::{Notice, RunIdentity};
use crate::local::confinement::devices::DeviceFilter;
use crate::local::confinement::rlimits::ResourceLimits;
use crate::local::run_directory::bytes;

/// The variable that marks every process of a job with its run directory.
///
/// It is set by the supervisor, over whatever the specification says, and is unique for each attempt: by it
/// [`kill_leftovers`](crate::kill_leftovers) knows a job's processes once their supervisor is gone.
pub const MARK: &str = "ROTA_RUN_DIR";

/// One attempt of one job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunSpec {
    /// The job's number.
    pub job: u64,
    /// Which attempt of the job this is.
    pub attempt: u32,
    /// What tells this run from one of the same number in another database; none in runs of versions before identities.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<RunIdentity>,
    /// The program and its arguments; a name without `/` is looked up in the `PATH` of `env`.
    #[serde(with = "bytes::list")]
    pub command: Vec<OsString>,
    /// Where the job runs.
    #[serde(with = "bytes::path")]
    pub cwd: PathBuf,
    /// The whole environment: nothing is inherited. The supervisor adds [`MARK`], and `ROTA_JOB_ID` where it is absent.
    #[serde(with = "bytes::pairs")]
    pub env: Vec<(OsString, OsString)>,
    /// The user to run as; only a supervisor started by root can change it.
    pub run_as: Option<RunAs>,
    /// Where standard output and standard error go, together. A log inside the run directory is opened with the
    /// supervisor's rights and given to the user; any other is opened with the user's rights.
    #[serde(with = "bytes::path")]
    pub log: PathBuf,
    /// The size at which the log is moved to `log.1` and begun again, for each file; 0 for no limit.
    pub log_bytes_max: u64,
    /// How many log files are kept, the current one included.
    pub log_files_max: u32,
    /// How long the job may run.
    pub time_limit: Option<Duration>,
    /// How long the job has between the request to end (TERM) and the end (KILL).
    pub grace: Duration,
    /// How the job is told that it must save and leave; none in runs of versions before notices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notice: Option<Notice>,
    /// Memory of the whole job; needs `cgroup`.
    pub memory_max_bytes: Option<u64>,
    /// Processors of the whole job, as 1.5; needs `cgroup`.
    pub cpus_max: Option<f64>,
    /// The cgroup (version 2) in which the supervisor makes one for the job.
    #[serde(with = "bytes::path_option")]
    pub cgroup: Option<PathBuf>,
    /// The GPUs that the job may open, where that is enforced; needs `cgroup`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub devices: Option<DeviceFilter>,
    /// The limits of the shell that the job was submitted from. Each is at most the supervisor's hard limit.
    #[serde(default, skip_serializing_if = "ResourceLimits::is_empty")]
    pub resource_limits: ResourceLimits,
    /// Whether the job's programs get no rights that its user does not have, as by `sudo`.
    #[serde(default)]
    pub no_new_privileges: bool,
}

/// A user to run as.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct RunAs {
    /// The id of the job's user.
    pub uid: u32,
    /// The main group.
    pub gid: u32,
    /// All supplementary groups.
    pub groups: Vec<u32>,
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use proptest::prelude::*;

    use super::*;

    fn bytes() -> impl Strategy<Value = OsString> {
        prop_oneof![any::<Vec<u8>>().prop_map(OsString::from_vec), any::<String>().prop_map(OsString::from)]
    }

    proptest! {
        #[test]
        fn whatever_bytes_are_given_come_back(
            command in prop::collection::vec(bytes(), 0..4),
            env in prop::collection::vec((bytes(), bytes()), 0..4),
            cwd in bytes(),
            cgroup in prop::option::of(bytes()),
        ) {
            let spec = RunSpec {
                job: u64::MAX,
                attempt: 3,
                identity: Some(RunIdentity::from_text("one")),
                command,
                cwd: cwd.clone().into(),
                env,
                run_as: Some(RunAs { uid: 1, gid: 2, groups: vec![3] }),
                log: cwd.into(),
                log_bytes_max: 1,
                log_files_max: 2,
                time_limit: Some(Duration::from_nanos(1_000_000_001)),
                grace: Duration::MAX,
                notice: Some(Notice::usual(Duration::from_mins(1))),
                memory_max_bytes: Some(1),
                cpus_max: Some(0.1),
                cgroup: cgroup.map(PathBuf::from),
                devices: Some(DeviceFilter { major: 195, minors: vec![0, 2] }),
                resource_limits: "core=0:unlimited".parse().unwrap(),
                no_new_privileges: true,
            };
            let text = serde_json::to_string(&spec).unwrap();
            prop_assert_eq!(serde_json::from_str::<RunSpec>(&text).unwrap(), spec);
        }
    }
}
