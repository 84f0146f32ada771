//! Jobs on this machine: from the launch by the daemon, through the supervisor, back to the daemon.

pub(crate) mod adopt;
pub(crate) mod audit;
pub(crate) mod bytes;
pub(crate) mod cgroup;
pub(crate) mod child;
pub(crate) mod detach;
pub(crate) mod devices;
pub(crate) mod environment;
pub(crate) mod executor;
pub(crate) mod failure;
pub(crate) mod free_memory;
pub(crate) mod identity;
pub(crate) mod inspect;
pub(crate) mod launch;
pub(crate) mod leftovers;
pub(crate) mod logs;
pub(crate) mod look;
pub(crate) mod mps;
pub(crate) mod nursery;
pub(crate) mod record;
pub(crate) mod rights;
pub(crate) mod rlimits;
pub(crate) mod run_dir;
pub(crate) mod signals;
pub(crate) mod spec;
pub(crate) mod supervise;
pub(crate) mod taken;
pub(crate) mod timer;
pub(crate) mod tree;
pub(crate) mod usage;
pub(crate) mod watch;

/// An error with its causes, in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
