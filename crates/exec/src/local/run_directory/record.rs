//! How a job ended, written so that it is neither lost nor half there.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use serde::{Deserialize, Serialize};

use crate::local::processes::identity::Identity;
use crate::local::run_directory::run_dir::{EXIT, EXIT_PREPARED, RunDir, seal, unseal};

/// How a job ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExitRecord {
    /// The exit code of the main process, if it exited.
    pub code: Option<i32>,
    /// The signal that ended the main process, if one did.
    pub signal: Option<i32>,
    /// Why the job ended.
    pub cause: Cause,
    /// When the job was started, by the wall clock.
    pub started_unix_ns: u64,
    /// When the main process ended, by the wall clock.
    pub finished_unix_ns: u64,
    /// From start to end of the main process, by a clock that nobody can set and that counts suspended time.
    pub duration_ns: u64,
    /// The main process, if there was one.
    pub process: Option<Identity>,
    /// Processor time in user mode, of every process the supervisor waited for and their waited children.
    pub user_seconds: f64,
    /// Processor time in the kernel, of the same processes.
    pub system_seconds: f64,
    /// The largest memory of any one of these processes.
    pub max_rss_kib: u64,
    /// How much output could not be written to the log.
    pub log_lost_bytes: u64,
    /// What a person should know, if anything.
    pub message: Option<String>,
}

/// Why a job ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// By itself, or by a signal that Rota did not send.
    Exited,
    /// Somebody asked the supervisor to end it.
    StopRequested,
    /// It ran longer than its time limit.
    TimeLimit,
    /// It used more memory than its cgroup allows.
    OutOfMemory,
    /// It never ran; the message says why and what to do.
    CouldNotStart,
    /// It never ran, because the machine had no room for it: on the disk, in memory, or for another process. It can be started later.
    NoRoom,
}

/// A record always fits: everything in it is bounded, and the message is cut to [`MESSAGE_BYTES_MAX`].
const RECORD_BYTES: usize = 8192;

/// JSON may need six bytes for one.
const MESSAGE_BYTES_MAX: usize = 1000;

/// Room for a record, taken before the job starts: a disk that is full at the end cannot lose the status.
#[derive(Debug)]
pub(crate) struct PreparedRecord(File);

impl PreparedRecord {
    /// Takes the room. It is filled, not merely reserved, so that the record overwrites blocks that are there.
    pub(crate) fn prepare(dir: &RunDir) -> io::Result<Self> {
        let file = dir.create(EXIT_PREPARED)?;
        file.write_all_at(&[b'\n'; RECORD_BYTES], 0)?;
        Ok(Self(file))
    }

    /// Writes the record, durable when this returns.
    pub(crate) fn commit(self, dir: &RunDir, mut record: ExitRecord) -> io::Result<()> {
        if let Some(message) = &mut record.message {
            message.truncate(message.floor_char_boundary(MESSAGE_BYTES_MAX));
        }
        let mut contents = seal(&record)?;
        contents.resize(contents.len().max(RECORD_BYTES), b'\n');
        self.0.write_all_at(&contents, 0)?;
        // From here on the record can be read under either name. A failing sync or rename leaves a readable record,
        // so nothing is given up for it.
        let synced = self.0.sync_data();
        dir.rename(EXIT_PREPARED, EXIT)?;
        synced?;
        dir.sync()
    }
}

/// The record of a run directory, if the job has ended.
pub(crate) fn read(dir: &RunDir) -> io::Result<Option<ExitRecord>> {
    for name in [EXIT, EXIT_PREPARED] {
        if let Some(record) = dir.read(name)?.and_then(|contents| unseal(&contents)) {
            return Ok(Some(record));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(message: &str) -> ExitRecord {
        ExitRecord {
            code: Some(7),
            signal: None,
            cause: Cause::Exited,
            started_unix_ns: u64::MAX,
            finished_unix_ns: u64::MAX,
            duration_ns: u64::MAX,
            process: Some(Identity { pid: u32::MAX, start_ticks: u64::MAX, boot_id: "b".repeat(36) }),
            user_seconds: 0.1,
            system_seconds: 1e300,
            max_rss_kib: u64::MAX,
            log_lost_bytes: u64::MAX,
            message: Some(message.to_owned()),
        }
    }

    #[test]
    fn a_record_comes_back_and_the_longest_fits_the_room() {
        for message in ["short".to_owned(), "\u{1}".repeat(100_000), "é".repeat(5000)] {
            let folder = tempfile::tempdir().unwrap();
            let dir = RunDir::open(folder.path()).unwrap();
            let prepared = PreparedRecord::prepare(&dir).unwrap();
            assert_eq!(read(&dir).unwrap(), None, "room is not a record");
            prepared.commit(&dir, record(&message)).unwrap();
            let back = read(&dir).unwrap().unwrap();
            assert!(message.starts_with(back.message.as_deref().unwrap()));
            assert_eq!(ExitRecord { message: None, ..back }, ExitRecord { message: None, ..record("") });
            assert_eq!(std::fs::metadata(folder.path().join(EXIT)).unwrap().len(), RECORD_BYTES as u64);
        }
    }

    #[test]
    fn a_record_whose_rename_was_lost_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let dir = RunDir::open(folder.path()).unwrap();
        PreparedRecord::prepare(&dir).unwrap().commit(&dir, record("x")).unwrap();
        dir.rename(EXIT, EXIT_PREPARED).unwrap();
        assert_eq!(read(&dir).unwrap(), Some(record("x")));
    }
}
