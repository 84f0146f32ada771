//! Leases: the right of a run to go on until a time, and the service through which a job asks for it, hears of a stop, tells its
//! progress and commits what it saved.
//!
//! What must hold: a stop and a commit are on the disk before a job hears of them; a renewal is not written, because a GPU is freed by
//! the end of processes and never by a clock. A run can speak for its own lease only: its token names the job and the lease.
//! [`running_leases`] is what is known of the leases of running jobs, [`token`] the secrets of runs, [`routes`] our own service, [`extras`] its
//! part about GPUs beyond those a job asked for, [`gavel`] the protocol of Gavel's iterator, both on one port; [`caller`] finds out whose
//! process speaks it. [`meter`] measures how fast runs are.

pub mod caller;
pub mod extras;
pub mod gavel;
pub mod gavel_log;
pub mod meter;
pub mod port;
pub mod routes;
pub mod running_leases;
pub mod token;
