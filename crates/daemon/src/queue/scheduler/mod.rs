//! The queue as the scheduler sees it: rows, estimates, switches, the pace of decisions, and the scheduler made anew after a restart.
//!
//! [`rows`] translates jobs and events, [`estimates`] are the numbers that are used where a user gives none, [`switches`] is what
//! administrators set, [`pace`] says how soon a decision may follow another, [`restore`] makes the scheduler anew from the store.

pub mod estimates;
pub mod pace;
pub mod restore;
pub mod rows;
pub mod switches;
