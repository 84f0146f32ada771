//! Policies that divide time: an allocation says which share of its time each job should have, and credits make it so.

mod claims;
mod credit;
mod entities;
pub(crate) mod gandiva;
mod named_allocator;
pub(crate) mod pairing;
pub(crate) mod sharing;
mod ties;
pub(crate) mod time_sharing;
mod trials;
