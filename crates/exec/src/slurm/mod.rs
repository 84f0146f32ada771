//! Slurm, used with the rights of an ordinary user: what its commands are asked and how their answers are read.
//!
//! ```text
//!  sinfo ───► nodes (inventory)          squeue ──► jobs (ours, or everybody's)
//!  demand ──► Allocation ──► sbatch ──► script ──► `rota worker` on each node ──► scancel
//! ```
//!
//! What must always hold:
//!
//! - Every call has a deadline. Without its controller Slurm answers after 9 to 60 seconds, if at all.
//! - `squeue` is called at most once in two seconds, and less often when the controller is slow.
//! - Answers are read field by field from formats that the call itself names.
//! - What Slurm says of a job is a hint. The ends of runs are told by their supervisors.

mod allocation;
mod client;
mod command;
mod error;
mod gres;
mod host_list;
mod inventory;
mod jobs;
mod script;
mod times;

pub use allocation::{Allocation, AllocationBook, AllocationStage, BookError, Findings, Shape};
pub use client::{KillWait, SlurmClient, SlurmSettings, VERSION_MIN};
pub use command::Calls;
pub use error::{RefusalKind, SlurmError};
pub use gres::{GpuCount, gpus_of};
pub use host_list::expand;
pub use inventory::{SlurmNode, read_nodes};
pub use jobs::{EveryJob, OwnJob, SlurmState, read_every_job, read_own_jobs};
pub use script::{Script, comment_of, number_of};
pub use times::{read_limit, read_time};
