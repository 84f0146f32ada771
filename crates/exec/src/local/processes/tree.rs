//! Processes as they are now, and how to signal one without ever hitting another.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;

use rustix::process::{Signal, pidfd_send_signal};

use crate::local::processes::identity::{Stat, is_shortage, open_process};

/// All processes of this machine at one moment. Reading it once serves for any number of jobs.
#[derive(Clone, Debug, Default)]
pub struct ProcessTable {
    by_pid: BTreeMap<u32, Stat>,
}

/// A process of a job, with its start so that no other can be mistaken for it.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Member {
    pub(crate) pid: u32,
    pub(crate) start_ticks: u64,
}

impl ProcessTable {
    /// Reads `/proc`. Processes that come or go meanwhile may be missed.
    pub fn read() -> Self {
        let Ok(entries) = fs::read_dir("/proc") else { return Self::default() };
        let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        Self { by_pid: pids.filter_map(|pid| Some((pid, Stat::read(pid).ok()?))).collect() }
    }

    /// [`Self::read`] for a caller to whom a process that could not be read is not one that is gone.
    pub(crate) fn try_read() -> io::Result<Self> {
        let mut by_pid = BTreeMap::new();
        for entry in fs::read_dir("/proc")? {
            let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            match Stat::read(pid) {
                Ok(stat) => _ = by_pid.insert(pid, stat),
                Err(error) if is_shortage(&error) => return Err(error),
                Err(_) => {}
            }
        }
        Ok(Self { by_pid })
    }

    pub(crate) fn get(&self, pid: u32) -> Option<&Stat> {
        self.by_pid.get(&pid)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Stat)> {
        self.by_pid.iter().map(|(pid, stat)| (*pid, stat))
    }

    /// Every living process below these, themselves not included.
    pub(crate) fn descendants(&self, roots: impl IntoIterator<Item = u32>) -> Vec<Member> {
        let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for (pid, stat) in &self.by_pid {
            children.entry(stat.parent).or_default().push(*pid);
        }
        let mut waiting: Vec<u32> = roots.into_iter().collect();
        let mut seen: BTreeSet<u32> = waiting.iter().copied().collect();
        let mut found = Vec::new();
        while let Some(parent) = waiting.pop() {
            for pid in children.get(&parent).into_iter().flatten() {
                if seen.insert(*pid) {
                    waiting.push(*pid);
                    found.extend(self.member(*pid));
                }
            }
        }
        found
    }

    /// A process, if it lives.
    pub(crate) fn member(&self, pid: u32) -> Option<Member> {
        let stat = self.by_pid.get(&pid).filter(|stat| !stat.is_dead())?;
        Some(Member { pid, start_ticks: stat.start_ticks })
    }

    /// A process and all it comes from.
    pub(crate) fn ancestry(&self, pid: u32) -> BTreeSet<u32> {
        let mut line = BTreeSet::new();
        let mut next = Some(pid);
        while let Some(pid) = next.filter(|pid| *pid != 0 && line.insert(*pid)) {
            next = self.by_pid.get(&pid).map(|stat| stat.parent);
        }
        line
    }
}

impl Member {
    /// Signals this very process: the handle pins it, so that a reused pid is never hit. False if it is gone or not ours
    /// to signal.
    pub(crate) fn signal(self, signals: &[Signal]) -> bool {
        let Ok(Some(pidfd)) = open_process(self.pid, self.start_ticks) else { return false };
        signals.iter().all(|signal| pidfd_send_signal(&pidfd, *signal).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(rows: &[(u32, u32, u8)]) -> ProcessTable {
        let stat =
            |(pid, parent, state): &(u32, u32, u8)| (*pid, Stat { state: *state, parent: *parent, session: 1, start_ticks: 1 });
        ProcessTable { by_pid: rows.iter().map(stat).collect() }
    }

    #[test]
    fn descendants_are_found_at_any_depth_through_the_dead() {
        let table = table(&[(1, 0, b'S'), (10, 1, b'S'), (11, 10, b'Z'), (12, 11, b'R'), (13, 12, b'S'), (20, 1, b'S')]);
        let pids: BTreeSet<u32> = table.descendants([10]).iter().map(|member| member.pid).collect();
        assert_eq!(pids, BTreeSet::from([12, 13]));
        assert_eq!(table.ancestry(13), BTreeSet::from([13, 12, 11, 10, 1]));
    }
}
