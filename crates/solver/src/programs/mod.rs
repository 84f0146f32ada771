//! Linear and convex programs: the general solver behind a trait, and the problems that are written out for it.

pub(crate) mod backend;
pub mod lp;
pub mod nash;
pub mod packed;
pub(crate) mod thin;
