//! The contract between a scheduler and the place where its runs happen: this machine, other machines, or a cluster manager.
//!
//! A *run* is one attempt of one job ([`RunKey`]). Its life, as the caller sees it:
//!
//! ```text
//!  prepare ─► (the caller writes the start down) ─► start ─┬─► Running ─────────────────────────┬─► Ended, once
//!                                                          └─► Taken ─► [Accepted] ─► Running ──┘
//! ```
//!
//! What must always hold, and is tested for every executor by the contract suite in `contract.rs`:
//!
//! - A run starts at most once. A second start of the same run is refused and changes nothing.
//! - Each run that was started or adopted has exactly one [`ExecutorEvent::Ended`], unless [`Executor::start`] or
//!   [`Executor::adopt`] already answered how it ended. Nothing about the run follows its end.
//! - An end is proved, never guessed. A record that cannot be read now is read again later; it is not an end.
//! - When an end is told, no process of the run is left, and its GPUs can be used by others. A GPU that cannot is told of by
//!   [`ExecutorEvent::DeviceHeld`] before the end.
//! - Runs survive the caller. A new executor on the same place finds them by [`Executor::adopt`].
//! - No call waits for a network, a cluster manager or a job. Only [`Executor::settle`], called once at the start, may take seconds.

mod end;
mod event;
mod look;
mod node;
mod os_path;
mod run;

pub use end::{LostCause, RunEnd};
pub use event::{EventSink, ExecutorEvent};
pub use look::{DeviceLook, ProcessOwner};
pub use node::{DeviceKey, Node, NodeName};
pub use run::{KnownRun, Limits, LogSettings, MpsSettings, Notice, Place, Reach, RunIdentity, RunKey, RunRequest};

use serde::{Deserialize, Serialize};
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// A place where runs happen. Events about runs and nodes go to the [`EventSink`] given when the executor is made.
pub trait Executor {
    /// The nodes and their devices now. Each later change is an event.
    fn inventory(&self) -> Vec<Node>;

    /// Whether runs can share a GPU through MPS here, or why not.
    fn check_mps(&self) -> Result<(), String>;

    /// Makes the place where a run will be, before the caller writes the start down. The identity returned is to be written down with
    /// the start. A place that is missing later was taken away, and does not mean that the run never started.
    fn prepare(&mut self, run: RunKey) -> Result<RunIdentity, PrepareError>;

    /// Starts a prepared run whose start the caller has written down.
    fn start(&mut self, request: RunRequest) -> Result<Started, StartError>;

    /// Asks a run to stop. The run ends by an event, as every run does. Stopping a run again, with [`Stop::AtOnce`], ends its grace.
    fn stop(&mut self, run: RunKey, how: Stop) -> Result<(), StopError>;

    /// Takes over a run whose start an earlier caller has written down.
    fn adopt(&mut self, run: &KnownRun) -> Adoption;

    /// Cleans up what an earlier caller left and no adopted run uses. To be called once, after every known run was adopted.
    fn settle(&mut self);

    /// The file with a run's output, if this machine can read it.
    fn log_path(&self, run: RunKey) -> Option<PathBuf>;

    /// The last bytes of a run's output.
    fn log_end(&self, run: RunKey, bytes_max: u64) -> io::Result<Vec<u8>>;

    /// Gives up a run whose node does not answer. The run ends now, as lost with its node; what is left of it when the node is back is
    /// killed. To be called only for a run that can do no harm when it goes on unseen.
    fn give_up(&mut self, _run: RunKey) {}

    /// An administrator says that a node is gone for good. Its runs end now, as lost with their node, and the node leaves the inventory.
    fn forget_node(&mut self, node: &NodeName) -> Result<(), String> {
        Err(format!("there is no node {node} that could be forgotten"))
    }

    /// The highest number of a job that has left something in this place, so that no number is ever given twice.
    fn highest_job(&self) -> io::Result<Option<u64>>;
}

/// What a start has led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Started {
    /// The run is running. No [`ExecutorEvent::Running`] follows.
    Running,
    /// The run will be running, or will have ended, by an event.
    Taken,
}

/// How a run is to be stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Stop {
    /// The run is asked to end, and killed when its grace is over.
    Gentle,
    /// The run gets its notice: the signal of its own by which it knows that it must save and leave. It is killed when the grace of its
    /// notice is over.
    Notice,
    /// The run was told by other means that it must save and leave. It gets no signal, and is killed when the grace of its notice is
    /// over.
    Told,
    /// The run is killed.
    AtOnce,
}

/// What has become of a run whose caller was away.
#[derive(Clone, Debug)]
pub enum Adoption {
    /// The run is running, and its end will be an event.
    Running,
    /// It is not known yet whether the run is running, or how it ended. Either will be an event.
    Unknown,
    /// The run has ended. No event follows.
    Ended(RunEnd),
}

/// Why a run has no place.
#[derive(Debug, Error)]
pub enum PrepareError {
    /// The place cannot be made.
    #[error("cannot make `{}`", path.display())]
    Place {
        /// The directory of the run.
        path: PathBuf,
        /// What went wrong.
        source: io::Error,
    },
    /// A run that the caller does not know of has this place, and is still running.
    #[error(
        "`{}` belongs to a run that is still running and that this queue does not know; end it with `kill {supervisor}`",
        path.display()
    )]
    Occupied {
        /// The directory of the run.
        path: PathBuf,
        /// The process id of its supervisor.
        supervisor: u32,
    },
}

/// Why a run was not started. After any of these but [`StartError::Duplicate`] nothing of the run is there, and nothing will be.
#[derive(Debug, Error)]
pub enum StartError {
    /// The run was started before.
    #[error("run {run} was started before")]
    Duplicate {
        /// The run that was asked for twice.
        run: RunKey,
    },
    /// The run is for a node, or for nodes together, that this executor cannot use.
    #[error("run {run} cannot be placed: {problem}")]
    Place {
        /// The run that has no place.
        run: RunKey,
        /// What is wrong with its nodes or devices.
        problem: String,
    },
    /// This place could not make a process for the run now.
    #[error("{0}")]
    NotLaunched(String),
}

/// Why a run was not asked to stop.
#[derive(Debug, Error)]
pub enum StopError {
    /// The run has ended, or was never started or adopted here. If it was, its end has been told or is about to be.
    #[error("run {run} is not running here")]
    Unknown {
        /// The run that was to be stopped.
        run: RunKey,
    },
    /// The run could not be reached.
    #[error("cannot reach run {run}")]
    Unreached {
        /// The run that was to be stopped.
        run: RunKey,
        /// What went wrong.
        source: io::Error,
    },
}
