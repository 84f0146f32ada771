//! The run directory and its files, and what has become of a run according to them.

pub(crate) mod adopt;
pub(crate) mod bytes;
pub(crate) mod inspect;
pub(crate) mod look;
pub(crate) mod record;
pub(crate) mod run_dir;
pub(crate) mod spec;
pub(crate) mod taken;
