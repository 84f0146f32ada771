//! Jobs in the queue: their lives, crashes, a full disk, users.

mod crash;
mod disk;
mod gavel;
mod jobs;
mod leases;
mod reboot;
mod restart;
mod trace_run;
pub mod users;
