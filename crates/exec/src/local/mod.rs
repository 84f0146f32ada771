//! Jobs on this machine: from the launch by the daemon, through the supervisor, back to the daemon.
//!
//! [`executor`], [`launch`], [`watch`] and [`mps`] are the daemon's side. [`supervisor`] is the other side, a process for each run.
//! [`run_directory`] is all that the two share. [`processes`] finds and signals processes; [`confinement`] limits what they may use.

pub(crate) mod confinement;
pub(crate) mod environment;
pub(crate) mod executor;
pub(crate) mod free_memory;
pub(crate) mod launch;
pub(crate) mod mps;
pub(crate) mod processes;
pub(crate) mod run_directory;
pub(crate) mod supervisor;
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
