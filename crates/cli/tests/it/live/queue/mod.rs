//! Jobs in the queue: their lives, crashes, a full disk, users.

mod arrays;
mod crash;
mod disk;
mod dry_run;
mod gavel;
mod groups;
mod jobs;
mod leases;
mod pairs;
mod predictions;
mod reboot;
mod restart;
mod trace_run;
mod turns;
mod upkeep;
pub mod users;
mod whatif;
