//! The queue: the one thread that takes messages, decides and starts jobs.
//!
//! [`world`] is the live world that the scheduler's loop drives. [`intake`] takes new jobs, [`arrays`] makes the many of one submit, [`verbs`] are what users do to their jobs,
//! [`administration`] is what administrators do to the machine, [`endings`] says what the end of an attempt means for its job,
//! [`executor_events`] what else the executor tells, [`leases`] what jobs ask of their leases, [`speeds`] how fast they were.
//! [`groups`] puts jobs into groups, and does one thing to many jobs.
//! [`restore`] makes the scheduler anew from the store. [`estimates`] are the numbers that the scheduler uses where a user gives none.

pub mod administration;
pub mod arrays;
pub mod commit;
pub mod endings;
pub mod estimates;
pub mod executor_events;
pub mod extras;
pub mod gavel_ends;
pub mod groups;
pub mod intake;
pub mod leases;
mod leaving;
pub mod messages;
pub mod pace;
pub mod priority;
pub mod records;
pub mod restore;
pub mod rows;
pub mod speeds;
pub mod submit_checks;
pub mod switches;
pub mod verbs;
#[cfg(test)]
mod virtual_test;
pub mod world;
