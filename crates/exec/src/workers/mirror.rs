//! The daemon's copy of the output of runs on other nodes, in the directory where the output of a run on its own machine would be.

use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::protocol::OutputPlace;
use crate::executor::{Place, RunKey, RunRequest, Stop};
use crate::local::watch::dir_in;

/// Others may pass through, so that the job's user can read the log.
const DIRECTORY_MODE: u32 = 0o711;
/// The nodes of a run that was started on other nodes.
const PLACES: &str = "places.json";
/// A stop that could not be told to its node yet.
const WANTED_STOP: &str = "stop-wanted.json";

/// Where the copies are.
#[derive(Clone, Debug)]
pub(super) struct Mirror {
    jobs: PathBuf,
}

impl Mirror {
    pub(super) fn new(jobs: PathBuf) -> Self {
        Self { jobs }
    }

    /// The directory of all jobs.
    pub(super) fn jobs(&self) -> &Path {
        &self.jobs
    }

    /// The directory of a run.
    pub(super) fn dir(&self, run: RunKey) -> PathBuf {
        dir_in(&self.jobs, run)
    }

    /// The output of a part of a run. Users look at that of the first part; the others are beside it.
    pub(super) fn log(&self, run: RunKey, rank: usize) -> PathBuf {
        self.dir(run).join(if rank == 0 { "log".to_owned() } else { format!("rank-{rank}.log") })
    }

    /// Makes the directory of a run.
    pub(super) fn prepare(&self, run: RunKey) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(self.dir(run))
    }

    /// Begins the output of a run, which belongs to the job's owner.
    pub(super) fn begin(&self, request: &RunRequest) -> io::Result<()> {
        self.prepare(request.run)?;
        self.forget_stop(request.run);
        std::fs::write(self.dir(request.run).join(PLACES), serde_json::to_vec(&request.places)?)?;
        for rank in 0..request.places.len() {
            let path = self.log(request.run, rank);
            // What another run of this number left.
            for old in [path.clone(), part_file(&path)] {
                match std::fs::remove_file(old) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    _ => {}
                }
            }
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path)?;
            let owner = request.run_as.as_ref().filter(|_| rustix::process::geteuid().is_root());
            if let Some(owner) = owner {
                std::os::unix::fs::chown(&path, Some(owner.uid), Some(owner.gid))?;
            }
        }
        Ok(())
    }

    /// The nodes of a run that was begun here.
    pub(super) fn places(&self, run: RunKey) -> Option<Vec<Place>> {
        serde_json::from_slice(&std::fs::read(self.dir(run).join(PLACES)).ok()?).ok()
    }

    /// A run of this number is not on other nodes.
    pub(super) fn forget_places(&self, run: RunKey) {
        _ = std::fs::remove_file(self.dir(run).join(PLACES));
    }

    /// Where the copy of a part's output ends.
    pub(super) fn place(&self, run: RunKey, rank: usize) -> OutputPlace {
        let path = self.log(run, rank);
        let part = std::fs::read_to_string(part_file(&path)).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0);
        OutputPlace { part, offset: std::fs::metadata(&path).map_or(0, |meta| meta.len()) }
    }

    /// Writes a piece of output. A piece that was written before is written again to the same place.
    pub(super) fn write(&self, run: RunKey, rank: usize, place: OutputPlace, files_max: u32, bytes: &[u8]) -> io::Result<()> {
        let path = self.log(run, rank);
        let here = self.place(run, rank);
        if place.part < here.part {
            return Ok(());
        }
        if place.part > here.part {
            rotate(&path, files_max)?;
            std::fs::write(part_file(&path), place.part.to_string())?;
        }
        let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path)?;
        file.write_all_at(bytes, place.offset)
    }

    /// Keeps a stop for a node that is not there, also over a restart of the daemon.
    pub(super) fn keep_stop(&self, run: RunKey, how: Stop) -> io::Result<()> {
        self.prepare(run)?;
        std::fs::write(self.dir(run).join(WANTED_STOP), serde_json::to_vec(&how)?)
    }

    /// The stop that was kept for a run.
    pub(super) fn kept_stop(&self, run: RunKey) -> Option<Stop> {
        serde_json::from_slice(&std::fs::read(self.dir(run).join(WANTED_STOP)).ok()?).ok()
    }

    /// The stop has been told, or the run has ended.
    pub(super) fn forget_stop(&self, run: RunKey) {
        _ = std::fs::remove_file(self.dir(run).join(WANTED_STOP));
    }
}

/// The file that has the number of the part that a log is.
fn part_file(log: &Path) -> PathBuf {
    log.with_added_extension("part")
}

/// Moves a log away as the supervisor did on its node.
fn rotate(path: &Path, files_max: u32) -> io::Result<()> {
    let older = |age: u32| if age == 0 { path.to_owned() } else { path.with_added_extension(age.to_string()) };
    if files_max <= 1 {
        return match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
    }
    for age in (0..files_max - 1).rev() {
        match std::fs::rename(older(age), older(age + 1)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: RunKey = RunKey { job: 3, attempt: 1 };

    #[test]
    fn output_is_written_once_and_rotated_as_on_its_node() {
        let folder = tempfile::tempdir().unwrap();
        let mirror = Mirror::new(folder.path().to_owned());
        mirror.prepare(RUN).unwrap();
        let at = |part, offset| OutputPlace { part, offset };
        mirror.write(RUN, 0, at(0, 0), 2, b"hello ").unwrap();
        // The connection broke, and the worker begins again at the place that the daemon has.
        assert_eq!(mirror.place(RUN, 0), at(0, 6));
        mirror.write(RUN, 0, at(0, 3), 2, b"lo you").unwrap();
        assert_eq!(std::fs::read(mirror.log(RUN, 0)).unwrap(), b"hello you");
        mirror.write(RUN, 0, at(1, 0), 2, b"next").unwrap();
        assert_eq!(mirror.place(RUN, 0), at(1, 4));
        assert_eq!(std::fs::read(mirror.dir(RUN).join("log.1")).unwrap(), b"hello you");
        mirror.write(RUN, 0, at(0, 0), 2, b"late").unwrap();
        assert_eq!(std::fs::read(mirror.log(RUN, 0)).unwrap(), b"next");
    }

    #[test]
    fn a_wanted_stop_outlives_the_daemon() {
        let folder = tempfile::tempdir().unwrap();
        let mirror = Mirror::new(folder.path().to_owned());
        assert_eq!(mirror.kept_stop(RUN), None);
        mirror.keep_stop(RUN, Stop::Gentle).unwrap();
        assert_eq!(Mirror::new(folder.path().to_owned()).kept_stop(RUN), Some(Stop::Gentle));
    }
}
