//! Other machines: one worker a node, which opens a connection to the daemon and runs what it is asked to with the executor of its own
//! machine ([`LocalExecutor`](crate::LocalExecutor)).
//!
//! ```text
//!  daemon: WorkerExecutor ─► hub (nodes, runs) ◄─► listener ◄──── TLS, opened by the worker ────► worker ─► runner ─► LocalExecutor
//! ```
//!
//! What must always hold: a run is started on a node at most once; an end is told by the node's own supervisors, never concluded from
//! silence; a message of a connection that has been replaced is not heard. A worker tells with each connection which runs it has, so
//! that nothing needs to be acknowledged: what was lost with a connection is in the next report.

mod certificate;
mod executor;
mod farewell;
mod frame;
mod gang;
pub(crate) mod home;
mod hub;
mod known_nodes;
mod leaving;
mod listener;
mod listening_clock;
mod mirror;
mod nodes;
mod output;
mod protocol;
mod pruning;
mod requests;
mod runner;
mod tunnel;
mod worker;

pub use certificate::{JoinToken, WorkerIdentity};
pub use executor::{WorkerExecutor, WorkersHandle, WorkersSettings};
pub use farewell::left_path;
pub use hub::JoinJudge;
pub use pruning::PruneRule;
pub use worker::{Looker, WorkError, WorkerSettings, work};
