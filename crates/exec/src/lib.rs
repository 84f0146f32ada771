//! Where jobs run. [`Executor`] is the contract: inventory, start, stop, adopt, logs, and events about them. [`LocalExecutor`] is this
//! machine. With the feature `testing` there are a fake executor (`fake`) and the suite that each executor passes (`contract`).
//!
//! On this machine, each job has one small supervisor process of its own, so that the daemon can be killed, upgraded or
//! crash while jobs run, and no exit status is ever lost or guessed.
//!
//! The daemon and a supervisor share nothing but a *run directory*, one for each attempt of a job:
//!
//! ```text
//!  daemon ── launch ──► spec.json ──► supervisor ──► supervisor.json ──► job ──► exit.json
//!     ▲                           (holds the lock)                                  │
//!     └──────────────────────────────── adopt ◄──────────────────────────────────────┘
//! ```
//!
//! | file | written by | says |
//! |---|---|---|
//! | `spec.json` | [`Launcher::launch`], once | what to run |
//! | `supervisor.json` | the supervisor, before the job starts | who supervises, the job's main process, its cgroup |
//! | `void` | [`adopt`] under the lock, where no supervisor came | this directory never starts anything |
//! | `exit.json` | the supervisor, when nothing of the job is left | how it ended: [`ExitRecord`] |
//!
//! Whoever decides holds the directory's `flock`: the supervisor does from before the job starts until after the record is
//! written. Supervisors are forked by a small process of the daemon's, the *nursery*, which ends with the daemon.
//!
//! What must always hold: a job starts at most once in a run directory; `exit.json` appears only when no process of
//! the job is left; a process that is not provably the job's is never signalled.
//!
//! A supervisor outlives the daemon only if nobody kills it for the daemon's sake: a systemd unit of the daemon needs
//! `KillMode=process`, and jobs' cgroups must not be below the unit's own unless it has `Delegate=yes`.

mod composite;
#[cfg(feature = "testing")]
pub mod contract;
mod executor;
#[cfg(feature = "testing")]
pub mod fake;
mod local;
pub mod slurm;
mod workers;

pub use composite::CompositeExecutor;
pub use executor::*;
pub use workers::{
    JoinJudge, JoinToken, Looker, PruneRule, WorkError, WorkerExecutor, WorkerIdentity, WorkerSettings, WorkersHandle,
    WorkersSettings, left_path, work,
};

pub use local::confinement::cgroup::cgroup_root;
pub use local::confinement::devices::{DeviceFilter, NVIDIA_MAJOR};
pub use local::confinement::rlimits::{ResourceLimitError, ResourceLimits};
pub use local::executor::{Hardening, LocalExecutor, LocalNode, LocalSettings};
pub use local::free_memory::{give_back_memory, keep_little_memory};
pub use local::launch::{LaunchError, Launcher, Supervisor};
pub use local::processes::identity::{Identity, parent_of};
pub use local::processes::leftovers::{job_processes, job_processes_in, kill_leftovers};
pub use local::processes::tree::ProcessTable;
pub use local::run_directory::adopt::{AdoptError, Adopted, LostReason, adopt};
pub use local::run_directory::inspect::{Inspected, Stage, inspect};
pub use local::run_directory::record::{Cause, ExitRecord};
pub use local::run_directory::spec::{MARK, RunAs, RunSpec};
pub use local::run_directory::taken::{Taken, taken};
pub use local::supervisor::nursery::nurse;
pub use local::supervisor::supervise::supervise;
