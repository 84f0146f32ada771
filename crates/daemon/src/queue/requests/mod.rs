//! What people ask of the queue: new jobs, changes of jobs, and changes of the machine by administrators.
//!
//! [`intake`] takes new jobs, after [`submit_checks`]. [`arrays`] makes the many of one submit. [`groups`] puts jobs into groups, and does
//! one thing to many jobs. [`verbs`] and [`priority`] are what users do to their jobs, [`administration`] is what administrators do.

pub mod administration;
pub mod arrays;
pub mod groups;
pub mod intake;
pub mod priority;
pub mod submit_checks;
pub mod verbs;
