//! Ids and names of things, and the renumbering of ids when old jobs are dropped.

pub mod id;
pub mod mark;
pub mod names;
pub mod nearest;
pub mod renumbering;
