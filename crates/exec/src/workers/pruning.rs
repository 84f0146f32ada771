//! Which run directories of a worker may go. The daemon has the output of a run and its end, so the worker's own copy is kept for a while
//! only: as long as it could still be asked for, and then some days for whoever looks on the node itself.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

/// When run directories are removed.
#[derive(Clone, Copy, Debug)]
pub struct PruneRule {
    /// A run that ended this long ago may go.
    pub keep: Duration,
    /// A daemon that has been connected for this long has asked for all that it wants to know.
    pub connected_for: Duration,
    /// How often directories are looked at.
    pub every: Duration,
}

impl PruneRule {
    /// The rule for a worker that keeps runs this long.
    pub fn keeping(keep: Duration) -> Self {
        Self { keep, connected_for: Duration::from_mins(10), every: Duration::from_hours(1) }
    }
}

/// When the directories are to be looked at again.
pub(super) struct Pruning {
    rule: PruneRule,
    connected: Option<Instant>,
    pruned: Option<Instant>,
}

impl Pruning {
    pub(super) fn new(rule: PruneRule) -> Self {
        Self { rule, connected: None, pruned: None }
    }

    /// A connection was made, or is gone.
    pub(super) fn set_connected(&mut self, since: Option<Instant>) {
        self.connected = since;
    }

    /// Whether the directories are to be looked at now; if so, not again for a while.
    pub(super) fn is_due(&mut self, now: Instant) -> bool {
        let is_settled = self.connected.is_some_and(|since| now.duration_since(since) >= self.rule.connected_for);
        let is_due = is_settled && self.pruned.is_none_or(|at| now.duration_since(at) >= self.rule.every);
        if is_due {
            self.pruned = Some(now);
        }
        is_due
    }

    /// Removes the directory of a run that is over, if it has not changed for long enough. False if it is still there.
    pub(super) fn remove_old(&self, dir: &Path, now: SystemTime) -> io::Result<bool> {
        let changed = match std::fs::symlink_metadata(dir) {
            Ok(meta) => meta.modified()?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
            Err(error) => return Err(error),
        };
        if now.duration_since(changed).unwrap_or_default() < self.rule.keep {
            return Ok(false);
        }
        std::fs::remove_dir_all(dir)?;
        if let Some(job) = dir.parent() {
            // The directory of a job stays as long as something is in it.
            _ = std::fs::remove_dir(job);
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEEP: Duration = Duration::from_hours(48);

    #[test]
    fn nothing_goes_before_the_daemon_had_time_to_ask_for_it() {
        let mut pruning = Pruning::new(PruneRule::keeping(KEEP));
        let began = Instant::now();
        let after = |minutes: u64| began + Duration::from_mins(minutes);
        assert!(!pruning.is_due(after(90)), "no daemon was ever there");
        pruning.set_connected(Some(began));
        assert_eq!([9, 10, 11, 69, 70].map(|minutes| pruning.is_due(after(minutes))), [false, true, false, false, true]);
        pruning.set_connected(None);
        assert!(!pruning.is_due(after(200)), "the daemon is away");
    }

    #[test]
    fn a_directory_goes_when_it_is_old_and_its_job_with_the_last() {
        let folder = tempfile::tempdir().unwrap();
        let (first, second) = (folder.path().join("7/1"), folder.path().join("7/2"));
        for dir in [&first, &second] {
            std::fs::create_dir_all(dir).unwrap();
            std::fs::write(dir.join("log"), "hello").unwrap();
        }
        let pruning = Pruning::new(PruneRule::keeping(KEEP));
        let now = SystemTime::now();
        assert!(!pruning.remove_old(&first, now + KEEP / 2).unwrap() && first.exists());
        assert!(pruning.remove_old(&first, now + KEEP * 2).unwrap() && !first.exists());
        assert!(second.exists(), "the other run of the job is another matter");
        assert!(pruning.remove_old(&second, now + KEEP * 2).unwrap() && !folder.path().join("7").exists());
        assert!(pruning.remove_old(&second, now).unwrap(), "what is gone already is no error");
    }
}
