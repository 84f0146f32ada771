//! A worker in an allocation of a cluster manager: when the allocation ends, so do its jobs, and not by their own doing.
//!
//! The manager signals all processes of the allocation at once. A job that dies of that has not failed: its end is not told, and the
//! daemon hears from the manager that the node is gone. So an end that could be of this kind is told a moment later than others.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use crate::Cause;
use crate::executor::{RunEnd, RunKey};

/// How long an end by a signal is kept: the signal that ends the worker comes together with it.
const DOUBT: Duration = Duration::from_secs(1);
/// The exit code of a job that has saved its work and left.
const SAVED_AND_LEFT: i32 = 85;

/// What a worker in an allocation knows of its own end.
#[derive(Default)]
pub(super) struct Leaving {
    /// Who waits for the last run to end, once the allocation ends.
    waits: Option<oneshot::Sender<()>>,
    ends: bool,
    /// Runs that the daemon has asked to stop: their ends are their own.
    asked: HashSet<RunKey>,
    /// Runs that have ended, told or not.
    over: HashSet<RunKey>,
    /// Ends that may be of the allocation's doing, and until when they are kept.
    kept: Vec<(Instant, RunKey, RunEnd)>,
}

impl Leaving {
    /// The allocation ends. `waits` hears when nothing runs any more.
    pub(super) fn leave(&mut self, waits: oneshot::Sender<()>) {
        self.ends = true;
        self.waits = Some(waits);
        self.kept.clear();
    }

    /// The daemon has asked a run to stop.
    pub(super) fn ask(&mut self, run: RunKey) {
        self.asked.insert(run);
    }

    /// Keeps an end that may be of the allocation's doing; gives it back if it is not.
    pub(super) fn doubt(&mut self, run: RunKey, end: RunEnd) -> Option<RunEnd> {
        self.over.insert(run);
        if self.asked.remove(&run) || !is_doubtful(&end) {
            return Some(end);
        }
        if !self.ends {
            self.kept.push((Instant::now() + DOUBT, run, end));
        }
        None
    }

    /// The ends that were kept long enough.
    pub(super) fn believed(&mut self) -> Vec<(RunKey, RunEnd)> {
        let now = Instant::now();
        let (due, kept) = std::mem::take(&mut self.kept).into_iter().partition(|(until, ..)| *until <= now);
        self.kept = kept;
        let due: Vec<(Instant, RunKey, RunEnd)> = due;
        due.into_iter().map(|(_, run, end)| (run, end)).collect()
    }

    /// Whether a run has ended, told or not.
    pub(super) fn is_over(&self, run: &RunKey) -> bool {
        self.over.contains(run)
    }

    /// Whether the allocation ends.
    pub(super) fn is_leaving(&self) -> bool {
        self.ends
    }

    /// Whether an end is being kept.
    pub(super) fn keeps_any(&self) -> bool {
        !self.kept.is_empty()
    }

    /// Tells whoever waits that nothing runs any more.
    pub(super) fn rest(&mut self) {
        if let Some(waits) = self.waits.take() {
            // Whoever waits has ended first.
            _ = waits.send(());
        }
    }
}

/// Whether a run that ended so may have been ended by a signal to all processes around it.
fn is_doubtful(end: &RunEnd) -> bool {
    match end {
        RunEnd::Ended(record) => {
            let is_by_signal = matches!(record.signal, Some(libc::SIGTERM | libc::SIGKILL));
            let is_good = matches!(record.code, Some(0 | SAVED_AND_LEFT));
            is_by_signal || (record.cause == Cause::StopRequested && !is_good)
        }
        RunEnd::Lost(_) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LostCause;

    const RUN: RunKey = RunKey { job: 7, attempt: 1 };

    fn lost() -> RunEnd {
        RunEnd::Lost(LostCause::SupervisorKilled)
    }

    #[test]
    fn an_end_with_the_allocation_is_never_told() {
        let mut leaving = Leaving::default();
        assert_eq!(leaving.doubt(RUN, lost()), None);
        assert!(leaving.keeps_any() && leaving.is_over(&RUN));
        let (waits, mut hears) = oneshot::channel();
        leaving.leave(waits);
        assert!(!leaving.keeps_any() && leaving.believed().is_empty());
        assert!(hears.try_recv().is_err());
        leaving.rest();
        hears.try_recv().unwrap();
    }

    #[test]
    fn an_end_of_the_runs_own_is_told() {
        let mut leaving = Leaving::default();
        assert_eq!(leaving.doubt(RUN, RunEnd::NeverStarted), Some(RunEnd::NeverStarted));
        // The daemon had asked for it.
        leaving.ask(RUN);
        assert_eq!(leaving.doubt(RUN, lost()), Some(lost()));
        // Nothing follows: it is believed after a while.
        assert_eq!(leaving.doubt(RUN, lost()), None);
        leaving.kept.iter_mut().for_each(|(until, ..)| *until -= DOUBT);
        assert_eq!(leaving.believed(), [(RUN, lost())]);
    }
}
