//! Jobs on this machine: from the launch by the daemon, through the supervisor, back to the daemon.

pub(crate) mod adopt;
pub(crate) mod bytes;
pub(crate) mod cgroup;
pub(crate) mod child;
pub(crate) mod detach;
pub(crate) mod failure;
pub(crate) mod identity;
pub(crate) mod launch;
pub(crate) mod leftovers;
pub(crate) mod logs;
pub(crate) mod nursery;
pub(crate) mod record;
pub(crate) mod rights;
pub(crate) mod run_dir;
pub(crate) mod signals;
pub(crate) mod spec;
pub(crate) mod supervise;
pub(crate) mod taken;
pub(crate) mod timer;
pub(crate) mod tree;
pub(crate) mod usage;
