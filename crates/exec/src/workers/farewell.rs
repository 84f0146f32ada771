//! A worker in an allocation whose daemon has ended for good. When nothing runs any more, the worker writes down how its runs ended and
//! leaves, so that the allocation is not held until its time limit. The next daemon reads what was written.
//!
//! A daemon that was killed has not ended for good: it says so by a file, which the next one removes.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::hub::Hub;
use super::output::Cursor;
use super::protocol::{HeldRun, HeldState};
use super::runner::specs_in;
use crate::executor::NodeName;
use crate::local::watch::dir_in;

/// How often a worker without a daemon looks whether it is needed.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What a worker leaves behind.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Left {
    /// The directory of its runs.
    jobs: PathBuf,
    /// The runs, all of which have ended.
    runs: Vec<HeldRun>,
}

/// The file that the worker of this name leaves behind, beside the one by which the daemon says that it has ended.
pub fn left_path(down_file: &Path, worker: &str) -> PathBuf {
    down_file.with_file_name(format!("{worker}.left"))
}

/// Whether all runs have ended.
pub(super) fn are_over(runs: &[HeldRun]) -> bool {
    runs.iter().all(|held| matches!(held.state, HeldState::Ended(_)))
}

/// Writes down how runs have ended: all of it or nothing.
pub(super) fn write(path: &Path, jobs: PathBuf, runs: Vec<HeldRun>) -> io::Result<()> {
    let draft = path.with_added_extension("new");
    let mut file = std::fs::File::create(&draft)?;
    file.write_all(&serde_json::to_vec(&Left { jobs, runs })?)?;
    file.sync_all()?;
    std::fs::rename(draft, path)
}

impl Hub {
    /// Takes in how the runs on a node have ended, with their output, from the file that its worker has left behind.
    pub(super) fn take_left(&self, name: &NodeName, path: &Path) -> io::Result<()> {
        let left: Left = serde_json::from_slice(&std::fs::read(path)?)?;
        let specs = specs_in(&left.jobs);
        for held in left.runs {
            let HeldState::Ended(end) = held.state else { continue };
            let rank =
                self.lock().runs.get(&held.run).filter(|run| run.identity == held.identity).and_then(|run| run.rank_on(name));
            let Some(rank) = rank else { continue };
            let files_max = specs.iter().find(|(run, _)| *run == held.run).map_or(1, |(_, spec)| spec.log_files_max);
            let mut output = Cursor::new(&dir_in(&left.jobs, held.run), self.mirror.place(held.run, rank), files_max);
            while let Some((place, bytes)) = output.next()? {
                self.mirror.write(held.run, rank, place, files_max, &bytes)?;
            }
            self.end_part(&mut self.lock(), held.run, rank, end);
        }
        Ok(())
    }
}
