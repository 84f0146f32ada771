//! Jobs in the queue: their lives, crashes, a full disk, users.

mod arrays;
mod crash;
mod disk;
mod jobs;
mod leases;
mod reboot;
mod restart;
mod upkeep;
pub mod users;
