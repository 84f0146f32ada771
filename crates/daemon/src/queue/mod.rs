//! The queue: the one thread that takes messages, decides and starts jobs.
//!
//! [`world`] is the live world that the scheduler's loop drives. [`messages`] says who takes care of what reaches the queue, [`commit`]
//! writes events down, and [`records`] are the jobs that are not over. The rooms: [`requests`] (what people ask for), [`runs`] (what the
//! executor and the jobs tell), [`scheduler`] (the queue as the scheduler sees it, and the scheduler made anew after a restart).

pub mod commit;
pub mod messages;
pub mod records;
mod requests;
mod runs;
mod scheduler;
#[cfg(test)]
mod virtual_test;
pub mod world;

pub use requests::{arrays, intake, submit_checks};
pub use runs::{endings, executor_events, extras, gavel_ends, leases};
pub use scheduler::{estimates, pace, restore, rows, switches};
