//! Everything that can keep a GPU from being shared through MPS.

use crate::ModeError;
use std::path::PathBuf;

/// Why MPS does not do what it should.
#[derive(Debug, thiserror::Error)]
pub enum MpsError {
    /// The control program is not there, or cannot be run.
    #[error(
        "cannot run `{program}`: {problem}; it comes with NVIDIA's driver (on Debian and Ubuntu in a package named \
         `nvidia-compute-utils-…`): install it, give its path, or do without MPS"
    )]
    Program {
        /// The program that was looked for.
        program: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A UUID that cannot be the name of a directory.
    #[error("`{0}` is no UUID of a GPU")]
    Uuid(String),
    /// The sockets of MPS would have names longer than the kernel allows.
    #[error(
        "`{}` is too long for the sockets of MPS, by {excess_bytes} bytes; use a state directory with a shorter path", path.display()
    )]
    PathTooLong {
        /// The pipe directory.
        path: PathBuf,
        /// The bytes by which the path is too long.
        excess_bytes: usize,
    },
    /// A job's user cannot get to the pipe directory: its CUDA would go without MPS and say nothing.
    #[error("user {uid} cannot enter `{}`, where the sockets of MPS are; allow it with `chmod o+x`", path.display())]
    Unreachable {
        /// The directory that is shut.
        path: PathBuf,
        /// The id of the user whose jobs share the GPU now.
        uid: u32,
    },
    /// Another user's processes are on the GPU's server, and a server serves one user.
    #[error("the GPU is shared by jobs of user {uid}, and MPS serves one user at a time")]
    Busy {
        /// The id of the user who asked.
        uid: u32,
    },
    /// Processes are still on the GPU's server: it would not end before they do.
    #[error("processes still use MPS: {}", pids.iter().map(u32::to_string).collect::<Vec<_>>().join(", "))]
    InUse {
        /// The ids of those processes.
        pids: Vec<u32>,
    },
    /// Someone has forbidden computing on the GPU.
    #[error("nobody may compute on the GPU: its compute mode is `Prohibited`; allow it with `nvidia-smi -i {uuid} -c DEFAULT`")]
    Prohibited {
        /// The GPU's UUID.
        uuid: String,
    },
    /// There is no control daemon.
    #[error("no MPS control daemon runs for the GPU")]
    NotRunning,
    /// The control program did not come to an end, and was killed.
    #[error("`nvidia-cuda-mps-control` was killed: {waited_seconds:.0} s were not enough for `{command}`")]
    Timeout {
        /// The command it was given.
        command: String,
        /// The time it was waited for.
        waited_seconds: f64,
    },
    /// The control program failed.
    #[error("`nvidia-cuda-mps-control` failed at `{command}`: {message}")]
    Failed {
        /// The command it was given.
        command: String,
        /// The program's answer.
        message: String,
    },
    /// The control program said something that is no answer to what it was asked.
    #[error("`nvidia-cuda-mps-control` answered `{command}` with `{answer}`")]
    Answer {
        /// The command it was given.
        command: String,
        /// The program's answer.
        answer: String,
    },
    /// The compute mode could not be asked, set or put back.
    #[error("cannot {action} the compute mode of {uuid}")]
    Mode {
        /// What was to be done.
        action: &'static str,
        /// The GPU's UUID.
        uuid: String,
        /// The reason the driver gives.
        source: ModeError,
    },
    /// What was written down about a GPU cannot be understood, so its compute mode is not touched.
    #[error("cannot understand `{}`: {problem}; put the GPU's compute mode back by hand, then delete the file", path.display())]
    State {
        /// The file of the state.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// A file or a directory.
    #[error("cannot {action} `{}`", path.display())]
    File {
        /// What was to be done.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The reason the system gives.
        source: std::io::Error,
    },
}
